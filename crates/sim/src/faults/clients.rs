//! Clients, which crash and restart with the same keys, and owners who cancel their jobs.

use pliant_control::access::Caller;
use pliant_control::agent::{DiscoveryQuery, DiscoverySubject};
use pliant_control::client::{self, Command, Submission, SubmissionOutcome};
use pliant_control::job::{ComparedEstimate, Work};
use pliant_control::names::{Handle, Name};
use pliant_control::payload::Payload;
use pliant_control::reason::DiscoverySummary;
use pliant_control::server::Submit;
use pliant_model::Time;
use rand::Rng;

use super::Bug;
use super::calls::{CallParty, CancelAnswer, Request, Response};
use super::daemon::Clock;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

/// How many offers a client asks for.
const BEST: u32 = 3;
/// How long a client waits for an answer, in milliseconds.
const TIMEOUT: u64 = 20_000;

pub(super) struct Client {
    submission: Option<Submission>,
    /// The number of its crashes.
    pub(super) incarnation: u32,
    clock: Clock,
    /// The call whose answer it waits for.
    waiting: Option<u64>,
    /// The server to which it sent its submission, as it has saved it.
    sent_to: Option<Name>,
    pub(super) over: bool,
    /// The handle that it received in the end.
    pub(super) handle: Option<Handle>,
    /// The server where its owner cancels the job next, and the call whose answer the owner waits for.
    cancels_at: Option<Name>,
    cancelling: Option<u64>,
    pub(super) cancels: bool,
}

impl Client {
    pub(super) fn new(ahead: i64) -> Client {
        Client {
            submission: None,
            incarnation: 0,
            clock: Clock::new(ahead),
            waiting: None,
            sent_to: None,
            over: false,
            handle: None,
            cancels_at: None,
            cancelling: None,
            cancels: false,
        }
    }
}

impl World {
    /// Starts or restarts a client, or delivers its time event.
    pub(super) fn client_due(&mut self, number: u32, incarnation: u32) {
        let client = &mut self.clients[number as usize];
        if client.incarnation != incarnation || client.over {
            return;
        }
        let event = match client.submission {
            Some(_) => client::Event::Due,
            None => {
                client.submission = Some(match client.sent_to.clone() {
                    Some(server) => Submission::resumed(Time::MAX, server),
                    None => Submission::new(Time::MAX),
                });
                client::Event::Begin
            }
        };
        self.deliver_to_client(number, event);
    }

    /// Delivers an answer to a client that still waits for it.
    pub(super) fn answer_client(&mut self, from: Peer, incarnation: u32, call: u64, event: client::Event) {
        let Peer::Client(number) = from else { return };
        let client = &mut self.clients[number as usize];
        if client.incarnation == incarnation && client.waiting == Some(call) {
            client.waiting = None;
            self.deliver_to_client(number, event);
        }
    }

    /// Ends the submission of a client whose job is known already.
    pub(super) fn end_known_submission(&mut self, from: Peer, incarnation: u32, call: u64, handle: Handle) {
        let Peer::Client(number) = from else { return };
        let client = &mut self.clients[number as usize];
        if client.incarnation == incarnation && client.waiting == Some(call) {
            client.waiting = None;
            self.end_submission(number, Some(handle));
        }
    }

    fn deliver_to_client(&mut self, number: u32, event: client::Event) {
        let at = self.queue.now();
        self.log(|_| format!("client {number} receives {}", super::trace::shorten(&event)));
        let client = &mut self.clients[number as usize];
        let now = client.clock.now(at);
        let Some(command) = client.submission.as_mut().and_then(|one| one.on(now, event)) else { return };
        let planned = &self.plan.jobs[number as usize];
        let (work, owner) = (planned.work.clone(), planned.owner.clone());
        match command {
            Command::Discover => {
                let caller = Caller { user: owner, operator: false };
                let ask = DiscoveryQuery {
                    subject: DiscoverySubject::Work(work),
                    caller,
                    best: BEST,
                    only: None,
                    timeout: None,
                    latest: None,
                };
                let why = client::Event::AgentUnreachable("unreachable".to_owned());
                self.call_from_client(number, Peer::Agent(0), Request::Discover(Box::new(ask)), why);
            }
            Command::Submit { to, latest, compared, .. } => {
                self.send_submission(number, to.server, latest, compared)
            }
            Command::Repeat { server } => self.send_submission(number, server, None, Vec::new()),
            Command::WakeAt(at) => {
                let client = &self.clients[number as usize];
                let (pause, incarnation) =
                    (client.clock.until(at, self.queue.now()) - self.queue.now(), client.incarnation);
                self.after(pause.max(1), WorldEvent::ClientDue(number, incarnation));
            }
            Command::Done(outcome) => {
                let handle = match *outcome {
                    SubmissionOutcome::Accepted(record) => Some(record.handle),
                    SubmissionOutcome::Refused(_) | SubmissionOutcome::Unknown { .. } => None,
                };
                self.end_submission(number, handle);
            }
        }
    }

