//! Published rules for the sizes of moldable jobs, to compare [`super::slack`] with (`campaigns/sizing`).
//!
//! Most of them limit the processors of a request; within the limit the size that completes first is taken. `C` is the
//! number of processors of the cluster, `N` the number of other jobs that run or wait there, and the area of a size is
//! its processors times its walltime. Costs: one walltime per size, and for [`cheapest`] one search per size.

use pliant_model::{Estimate, Procs};

use super::{Present, SizePlan, Thousandths};

/// An equal share: `C / (N + 1)`.
pub fn equal_share(plan: &impl SizePlan, present: &Present<'_>) -> Procs {
    Procs(plan.capacity().0 / (present.others.count as u32).saturating_add(1))
}

/// heSRPT (Berg, Vesilo and Harchol-Balter, "heSRPT: Parallel scheduling to minimize mean slowdown", Performance
/// Evaluation 144, 2020) for a speedup of `sqrt(n)`: of `m = N + 1` jobs the one with the i-th largest area gets
/// `(2 i - 1) / m^2` of the cluster. The request counts with its least area.
pub fn he_srpt(plan: &impl SizePlan, present: &Present<'_>) -> Procs {
    let own = least_area(plan);
    let mut larger = 0_u64;
    (present.others.shapes)(&mut |procs, walltime| larger += u64::from(area(procs, walltime.0) > own));
    let (rank, jobs) = (larger + 1, present.others.count as u64 + 1);
    Procs((u64::from(plan.capacity().0) * (2 * rank - 1) / (jobs * jobs)) as u32)
}

/// A fair share by work (Srinivasan, Subramani, Kettimuthu, Holenarsipur and Sadayappan, "Effective selection of partition
/// sizes for moldable scheduling of parallel jobs", HiPC 2002): the request's least area over the area of all jobs.
pub fn fair_share(plan: &impl SizePlan, present: &Present<'_>) -> Procs {
    let own = least_area(plan);
    let mut all = own;
    // A job that should have ended by now has nothing left, and not less.
    (present.others.shapes)(&mut |procs, walltime| all += area(procs, walltime.0.max(0)));
    Procs((i128::from(plan.capacity().0) * own / all.max(1)) as u32)
}

/// The knee of efficiency (Eager, Zahorjan and Lazowska, "Speedup versus efficiency in parallel systems", IEEE
/// Transactions on Computers 38(3), 1989): the size with the largest product of speedup and efficiency.
pub fn knee(plan: &impl SizePlan) -> Procs {
    let cost = |procs: &Procs| area(*procs, plan.walltime(*procs).0) * i128::from(plan.walltime(*procs).0);
    sizes(plan).min_by_key(cost).unwrap_or(plan.least())
}

/// The most processors with an area of at most `1 / least` times the least one.
pub fn efficient(least: Thousandths, plan: &impl SizePlan) -> Procs {
    let most = least_area(plan) * 1000 / i128::from(least.0.max(1));
    sizes(plan).filter(|n| area(*n, plan.walltime(*n).0) <= most).last().unwrap_or(plan.least())
}

/// LPA, local processor allocation (Benoit, Perotin, Robert and Sun, "Online scheduling of moldable task graphs under
/// common speedup models", ICPP 2022) for Amdahl's law: of the sizes with a walltime of at most `d` times the least one, that
/// of the least area, and no more than `mu C`, where `mu = 0.271` and `d = (1 - 2 mu) / (mu (1 - mu)) = 2.318`.
pub fn local_allocation(plan: &impl SizePlan) -> Procs {
    let longest = i128::from(plan.walltime(plan.most()).0) * 2318 / 1000;
    let short = sizes(plan).filter(|n| i128::from(plan.walltime(*n).0) <= longest);
    let chosen = short.min_by_key(|n| area(*n, plan.walltime(*n).0)).unwrap_or(plan.most());
    let cap = (u64::from(plan.capacity().0) * 271).div_ceil(1000) as u32;
    chosen.min(Procs(cap)).max(plan.least())
}

/// A price on processor time: the size with the least response plus `weight N / C` times its area, which is how much
/// later the others are if each of them waits for it.
pub fn cheapest(weight: Thousandths, plan: &mut impl SizePlan, present: &Present<'_>) -> Option<Estimate> {
    let price = i128::from(weight.0) * present.others.count as i128;
    let unit = 1000 * i128::from(plan.capacity().0);
    let cost = |one: &Estimate| {
        i128::from((one.completion() - present.now).0) * unit + price * area(one.procs, one.walltime.0)
    };
    let sizes = (plan.least().0..=plan.most().0).map(Procs);
    sizes.filter_map(|n| plan.estimate_at(n)).min_by_key(|one| (cost(one), one.procs))
}

fn sizes<P: SizePlan>(plan: &P) -> impl Iterator<Item = Procs> + use<P> {
    (plan.least().0..=plan.most().0).map(Procs)
}

fn area(procs: Procs, walltime_s: i64) -> i128 {
    i128::from(procs.0) * i128::from(walltime_s)
}

fn least_area(plan: &impl SizePlan) -> i128 {
    sizes(plan).map(|n| area(n, plan.walltime(n).0)).min().unwrap_or(1)
}
