//! How the instances that are not handed out are shared between clusters where some wait already, and which of those that wait
//! come back.

use pliant_model::Span;
use rand::Rng;

use super::{ClusterState, Strategy, allocate};

/// By how much the last end must come earlier for instances that wait to be withdrawn, in milliseconds: more than what handing
/// them out again costs.
pub const LEAST_GAIN: Span = Span(2_000);

/// How many of `more` instances each cluster gets beside those that wait there (`waiting`, by cluster), as if it were
/// allocated all of them at once. A cluster where more wait than its share gets nothing, and the others share the rest. None if
/// no cluster has a processor. At most as many allocations as there are clusters.
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

/// True if the next one of a cluster's waiting packs, of `count` instances, stays there, of `keeps` that still may. The first ones
/// stay, as they start next.
pub fn stays(keeps: &mut u64, count: u64) -> bool {
    let stays = *keeps >= count;
    *keeps = keeps.saturating_sub(count);
    stays
}
