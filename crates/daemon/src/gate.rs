//! Limits on callers: how many requests each has open, and how often each asks.

mod answer;
mod arrival;
mod submitted;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pliant_control::access::Caller;
use pliant_control::names::User;
use pliant_telemetry::{LineLimit, names};
use pliant_transport::{self as transport, Peer, Role, ServerTls};
use pliant_wire as wire;
use tonic::service::Interceptor;
use tonic::{Extensions, Request, Status};

use crate::config::LimitsFile;

/// What a user does about a refusal that only the role of the certificate causes.
pub const ASK_OPERATOR: &str = "ask an operator to do it, or for a certificate with the role operator";

use answer::PassSlot;
pub use arrival::{Arrival, ArrivalLayer};
pub use submitted::Reserved;
use submitted::Submitted;

/// What an agent or a server may do, so that one with a stolen key cannot do everything. It needs far less: it has a connection or two to
/// another daemon, with 128 requests under way at most, and sends a few for each job that moves. A daemon accepts some thousand jobs a
/// second.
const OF_DAEMON: Bounds = Bounds { open: 1_024, per_second: 10_000.0, burst: 20_000 };

/// The pauses of a call whose caller sends more messages than it may: the shortest, in which several messages are earned, and the
/// longest, in seconds.
const PAUSES_S: (f64, f64) = (0.01, 1.0);

/// The lines about refused requests, by caller.
static REFUSED: LineLimit = LineLimit::new();

/// Lets requests in, caller by caller.
#[derive(Clone, Debug)]
pub struct Gate {
    of_user: Bounds,
    of_daemon: Bounds,
    callers: Arc<Mutex<BTreeMap<String, Account>>>,
    submitted: Submitted,
}

/// What one caller may do.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Open requests.
    open: u32,
    /// Requests per second, in the long run.
    per_second: f64,
    /// Requests at once, after a pause.
    burst: u32,
}

/// What a caller has used up.
#[derive(Clone, Copy, Debug)]
struct Account {
    open: u32,
    /// Requests that may be made at once.
    tokens: f64,
    at: Instant,
    bounds: Bounds,
}

impl Account {
    /// How many requests may be made at once at that time.
    fn tokens_at(&self, now: Instant) -> f64 {
        let earned = now.duration_since(self.at).as_secs_f64() * self.bounds.per_second;
        (self.tokens + earned).min(f64::from(self.bounds.burst))
    }

    /// Counts a message of an open call. Those leave a tenth of the burst to further calls, which are refused where a message
    /// waits: a user whose streams send all they can still asks for the state of a job, or cancels it.
    ///
    /// # Errors
    /// It is too early: for how long.
    fn count_message(&mut self, now: Instant) -> Result<(), Duration> {
        let Bounds { per_second, burst, .. } = self.bounds;
        let least = 1.0 + f64::from(burst / 10);
        self.tokens = self.tokens_at(now);
        self.at = now;
        if self.tokens < least {
            let (shortest, longest) = PAUSES_S;
            let early_s = (least - self.tokens) / per_second;
            return Err(Duration::from_secs_f64(early_s.clamp(shortest, longest)));
        }
        self.tokens -= 1.0;
        Ok(())
    }
}

/// An open request; closed when its last copy is dropped. Its answer has one.
#[derive(Clone, Debug)]
pub struct Pass {
    entered: Arc<Entered>,
}

impl Pass {
    /// Waits until the caller may send another message on its open call, which counts as a request. If the future is dropped,
    /// no message is counted.
    pub async fn message(&self) {
        while let Err(early) = self.entered.count_message(Instant::now()) {
            tokio::time::sleep(early).await;
        }
    }
}

#[derive(Debug)]
struct Entered {
    gate: Gate,
    caller: String,
}

impl Gate {
    /// A gate with these limits for users.
    pub fn new(limits: LimitsFile) -> Gate {
        let LimitsFile { open_requests, requests_per_second, burst, submitted_bytes_per_day, .. } = limits;
        let of_user = Bounds { open: open_requests, per_second: requests_per_second, burst };
        let submitted = Submitted::new(submitted_bytes_per_day);
        Gate { of_user, of_daemon: OF_DAEMON, callers: Arc::default(), submitted }
    }

    /// Looks at each call as soon as its headers are there, before its message is read: whether the caller's certificate
    /// is still good, and whether the caller is within the limits.
    pub fn keep(&self, tls: Arc<ServerTls>) -> impl Interceptor + Clone + Send + Sync + use<> {
        let (gate, mut guard) = (self.clone(), transport::guard(tls));
        move |request: Request<()>| {
            let mut request = guard.call(request)?;
            let transport::Caller { peer, address } = caller(&request)?;
            // What daemons may call is for each call to say.
            let pass = gate.let_in(&peer, address, request.extensions())?;
            request.extensions_mut().insert(pass);
            Ok(request)
        }
    }

