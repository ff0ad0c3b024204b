//! A batch policy of the caller of a simulation ([`BatchPolicy`]): its starts are checked here, one after the other.
//!
//! Estimates and plans are those of conservative backfilling over the present queue, as under EASY; they are not promises. A decision
//! costs one call of the policy, and none while no waiting job fits.

use std::sync::Arc;

use pliant_model::{ClusterId, JobId, Procs, Time};

use super::event_driven::{EventDriven, EventDrivenCluster, Rule};
use super::{BatchScheduler, Submission};
use crate::failure::{Failure, PolicyError};

/// A batch policy: which waiting jobs start.
pub trait BatchPolicy: Send + Sync {
    /// A job has been queued on a cluster.
    ///
    /// # Errors
    ///
    /// The policy failed.
    fn submitted(&self, now: Time, cluster: ClusterId, job: &Submission) -> Result<(), PolicyError>;

    /// A running job has ended.
    ///
    /// # Errors
    ///
    /// The policy failed.
    fn ended(&self, now: Time, cluster: ClusterId, job: JobId) -> Result<(), PolicyError>;

    /// The jobs that start now, in starting order. Called after each submission, end and cancellation if a waiting job fits on the free
    /// processors. A job that still waits when no job runs or arrives any more is an error of the policy
    /// ([`PolicyError::NeverStarted`]).
    ///
    /// # Errors
    ///
    /// The policy failed.
    fn schedule(&self, view: &BatchView<'_>) -> Result<Vec<JobId>, PolicyError>;
}

/// A cluster at a decision, as a custom batch policy sees it.
#[derive(Clone, Copy, Debug)]
pub struct BatchView<'a> {
    now: Time,
    id: ClusterId,
    cluster: &'a EventDrivenCluster,
}

impl BatchView<'_> {
    /// The present time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        self.id
    }

    /// Its processors.
    pub fn procs(&self) -> Procs {
        self.cluster.processors.capacity()
    }

    /// Its free processors. A job whose walltime ends now counts as ended.
    pub fn free(&self) -> Procs {
        self.cluster.processors.free(self.now)
    }

    /// The waiting jobs in order of submission; a job that was moved here comes after those that waited here before.
    pub fn queue(&self) -> impl Iterator<Item = Submission> + '_ {
        self.cluster.queue.iter()
    }

    /// The expected releases by the walltimes of running jobs, in order of time, as (time, processors). Those that [`BatchView::free`]
    /// counts are left out; that of an overdue job is now.
    pub fn releases(&self) -> impl Iterator<Item = (Time, Procs)> + '_ {
        let later = self.cluster.processors.releases().filter(|(end, _)| *end != self.now);
        later.map(|(end, procs)| (end.max(self.now), procs))
    }
}

/// The policy of one cluster. Clones share it.
#[derive(Clone)]
struct Custom {
    id: ClusterId,
    policy: Arc<dyn BatchPolicy>,
    failure: Failure,
}

/// An empty cluster of that many processors under a custom policy.
pub(crate) fn custom(
    procs: Procs,
    id: ClusterId,
    policy: Arc<dyn BatchPolicy>,
    failure: Failure,
) -> Box<dyn BatchScheduler> {
    EventDriven::boxed(procs, Custom { id, policy, failure })
}

impl Rule for Custom {
    const IN_ORDER: bool = false;

    fn submitted(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        if let Some((_, job)) = cluster.queue.last() {
            self.failure.decision(|| self.policy.submitted(now, self.id, &job));
        }
        self.freed(now, cluster);
    }

    fn freed(&mut self, now: Time, cluster: &mut EventDrivenCluster) {
        let free = cluster.processors.free(now);
        if cluster.queue.next_where(0, |procs, _| procs <= free).is_none() {
            return;
        }
        let view = BatchView { now, id: self.id, cluster };
        let Some(starts) = self.failure.decision(|| self.policy.schedule(&view)) else { return };
        for job in starts {
            if self.failure.decision(|| start(now, job, cluster)).is_none() {
                return;
            }
        }
    }

    fn ended(&mut self, now: Time, job: JobId) {
        self.failure.decision(|| self.policy.ended(now, self.id, job));
    }
}

/// Starts a waiting job if it fits.
fn start(now: Time, job: JobId, cluster: &mut EventDrivenCluster) -> Result<(), PolicyError> {
    let slot = cluster.queue.slot(job).ok_or(PolicyError::NotWaiting { now, job })?;
    let waiting = cluster.queue.next_where(slot, |_, _| true).filter(|(found, _)| *found == slot);
    let (_, Submission { procs, walltime, .. }) = waiting.ok_or(PolicyError::NotWaiting { now, job })?;
    let free = cluster.processors.free(now);
    if procs > free {
        return Err(PolicyError::Overbooked { now, job, procs, free });
    }
    cluster.start(now, slot, procs, walltime);
    Ok(())
}
