//! The searches of paper 000 for the size that completes first (section 3.2.1).

use pliant_model::{Estimate, Procs, Span, Time, Walltimes};

/// Keeps the better of two estimates: earlier completion, then fewer processors.
fn better(one: Option<Estimate>, other: Option<Estimate>) -> Option<Estimate> {
    match (one, other) {
        (Some(a), Some(b)) => Some(if (b.completion(), b.procs) < (a.completion(), a.procs) { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// Tries every size from `least` to `most` on whatever can estimate one: as many estimations as sizes.
pub fn exhaustive(
    least: Procs,
    most: Procs,
    estimate: impl FnMut(Procs) -> Option<Estimate>,
) -> Option<Estimate> {
    (least.0..=most.0).map(Procs).map(estimate).fold(None, better)
}

/// Paper 000's binary search, made precise so that its Figure 2 comes out exactly: the two end
/// points, then bisection towards the end whose completion is earlier. 650 sizes take 2 + 10 estimations, or
/// 2 + 9 where rounding down leaves the smaller part.
pub fn binary(
    least: Procs,
    most: Procs,
    mut estimate: impl FnMut(Procs) -> Option<Estimate>,
) -> Option<Estimate> {
    let completion = |estimate: Option<Estimate>| estimate.map_or(Time::MAX, |one| one.completion());
    let (mut low, mut high) = (least.0, most.0);
    let (mut at_low, mut at_high) = (estimate(least), estimate(most));
    let mut best = better(at_low, at_high);
    while high.saturating_sub(low) > 1 {
        let middle = low.midpoint(high);
        let at_middle = estimate(Procs(middle));
        best = better(best, at_middle);
        if completion(at_low) <= completion(at_high) {
            (high, at_high) = (middle, at_middle);
        } else {
            (low, at_low) = (middle, at_middle);
        }
    }
    best
}

/// The fewest processors that are as quick: whole seconds, or minutes, make some sizes equal, and the tuners
/// prefer the smaller one.
pub(crate) fn fewest_with(walltime: Span, least: Procs, procs: Procs, walltimes: &Walltimes<'_>) -> Procs {
    let (mut low, mut high) = (least.0, procs.0);
    // Usually one processor less takes longer.
    if low < high && walltimes.at(Procs(high - 1)) > walltime {
        return procs;
    }
    while low < high {
        let middle = low.midpoint(high);
        if walltimes.at(Procs(middle)) <= walltime {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Procs(high)
}
