//! Instances that wait on clusters, spread anew while the multi-job runs: what was expected when they were placed has changed.

use pliant_model::Span;
use rand::Rng;

use super::{Allocation, ClusterState, Strategy, allocate};

/// Spreads the instances that wait on clusters (`waiting`, by cluster) and `more` that wait nowhere, if the last of those
/// that wait is then expected to end more than `gain` earlier than it would where it is; none if it is not. The clusters
/// are told as if none of them waited. A cluster keeps as many of its instances as it is to have. The cost is that of
/// [`allocate`].
pub fn reallocate_instances(
    strategy: Strategy,
    clusters: &[ClusterState],
    waiting: &[u64],
    more: u64,
    gain: Span,
    rng: &mut impl Rng,
) -> Option<Allocation> {
    let placed = clusters.iter().zip(waiting).filter(|(_, count)| **count > 0);
    let present = placed.map(|(cluster, count)| cluster.offer.finish(*count)).max()?;
    let better = allocate(strategy, clusters, waiting.iter().sum::<u64>() + more, rng)?;
    (better.makespan + gain < present).then_some(better)
}