    fn call_from_client(&mut self, number: u32, to: Peer, request: Request, why: client::Event) {
        let (me, incarnation) = (Peer::Client(number), self.clients[number as usize].incarnation);
        let call = match self.is_unreachable(me, to) {
            true => {
                let call = self.next_number();
                self.calls
                    .insert(call, super::calls::Call { from: me, to, by: CallParty::Client(incarnation) });
                self.after(200, WorldEvent::Response(call, Box::new(Response::Client(why))));
                call
            }
            false => self.call(me, to, CallParty::Client(incarnation), request),
        };
        self.clients[number as usize].waiting = Some(call);
        self.after(TIMEOUT, WorldEvent::Timeout(call));
    }

    /// Sends a submission; the client may crash right after.
    fn send_submission(
        &mut self,
        number: u32,
        to: Name,
        latest: Option<Time>,
        compared: Vec<ComparedEstimate>,
    ) {
        let Some(server) = self.peers.get(&to).copied() else {
            return debug_assert!(false, "{to} is no server");
        };
        let planned = &self.plan.jobs[number as usize];
        let begin = planned.work.begin.filter(|_| self.bug != Some(Bug::IgnoresBegin));
        let submit = Submit {
            key: planned.key,
            owner: planned.owner.clone(),
            name: format!("job-{number}"),
            work: Work { begin, ..planned.work.clone() },
            own_time: false,
            pinned: planned.pinned,
            latest,
            compared,
            discovery: DiscoverySummary::default(),
            payload: Payload::of(&number),
            sample: None,
            claim: None,
        };
        let why = client::Event::Unreachable("unreachable".to_owned());
        self.clients[number as usize].sent_to = Some(to);
        self.call_from_client(number, server, Request::Submit(Box::new(submit)), why);
        if self.draw_fault(self.plan.faults.client_crashes) {
            let pause = self.rng.random_range(100..60_000);
            let client = &mut self.clients[number as usize];
            client.incarnation += 1;
            client.waiting = None;
            client.submission = None;
            let incarnation = client.incarnation;
            self.log(|_| format!("client {number} crashes"));
            self.after(pause, WorldEvent::ClientDue(number, incarnation));
        }
    }

    /// Ends the submission of a client, with the handle of its job if it was accepted.
    fn end_submission(&mut self, number: u32, handle: Option<Handle>) {
        self.log(|_| format!("client {number} ends: {handle:?}"));
        let planned = &self.plan.jobs[number as usize];
        if let Some(handle) = &handle {
            self.checks.check_acceptance(handle, planned.key);
        }
        let client = &mut self.clients[number as usize];
        client.over = true;
        client.cancels_at = handle.as_ref().map(|handle| handle.server.clone());
        client.cancels = handle.is_some() && planned.cancelled_after.is_some();
        client.handle = handle;
        if client.cancels
            && let Some(pause) = planned.cancelled_after
        {
            self.after(pause, WorldEvent::OwnerCancels(number));
        }
    }

    /// Sends the cancellation of a job to the server that has it as far as its owner knows.
    pub(super) fn cancel_by_owner(&mut self, number: u32) {
        let client = &self.clients[number as usize];
        let (Some(handle), Some(at)) = (client.handle.clone(), &client.cancels_at) else { return };
        let Some(to) = self.peers.get(at).copied() else { return debug_assert!(false, "{at} is no server") };
        if !client.cancels || client.cancelling.is_some() {
            return;
        }
        let user = self.plan.jobs[number as usize].owner.clone();
        let caller = Caller { user, operator: false };
        let call =
            self.call(Peer::Client(number), to, CallParty::Owner(number), Request::Cancel(handle, caller));
        self.clients[number as usize].cancelling = Some(call);
        self.after(TIMEOUT, WorldEvent::Timeout(call));
    }

    pub(super) fn answer_owner(&mut self, number: u32, call: u64, answer: CancelAnswer) {
        let client = &mut self.clients[number as usize];
        if client.cancelling != Some(call) {
            return;
        }
        client.cancelling = None;
        match answer {
            CancelAnswer::Ends(record) => {
                client.cancels = false;
                self.log(|_| {
                    format!(
                        "the owner of {} is notified of its cancellation: {}",
                        record.handle, record.state
                    )
                });
                self.checks.cancelled(&record);
            }
            CancelAnswer::Elsewhere(record) => {
                client.cancels_at = Some(record.server().clone());
                self.after(100, WorldEvent::OwnerCancels(number));
            }
            CancelAnswer::Unknown => {
                let (handle, at) = (client.handle.clone(), client.cancels_at.clone());
                self.report_violation("resolves", format!("{at:?} has no record of {handle:?}"));
            }
        }
    }

    pub(super) fn owner_timeout(&mut self, number: u32, call: u64) {
        let client = &mut self.clients[number as usize];
        if client.cancelling == Some(call) {
            client.cancelling = None;
            let pause = self.rng.random_range(500..5_000);
            self.after(pause, WorldEvent::OwnerCancels(number));
        }
    }
}
