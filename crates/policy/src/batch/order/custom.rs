//! A queue order of the caller of a simulation ([`QueueOrder`]): one call ranks all waiting jobs.

use std::fmt;
use std::sync::Arc;

use pliant_model::{ClusterId, Procs, Time};

use super::{Order, Rank};
use crate::batch::Submission;
use crate::failure::{Failure, PolicyError, checked};

/// A queue order: which waiting job is served first.
pub trait QueueOrder: Send + Sync {
    /// The rank of each of these jobs, of which the lowest is served first. Ties go by submission. The rank of a job must not depend on
    /// the other jobs: the rank of a request that is only estimated is computed alone.
    ///
    /// # Errors
    ///
    /// The order failed.
    fn ranks(&self, view: &QueueView<'_>) -> Result<Vec<f64>, PolicyError>;
}

/// The waiting jobs of a cluster, as a queue order sees them.
#[derive(Clone, Copy, Debug)]
pub struct QueueView<'a> {
    /// The present time.
    pub now: Time,
    /// The cluster.
    pub cluster: ClusterId,
    /// Its processors.
    pub procs: Procs,
    /// The jobs to rank.
    pub jobs: &'a [Submission],
}

/// What the order is called in listings of one cluster.
pub(super) static ORDER: Order = Order::new("custom", "an order of the caller", Rank::Custom);

/// The order of one cluster. Clones share it.
#[derive(Clone)]
pub(crate) struct CustomOrder {
    pub(crate) rule: Arc<dyn QueueOrder>,
    pub(crate) cluster: ClusterId,
    pub(crate) failure: Failure,
}

impl fmt::Debug for CustomOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomOrder").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl CustomOrder {
    /// The ranks of these jobs on a cluster of that many processors; after a failure they are 0.
    pub(in crate::batch) fn ranks(&self, now: Time, procs: Procs, jobs: &[Submission]) -> Vec<f64> {
        let view = QueueView { now, cluster: self.cluster, procs, jobs };
        let ranks = self.failure.decision(|| {
            let ranks = self.rule.ranks(&view)?;
            checked("ranks", now, jobs.iter().map(|job| job.job), ranks)
        });
        ranks.unwrap_or_else(|| vec![0.0; jobs.len()])
    }
}