    /// Who calls, if it is a user or an operator within the limits.
    pub fn user<T>(&self, request: &Request<T>) -> Result<(Caller, Pass), Status> {
        let transport::Caller { peer, address } = caller(request)?;
        let operator = match peer.role {
            Role::User => false,
            Role::Operator => true,
            Role::Agent | Role::Server => {
                if let Some(left_out) = REFUSED.admit(&peer.to_string(), Instant::now()) {
                    tracing::warn!(remote = %address, peer = %peer.name, left_out, "request refused: daemons submit nothing");
                }
                let status = Status::permission_denied("expected a user's certificate, found a daemon's");
                return Err(wire::with_hint(
                    status,
                    "name the certificate of a user or operator in the client file",
                ));
            }
        };
        let user = peer.name.parse().map_err(|error| Status::unauthenticated(format!("{error}")))?;
        let pass = match request.extensions().get::<Pass>() {
            Some(pass) => pass.clone(),
            None => self.let_in(&peer, address, request.extensions())?,
        };
        Ok((Caller { user, operator }, pass))
    }

    /// Counts a request of so many bytes that a user submits.
    ///
    /// # Errors
    /// The user has submitted too much in the last day: why.
    pub fn reserve(&self, user: &User, bytes: usize) -> Result<Reserved, String> {
        self.submitted.reserve(user, bytes, Instant::now()).map_err(|limit| {
            metrics::counter!(names::REQUESTS_LIMITED, "limit" => "bytes").increment(1);
            format!("{user} submits more than {limit} bytes in a day, which is the limit; large data can be input files")
        })
    }

    /// Lets a call in, which stays open until its answer is sent.
    fn let_in(&self, peer: &Peer, address: SocketAddr, of_call: &Extensions) -> Result<Pass, Status> {
        let entered = self.enter(peer).inspect(|pass| PassSlot::leave(of_call, pass));
        entered.inspect_err(|status| {
            if let Some(left_out) = REFUSED.admit(&peer.to_string(), Instant::now()) {
                let reason = status.message();
                tracing::warn!(remote = %address, %peer, reason, left_out, "request refused");
            }
        })
    }

    fn enter(&self, peer: &Peer) -> Result<Pass, Status> {
        let (caller, bounds) = match peer.role {
            // Names of users have no slash.
            Role::User | Role::Operator => (peer.name.clone(), self.of_user),
            Role::Agent | Role::Server => (peer.to_string(), self.of_daemon),
        };
        let Bounds { open, per_second, burst } = bounds;
        let now = Instant::now();
        let mut callers = self.callers.lock();
        if !callers.contains_key(&caller) {
            // A caller without open requests is not remembered.
            callers.retain(|_, account| {
                account.open > 0 || account.tokens_at(now) < f64::from(account.bounds.burst)
            });
        }
        let full = Account { open: 0, tokens: f64::from(burst), at: now, bounds };
        let account = callers.entry(caller.clone()).or_insert(full);
        account.tokens = account.tokens_at(now);
        account.at = now;
        if account.open >= open {
            metrics::counter!(names::REQUESTS_LIMITED, "limit" => "open").increment(1);
            let limit = format!("{open} requests of {caller} are open, which is the limit");
            return Err(Status::resource_exhausted(limit));
        }
        if account.tokens < 1.0 {
            metrics::counter!(names::REQUESTS_LIMITED, "limit" => "rate").increment(1);
            let limit =
                format!("{caller} sends requests more than {per_second} times a second, which is the limit");
            return Err(Status::resource_exhausted(limit));
        }
        account.tokens -= 1.0;
        account.open += 1;
        Ok(Pass { entered: Arc::new(Entered { gate: self.clone(), caller }) })
    }
}

impl Entered {
    fn count_message(&self, now: Instant) -> Result<(), Duration> {
        // A caller with an open request is remembered.
        self.gate.callers.lock().get_mut(&self.caller).map_or(Ok(()), |account| account.count_message(now))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(account) = self.gate.callers.lock().get_mut(&self.caller) {
            account.open -= 1;
        }
    }
}

/// The refusal of a call that only operators may make. `what` completes the sentence "only an operator may ...".
pub fn for_operators(what: &str, hint: &'static str) -> Status {
    wire::with_hint(Status::permission_denied(format!("only an operator may {what}")), hint)
}

/// The daemon that calls, if it has one of these roles, with the pass that [`Gate::keep`] gave it.
pub fn daemon<T>(request: &Request<T>, roles: &[Role]) -> Result<(transport::Caller, Option<Pass>), Status> {
    let found = caller(request)?;
    if roles.contains(&found.peer.role) {
        return Ok((found, request.extensions().get().cloned()));
    }
    let role = found.peer.role.name();
    if let Some(left_out) = REFUSED.admit(&found.peer.to_string(), Instant::now()) {
        let (remote, peer) = (found.address, found.peer.name);
        tracing::warn!(%remote, peer, role, left_out, "request refused: not a daemon");
    }
    Err(Status::permission_denied(format!("expected a daemon's certificate, found a {role}'s")))
}

