//! Users of launches: they crash and restart with the same keys, cancel launches, and spawn tasks.

use pliant_control::coallocation::{
    Answer, ClientAction, LaunchClient, LaunchId, LaunchOutcome, LaunchState, LaunchUpdate,
};
use pliant_control::server;
use pliant_model::Time;
use rand::Rng;

use super::agent::AGENT;
use super::{LaunchAnswer, LaunchCaller, LaunchEvent, LaunchRequest};
use crate::faults::daemon::Clock;
use crate::faults::world::{World, WorldEvent};
use crate::kernel::Peer;

/// How long a user waits for an answer, in milliseconds.
const TIMEOUT: u64 = 20_000;

pub(super) struct User {
    client: Option<LaunchClient>,
    incarnation: u32,
    clock: Clock,
    /// The call whose answer it waits for.
    waiting: Option<u64>,
    /// The user has cancelled the launch.
    pub(super) cancels: bool,
    /// The outcome that the user received in the end.
    pub(super) outcome: Option<LaunchOutcome>,
}

impl Default for User {
    fn default() -> User {
        User {
            client: None,
            incarnation: 0,
            clock: Clock::new(0),
            waiting: None,
            cancels: false,
            outcome: None,
        }
    }
}

impl World {
    pub(in crate::faults) fn start_launches(&mut self) {
        for number in 0..self.plan.launches.len() {
            let planned = &self.plan.launches[number];
            let (at, cancelled) = (planned.at, planned.cancelled_after);
            self.after(at, WorldEvent::Launch(LaunchEvent::User(number, 0)));
            if let Some(cancelled) = cancelled {
                self.after(at + cancelled, WorldEvent::Launch(LaunchEvent::UserCancels(number)));
            }
        }
    }

    /// The peer of a user: users are numbered after the clients of jobs.
    fn peer_of(&self, number: usize) -> Peer {
        Peer::Client((self.clients.len() + number) as u32)
    }

    pub(super) fn user_due(&mut self, number: usize, incarnation: u32) {
        let user = &mut self.launches.users[number];
        if user.incarnation != incarnation || user.outcome.is_some() || user.waiting.is_some() {
            return;
        }
        let is_new = user.client.is_none();
        let client = user.client.get_or_insert_with(|| LaunchClient::new(Time::MAX));
        if is_new && user.cancels {
            client.on(Time(0), LaunchUpdate::Cancel, &mut Vec::new());
        }
        self.deliver_to_user(number, if is_new { LaunchUpdate::Begin } else { LaunchUpdate::Due });
    }

    pub(super) fn user_cancels(&mut self, number: usize) {
        self.launches.users[number].cancels = true;
        self.deliver_to_user(number, LaunchUpdate::Cancel);
    }

    fn deliver_to_user(&mut self, number: usize, update: LaunchUpdate) {
        self.log(|_| format!("user {number} receives {}", crate::faults::trace::shorten(&update)));
        let (mut actions, at) = (Vec::new(), self.queue.now());
        let user = &mut self.launches.users[number];
        let now = user.clock.now(at);
        let Some(client) = user.client.as_mut() else { return };
        client.on(now, update, &mut actions);
        let id = self.launch_id(number);
        for action in actions {
            match action {
                ClientAction::Launch => {
                    let spec = Box::new(self.plan.launches[number].spec.clone());
                    self.send_user_request(number, LaunchRequest::Launch(spec));
                }
                ClientAction::Query => self.send_user_request(number, LaunchRequest::Status(id.clone())),
                ClientAction::Cancel => self.send_user_request(number, LaunchRequest::Cancel(id.clone())),
                ClientAction::WakeAt(at) => {
                    let user = &self.launches.users[number];
                    let (pause, incarnation) =
                        (user.clock.until(at, self.queue.now()) - self.queue.now(), user.incarnation);
                    self.after(pause.max(1), WorldEvent::Launch(LaunchEvent::User(number, incarnation)));
                }
                ClientAction::Done(outcome) => self.launches.users[number].outcome = Some(*outcome),
            }
        }
    }

