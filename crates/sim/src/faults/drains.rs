//! Operators drain servers, and have them resume before the last fault. An operator repeats an act until it is answered.

use std::collections::BTreeMap;

use pliant_control::names::Token;
use pliant_control::server::{Drain, Event};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::world::{World, WorldEvent};

/// The time until an operator repeats an act, in milliseconds.
pub(super) const REPEAT_AFTER: u64 = 3_000;

/// When a server is drained and when it resumes, in milliseconds.
pub(super) struct PlannedDrain {
    server: usize,
    from: u64,
    to: u64,
}

impl PlannedDrain {
    /// Draws drains of about every second server, between the begin of a schedule and its last fault.
    pub(super) fn draw(rng: &mut ChaCha8Rng, servers: usize, until: u64) -> Vec<PlannedDrain> {
        let mut drains = Vec::new();
        for server in 0..servers {
            let from = rng.random_range(0..until / 4);
            let to = from + rng.random_range(1..until / 2);
            if rng.random_bool(0.5) {
                drains.push(PlannedDrain { server, from, to });
            }
        }
        drains
    }
}

/// The last act of an operator at each server, while it is not answered: true if it drains the server.
pub(super) type OpenActs = BTreeMap<usize, bool>;

impl World {
    pub(super) fn start_drains(&mut self) {
        for number in 0..self.plan.drains.len() {
            let PlannedDrain { server, from, to } = self.plan.drains[number];
            self.after(from, WorldEvent::Drain(server, true));
            self.after(to, WorldEvent::Drain(server, false));
        }
    }

    /// An operator drains a server or has it resume.
    pub(super) fn drain(&mut self, server: usize, drains: bool) {
        self.acts.insert(server, drains);
        if !drains {
            self.checks.resumed(server);
        }
        self.repeat_drain(server, drains);
    }

    /// An operator sends an act, unless it was answered.
    pub(super) fn repeat_drain(&mut self, server: usize, drains: bool) {
        if self.acts.get(&server) != Some(&drains) {
            return;
        }
        let reply = Token(self.next_number());
        let by = "operator".parse().expect("letters are a user's name");
        let why = "maintenance".to_owned();
        let act = if drains { Event::Drain { reply, by, why } } else { Event::Resume { reply, by, why } };
        self.deliver_to_server(server, act);
        self.after(REPEAT_AFTER, WorldEvent::RepeatDrain(server, drains));
    }

    /// An operator gets the answer to an act.
    pub(super) fn drain_answered(&mut self, server: usize, drained: Option<&Drain>) {
        if self.acts.get(&server) == Some(&drained.is_some()) {
            self.acts.remove(&server);
            if drained.is_some() {
                self.checks.drained(server);
            }
        }
    }
}
