//! A batch system whose moldable requests get the size that a custom rule chooses. Everything else is the batch system's.
//!
//! Costs one estimate for each size of a request.

use std::sync::Arc;

use pliant_model::{Estimate, JobId, Procs, Time, Walltimes};

use super::nodes::Part;
use super::order::PriorityParts;
use super::{BatchScheduler, Dump, PlanBounds, RestoreError, Start, Submission, Waiting};
use crate::failure::{Failure, PolicyError, position};
use crate::profile::StartBounds;
use crate::tuning::Tuner;

/// A sizing rule: how many processors a moldable request gets on a cluster.
pub trait SizingRule: Send + Sync {
    /// The position of the chosen size. `sizes` are all that the request can have, from the smallest on, each with its estimate; there
    /// are at least two. `waiting` is the number of waiting jobs.
    ///
    /// # Errors
    ///
    /// The rule failed.
    fn choose(&self, now: Time, sizes: &[Estimate], waiting: usize) -> Result<usize, PolicyError>;
}

/// The batch system with the rule.
struct Sized {
    rule: Arc<dyn SizingRule>,
    batch_system: Box<dyn BatchScheduler>,
    failure: Failure,
}

/// A batch system under that rule.
pub(crate) fn sized(
    rule: Arc<dyn SizingRule>,
    batch_system: Box<dyn BatchScheduler>,
    failure: Failure,
) -> Box<dyn BatchScheduler> {
    Box::new(Sized { rule, batch_system, failure })
}

impl BatchScheduler for Sized {
    fn estimate(&mut self, now: Time, walltimes: &Walltimes<'_>, tuner: Tuner) -> Option<Estimate> {
        let batch_system = &mut self.batch_system;
        let estimate = |procs| batch_system.estimate(now, &walltimes.between(procs, procs), tuner);
        let sizes = (walltimes.least().0..=walltimes.most().0).map(pliant_model::Procs);
        let sizes: Vec<Estimate> = sizes.filter_map(estimate).collect();
        if sizes.len() < 2 {
            return sizes.first().copied();
        }
        let waiting = self.batch_system.queue_length();
        let chosen = self.failure.decision(|| {
            let found = self.rule.choose(now, &sizes, waiting)?;
            position("the position of a size", now, sizes.len(), found)
        });
        sizes.get(chosen?).copied()
    }

    fn submit(&mut self, now: Time, submission: Submission) {
        self.batch_system.submit(now, submission);
    }

    fn cancel(&mut self, now: Time, jobs: &[JobId]) -> usize {
        self.batch_system.cancel(now, jobs)
    }

    fn counts_resources(&self) -> bool {
        self.batch_system.counts_resources()
    }

    fn finish(&mut self, now: Time, job: JobId) {
        self.batch_system.finish(now, job);
    }

    fn extend_running(&mut self, now: Time, jobs: &[(JobId, Time)]) {
        self.batch_system.extend_running(now, jobs);
    }

    fn start_due(&mut self, now: Time, started: &mut Vec<Start>) {
        self.batch_system.start_due(now, started);
    }

    fn next_start(&self) -> Option<Time> {
        self.batch_system.next_start()
    }

    fn start_bounds(&self) -> Option<&StartBounds> {
        self.batch_system.start_bounds()
    }

    fn releases(&self) -> Option<u64> {
        self.batch_system.releases()
    }

    fn free_steps(&mut self, now: Time, count: usize, steps: &mut Vec<(Time, Procs)>) -> bool {
        self.batch_system.free_steps(now, count, steps)
    }

    fn plan_bounds(&mut self, now: Time) -> Option<PlanBounds> {
        let plan = self.batch_system.plan_bounds(now)?;
        Some(PlanBounds { jobs: None, ..plan })
    }

    fn list(&mut self, now: Time, waiting: &mut Vec<Waiting>) {
        self.batch_system.list(now, waiting);
    }

    fn plan(&mut self, now: Time, job: JobId) -> Option<Estimate> {
        self.batch_system.plan(now, job)
    }

    fn priority(&mut self, now: Time, job: JobId) -> Option<PriorityParts> {
        self.batch_system.priority(now, job)
    }

    fn allocation(&self, job: JobId) -> Option<&[Part]> {
        self.batch_system.allocation(job)
    }

    fn queue_length(&self) -> usize {
        self.batch_system.queue_length()
    }

    fn dump(&self) -> Dump {
        self.batch_system.dump()
    }

    fn restore(&mut self, now: Time, dump: &Dump) -> Result<(), RestoreError> {
        self.batch_system.restore(now, dump)
    }

    fn boxed_clone(&self) -> Box<dyn BatchScheduler> {
        sized(Arc::clone(&self.rule), self.batch_system.boxed_clone(), self.failure.clone())
    }
}
