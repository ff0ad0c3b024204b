//! Operators give priorities to waiting jobs. An act that is lost is not repeated.

use std::collections::BTreeMap;

use pliant_control::access::Caller;
use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::Token;
use pliant_control::server::{Answer, Event};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::checks::Violation;
use super::daemon::Daemon;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

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

/// The priorities that operators have given to a job at a server.
#[derive(Default)]
pub(super) struct GivenPriorities {
    /// The last one of which the operator knows that it holds.
    known: Option<i64>,
    /// Those that followed it and are not answered.
    sent: Vec<(Token, i64)>,
}

/// The priorities that operators have given to waiting jobs, by server and the job's number there, while the job waits there.
pub(super) type Priorities = BTreeMap<(usize, u32), GivenPriorities>;

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
        if self.is_up(Peer::Server(server)) {
            self.priorities.entry((server, number)).or_default().sent.push((reply, priority));
        }
        self.deliver_to_server(server, Event::Prioritise { reply, number, priority, by, why });
    }

    /// An operator gets the answer to a priority.
    pub(super) fn priority_answered(&mut self, to: Token, answer: &Answer) {
        for given in self.priorities.values_mut() {
            let Some(at) = given.sent.iter().position(|(reply, _)| *reply == to) else { continue };
            let (_, priority) = given.sent.remove(at);
            if matches!(answer, Answer::Job(_)) {
                given.known = Some(priority);
                given.sent.drain(..at);
            }
        }
    }

    /// Checks that the jobs in the queue of a server have the priorities that an operator knows them to have.
    pub(super) fn check_priorities(&mut self, server: usize) {
        let World { servers, priorities, checks, .. } = self;
        let numbers = priorities.range((server, 0)..=(server, u32::MAX)).map(|((_, number), _)| *number);
        let numbers: Vec<u32> = numbers.collect();
        let Daemon { node, clock, .. } = &mut servers[server].daemon;
        let caller = Caller { user: "operator".parse().expect("letters are a user's name"), operator: true };
        for number in numbers {
            let waits = |record: &JobRecord| {
                record.state == JobState::Queued && record.server() == node.machine.name()
            };
            if !node.machine.job(number).is_some_and(waits) {
                priorities.remove(&(server, number));
                continue;
            }
            let Some(explanation) = node.machine.explain(clock.last(), number, &caller) else { continue };
            // A job that is kept back or withdrawn is in no queue.
            let Some(wait) = explanation.waits else { continue };
            let (found, given) = (wait.operator_priority, &priorities[&(server, number)]);
            if let Some(known) = given.known
                && known != found
                && given.sent.iter().all(|(_, sent)| *sent != found)
            {
                let job = explanation.record.handle;
                let what = format!("{job} has priority {found} at c{server}, an operator gave it {known}");
                checks.report_violation(Violation::new("prioritised", what));
            }
        }
    }
}
