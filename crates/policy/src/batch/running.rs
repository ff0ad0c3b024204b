//! The jobs that run on a cluster.

use pliant_model::{JobId, Procs, Time};
use rustc_hash::FxHashMap;

use super::RunningJob;

/// A running job holds `procs` processors until `end` at the latest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RunningShape {
    pub(super) procs: Procs,
    pub(super) end: Time,
}

/// The running jobs of a cluster.
#[derive(Clone, Default, Debug)]
pub(super) struct Running {
    jobs: FxHashMap<JobId, RunningShape>,
}

impl Running {
    pub(super) fn start(&mut self, job: JobId, procs: Procs, end: Time) {
        let before = self.jobs.insert(job, RunningShape { procs, end });
        debug_assert!(before.is_none(), "job {job} started twice");
    }

    /// Removes an ended job; none if it was not running.
    pub(super) fn finish(&mut self, job: JobId) -> Option<RunningShape> {
        self.jobs.remove(&job)
    }

    /// A running job is expected to hold its processors until `end`; returns what it held until now, none if it was not
    /// running.
    pub(super) fn extend(&mut self, job: JobId, end: Time) -> Option<RunningShape> {
        let held = self.jobs.get_mut(&job)?;
        Some(std::mem::replace(held, RunningShape { end, ..*held }))
    }

    /// How many jobs run.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The running jobs, in no particular order: only for sums.
    pub(super) fn held(&self) -> impl Iterator<Item = RunningShape> + '_ {
        self.jobs.values().copied()
    }

    /// The running jobs, by number.
    pub(super) fn by_number(&self) -> Vec<RunningJob> {
        let job =
            |(job, held): (&JobId, &RunningShape)| RunningJob { job: *job, procs: held.procs, end: held.end };
        let mut jobs: Vec<RunningJob> = self.jobs.iter().map(job).collect();
        jobs.sort_unstable_by_key(|one| one.job);
        jobs
    }
}
