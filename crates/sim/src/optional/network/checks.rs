//! The invariants under all faults.

use pliant_model::SpanMs;

use super::World;

/// How long the platform takes to settle after the last fault: crashed peers restart, lost servers are found again, and lost
/// messages are repeated.
const SETTLES_WITHIN: SpanMs = SpanMs(30_000);

impl World<'_> {
    /// Checks that a server stores no more optional requests of a user than the window allows, so that the platform never has
    /// more than users times cores (claim C004-19).
    pub(super) fn check_bound(&mut self, at: usize) {
        let Some(most) = self.most_optional() else { return };
        let machine = &self.servers[at].node.machine;
        if self.clients.iter().any(|client| machine.optional_of(&client.user) > most) {
            self.violations.push(format!("server {at} stores more than {most} optional requests of a user"));
        }
    }

    /// The maximal number of optional requests of a user at a server.
    fn most_optional(&self) -> Option<u32> {
        self.window.map(|window| window * self.scenario.cores)
    }

    pub(super) fn check_end(&mut self) {
        for user in 0..self.clients.len() {
            self.check_user(user);
            self.check_in_time(user);
        }
        let most = self.most_optional().map(|most| most * (self.clients.len() * self.servers.len()) as u32);
        let stored = self.tally.stored_most();
        if most.is_some_and(|most| stored > most) {
            self.violations
                .push(format!("{stored} optional requests were stored, expected {most:?} at most"));
        }
        let now = self.queue.now();
        for (at, server) in self.servers.iter_mut().enumerate() {
            if server.node.machine.queue().counts() != (0, 0) || !server.running.is_empty() {
                self.violations.push(format!("server {at} still has requests"));
            }
            let replayed = server.node.check_journal(now);
            self.violations.extend(replayed.err().map(|why| format!("the journal of server {at}: {why}")));
        }
        for (user, client) in self.clients.iter_mut().enumerate() {
            let replayed = client.node.check_journal(now);
            self.violations.extend(replayed.err().map(|why| format!("the journal of user {user}: {why}")));
        }
    }

    fn check_user(&mut self, user: usize) {
        let machine = &self.clients[user].node.machine;
        let progress = machine.progress();
        let done = &self.completed[user];
        let mandatory = done.keys().filter(|number| **number < machine.plan().mandatory).count() as u32;
        let wanted = self.scenario.mandatory;
        let mut wrong = Vec::new();
        if self.fair && mandatory != wanted {
            wrong.push(format!("user {user}: {mandatory} mandatory requests were completed"));
        }
        if !machine.is_over() {
            wrong.push(format!("user {user} has not left"));
        } else if progress.mandatory != wanted {
            wrong.push(format!("user {user} left with {} mandatory requests", progress.mandatory));
        }
        if progress.mandatory + progress.optional > done.len() as u32 {
            wrong.push(format!("user {user} was notified of more requests than were completed"));
        }
        let is_twice =
            |(number, times): &(&u32, &u32)| **times > 1 && !self.released.contains(&(user, **number));
        if let Some((number, times)) = done.iter().find(is_twice) {
            wrong.push(format!("request {number} of user {user} was completed {times} times"));
        }
        self.violations.extend(wrong);
    }

    /// Checks that a user's mandatory requests are completed by the deadline, if after the last fault those of all users could
    /// run one after the other on one core of the slowest server.
    fn check_in_time(&mut self, user: usize) {
        let slowest = self.scenario.speeds.iter().copied().fold(f64::INFINITY, f64::min);
        let longest = self.clients.iter().map(|client| client.runtime.0).max().unwrap_or(0);
        let requests = f64::from(self.scenario.mandatory) * self.clients.len() as f64;
        let work = SpanMs((requests * longest as f64 / slowest).ceil() as i64);
        let (done, deadline) = self.tally.mandatory_of(user);
        if !self.fair || self.faults.until + SETTLES_WITHIN + work > deadline {
            return;
        }
        self.counts.in_time += 1;
        if done.is_none_or(|done| done > deadline) {
            self.violations.push(format!("user {user} has no mandatory requests completed by the deadline"));
        }
    }
}
