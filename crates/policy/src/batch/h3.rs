//! H3, H1 with backfilling (paper 001, "Heuristic H3"): on arrival every job is folded by H1 against
//! a table of reservations and gets the earliest one that delays no other job. A release compresses the table: each waiting
//! job, in order of submission and in its shape, takes the earliest reservation.
//!
//! As in the paper's backfilling only a release starts jobs that others wait in front of: the reservation of a job that
//! arrives while others wait begins at the next expected release or later. A cancellation counts as a release. The table
//! is that of conservative backfilling, at the same cost.

use pliant_model::{Estimate, JobId, Procs, Span, Time, Walltimes};

use super::cbf::ConservativeBackfilling;
use super::folding::{choose_size, folded};
use super::{BatchScheduler, Dump, RestoreError, Start, Submission, Waiting, h1};
use crate::tuning::Tuner;

#[derive(Clone, Debug)]
struct FoldedTable {
    table: ConservativeBackfilling,
}

pub(super) fn new(procs: Procs, now: Time) -> Box<dyn BatchScheduler> {
    Box::new(FoldedTable { table: ConservativeBackfilling::new(procs, now) })
}

impl FoldedTable {
    /// A lower bound on the start of a job that arrives now.
    fn first_place(&self, now: Time) -> Time {
        if self.table.queue_length() == 0 { now } else { self.table.next_release(now) }
    }

    /// The reservation of a job that arrives now.
    fn estimate_at(&self, from: Time, procs: Procs, walltime: Span) -> Option<Estimate> {
        let profile = self.table.profile();
        profile.earliest_fit(from, procs, walltime)?;
        let fit = |procs, walltime| profile.earliest_fit(from, procs, walltime).unwrap_or(Time::MAX);
        let chosen = h1::literal(from, &fit, procs, walltime);
        let walltime = folded(procs, walltime, chosen);
        Some(Estimate { procs: chosen, walltime, start: fit(chosen, walltime) })
    }
}

impl BatchScheduler for FoldedTable {
    fn submit(&mut self, now: Time, submission: Submission) {
        self.table.advance(now);
        let from = self.first_place(now);
        let estimate = self.estimate_at(from, submission.procs, submission.walltime);
        let estimate = estimate.expect("a submission asks for at most the cluster's processors");
        self.table.submit_at(now, submission.job, estimate, from);
    }

    fn cancel(&mut self, now: Time, jobs: &[JobId]) -> usize {
        self.table.cancel(now, jobs)
    }

    fn finish(&mut self, now: Time, job: JobId) {
        self.table.finish(now, job);
    }

    fn extend_running(&mut self, now: Time, jobs: &[(JobId, Time)]) {
        self.table.extend_running(now, jobs);
    }

    fn start_due(&mut self, now: Time, started: &mut Vec<Start>) {
        self.table.start_due(now, started);
    }

    fn next_start(&self) -> Option<Time> {
        self.table.next_start()
    }

    fn estimate(&mut self, now: Time, walltimes: &Walltimes<'_>, tuner: Tuner) -> Option<Estimate> {
        self.table.advance(now);
        let from = self.first_place(now);
        let capacity = self.table.profile().capacity();
        let estimate = |procs, walltime| self.estimate_at(from, procs, walltime);
        self.table.with_present(now, |present| choose_size(tuner, capacity, walltimes, present, estimate))
    }

    fn list(&mut self, now: Time, waiting: &mut Vec<Waiting>) {
        self.table.list(now, waiting);
    }

    fn plan(&mut self, now: Time, job: JobId) -> Option<Estimate> {
        self.table.plan(now, job)
    }

    fn queue_length(&self) -> usize {
        self.table.queue_length()
    }

    fn dump(&self) -> Dump {
        self.table.dump()
    }

    fn restore(&mut self, now: Time, dump: &Dump) -> Result<(), RestoreError> {
        self.table.restore(now, dump)
    }

    fn boxed_clone(&self) -> Box<dyn BatchScheduler> {
        Box::new(self.clone())
    }
}
