//! The shares of clusters in instances that are not submitted yet, while others already wait there, and the withdrawal of
//! waiting ones.

use pliant_model::Span;
use rand::Rng;

use super::{ClusterState, Strategy, allocate};

/// The smallest reduction of the makespan for which waiting instances are withdrawn, in milliseconds: more than the cost of
/// submitting them again.
pub const LEAST_GAIN: Span = Span(2_000);

/// The number of `more` instances for each cluster besides its waiting ones (`waiting`, by cluster), as if all were
/// allocated at once. A cluster with more waiting instances than its share gets none, and the others share the rest. None if
/// no cluster has a processor. At most as many allocations as clusters.
pub fn share(
    strategy: Strategy,
    mut clusters: Vec<ClusterState>,
    waiting: &[u64],
    more: u64,
    rng: &mut impl Rng,
) -> Option<Vec<u64>> {
    let mut sharing: Vec<usize> = (0..clusters.len()).collect();
    let mut shares = vec![0; clusters.len()];
    while !sharing.is_empty() {
        let all = more + sharing.iter().map(|at| waiting[*at]).sum::<u64>();
        let due = allocate(strategy, &clusters, all, rng)?.instances;
        let is_due: Vec<bool> = sharing.iter().zip(&due).map(|(at, due)| *due >= waiting[*at]).collect();
        if is_due.iter().all(|is_due| *is_due) {
            for (at, due) in sharing.into_iter().zip(due) {
                shares[at] = due - waiting[at];
            }
            return Some(shares);
        }
        let mut stays = is_due.iter();
        sharing.retain(|_| *stays.next().unwrap_or(&true));
        let mut stays = is_due.iter();
        clusters.retain(|_| *stays.next().unwrap_or(&true));
    }
    None
}

/// True if a cluster's next waiting batch of `count` instances stays, given the number `keeps` that may still stay. The first
/// batches stay, since they start next.
pub fn stays(keeps: &mut u64, count: u64) -> bool {
    let stays = *keeps >= count;
    *keeps = keeps.saturating_sub(count);
    stays
}
