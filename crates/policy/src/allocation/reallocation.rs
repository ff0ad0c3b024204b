//! Reallocation of waiting instances while a multi-job runs.

use pliant_model::Span;
use rand::Rng;

use super::{Allocation, ClusterState, Strategy, allocate};

/// Allocates the waiting instances again (`waiting`, by cluster) together with `more` unplaced ones, if their makespan then
/// falls by more than `gain`; none otherwise. `clusters` do not include the waiting instances. A cluster keeps its
/// waiting instances up to its new count. The cost is that of [`allocate`].
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
