//! Limits on users: how many requests each has open, and how often each asks.

mod arrival;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use pliant_control::access::Caller;
use pliant_telemetry::names;
use pliant_transport::{self as transport, Role, ServerTls};
use pliant_wire as wire;
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::config::LimitsFile;

/// What a user does about a refusal that only the role of the certificate causes.
pub const ASK_OPERATOR: &str = "ask an operator to do it, or for a certificate with the role operator";

pub use arrival::{Arrival, ArrivalLayer};

/// Lets requests in, user by user.
#[derive(Clone, Debug)]
pub struct Gate {
    limits: LimitsFile,
    users: Arc<Mutex<BTreeMap<String, Account>>>,
}

/// What a user has used up.
#[derive(Clone, Copy, Debug)]
struct Account {
    open: u32,
    /// Requests that may be made at once.
    tokens: f64,
    at: Instant,
}

impl Account {
    /// How many requests may be made at once at that time.
    fn tokens_at(&self, now: Instant, limits: &LimitsFile) -> f64 {
        let earned = now.duration_since(self.at).as_secs_f64() * limits.requests_per_second;
        (self.tokens + earned).min(f64::from(limits.burst))
    }
}

/// An open request; closed when its last copy is dropped.
#[derive(Clone, Debug)]
pub struct Pass {
    _entered: Arc<Entered>,
}

#[derive(Debug)]
struct Entered {
    gate: Gate,
    user: String,
}

impl Gate {
    /// A gate with these limits.
    pub fn new(limits: LimitsFile) -> Gate {
        Gate { limits, users: Arc::default() }
    }

    /// Looks at each call as soon as its headers are there, before its message is read: whether the caller's certificate
    /// is still good, and whether a user is within the limits.
    pub fn keep(&self, tls: Arc<ServerTls>) -> impl Interceptor + Clone + Send + Sync + use<> {
        let (gate, mut guard) = (self.clone(), transport::guard(tls));
        move |request: Request<()>| {
            let mut request = guard.call(request)?;
            let transport::Caller { peer, address } = caller(&request)?;
            // What daemons may call is for each call to say.
            if matches!(peer.role, Role::User | Role::Operator) {
                let pass = gate.let_in(&peer.name, address)?;
                request.extensions_mut().insert(pass);
            }
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
                tracing::warn!(remote = %address, peer = %peer.name, "request refused: daemons submit nothing");
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
            None => self.let_in(&peer.name, address)?,
        };
        Ok((Caller { user, operator }, pass))
    }

    fn let_in(&self, user: &str, address: SocketAddr) -> Result<Pass, Status> {
        self.enter(user).inspect_err(|status| {
            tracing::warn!(remote = %address, user, reason = %status.message(), "request refused");
        })
    }

    fn enter(&self, user: &str) -> Result<Pass, Status> {
        let LimitsFile { open_requests, requests_per_second, burst, .. } = self.limits;
        let now = Instant::now();
        let mut users = self.users.lock();
        if !users.contains_key(user) {
            // A user without open requests is not remembered.
            users.retain(|_, account| {
                account.open > 0 || account.tokens_at(now, &self.limits) < f64::from(burst)
            });
        }
        let full = Account { open: 0, tokens: f64::from(burst), at: now };
        let account = users.entry(user.to_owned()).or_insert(full);
        account.tokens = account.tokens_at(now, &self.limits);
        account.at = now;
        if account.open >= open_requests {
            metrics::counter!(names::REQUESTS_LIMITED, "limit" => "open").increment(1);
            let limit = format!("{open_requests} requests of {user} are open, which is the limit");
            return Err(Status::resource_exhausted(limit));
        }
        if account.tokens < 1.0 {
            metrics::counter!(names::REQUESTS_LIMITED, "limit" => "rate").increment(1);
            let limit = format!(
                "{user} sends requests more than {requests_per_second} times a second, which is the limit"
            );
            return Err(Status::resource_exhausted(limit));
        }
        account.tokens -= 1.0;
        account.open += 1;
        Ok(Pass { _entered: Arc::new(Entered { gate: self.clone(), user: user.to_owned() }) })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(account) = self.gate.users.lock().get_mut(&self.user) {
            account.open -= 1;
        }
    }
}

/// The refusal of a call that only operators may make. `what` completes the sentence "only an operator may ...".
pub fn for_operators(what: &str, hint: &'static str) -> Status {
    wire::with_hint(Status::permission_denied(format!("only an operator may {what}")), hint)
}

/// The daemon that calls, if it has one of these roles.
pub fn daemon<T>(request: &Request<T>, roles: &[Role]) -> Result<transport::Caller, Status> {
    let found = caller(request)?;
    if roles.contains(&found.peer.role) {
        return Ok(found);
    }
    let role = found.peer.role.name();
    tracing::warn!(remote = %found.address, peer = %found.peer.name, role, "request refused: not a daemon");
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

    fn gate(open_requests: u32, burst: u32) -> Gate {
        Gate::new(LimitsFile { open_requests, burst, requests_per_second: 0.0, ..LimitsFile::default() })
    }

    #[test]
    fn open_requests_are_counted_by_user_and_closed_when_dropped() {
        let gate = gate(2, 100);
        let _first = gate.enter("alice").unwrap();
        let second = gate.enter("alice").unwrap();
        assert_eq!(gate.enter("alice").unwrap_err().code(), tonic::Code::ResourceExhausted);
        assert!(gate.enter("bob").is_ok());
        drop(second);
        assert!(gate.enter("alice").is_ok());
    }

    #[test]
    fn a_burst_is_used_up() {
        let gate = gate(100, 3);
        for _ in 0..3 {
            gate.enter("alice").unwrap();
        }
        let refused = gate.enter("alice").unwrap_err();
        assert!(refused.message().contains("times a second"), "{}", refused.message());
        assert!(gate.enter("bob").is_ok());
        assert!(gate.enter("alice").is_err(), "who has used it up is not forgotten");
    }

    #[test]
    fn users_without_open_requests_and_recent_calls_are_forgotten() {
        let limits = LimitsFile { requests_per_second: 1e9, ..LimitsFile::default() };
        let gate = Gate::new(limits);
        let open = gate.enter("alice").unwrap();
        drop(gate.enter("bob").unwrap());
        drop(gate.enter("carol").unwrap());
        assert_eq!(gate.users.lock().keys().collect::<Vec<_>>(), ["alice", "carol"]);
        drop(open);
        drop(gate.enter("dave").unwrap());
        assert_eq!(gate.users.lock().keys().collect::<Vec<_>>(), ["dave"]);
    }
}
