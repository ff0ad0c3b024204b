//! Tuning: how a server chooses the number of processors, and with it the walltime, of a moldable request
//! (paper 000, section 3.2.1; spec A.0.3).
//!
//! All three tuners minimise the ECT, `earliest start(n, w(n)) + w(n)`, and prefer fewer processors when
//! completions are equal. `exhaustive` and `exact` give the same answer; `binary` is the paper's and may
//! miss it (docs/reproduction.md, C000-4).

use pliant_model::{Estimate, Procs, Span, Speed, Time, Walltimes};

use crate::profile::{CLASSES, Fit, Profile, StartBounds, class_of, largest};

crate::named_enum! {
    /// How a server chooses the number of processors of a moldable request (paper 000, section 3.2.1).
    Tuner, "tuner", {
        /// Tries every size.
        Exhaustive = "exhaustive",
        /// The paper's binary search: few estimations, may miss the best size.
        Binary = "binary",
        /// One pass over the profile: the exhaustive answer at the cost of a few probes.
        Exact = "exact",
    }
}

/// From this many steps on, the exact tuner searches class by class instead of in one plain pass: the
/// bookkeeping pays only on long profiles (docs/performance.md).
const LONG_PROFILE: usize = 8;

/// The best size of a request on a cluster whose plan is `profile`, starting not before `from`.
///
/// `bounds`, if given, must be true for `profile`; it makes the exact search sub-linear.
pub fn tune(
    tuner: Tuner,
    profile: &Profile,
    bounds: Option<&mut StartBounds>,
    from: Time,
    walltimes: &Walltimes<'_>,
) -> Option<Estimate> {
    let (least, most) = (walltimes.least(), walltimes.most().min(profile.capacity()));
    if least > most {
        return None;
    }
    if least == most {
        return probe(profile, bounds, from, least, walltimes.at(least));
    }
    let estimate = |n: Procs| probe(profile, None, from, n, walltimes.at(n));
    match tuner {
        Tuner::Exhaustive => exhaustive(least, most, estimate),
        Tuner::Binary => binary(least, most, estimate),
        Tuner::Exact => exact(profile, bounds, from, least, most, walltimes),
    }
}

/// The estimate for one size.
fn probe(
    profile: &Profile,
    bounds: Option<&mut StartBounds>,
    from: Time,
    procs: Procs,
    walltime: Span,
) -> Option<Estimate> {
    let from = match bounds {
        Some(bounds) if profile.steps() >= LONG_PROFILE => bounds.at_least(procs, walltime, from),
        _ => from,
    };
    let start = profile.earliest_fit(from, procs, walltime)?;
    Some(Estimate { procs, walltime, start })
}

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

/// Paper 000's binary search, made precise so that its Figure 2 comes out exactly (spec A.0.3): the two end
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

fn exact(
    profile: &Profile,
    bounds: Option<&mut StartBounds>,
    from: Time,
    least: Procs,
    most: Procs,
    walltimes: &Walltimes<'_>,
) -> Option<Estimate> {
    let mut best: Option<Fit> = None;
    let walltime = |n: Procs| walltimes.at(n);
    match bounds {
        Some(bounds) if profile.steps() >= LONG_PROFILE => {
            bounds.best_shape(profile, from, least, most, &walltime, &mut best);
        }
        _ => profile.best_shape(from, least, most, &walltime, &mut best),
    }
    best.map(|fit| {
        let procs = fewest_with(fit.walltime, least, fit.procs, walltimes);
        Estimate { procs, walltime: fit.walltime, start: fit.start }
    })
}

/// The fewest processors that are as quick: whole seconds, or minutes, make some sizes equal, and the tuners
/// prefer the smaller one.
pub(crate) fn fewest_with(walltime: Span, least: Procs, procs: Procs, walltimes: &Walltimes<'_>) -> Procs {
    let (mut low, mut high) = (least.0, procs.0);
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

/// What all clusters share about one request: per class of sizes, the walltime of the class's largest size
/// at reference speed. Made once per request, asked once per cluster or group of clusters.
#[derive(Clone, Debug)]
pub struct ClassTimes {
    first: usize,
    last: usize,
    /// Slightly shaved, so that rounding never lifts a bound above the truth.
    quickest_s: [f64; CLASSES],
}

impl ClassTimes {
    /// The classes of a request, given its walltimes on a cluster of reference speed as large as the largest.
    pub fn new(walltimes: &Walltimes<'_>) -> ClassTimes {
        let (least, most) = (i64::from(walltimes.least().0), i64::from(walltimes.most().0));
        let (first, last) = (class_of(least), class_of(most));
        let mut quickest_s = [f64::INFINITY; CLASSES];
        for (class, quickest) in quickest_s.iter_mut().enumerate().take(last + 1).skip(first) {
            let ratio = walltimes.ratio(Procs(largest(class).min(most) as u32));
            *quickest = walltimes.scale_s() * ratio * (1.0 - 1e-9);
        }
        ClassTimes { first, last, quickest_s }
    }

    /// The classes of sizes that a cluster of `procs` processors can take, each with the least walltime of
    /// its sizes there (rounded down).
    pub(crate) fn classes(&self, speed: Speed, procs: Procs) -> impl Iterator<Item = (usize, Span)> + '_ {
        let last = self.last.min(class_of(i64::from(procs.0)));
        let scale = 1.0 / speed.get();
        let quickest = move |class: usize| Span(((self.quickest_s[class] * scale) as i64).max(1));
        (self.first..=last).rev().filter(|class| *class != 1).map(move |class| (class, quickest(class)))
    }

    /// A completion time that no size can beat on a cluster: for each class of sizes, the bound on its start
    /// plus its least walltime. True whether or not `bounds` are kept; closer when they are.
    pub fn completion_bound(
        &self,
        bounds: Option<&StartBounds>,
        now: Time,
        speed: Speed,
        procs: Procs,
    ) -> Time {
        let mut bound = Time::MAX;
        for (class, quickest) in self.classes(speed, procs) {
            if now + quickest >= bound {
                break;
            }
            let start = bounds.map_or(now, |bounds| bounds.of_class(class, quickest, now));
            bound = bound.min(start + quickest);
        }
        bound
    }
}
