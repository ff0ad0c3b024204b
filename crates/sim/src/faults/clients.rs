//! Clients, which crash and come back with their keys, and owners who change their minds.

use pliant_control::access::Caller;
use pliant_control::agent::{DiscoveryQuery, DiscoverySubject};
use pliant_control::client::{self, Command, Submission, SubmissionOutcome};
use pliant_control::job::ComparedEstimate;
use pliant_control::names::{Handle, Name};
use pliant_control::payload::Payload;
use pliant_control::reason::DiscoverySummary;
use pliant_control::server::Submit;
use pliant_model::Time;
use rand::Rng;

use super::calls::{Cancelled, Party, Request, Response};
use super::daemon::Clock;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

/// How many of the best servers a client wants to hear of.
const BEST: u32 = 3;
/// How long it waits for an answer, in milliseconds.
const TIMEOUT: u64 = 20_000;

pub(super) struct Client {
    submission: Option<Submission>,
    /// How often it has crashed.
    pub(super) life: u32,
    clock: Clock,
    /// The call whose answer it waits for.
    waiting: Option<u64>,
    /// What it has noted: where it sent its submission.
    sent_to: Option<Name>,
    pub(super) over: bool,
    /// What it was told at last.
    pub(super) handle: Option<Handle>,
    /// Where its owner cancels the job next, and the call whose answer they wait for.
    cancels_at: Option<Name>,
    cancelling: Option<u64>,
    pub(super) cancels: bool,
}

impl Client {
    pub(super) fn new(ahead: i64) -> Client {
        Client {
            submission: None,
            life: 0,
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
    /// A client begins, begins again, or is told that time has passed.
    pub(super) fn client_due(&mut self, number: u32, life: u32) {
        let client = &mut self.clients[number as usize];
        if client.life != life || client.over {
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
        self.tell_client(number, event);
    }

    /// A client is answered, if it still waits for that.
    pub(super) fn client_hears(&mut self, from: Peer, life: u32, call: u64, event: client::Event) {
        let Peer::Client(number) = from else { return };
        let client = &mut self.clients[number as usize];
        if client.life == life && client.waiting == Some(call) {
            client.waiting = None;
            self.tell_client(number, event);
        }
    }

    /// A client learns that its job has ended long ago.
    pub(super) fn client_is_known(&mut self, from: Peer, life: u32, call: u64, handle: Handle) {
        let Peer::Client(number) = from else { return };
        let client = &mut self.clients[number as usize];
        if client.life == life && client.waiting == Some(call) {
            client.waiting = None;
            self.client_has(number, Some(handle));
        }
    }

    fn tell_client(&mut self, number: u32, event: client::Event) {
        let at = self.queue.now();
        self.note(|_| format!("client {number} hears {}", super::trace::short(&event)));
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
                };
                let why = client::Event::AgentUnreachable("nobody is there".to_owned());
                self.client_calls(number, Peer::Agent(0), Request::Discover(Box::new(ask)), why);
            }
            Command::Submit { to, latest, compared, .. } => {
                self.client_submits(number, to.server, latest, compared)
            }
            Command::Repeat { server } => self.client_submits(number, server, None, Vec::new()),
            Command::WakeAt(at) => {
                let client = &self.clients[number as usize];
                let (pause, life) =
                    (client.clock.until(at, self.queue.now()) - self.queue.now(), client.life);
                self.after(pause.max(1), WorldEvent::Client(number, life));
            }
            Command::Done(outcome) => {
                let handle = match *outcome {
                    SubmissionOutcome::Accepted(record) => Some(record.handle),
                    SubmissionOutcome::Refused(_) | SubmissionOutcome::Unknown { .. } => None,
                };
                self.client_has(number, handle);
            }
        }
    }

