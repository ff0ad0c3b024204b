//! Jobs that may not start yet, and jobs that cannot keep their deadlines any more.
//!
//! A *deferred* job is one that its owner lets start from an instant on (`--begin`), which has not come. Like held jobs it is in no plan, so
//! that the estimates of others stay true; it does not move, and has no siblings. At that instant it enters the queue, as if it were
//! submitted then. In an external batch system it is held until then. A job is deferred where it was submitted only: another server
//! takes it over once it may start.
//!
//! A job with a *deadline* (`--deadline`) is accepted, and taken over, only by a server that is expected to complete it by then. It is given
//! up where it waits once it could not end before its deadline, by its walltime there, if it were started.

use pliant_model::{Estimate, JobId, Request, Span, Speed, Time};
use pliant_policy::completion::is_late;
use pliant_policy::tuning::Tuner;

use super::source::Phase;
use super::{AdmissionRefusal, Command, Server, ServerJob};
use crate::batch::external;
use crate::handoff::StayReason;
use crate::job::{Exit, JobState, Work};
use crate::names::{Name, User};
use crate::reason::Cause;

impl ServerJob {
    /// The first instant at which it is too late to start; none without a deadline, or if that was noticed.
    fn too_late(&self) -> Option<Time> {
        if self.is_too_late {
            return None;
        }
        Some(self.record.latest_start()? + Span(1))
    }

    /// The instants at which something changes for it while it waits: it may start, or is too late.
    fn instants(&self) -> impl Iterator<Item = (Time, u32)> {
        self.deferred.into_iter().chain(self.too_late()).map(|at| (at, self.number))
    }
}

impl Server {
    /// True if a job may not start yet.
    pub(super) fn is_deferred(&self, number: u32) -> bool {
        self.jobs.get(&number).is_some_and(|entry| entry.deferred.is_some())
    }

    /// Why a job may not start yet; none if it may.
    pub(super) fn deferral(&self, number: u32) -> Option<String> {
        let begin = self.jobs.get(&number)?.deferred?;
        Some(format!("it does not start before {} (--begin)", begin.utc()))
    }

    /// The estimate for work if it came now: not before it may start, and not after its deadline. A size that completes first is tried
    /// if the one that the tuner prefers is too late.
    pub(super) fn estimate_work(
        &mut self,
        now: Time,
        user: &User,
        work: &Work,
        (request, speed): (&Request, Speed),
    ) -> Result<Estimate, AdmissionRefusal> {
        if work.nice > 0 && self.config.policy == external::OAR {
            let why = "expected no --nice, since OAR has no order among the jobs of a user";
            return Err(AdmissionRefusal::Other(Cause::Invalid.because(why)));
        }
        let estimate = self.estimate_at(now, user, request, speed)?;
        let estimate = within(work, self.after_own(now, user, work.nice, estimate));
        match estimate {
            Err(_) if !self.config.tuner.is_greedy() => {
                let estimate = self.estimate_with(Tuner::Exact, now, Some(user), request, speed)?;
                within(work, self.after_own(now, user, work.nice, estimate))
            }
            estimate => estimate,
        }
    }

    /// Watches for the instants of a job that waits here, and for other jobs of its owner.
    pub(super) fn watch(&mut self, number: u32) {
        if let Some(entry) = self.jobs.get(&number) {
            self.instants.extend(entry.instants());
            let is_own_order = entry.record.work.nice > 0 && !self.is_external();
            self.nice.extend(is_own_order.then_some(number));
        }
    }

    /// Forgets the instants of a job: it has started, has ended, or is not here any more.
    pub(super) fn forget_instants(&mut self, number: u32) {
        let Some(entry) = self.jobs.get(&number) else { return };
        for instant in entry.instants() {
            self.instants.remove(&instant);
        }
        // Jobs are shared with snapshots until they change.
        if entry.deferred.is_some()
            && let Some(entry) = self.jobs.get_mut(&number)
        {
            entry.deferred = None;
        }
    }