    pub(super) fn launch_id(&self, number: usize) -> LaunchId {
        LaunchId { agent: self.agents[0].name.clone(), key: self.plan.launches[number].spec.key }
    }

    fn send_user_request(&mut self, number: usize, asked: LaunchRequest) {
        let incarnation = self.launches.users[number].incarnation;
        let call =
            self.send_launch_request(self.peer_of(number), AGENT, LaunchCaller::User(incarnation), asked);
        self.launches.users[number].waiting = Some(call);
        self.after(TIMEOUT, WorldEvent::Timeout(call));
        // A user that crashes after it has sent a request restarts with the same key.
        if self.draw_fault(self.plan.faults.client_crashes) {
            let user = &mut self.launches.users[number];
            (user.client, user.waiting) = (None, None);
            user.incarnation += 1;
            let (pause, incarnation) = (self.rng.random_range(500..30_000), user.incarnation);
            self.after(pause, WorldEvent::Launch(LaunchEvent::User(number, incarnation)));
        }
    }

    /// Delivers an answer about a launch to its caller.
    pub(in crate::faults) fn receive_launch_answer(
        &mut self,
        from: Peer,
        number: u64,
        by: LaunchCaller,
        answer: LaunchAnswer,
    ) {
        match (by, answer) {
            (LaunchCaller::User(incarnation), LaunchAnswer::User(answer)) => {
                self.answer_user(from, incarnation, number, Some(answer))
            }
            (LaunchCaller::Coordinator(incarnation, id), LaunchAnswer::SubjobState(state)) => {
                let Some(to) = self.calls.get(&number).map(|call| call.to) else { return };
                if self.launches.coordinator.node.incarnation == incarnation {
                    let from = self.name_of(to).parse().expect("a server has a name");
                    let event =
                        pliant_control::coallocation::Event::SubjobStatus { from, id, state, reply: None };
                    self.deliver_to_coordinator(event);
                }
            }
            (LaunchCaller::Server(incarnation, id), LaunchAnswer::Decision(decision, end_acknowledged)) => {
                let Peer::Server(index) = from else { return };
                if self.incarnation(from) == incarnation {
                    let decided =
                        server::SubjobEvent::Decided { reply: None, id, decision, end_acknowledged };
                    self.deliver_to_server(index, server::Event::Subjob(decided));
                }
            }
            _ => debug_assert!(false, "an answer of the wrong kind"),
        }
    }

    /// Ends a call about a launch that was not answered in time. Only users need it: the others repeat calls by themselves.
    pub(in crate::faults) fn launch_timeout(&mut self, from: Peer, number: u64, by: &LaunchCaller) {
        if let LaunchCaller::User(incarnation) = by {
            self.answer_user(from, *incarnation, number, None);
        }
    }

    fn answer_user(&mut self, from: Peer, incarnation: u32, call: u64, answer: Option<Answer>) {
        let Peer::Client(peer) = from else { return };
        let number = peer as usize - self.clients.len();
        let user = &mut self.launches.users[number];
        if user.incarnation != incarnation || user.waiting != Some(call) {
            return;
        }
        user.waiting = None;
        let update = match answer {
            None => LaunchUpdate::Silent("no answer".to_owned()),
            Some(Answer::Launch(record)) => {
                let runs = record.state == LaunchState::Running;
                let planned = &self.plan.launches[number];
                let is_spawned = record.tasks.len() > planned.spec.application.tasks.len();
                if let Some(spawn) = planned.spawn.clone().filter(|_| runs && !is_spawned) {
                    let (peer, id) = (self.peer_of(number), self.launch_id(number));
                    // The next status query shows its outcome.
                    self.send_launch_request(
                        peer,
                        AGENT,
                        LaunchCaller::User(u32::MAX),
                        LaunchRequest::Spawn(id, Box::new(spawn)),
                    );
                }
                LaunchUpdate::Launch(record)
            }
            Some(Answer::Refused(why)) => LaunchUpdate::Refused(why),
            Some(Answer::NoSuchLaunch) => LaunchUpdate::NoSuchLaunch,
        };
        self.deliver_to_user(number, update);
    }
}
