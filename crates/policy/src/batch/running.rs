//! The running jobs of a cluster.

use pliant_model::{JobId, Procs, Time};
use rustc_hash::FxHashMap;

use super::RunningJob;

/// The processors of a running job and the end of its walltime.
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

    /// Sets the expected end of a running job; returns its former shape, none if it was not running.
    pub(super) fn extend(&mut self, job: JobId, end: Time) -> Option<RunningShape> {
        let held = self.jobs.get_mut(&job)?;
        Some(std::mem::replace(held, RunningShape { end, ..*held }))
    }

    /// Number of running jobs.
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The running jobs in undefined order: only for sums.
    pub(super) fn held(&self) -> impl Iterator<Item = RunningShape> + '_ {
        self.jobs.values().copied()
    }

    /// The running jobs, by ID.
    pub(super) fn by_number(&self) -> Vec<RunningJob> {
        let job =
            |(job, held): (&JobId, &RunningShape)| RunningJob { job: *job, procs: held.procs, end: held.end };
        let mut jobs: Vec<RunningJob> = self.jobs.iter().map(job).collect();
        jobs.sort_unstable_by_key(|one| one.job);
        jobs
    }
}