    fn client_calls(&mut self, number: u32, to: Peer, request: Request, why: client::Event) {
        let (me, life) = (Peer::Client(number), self.clients[number as usize].life);
        let call = match self.is_unreachable(me, to) {
            true => {
                let call = self.number();
                self.calls.insert(call, super::calls::Call { from: me, to, by: Party::Client(life) });
                self.after(200, WorldEvent::Response(call, Box::new(Response::Client(why))));
                call
            }
            false => self.call(me, to, Party::Client(life), request),
        };
        self.clients[number as usize].waiting = Some(call);
        self.after(TIMEOUT, WorldEvent::Timeout(call));
    }

    /// Sends a submission; the client may crash right after.
    fn client_submits(
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
        let submit = Submit {
            key: planned.key,
            owner: planned.owner.clone(),
            name: format!("job-{number}"),
            work: planned.work.clone(),
            own_time: false,
            pinned: planned.pinned,
            latest,
            compared,
            survey: DiscoverySummary::default(),
            payload: Payload::of(&number),
            sample: None,
        };
        let why = client::Event::Unreachable("nobody is there".to_owned());
        self.clients[number as usize].sent_to = Some(to);
        self.client_calls(number, server, Request::Submit(Box::new(submit)), why);
        if self.strikes(self.plan.faults.client_crashes) {
            let pause = self.rng.random_range(100..60_000);
            let client = &mut self.clients[number as usize];
            client.life += 1;
            client.waiting = None;
            client.submission = None;
            let life = client.life;
            self.note(|_| format!("client {number} crashes"));
            self.after(pause, WorldEvent::Client(number, life));
        }
    }

    /// A client's submission is over.
    fn client_has(&mut self, number: u32, handle: Option<Handle>) {
        self.note(|_| format!("client {number} is over: {handle:?}"));
        let planned = &self.plan.jobs[number as usize];
        if let Some(handle) = &handle {
            self.checks.told_accepted(handle, planned.key);
        }
        let client = &mut self.clients[number as usize];
        client.over = true;
        client.cancels_at = handle.as_ref().map(|handle| handle.server.clone());
        client.cancels = handle.is_some() && planned.cancelled_after.is_some();
        client.handle = handle;
        if client.cancels
            && let Some(pause) = planned.cancelled_after
        {
            self.after(pause, WorldEvent::Cancels(number));
        }
    }

    /// The owner of a job asks the server that has it, as far as they know, to cancel it.
    pub(super) fn cancels(&mut self, number: u32) {
        let client = &self.clients[number as usize];
        let (Some(handle), Some(at)) = (client.handle.clone(), &client.cancels_at) else { return };
        let Some(to) = self.peers.get(at).copied() else { return debug_assert!(false, "{at} is no server") };
        if !client.cancels || client.cancelling.is_some() {
            return;
        }
        let user = self.plan.jobs[number as usize].owner.clone();
        let caller = Caller { user, operator: false };
        let call = self.call(Peer::Client(number), to, Party::Owner(number), Request::Cancel(handle, caller));
        self.clients[number as usize].cancelling = Some(call);
        self.after(TIMEOUT, WorldEvent::Timeout(call));
    }

    pub(super) fn owner_hears(&mut self, number: u32, call: u64, told: Cancelled) {
        let client = &mut self.clients[number as usize];
        if client.cancelling != Some(call) {
            return;
        }
        client.cancelling = None;
        match told {
            Cancelled::Ends(record) => {
                client.cancels = false;
                self.note(|_| {
                    format!("the owner of {} hears that it is cancelled: {}", record.handle, record.state)
                });
                self.checks.cancelled(&record);
            }
            Cancelled::Elsewhere(record) => {
                client.cancels_at = Some(record.server().clone());
                self.after(100, WorldEvent::Cancels(number));
            }
            Cancelled::Unknown => {
                let (handle, at) = (client.handle.clone(), client.cancels_at.clone());
                self.wrong("resolves", format!("{at:?} knows nothing of {handle:?}"));
            }
        }
    }

    pub(super) fn owner_waits_no_more(&mut self, number: u32, call: u64) {
        let client = &mut self.clients[number as usize];
        if client.cancelling == Some(call) {
            client.cancelling = None;
            let pause = self.rng.random_range(500..5_000);
            self.after(pause, WorldEvent::Cancels(number));
        }
    }
}
