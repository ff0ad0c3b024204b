//! Deadlines: servers refuse a batch that they would complete too late, and its instances wait or never run.
//!
//! The instances of a multi-job with a deadline have one walltime and one size, so a server that refuses one of them alone refuses all. Such a
//! server is *late*: it gets no batch until one of the multi-job's own batches there has ended, perhaps earlier than planned. Once no batch is
//! open, every late server is asked once more. If all refuse again, the instances that are left never run ([`Command::TooLate`]).
//!
//! A batch of several instances may be refused for its length. Then half as many are tried, one batch at a time, until the server accepts.
//! That limit does not grow again: the time that is left becomes shorter.
//!
//! Submissions: one for each ended batch, log2 of the size of a batch for each server, and those that were under way at the first refusal.

use super::{Command, MultiJob};
use crate::names::Name;

impl MultiJob {
    /// True if a server refuses even one instance because of the deadline.
    pub(super) fn is_late(&self, server: &Name) -> bool {
        self.deadline_limits.get(server) == Some(&0)
    }

    /// True if a server may be asked to take one more batch.
    pub(super) fn may_ask(&self, server: &Name) -> bool {
        let is_asked = || self.batches.values().any(|batch| batch.server == *server && !batch.is_accepted);
        !self.is_late(server) && (!self.deadline_limits.contains_key(server) || !is_asked())
    }

    /// A server would complete so many instances after the deadline. Their batch was refused, or given up where it waited.
    pub(super) fn refused_by_deadline(&mut self, server: &Name, count: u32, has_waited: bool) {
        let limit = self.deadline_limits.entry(server.clone()).or_insert(count);
        *limit = (*limit).min(count / 2);
        if has_waited && self.batches.is_empty() {
            self.ask_late_servers(|other| other != server);
        }
    }

    /// A batch of a server has ended: the server may be able to complete an instance in time now.
    pub(super) fn ask_after_end(&mut self, server: &Name, commands: &mut Vec<Command>) {
        let is_last = self.batches.is_empty();
        self.ask_late_servers(|other| is_last || other == server);
        if !self.late_servers.is_empty() {
            self.late_servers.clear();
            commands.push(Command::QueryServers);
        }
    }

    fn ask_late_servers(&mut self, is_asked: impl Fn(&Name) -> bool) {
        let late = self.deadline_limits.iter_mut().filter(|(server, limit)| **limit == 0 && is_asked(server));
        late.for_each(|(_, limit)| *limit = 1);
    }

    /// True if no known server completes a waiting instance by the deadline, and none of the multi-job's own batches can end before.
    pub fn is_too_late(&self) -> bool {
        let is_known = !self.sites.is_empty() || !self.late_servers.is_empty();
        let has_open = !self.batches.is_empty() || self.too_late;
        is_known && !has_open && self.waiting() > 0 && self.sites.keys().all(|server| self.is_late(server))
    }
}
