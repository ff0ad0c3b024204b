//! Operators give priorities to waiting jobs. An act that is lost is not repeated.

use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::Token;
use pliant_control::server::Event;
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::world::{World, WorldEvent};

/// When an operator gives a job that waits at a server a priority, in milliseconds.
pub(super) struct PlannedPriority {
    server: usize,
    at: u64,
    priority: i64,
}

impl PlannedPriority {
    /// Draws some priorities at each server, before the last fault.
    pub(super) fn draw(rng: &mut ChaCha8Rng, servers: usize, until: u64) -> Vec<PlannedPriority> {
        let mut priorities = Vec::new();
        for server in 0..servers {
            for _ in 0..rng.random_range(0..=8) {
                let at = rng.random_range(0..until);
                priorities.push(PlannedPriority { server, at, priority: rng.random_range(-2..=2) });
            }
        }
        priorities
    }
}

impl World {
    pub(super) fn start_priorities(&mut self) {
        for number in 0..self.plan.priorities.len() {
            self.after(self.plan.priorities[number].at, WorldEvent::Prioritise(number));
        }
    }

    /// An operator gives a random job that waits at a server a priority.
    pub(super) fn prioritise(&mut self, number: usize) {
        let PlannedPriority { server, priority, .. } = self.plan.priorities[number];
        let machine = &self.servers[server].daemon.node.machine;
        let waits = |record: &&JobRecord| record.state == JobState::Queued;
        let waiting = machine.jobs().filter(waits).filter_map(|record| machine.number_of(&record.handle));
        let waiting: Vec<u32> = waiting.collect();
        if waiting.is_empty() {
            return;
        }
        let number = waiting[self.rng.random_range(0..waiting.len())];
        let by = "operator".parse().expect("letters are a user's name");
        let (reply, why) = (Token(self.next_number()), "deadline".to_owned());
        self.deliver_to_server(server, Event::Prioritise { reply, number, priority, by, why });
    }
}
