//! The cores of each node held by running jobs, as far as they can be derived.
//!
//! A listing gives a job's nodes and its total cores. On one node, or where the nodes are full, this determines the
//! distribution; elsewhere a node's count of allocated cores often does. Remaining freedom is resolved conservatively: the job
//! holds as many cores of each node as possible (one core of each other node at least), so that no core counts as free by
//! mistake.

use super::amounts::{Amounts, Part};
use super::snapshot::{AllocatedJob, Node};

/// For each running job an upper bound on what it has of each of its nodes. A few passes of O(shares).
pub(super) fn bound(nodes: &[Node], running: &[AllocatedJob]) -> Vec<Vec<Part>> {
    let mut shares: Vec<Vec<Share>> = running.iter().map(|holder| first(nodes, holder)).collect();
    // Each pass fixes a share or is the last: stopping early is safe.
    for _ in 0..8 {
        let by_node = settle_by_node(nodes, &mut shares);
        let by_job = shares
            .iter_mut()
            .zip(running)
            .fold(false, |any, (shares, holder)| any | settle_by_job(shares, holder.cores.0));
        if !(by_node || by_job) {
            break;
        }
    }
    let part = |holder: &AllocatedJob, share: &Share| {
        let taken = holder.needs.on(share.most);
        Part { node: share.node, taken: Amounts { gpus: taken.gpus.saturating_add(share.gpus), ..taken } }
    };
    let parts = shares
        .iter()
        .zip(running)
        .map(|(shares, holder)| shares.iter().map(|one| part(holder, one)).collect());
    parts.collect()
}

/// Between `least` and `most` cores of a node.
#[derive(Clone, Copy)]
struct Share {
    node: u32,
    least: u32,
    most: u32,
    /// Of those that are anywhere on its nodes.
    gpus: u32,
}

fn first(nodes: &[Node], holder: &AllocatedJob) -> Vec<Share> {
    let share = |one: &super::snapshot::NodeShare| {
        let cores = nodes[one.node as usize].cores.0;
        let (least, most) = match one.cores {
            Some(known) => (known.0.min(cores), known.0.min(cores)),
            None => (cores.min(1), cores.min(holder.cores.0)),
        };
        Share { node: one.node, least, most, gpus: one.gpus }
    };
    let mut shares: Vec<Share> = holder.on.iter().map(share).collect();
    settle_by_job(&mut shares, holder.cores.0);
    shares
}

/// Applies that a job's shares add up to its cores.
fn settle_by_job(shares: &mut [Share], cores: u32) -> bool {
    let least: u32 = shares.iter().map(|share| share.least).sum();
    let most: u32 = shares.iter().map(|share| share.most).sum();
    let mut changed = false;
    for share in shares {
        let upper = cores.saturating_sub(least - share.least).clamp(share.least, share.most);
        let lower = cores.saturating_sub(most - share.most).clamp(share.least, upper);
        changed |= (lower, upper) != (share.least, share.most);
        (share.least, share.most) = (lower, upper);
    }
    changed
}

/// Applies that a node's shares add up to its allocated cores, unless the listing omits a job.
fn settle_by_node(nodes: &[Node], shares: &mut [Vec<Share>]) -> bool {
    let mut least = vec![0_u64; nodes.len()];
    for share in shares.iter().flatten() {
        least[share.node as usize] += u64::from(share.least);
    }
    let mut changed = false;
    for share in shares.iter_mut().flatten() {
        let Some(taken) = nodes[share.node as usize].taken else { continue };
        let others = least[share.node as usize] - u64::from(share.least);
        let left = u64::from(taken.0).saturating_sub(others) as u32;
        let upper = left.clamp(share.least, share.most);
        changed |= upper != share.most;
        share.most = upper;
    }
    changed
}
