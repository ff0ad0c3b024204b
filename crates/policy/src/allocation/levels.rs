//! Algorithm 1 (paper 002, section 4.1; spec A.2.1): `k` equal jobs on clusters of one processor each, every one with
//! pending work that comes first. O(n log n) for any number of jobs.
//!
//! Levels are whole units of time, the paper's real `c_i` times the length of a job, so that nothing is rounded. The
//! algorithm pours jobs into the lowest levels, as water finds them, up to the highest level `c_u` that they can
//! reach. Then all levels lie less than a job below it, what is left goes evenly on top, and the remainder to the
//! lowest levels. As printed, the algorithm rounds the layers up, takes the remainder of another number, gives it out
//! in the order of the pre-loads and reports the most jobs instead of the highest level ([`as_printed`]).

use pliant_model::Span;

use super::Allocation;

/// The optimal allocation: no other one has a smaller makespan. `pending` is the work that each cluster has before,
/// at least 0, `job` the length of one instance, at least 1. Ties go to the cluster that comes first.
///
/// The jobs that Algorithm 1 gives out are the `k` earliest to finish: [`super::earliest`] finds the same ones.
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
    // What lies below the level of the last one fits, so the difference is above zero.
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

/// The allocation of Algorithm 1 as it is printed: the wrong number of jobs in about half of all cases, and the most
/// jobs of a cluster, times their length, instead of the makespan.
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

/// When the last instance ends that is allocated so.
pub fn makespan(pending: &[Span], job: Span, counts: &[u64]) -> Span {
    let given = pending.iter().zip(counts).filter(|(_, count)| **count > 0);
    given.map(|(pending, count)| span(level(*pending, job, *count))).max().unwrap_or(Span::ZERO)
}

/// The clusters that get jobs, by their levels: the longest prefix below whose last level all jobs would not fit.
/// None without jobs.
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

/// At most the longest that there is.
fn span(level: i128) -> Span {
    Span(level.min(i128::from(Span::MAX.0)) as i64)
}
