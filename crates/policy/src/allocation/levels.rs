//! Algorithm 1 (paper 002, section 4.1): `k` equal jobs on clusters of one processor each, with pending
//! work. O(n log n) for any number of jobs.
//!
//! Levels are whole units of time, the paper's real `c_i` times the length of a job, so that nothing is rounded. The
//! algorithm fills the lowest levels up to the highest level `c_u` that the jobs can reach. Then all levels are less than
//! one job below it; remaining jobs are spread evenly, and the remainder goes to the lowest levels. As printed, the
//! algorithm rounds the layers up, takes the remainder of another number, allocates it in the order of the pre-loads and
//! reports the most jobs instead of the highest level ([`as_printed`]).

use pliant_model::Span;

use super::Allocation;

/// The optimal allocation: it has the smallest makespan. `pending` is the pending work of each cluster, at least 0, `job` the
/// length of an instance, at least 1. Ties go to the first cluster.
///
/// The allocated jobs are the `k` earliest to finish, as in [`super::earliest`].
pub fn fill(pending: &[Span], job: Span, instances: u64) -> Allocation {
    let mut counts = vec![0; pending.len()];
    let used = reached(pending, job, instances);
    let Some(highest) = used.last().map(|at| pending[*at]) else {
        return Allocation { instances: counts, makespan: Span::ZERO };
    };
    let mut below = 0;
    for at in &used {
        counts[*at] = ((highest - pending[*at]).0 / job.0) as u64;
        below += counts[*at];
    }
    // The work below the level of the last cluster fits, so the difference is positive.
    let above = instances - below;
    let (layers, left) = (above / used.len() as u64, (above % used.len() as u64) as usize);
    let mut lowest: Vec<(i128, usize)> = Vec::with_capacity(used.len());
    for at in &used {
        counts[*at] += layers;
        lowest.push((level(pending[*at], job, counts[*at]), *at));
    }
    if left > 0 {
        lowest.select_nth_unstable(left - 1);
        lowest[..left].iter().for_each(|(_, at)| counts[*at] += 1);
    }
    Allocation { makespan: makespan(pending, job, &counts), instances: counts }
}

/// The allocation of Algorithm 1 as printed: in about half of all cases the wrong number of jobs; it reports the most jobs
/// of a cluster times their length instead of the makespan.
pub fn as_printed(pending: &[Span], job: Span, instances: u64) -> Allocation {
    let mut counts = vec![0; pending.len()];
    let used = reached(pending, job, instances);
    let Some(highest) = used.last().map(|at| pending[*at]) else {
        return Allocation { instances: counts, makespan: Span::ZERO };
    };
    let mut below = 0;
    for at in &used {
        counts[*at] = ((highest - pending[*at]).0 / job.0) as u64;
        below += counts[*at];
    }
    let layers = (instances - below).div_ceil(used.len() as u64);
    let left = instances % used.len() as u64;
    for (position, at) in (0_u64..).zip(&used) {
        counts[*at] += layers + u64::from(position < left);
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    Allocation { makespan: span(level(Span::ZERO, job, most)), instances: counts }
}

/// The end of the last instance under an allocation.
pub fn makespan(pending: &[Span], job: Span, counts: &[u64]) -> Span {
    let given = pending.iter().zip(counts).filter(|(_, count)| **count > 0);
    given.map(|(pending, count)| span(level(*pending, job, *count))).max().unwrap_or(Span::ZERO)
}

/// The clusters that get jobs, by level: the longest prefix whose last level lies below the total work. None without jobs.
fn reached(pending: &[Span], job: Span, instances: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pending.len()).collect();
    order.sort_unstable_by_key(|at| (pending[*at], *at));
    let work = i128::from(instances) * i128::from(job.0);
    let mut room = 0;
    let mut used = 0;
    while used < order.len() && room < work {
        used += 1;
        if let Some(next) = order.get(used) {
            room += used as i128 * i128::from((pending[*next] - pending[order[used - 1]]).0);
        }
    }
    order.truncate(used);
    order
}

fn level(pending: Span, job: Span, count: u64) -> i128 {
    i128::from(pending.0) + i128::from(job.0) * i128::from(count)
}

/// A level as a span, saturated.
fn span(level: i128) -> Span {
    Span(level.min(i128::from(Span::MAX.0)) as i64)
}
