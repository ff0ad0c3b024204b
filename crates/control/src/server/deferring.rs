//! Deferred jobs: their owners let them start from an instant on (`--begin`), which has not come. Like held jobs they are in no plan, so
//! that the estimates of others stay true; they do not move, and have no siblings. At that instant they enter the queue, as if they
//! were submitted then. In an external batch system they are held until then.
//!
//! A job is deferred where it was submitted only: another server takes it over once it may start.

use pliant_model::{JobId, Time};

use super::{Command, Server};

impl Server {
    /// True if a job may not start yet.
    pub(super) fn is_deferred(&self, number: u32) -> bool {
        self.jobs.get(&number).is_some_and(|entry| entry.deferred.is_some())
    }

    /// Why a job may not start yet; none if it may.
    pub(super) fn deferral(&self, number: u32) -> Option<String> {
        let begin = self.jobs.get(&number)?.deferred?;
        Some(format!("its owner lets it start from {} on", begin.utc()))
    }

    /// Has jobs enter the queue that may start from now on, unless something else keeps them back.
    pub(super) fn release_deferred(&mut self, now: Time, commands: &mut Vec<Command>) {
        while let Some((begin, number)) = self.deferred.first().copied()
            && begin <= now
        {
            self.forget_deferral(number);
            self.deferred.remove(&(begin, number));
            let Some(entry) = self.jobs.get(&number) else { continue };
            let is_leaving = entry.recalled || self.batch.is_cancelling(JobId(number));
            if is_leaving || entry.held.is_some() || self.keeps_back(&entry.record.owner) {
                continue;
            }
            self.with_batch(now, commands, |batch, effects| batch.release(now, JobId(number), effects));
        }
    }

    /// Forgets until when a job is deferred: it may start, has started or has ended.
    pub(super) fn forget_deferral(&mut self, number: u32) {
        // Jobs are shared with snapshots until they change.
        if !self.is_deferred(number) {
            return;
        }
        if let Some(begin) = self.jobs.get_mut(&number).and_then(|entry| entry.deferred.take()) {
            self.deferred.remove(&(begin, number));
        }
    }
}