/// Who calls, whatever their role.
pub fn caller<T>(request: &Request<T>) -> Result<transport::Caller, Status> {
    let found = request.extensions().get::<transport::Caller>().cloned();
    found.ok_or_else(|| Status::unauthenticated("expected a caller with a certificate, found none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Gate {
        fn enter_as(&self, role: Role, name: &str) -> Result<Pass, Status> {
            let serial = transport::Serial::from_bytes(&[7]);
            let not_after = pliant_model::Time(0);
            self.enter(&Peer { role, name: name.to_owned(), serial, not_after })
        }

        fn enter_user(&self, name: &str) -> Result<Pass, Status> {
            self.enter_as(Role::User, name)
        }
    }

    fn gate(open_requests: u32, burst: u32) -> Gate {
        Gate::new(LimitsFile { open_requests, burst, requests_per_second: 0.0, ..LimitsFile::default() })
    }

    #[test]
    fn open_requests_are_counted_by_user_and_closed_when_dropped() {
        let gate = gate(2, 100);
        let _first = gate.enter_user("alice").unwrap();
        let second = gate.enter_user("alice").unwrap();
        assert_eq!(gate.enter_user("alice").unwrap_err().code(), tonic::Code::ResourceExhausted);
        assert!(gate.enter_user("bob").is_ok());
        drop(second);
        assert!(gate.enter_user("alice").is_ok());
    }

    #[test]
    fn a_burst_is_used_up() {
        let gate = gate(100, 3);
        for _ in 0..3 {
            gate.enter_user("alice").unwrap();
        }
        let refused = gate.enter_user("alice").unwrap_err();
        assert!(refused.message().contains("times a second"), "{}", refused.message());
        assert!(gate.enter_user("bob").is_ok());
        assert!(gate.enter_user("alice").is_err(), "who has used it up is not forgotten");
    }

    #[test]
    fn messages_of_open_calls_count_and_wait_but_leave_some_to_calls() {
        let of_alice = LimitsFile { requests_per_second: 100.0, burst: 20, ..LimitsFile::default() };
        let gate = Gate::new(of_alice);
        let open = gate.enter_user("alice").unwrap();
        let now = Instant::now() + Duration::from_secs(9);
        let count = |after_ms| open.entered.count_message(now + Duration::from_millis(after_ms));
        assert_eq!((0..100).filter(|_| count(0).is_ok()).count(), 18, "a tenth of the burst is left");
        assert_eq!(count(0), Err(Duration::from_millis(10)));
        assert_eq!((0..100).filter(|_| count(50).is_ok()).count(), 5, "as many as were earned");
        assert_eq!(gate.callers.lock()["alice"].tokens.round(), 2.0);
        let other = gate.enter_user("bob").unwrap();
        assert_eq!(other.entered.count_message(now), Ok(()), "each user has a limit of its own");
    }

    #[tokio::test]
    async fn a_message_beyond_the_limit_waits_and_is_not_refused() {
        let open = gate(100, 1).enter_user("alice").unwrap();
        let waits = |open: Pass| async move {
            tokio::time::timeout(Duration::from_millis(50), open.message()).await.is_err()
        };
        assert!(waits(open).await, "the call itself was all that the user may ask");
        let open = gate(100, 3).enter_user("alice").unwrap();
        open.message().await;
        open.message().await;
        assert!(waits(open).await);
    }

    #[test]
    fn users_without_open_requests_and_recent_calls_are_forgotten() {
        let limits = LimitsFile { requests_per_second: 1e9, ..LimitsFile::default() };
        let gate = Gate::new(limits);
        let open = gate.enter_user("alice").unwrap();
        drop(gate.enter_user("bob").unwrap());
        drop(gate.enter_user("carol").unwrap());
        assert_eq!(gate.callers.lock().keys().collect::<Vec<_>>(), ["alice", "carol"]);
        drop(open);
        drop(gate.enter_user("dave").unwrap());
        assert_eq!(gate.callers.lock().keys().collect::<Vec<_>>(), ["dave"]);
    }

    #[test]
    fn daemons_have_bounds_of_their_own() {
        let of_daemon = Bounds { open: 2, per_second: 0.0, burst: 3 };
        let gate = Gate { of_daemon, ..gate(100, 100) };
        for role in [Role::Server, Role::Agent] {
            let open = [gate.enter_as(role, "lyon").unwrap(), gate.enter_as(role, "lyon").unwrap()];
            let refused = gate.enter_as(role, "lyon").unwrap_err();
            let expected = format!("2 requests of {}/lyon are open, which is the limit", role.name());
            assert_eq!(
                (refused.code(), refused.message()),
                (tonic::Code::ResourceExhausted, expected.as_str())
            );
            drop(open);
            gate.enter_as(role, "lyon").unwrap();
            let refused = gate.enter_as(role, "lyon").unwrap_err();
            assert!(
                refused.message().contains("lyon sends requests more than 0 times a second"),
                "{refused:?}"
            );
            assert!(gate.enter_as(role, "paris").is_ok());
        }
        assert!(gate.enter_user("lyon").is_ok());
    }
}
