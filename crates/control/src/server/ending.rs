//! The ends of jobs, and how long ended jobs stay in memory.

use pliant_model::{JobId, Span, Time};

use super::{Command, Server, ServerJob, report};
use crate::job::{Exit, JobRecord, JobState};
use crate::payload::Payload;

/// How long an ended job stays in memory: longer than the archive needs to show it.
pub(super) const KEPT_AFTER_END: Span = Span(60);
/// How long the key of an ended job stays in memory: longer than a client retries.
const KEY_KEPT_AFTER_END: Span = Span(3600);
/// The number of most recent keys that stay longer: a clock that jumps does not make the server accept a retry twice.
const KEYS_KEPT: usize = 1_000;

impl Server {
    /// The time since the submission of a job, in milliseconds and a second more: it has not run longer, whatever its account has
    /// recorded.
    pub(super) fn longest_ms(&self, now: Time, job: JobId) -> u64 {
        let submitted = self.jobs.get(&job.0).map_or(now, |entry| entry.record.submitted);
        let seconds = (now - submitted).seconds().max(0).unsigned_abs();
        seconds.saturating_add(1).saturating_mul(1_000)
    }

    pub(super) fn end(
        &mut self,
        now: Time,
        job: JobId,
        exit: Exit,
        elapsed_ms: Option<u64>,
        commands: &mut Vec<Command>,
    ) {
        self.forget_instants(job.0);
        let Some(entry) = self.jobs.get_mut(&job.0) else { return };
        self.waiting.remove_job(entry);
        entry.record.state = exit.state();
        self.failures += u64::from(entry.record.state == JobState::Failed);
        // The end may have been seen late.
        let ran = elapsed_ms.map(|elapsed| Span(elapsed.div_ceil(1000).try_into().unwrap_or(i64::MAX / 4)));
        let ended = entry.record.started.zip(ran).map_or(now, |(started, ran)| started + ran);
        entry.record.ended = Some(ended.min(now));
        entry.record.exit = Some(exit);
        if entry.record.started.is_none() && entry.payload != Payload::default() {
            let (record, payload) = (Box::new(entry.record.clone()), entry.payload.clone());
            commands.push(Command::KeepSubmitted { record, payload });
        }
        if self.batch.configuration().is_some() {
            // The driver of an external batch system still asks as which account an ended job was submitted.
            entry.payload = Payload::default();
        }
        report(&entry.record, commands);
        commands.push(Command::Archive(Box::new(entry.record.clone())));
        self.ended.push_back((now, job.0));
        self.ended_keys.push_back((now, entry.record.key));
    }

    /// Drops jobs and keys whose retention has passed.
    pub(super) fn forget(&mut self, now: Time) {
        while let Some((at, number)) = self.ended.front().copied()
            && at + KEPT_AFTER_END <= now
        {
            self.ended.pop_front();
            let Some(ServerJob { record: JobRecord { handle, key, .. }, .. }) = self.jobs.remove(&number)
            else {
                continue;
            };
            if self.numbers.get(&handle) == Some(&number) {
                self.numbers.remove(&handle);
                // From now on the key leads to the handle only.
                if handle.server == self.config.name {
                    self.keys.insert(key, handle.number);
                } else {
                    self.keys.remove(&key);
                }
            }
        }
        while let Some((at, key)) = self.ended_keys.front().copied()
            && at + KEY_KEPT_AFTER_END <= now
            && self.ended_keys.len() > KEYS_KEPT
        {
            self.ended_keys.pop_front();
            // A job that was handed over may have come back.
            if !self.keys.get(&key).is_some_and(|number| self.jobs.contains_key(number)) {
                self.keys.remove(&key);
            }
        }
    }
}
