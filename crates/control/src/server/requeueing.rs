//! Jobs that run again after a node failed under them (`--requeue`).
//!
//! The job is queued again under a new number, in the shape in which it was accepted. So to the batch system and the driver each run is a
//! job of its own: what is still reported or left of an earlier run is never taken for the present one, and the claim in a folder lets no
//! run start twice. The decision is a part of the event that reports the loss, so it is journaled with it.
//!
//! A job that was to be ended, or that could not keep its deadline any more, does not run again. One that was queued again moves like any
//! other waiting job: nothing of its earlier runs is at this server that it would need.

use pliant_model::{JobId, Speed, Time};

use super::{Command, Server, ServerJob, audit, report};
use crate::audit::{Actor, AuditAct};
use crate::job::{Exit, JobState};

impl Server {
    /// A node failed under a job: queues the job again if it may run again, and ends it otherwise.
    pub(super) fn node_failed(&mut self, now: Time, job: JobId, exit: Exit, commands: &mut Vec<Command>) {
        self.keep_job(job.0, commands);
        self.preparation_ended(now, job.0, &exit, commands);
        let Some(entry) = self.jobs.get(&job.0) else { return };
        // The last number is never given.
        if !entry.may_run_again() || self.next == u32::MAX {
            return self.end(now, job, exit, None, commands);
        }
        if entry.is_too_late || self.is_too_late(now, job.0) {
            return self.end_too_late(now, job.0, commands);
        }
        self.requeue(now, job.0, &exit, commands);
    }

    fn requeue(&mut self, now: Time, number: u32, exit: &Exit, commands: &mut Vec<Command>) {
        let Some(ServerJob { record, .. }) = self.jobs.get(&number) else { return };
        let (requeues, most) = (record.requeues + 1, record.work.requeue);
        let why = format!("a node failed, queued again for time {requeues} of at most {most}: {exit}");
        let by = Actor::Server(self.config.name.clone());
        audit(now, by, AuditAct::Requeue, Some(&record.handle), why, commands);
        let Some(number) = self.queue_run(now, number, requeues, commands) else { return };
        // What was promised is past.
        let plan = self.batch.plan(now, JobId(number));
        let Some(entry) = self.jobs.get_mut(&number) else { return };
        entry.record.expected.start = plan.map_or(now, |plan| plan.start);
        report(&entry.record, commands);
    }

    /// Queues a job for its run after so many others, under a number that is returned; none if the job is not known.
    fn queue_run(
        &mut self,
        now: Time,
        number: u32,
        requeues: u32,
        commands: &mut Vec<Command>,
    ) -> Option<u32> {
        self.waiting.remove_job(self.jobs.get(&number)?);
        let number = self.renumber(number)?;
        let entry = self.jobs.get_mut(&number)?;
        entry.forget_run(self.config.speed);
        entry.record.requeues = requeues;
        self.waiting.add_job(entry);
        let (submission, is_held) = (entry.submission(self.config.speed), entry.held.is_some());
        let (work, owner) = (entry.record.work.clone(), entry.record.owner.clone());
        let speed = entry.speed_on(self.config.speed);
        self.watch(number);
        let is_kept = is_held || self.keeps_back(&owner);
        self.with_sizes(now, &work, speed, commands, |batch, sizes, effects| match sizes {
            Some(sizes) if is_kept => batch.hold_moldable(now, submission, sizes, effects),
            None if is_kept => batch.hold(now, submission, effects),
            Some(sizes) => batch.submit_moldable(now, submission, sizes, effects),
            None => batch.submit(now, submission, effects),
        });
        Some(number)
    }

    /// Queues a job for the run which an agent knows, if a journal that was put back knows only earlier ones: these are over. Returns the
    /// number of the job; none if it is not known.
    pub(super) fn catch_up(
        &mut self,
        now: Time,
        number: u32,
        requeues: u32,
        commands: &mut Vec<Command>,
    ) -> Option<u32> {
        let record = &self.jobs.get(&number)?.record;
        if record.requeues >= requeues {
            return Some(number);
        }
        self.leave_batch(now, JobId(number), record.state == JobState::Active);
        self.queue_run(now, number, requeues, commands)
    }
}

impl ServerJob {
    /// True if it runs again when a node fails under it.
    fn may_run_again(&self) -> bool {
        // One that is withdrawn for its deadline is too late in any case.
        let is_to_end = self.cancelling || (self.recalled && !self.is_too_late);
        !is_to_end && !self.record.state.is_final() && self.record.requeues < self.record.work.requeue
    }

    /// Makes it a job that waits, in the shape in which it was accepted: drops what is known of a run that was lost.
    fn forget_run(&mut self, speed: Speed) {
        (self.run, self.longest, self.started_before) = (None, None, None);
        // What was to end the run has come too late, and whether the next one is too late is looked at anew.
        (self.cancelling, self.recalled, self.is_too_late, self.is_behind_own) = (false, false, false, false);
        let sized_for = self.speed_on(speed);
        let record = &mut self.record;
        (record.state, record.started) = (JobState::Queued, None);
        record.shape(record.expected.procs, record.expected.walltime, sized_for);
    }
}
