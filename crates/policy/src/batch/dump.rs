//! The state of a batch scheduler as plain data, for snapshots of live servers. Plans made on demand, bounds and indexes
//! are derived data and not included.

use std::collections::BTreeSet;
use std::sync::Arc;

use pliant_model::{JobId, Procs, Resources, Span, Time};

use super::nodes::Part;
use super::order::Shares;
use super::{Start, Submission, Waiting};

/// A started job whose end was not reported yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RunningJob {
    /// The job.
    pub job: JobId,
    /// Its processors.
    pub procs: Procs,
    /// The end of its walltime; in the past if it is overdue.
    pub end: Time,
}

/// The state of a [`super::BatchScheduler`]. A scheduler restored from it behaves exactly like the original.
///
/// It belongs to one policy. A dump with only running jobs fits every policy: a cluster changes its policy by restoring
/// these and submitting the waiting jobs again.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Dump {
    /// The running jobs, by ID.
    pub running: Vec<RunningJob>,
    /// The jobs with a fixed plan. Under policies with reservations every waiting job, in order of submission; under
    /// event-driven policies the jobs that were started and not yet handed out, in starting order.
    pub planned: Vec<Waiting>,
    /// The jobs without a fixed plan, as submitted, in order of submission.
    pub queued: Vec<Submission>,
    /// The job at the head of the queue with its shape, where a policy chooses the shape once and keeps it.
    pub head: Option<Start>,
    /// The state of a queue order other than that of submission.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub shares: Option<Shares>,
    /// What the running and the planned jobs have of the nodes, where nodes are distinguished.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub on_nodes: Vec<JobOnNodes>,
}

/// What a job has of the nodes of its cluster, or is to have.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct JobOnNodes {
    /// The job.
    pub job: JobId,
    /// Its parts.
    pub on: Vec<Part>,
    /// What it asked for besides processors.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub resources: Option<Arc<Resources>>,
}

/// Why a scheduler cannot be restored from a [`Dump`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RestoreError {
    /// A job appears twice.
    #[error("expected every job once, found job {0} twice")]
    Twice(JobId),
    /// A job has more processors than the cluster, or none.
    #[error("expected 1 to {} processors, found {found} for job {job}", capacity.0)]
    Procs {
        /// The job.
        job: JobId,
        /// Its processors.
        found: Procs,
        /// Processors of the cluster.
        capacity: Procs,
    },
    /// A job has an invalid walltime.
    #[error("expected a walltime of 1 s to {}, found {found} for job {job}", Span::MAX)]
    Walltime {
        /// The job.
        job: JobId,
        /// Its walltime.
        found: Span,
    },
    /// Running and planned jobs exceed the processors of the cluster.
    #[error("expected at most {} processors taken, found {taken} at {at} s", capacity.0)]
    Overbooked {
        /// The first such time.
        at: Time,
        /// The processors taken.
        taken: u64,
        /// Processors of the cluster.
        capacity: Procs,
    },
    /// What a job has of the nodes is not free.
    #[error("expected free nodes for job {0}, found what it has there taken by other jobs")]
    NodesTaken(JobId),
    /// A job is in a state that the policy never produces.
    #[error(
        "expected {expected}, found job {job} otherwise; restore only the running jobs and submit the others \
         again if the policy was changed"
    )]
    OtherPolicy {
        /// The job.
        job: JobId,
        /// The state expected by the policy.
        expected: &'static str,
    },
}

impl Dump {
    /// The same dump with other job IDs.
    #[must_use]
    pub fn renumbered(mut self, mut number: impl FnMut(JobId) -> JobId) -> Dump {
        let Dump { running, planned, queued, head, shares, on_nodes } = &mut self;
        let jobs = running.iter_mut().map(|one| &mut one.job);
        let of_shares = shares.iter_mut().flat_map(|Shares { running, by_operators, .. }| {
            let priorities = by_operators.iter_mut().map(|one| &mut one.job);
            running.iter_mut().map(|one| &mut one.job).chain(priorities)
        });
        let jobs = jobs.chain(of_shares);
        let jobs = jobs.chain(on_nodes.iter_mut().map(|one| &mut one.job));
        let jobs = jobs.chain(planned.iter_mut().map(|one| &mut one.job));
        // The head is in the queue as well, or a job that appears nowhere else.
        for job in jobs
            .chain(queued.iter_mut().map(|one| &mut one.job))
            .chain(head.iter_mut().map(|one| &mut one.job))
        {
            *job = number(*job);
        }
        self
    }

    /// Checks the invariants of every policy. O(jobs log jobs).
    pub(crate) fn check(&self, now: Time, capacity: Procs) -> Result<(), RestoreError> {
        let planned = || self.planned.iter().map(|Waiting { job, plan }| (*job, plan.procs, plan.walltime));
        let queued = self.queued.iter().map(|one| (one.job, one.procs, one.walltime));
        let head = self.head.iter().map(|one| (one.job, one.procs, one.walltime));
        for (job, _, found) in planned().chain(queued.clone()).chain(head.clone()) {
            if !(Span(1)..=Span::MAX).contains(&found) {
                return Err(RestoreError::Walltime { job, found });
            }
        }
        let running = self.running.iter().map(|one| (one.job, one.procs));
        let sizes = planned().chain(queued).map(|(job, procs, _)| (job, procs)).chain(running);
        for (job, found) in sizes.clone().chain(head.map(|(job, procs, _)| (job, procs))) {
            if !(Procs::ONE..=capacity).contains(&found) {
                return Err(RestoreError::Procs { job, found, capacity });
            }
        }
        let mut seen = BTreeSet::new();
        if let Some((job, _)) = sizes.into_iter().find(|(job, _)| !seen.insert(*job)) {
            return Err(RestoreError::Twice(job));
        }
        self.check_reservations(now, capacity)
    }

    /// Checks that at no time more processors are taken than exist.
    fn check_reservations(&self, now: Time, capacity: Procs) -> Result<(), RestoreError> {
        let running = self.running.iter().map(|one| (now, one.end, one.procs));
        let planned = self.planned.iter().map(|one| (one.plan.start, one.plan.completion(), one.plan.procs));
        let mut changes: Vec<(Time, i64)> = Vec::new();
        for (from, until, procs) in running.chain(planned).filter(|(_, until, _)| *until > now) {
            changes.push((from.max(now), i64::from(procs.0)));
            changes.push((until, -i64::from(procs.0)));
        }
        // At equal times releases come before starts.
        changes.sort_unstable();
        let mut taken = 0;
        for (at, change) in changes {
            taken += change;
            if taken > i64::from(capacity.0) {
                return Err(RestoreError::Overbooked { at, taken: taken as u64, capacity });
            }
        }
        Ok(())
    }
}
