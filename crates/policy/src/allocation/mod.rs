//! Multi-jobs: how many of `k` instances of one program each cluster gets (paper 002; spec A.2).
//!
//! | file | decides |
//! |---|---|
//! | [`levels`] | Algorithm 1: equal jobs on clusters of one processor each, corrected and as printed |
//! | [`earliest`] | the same for clusters of several processors and of different speeds |
//! | [`pending`] | nothing: when processors come free, judging by the expected runtimes of what is pending |
//! | [`reallocation`] | whether instances that wait already are better spread anew |
//! | [`sharing`] | what each cluster gets beside those that wait there, and which of these come back |
//! | [`instance_batches`] | how many instances go out as one job |
//! | [`instances`] | how long an instance is expected to take, also one that has outlived that |
//! | [`baseline`] | what Algorithm 1 is compared with: random, by free processors, by failures, of two choices |
//!
//! [`allocate`] is the one way in for simulations and for live sweeps, and says what makespan to expect. Algorithm 2
//! of the paper is [`Strategy::Statistics`] on what [`pending::state`] makes of expected runtimes, which
//! [`crate::runtimes`] predicts.

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
    /// How the instances of a multi-job are spread over clusters.
    Strategy, "strategy of allocation", {
        /// The earliest expected finish, by statistics of runtimes (paper 002, Algorithms 1 and 2).
        Statistics = "statistics",
        /// Each instance to a cluster drawn uniformly.
        Random = "random",
        /// Each instance to the cluster with most free processors, then to the one where fewest jobs wait.
        MostFree = "most-free",
        /// To the clusters that failed the fewest jobs.
        FewestFailures = "fewest-failures",
        /// Each instance to the less busy of two clusters that are drawn.
        TwoChoices = "two-choices",
    }
}

/// How many instances each cluster gets, and when the last of them is expected to end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allocation {
    /// By cluster.
    pub instances: Vec<u64>,
    /// Expected makespan: from now to the last end; 0 without instances.
    pub makespan: Span,
}

/// What is known of a cluster when a multi-job is allocated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterState {
    /// When its processors come free and how long an instance takes there, as far as statistics tell.
    pub offer: Offer,
    /// Jobs that wait or run.
    pub jobs: u64,
    /// Jobs that failed.
    pub failures: u64,
}

/// Spreads `instances` over clusters; none if no cluster has a processor. Instances never go to a cluster without
/// processors. O(clusters log) by statistics, free processors and failures, O(instances) where they are drawn.
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
