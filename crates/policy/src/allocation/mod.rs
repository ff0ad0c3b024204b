//! Multi-jobs: how many of `k` instances of one program each cluster gets (paper 002).
//!
//! | file | decides |
//! |---|---|
//! | [`levels`] | Algorithm 1: equal jobs on clusters of one processor each, corrected and as printed |
//! | [`earliest`] | the same for clusters of several processors and of different speeds |
//! | [`pending`] | nothing: when processors become free, from expected runtimes of pending jobs |
//! | [`reallocation`] | whether waiting instances are allocated again |
//! | [`sharing`] | how many instances each cluster gets besides its waiting ones, and which waiting ones are withdrawn |
//! | [`instance_batches`] | how many instances are submitted as one job |
//! | [`instances`] | nothing: the expected runtime of an instance |
//! | [`baseline`] | baselines: random, by free processors, by failures, two choices |
//!
//! Simulations and live sweeps call [`allocate`], which also returns the expected makespan. Algorithm 2 of the paper is
//! [`Strategy::Statistics`] on [`pending::state`] with runtimes predicted by [`crate::runtimes`].

pub mod baseline;
pub mod earliest;
pub mod instance_batches;
pub mod instances;
pub mod levels;
pub mod pending;
pub mod reallocation;
pub mod sharing;

use pliant_model::Span;
use rand::Rng;

pub use earliest::Offer;
pub use pending::Free;
pub use reallocation::reallocate_instances;

crate::named_enum! {
    /// The rule by which instances are allocated to clusters.
    Strategy, "strategy of allocation", {
        /// The earliest expected finish, by statistics of runtimes (paper 002, Algorithms 1 and 2).
        Statistics = "statistics",
        /// Each instance to a cluster drawn uniformly.
        Random = "random",
        /// Each instance to the cluster with the most free processors, then to the one with the fewest waiting jobs.
        MostFree = "most-free",
        /// To the clusters with the fewest failed jobs.
        FewestFailures = "fewest-failures",
        /// Each instance to the less loaded of two random clusters.
        TwoChoices = "two-choices",
    }
}

/// The number of instances of each cluster, and the expected makespan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allocation {
    /// By cluster.
    pub instances: Vec<u64>,
    /// Expected makespan: from now to the last end; 0 without instances.
    pub makespan: Span,
}

/// The state of a cluster when a multi-job is allocated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterState {
    /// When its processors become free, and the runtime of an instance, from statistics.
    pub offer: Offer,
    /// Waiting and running jobs.
    pub jobs: u64,
    /// Failed jobs.
    pub failures: u64,
}

/// Allocates `instances` to clusters; none if no cluster has a processor. Clusters without processors get none. O(clusters
/// log clusters) by statistics, free processors and failures, O(instances) for random strategies.
pub fn allocate(
    strategy: Strategy,
    clusters: &[ClusterState],
    instances: u64,
    rng: &mut impl Rng,
) -> Option<Allocation> {
    let able: Vec<usize> = (0..clusters.len()).filter(|at| clusters[*at].offer.processors() > 0).collect();
    if able.is_empty() {
        return None;
    }
    let of_able: Vec<&ClusterState> = able.iter().map(|at| &clusters[*at]).collect();
    let counts = match strategy {
        Strategy::Statistics => {
            let offers: Vec<&Offer> = of_able.iter().map(|cluster| &cluster.offer).collect();
            earliest::allocate(&offers, instances)
        }
        Strategy::Random => baseline::random(of_able.len(), instances, rng),
        Strategy::MostFree => baseline::most_free(&of_able, instances),
        Strategy::FewestFailures => baseline::fewest_failures(&of_able, instances),
        Strategy::TwoChoices => baseline::two_choices(&of_able, instances, rng),
    };
    let mut spread = Allocation { instances: vec![0; clusters.len()], makespan: Span::ZERO };
    for (at, count) in able.into_iter().zip(counts) {
        spread.instances[at] = count;
        spread.makespan = spread.makespan.max(clusters[at].offer.finish(count));
    }
    Some(spread)
}

#[cfg(test)]
mod tests;
