//! Users of launches: they crash and come back with their keys, change their minds, and spawn tasks.

use pliant_control::coallocation::{
    Answer, ClientAction, LaunchClient, LaunchId, LaunchOutcome, LaunchState, LaunchUpdate,
};
use pliant_control::server;
use pliant_model::Time;
use rand::Rng;

use super::agent::AGENT;
use super::{Answered, Asked, Moment, Party};
use crate::faults::daemon::Clock;
use crate::faults::world::{World, WorldEvent};
use crate::kernel::Peer;

/// How long a user waits for an answer, in milliseconds.
const TIMEOUT: u64 = 20_000;

pub(super) struct User {
    client: Option<LaunchClient>,
    life: u32,
    clock: Clock,
    /// The call whose answer is waited for.
    waiting: Option<u64>,
    /// They have once wanted it to end.
    pub(super) cancels: bool,
    /// What they know at last.
    pub(super) outcome: Option<LaunchOutcome>,
}

impl Default for User {
    fn default() -> User {
        User { client: None, life: 0, clock: Clock::new(0), waiting: None, cancels: false, outcome: None }
    }
}

impl World {
    pub(in crate::faults) fn begin_launches(&mut self) {
        for number in 0..self.plan.launches.len() {
            let planned = &self.plan.launches[number];
            let (at, cancelled) = (planned.at, planned.cancelled_after);
            self.after(at, WorldEvent::Launches(Moment::User(number, 0)));
            if let Some(cancelled) = cancelled {
                self.after(at + cancelled, WorldEvent::Launches(Moment::Cancels(number)));
            }
        }
    }

    /// The user's end of calls: after those of jobs.
    fn peer_of(&self, number: usize) -> Peer {
        Peer::Client((self.clients.len() + number) as u32)
    }

    pub(super) fn user_due(&mut self, number: usize, life: u32) {
        let user = &mut self.launches.users[number];
        if user.life != life || user.outcome.is_some() || user.waiting.is_some() {
            return;
        }
        let is_new = user.client.is_none();
        let client = user.client.get_or_insert_with(|| LaunchClient::new(Time::MAX));
        if is_new && user.cancels {
            client.on(Time(0), LaunchUpdate::Cancel, &mut Vec::new());
        }
        self.tell_user(number, if is_new { LaunchUpdate::Begin } else { LaunchUpdate::Due });
    }

    pub(super) fn user_cancels(&mut self, number: usize) {
        self.launches.users[number].cancels = true;
        self.tell_user(number, LaunchUpdate::Cancel);
    }

    fn tell_user(&mut self, number: usize, told: LaunchUpdate) {
        self.note(|_| format!("user {number} hears {}", crate::faults::trace::short(&told)));
        let (mut wants, at) = (Vec::new(), self.queue.now());
        let user = &mut self.launches.users[number];
        let now = user.clock.now(at);
        let Some(client) = user.client.as_mut() else { return };
        client.on(now, told, &mut wants);
        let id = self.launch_id(number);
        for want in wants {
            match want {
                ClientAction::Launch => {
                    let wanted = Box::new(self.plan.launches[number].wanted.clone());
                    self.user_asks(number, Asked::Launch(wanted));
                }
                ClientAction::Query => self.user_asks(number, Asked::Look(id.clone())),
                ClientAction::Cancel => self.user_asks(number, Asked::Cancel(id.clone())),
                ClientAction::WakeAt(at) => {
                    let user = &self.launches.users[number];
                    let (pause, life) =
                        (user.clock.until(at, self.queue.now()) - self.queue.now(), user.life);
                    self.after(pause.max(1), WorldEvent::Launches(Moment::User(number, life)));
                }
                ClientAction::Done(outcome) => self.launches.users[number].outcome = Some(*outcome),
            }
        }
    }

    pub(super) fn launch_id(&self, number: usize) -> LaunchId {
        LaunchId { agent: self.agents[0].name.clone(), key: self.plan.launches[number].wanted.key }
    }

    fn user_asks(&mut self, number: usize, asked: Asked) {
        let life = self.launches.users[number].life;
        let call = self.ask_launch(self.peer_of(number), AGENT, Party::User(life), asked);
        self.launches.users[number].waiting = Some(call);
        self.after(TIMEOUT, WorldEvent::Timeout(call));
        // A user that dies when it has sent something begins anew, with the same key.
        if self.strikes(self.plan.faults.client_crashes) {
            let user = &mut self.launches.users[number];
            (user.client, user.waiting) = (None, None);
            user.life += 1;
            let (pause, life) = (self.rng.random_range(500..30_000), user.life);
            self.after(pause, WorldEvent::Launches(Moment::User(number, life)));
        }
    }

    /// Somebody who asked about a launch is answered.
    pub(in crate::faults) fn launch_answered(
        &mut self,
        from: Peer,
        number: u64,
        by: Party,
        answer: Answered,
    ) {
        match (by, answer) {
            (Party::User(life), Answered::User(answer)) => self.user_hears(from, life, number, Some(answer)),
            (Party::Coordinator(life, id), Answered::SubjobState(state)) => {
                let Some(to) = self.calls.get(&number).map(|call| call.to) else { return };
                if self.launches.coordinator.node.life == life {
                    let from = self.name_of(to).parse().expect("a server has a name");
                    let event =
                        pliant_control::coallocation::Event::SubjobStatus { from, id, state, reply: None };
                    self.tell_coordinator(event);
                }
            }
            (Party::Server(life, id), Answered::Decision(decision, heard)) => {
                let Peer::Server(index) = from else { return };
                if self.life(from) == life {
                    let decided = server::SubjobEvent::Decided { reply: None, id, decision, heard };
                    self.tell_server(index, server::Event::Subjob(decided));
                }
            }
            _ => debug_assert!(false, "an answer of the wrong kind"),
        }
    }

    /// Whoever asked about a launch waits no more: only users do not ask again by themselves.
    pub(in crate::faults) fn launch_timeout(&mut self, from: Peer, number: u64, by: &Party) {
        if let Party::User(life) = by {
            self.user_hears(from, *life, number, None);
        }
    }

    fn user_hears(&mut self, from: Peer, life: u32, call: u64, answer: Option<Answer>) {
        let Peer::Client(peer) = from else { return };
        let number = peer as usize - self.clients.len();
        let user = &mut self.launches.users[number];
        if user.life != life || user.waiting != Some(call) {
            return;
        }
        user.waiting = None;
        let told = match answer {
            None => LaunchUpdate::Silent("no answer".to_owned()),
            Some(Answer::Launch(record)) => {
                let runs = record.state == LaunchState::Running;
                let planned = &self.plan.launches[number];
                let is_spawned = record.tasks.len() > planned.wanted.application.tasks.len();
                if let Some(spawn) = planned.spawn.clone().filter(|_| runs && !is_spawned) {
                    let (peer, id) = (self.peer_of(number), self.launch_id(number));
                    // Whatever comes of it is seen at the next look.
                    self.ask_launch(peer, AGENT, Party::User(u32::MAX), Asked::Spawn(id, Box::new(spawn)));
                }
                LaunchUpdate::Launch(record)
            }
            Some(Answer::Refused(why)) => LaunchUpdate::Refused(why),
            Some(Answer::NoSuchLaunch) => LaunchUpdate::NoSuchLaunch,
        };
        self.tell_user(number, told);
    }
}