    /// The instants of the jobs in memory that wait here.
    pub(super) fn instants_of<'a>(
        server: &'a Name,
        jobs: impl Iterator<Item = &'a ServerJob>,
    ) -> impl Iterator<Item = (Time, u32)> {
        let waits = move |entry: &&ServerJob| {
            entry.record.state == JobState::Queued && entry.record.server() == server
        };
        jobs.filter(waits).flat_map(ServerJob::instants)
    }

    /// Has jobs enter the queue that may start from now on, and gives up those that are too late.
    pub(super) fn pass_instants(&mut self, now: Time, commands: &mut Vec<Command>) {
        while self.instants.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, number)) = self.instants.pop_first()
        {
            if self.is_too_late(now, number) {
                self.give_up(now, number, commands);
            } else {
                self.enter_queue(now, number, commands);
            }
        }
    }

    /// True if a job could not end before its deadline any more if it were started.
    pub(super) fn is_too_late(&self, now: Time, number: u32) -> bool {
        self.jobs.get(&number).and_then(ServerJob::too_late).is_some_and(|at| at <= now)
    }

    /// Lets a deferred job start, unless something else keeps it back.
    fn enter_queue(&mut self, now: Time, number: u32, commands: &mut Vec<Command>) {
        let is_due = |entry: &&mut ServerJob| entry.deferred.is_some_and(|begin| begin <= now);
        let Some(entry) = self.jobs.get_mut(&number).filter(is_due) else { return };
        entry.deferred = None;
        let is_kept = entry.recalled || entry.held.is_some() || entry.is_behind_own;
        let owner = entry.record.owner.clone();
        if is_kept || self.batch.is_cancelling(JobId(number)) || self.keeps_back(&owner) {
            return;
        }
        self.with_batch(now, commands, |batch, effects| batch.release(now, JobId(number), effects));
    }

    /// Withdraws a job that cannot keep its deadline any more.
    pub(super) fn give_up(&mut self, now: Time, number: u32, commands: &mut Vec<Command>) {
        let Some(entry) = self.jobs.get(&number) else { return };
        let waits = entry.record.state == JobState::Queued && entry.started_before.is_none();
        let is_leaving = entry.recalled || self.batch.is_cancelling(JobId(number));
        match self.outgoing.get(&number).map(|outgoing| outgoing.phase) {
            _ if !waits || is_leaving => return,
            Some(Phase::Preparing) => {
                if let Some(outgoing) = self.outgoing.remove(&number) {
                    outgoing.abort(StayReason::NotWaiting, commands);
                }
            }
            // It goes to the target, which gives it up itself, or is queued here again.
            Some(_) => return self.mark_too_late(number),
            None => {}
        }
        self.abort_siblings(number, commands);
        self.mark_too_late(number);
        if let Some(entry) = self.jobs.get_mut(&number) {
            entry.recalled = true;
        }
        self.with_batch(now, commands, |batch, effects| batch.withdraw(now, JobId(number), effects));
    }

    fn mark_too_late(&mut self, number: u32) {
        self.forget_instants(number);
        if let Some(entry) = self.jobs.get_mut(&number) {
            entry.is_too_late = true;
        }
    }

    /// Ends a job that cannot keep its deadline any more, and that is not in the batch system.
    pub(super) fn end_too_late(&mut self, now: Time, number: u32, commands: &mut Vec<Command>) {
        self.mark_too_late(number);
        self.end(now, JobId(number), self.exit_of_withdrawn(JobId(number)), None, commands);
    }

    /// How a job ends that was withdrawn here, and not for another server.
    pub(super) fn exit_of_withdrawn(&self, job: JobId) -> Exit {
        let entry = self.jobs.get(&job.0).filter(|entry| entry.is_too_late);
        entry.and_then(|entry| entry.record.work.deadline).map_or(Exit::Cancelled, |deadline| {
            Exit::NotStarted(format!("its deadline could not be kept: {}", deadline.utc()))
        })
    }
}

/// The estimate for work within its bounds; an error if it would complete after its deadline.
pub(super) fn within(work: &Work, estimate: Estimate) -> Result<Estimate, AdmissionRefusal> {
    let estimate = work.not_before_begin(estimate);
    match work.deadline.filter(|deadline| is_late(&estimate, *deadline)) {
        Some(deadline) => {
            let (completion, deadline) = (estimate.completion().utc(), deadline.utc());
            let why = format!("would complete at {completion}, after its deadline {deadline}");
            Err(AdmissionRefusal::Other(Cause::Deadline.because(why)))
        }
        None => Ok(estimate),
    }
}
