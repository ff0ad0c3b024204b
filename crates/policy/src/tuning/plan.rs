//! The interface of tuners to a cluster's plan: the start of a size, the size that completes first, the fewest processors that
//! complete by a given time.

use pliant_model::{Estimate, Procs, Span, Time, Walltimes};

use super::search::{exhaustive, fewest_with};
use crate::profile::{Fit, Profile, StartBounds};

/// From this many steps on, searches use bounds: the bookkeeping pays only on long profiles (docs/research/performance.md).
const LONG_PROFILE: usize = 8;

/// Takes the processors and the remaining walltime of a job.
pub type EachShape<'a> = &'a mut dyn FnMut(Procs, Span);

/// The other jobs of a cluster.
#[derive(Clone, Copy)]
pub struct OtherJobs<'a> {
    /// How many run or wait, those of local users included.
    pub count: usize,
    /// Calls a function with each of them, in any order.
    pub shapes: &'a dyn Fn(EachShape<'_>),
}

/// The other inputs of a tuner.
#[derive(Clone, Copy)]
pub struct Present<'a> {
    /// When the request is made.
    pub now: Time,
    /// The jobs that run or wait on the cluster, the request not.
    pub others: OtherJobs<'a>,
}

impl Present<'static> {
    /// A cluster without other jobs.
    pub fn alone(now: Time) -> Present<'static> {
        Present { now, others: OtherJobs { count: 0, shapes: &|_| {} } }
    }
}

/// The sizes of a request on one cluster, and the estimate of each.
pub trait SizePlan {
    /// Processors of the cluster.
    fn capacity(&self) -> Procs;

    /// The smallest size that fits on the empty cluster.
    fn least(&self) -> Procs;

    /// The largest size that fits on the empty cluster; smaller than the smallest if none does.
    fn most(&self) -> Procs;

    /// The walltime of a size. It never grows with the size.
    fn walltime(&self, procs: Procs) -> Span;

    /// The earliest start of a size; none if it never fits, which on nodes can be so for a size between two that do.
    fn estimate_at(&mut self, procs: Procs) -> Option<Estimate>;

    /// The size that completes first among those of at most `most` processors; ties go to the smaller size. None if none fits, or if
    /// all complete later than is of use to the caller.
    fn earliest(&mut self, most: Procs) -> Option<Estimate> {
        exhaustive(self.least(), most.max(self.least()), |procs| self.estimate_at(procs))
    }

    /// The smallest size from `least` on that completes by `latest`, at its earliest start; `known` is one that does.
    fn fewest(&mut self, least: Procs, known: Estimate, latest: Time) -> Estimate {
        let smaller = (least.0..known.procs.0).map(Procs);
        let mut fitting =
            smaller.filter_map(|procs| self.estimate_at(procs).filter(|one| one.completion() <= latest));
        fitting.next().unwrap_or(known)
    }
}

/// A request on a cluster whose plan is a profile.
pub(super) struct ProfilePlan<'a, 'b> {
    profile: &'a Profile,
    bounds: Option<&'a mut StartBounds>,
    from: Time,
    latest: Time,
    walltimes: &'a Walltimes<'b>,
}

impl<'a, 'b> ProfilePlan<'a, 'b> {
    /// Nothing starts before `from`. Bounds are used where the profile is long.
    pub(super) fn new(
        profile: &'a Profile,
        bounds: Option<&'a mut StartBounds>,
        from: Time,
        walltimes: &'a Walltimes<'b>,
    ) -> Self {
        let bounds = bounds.filter(|_| profile.steps() >= LONG_PROFILE);
        ProfilePlan { profile, bounds, from, latest: Time(i64::MAX), walltimes }
    }

    /// The same plan for a caller that has no use for completions after `latest`.
    pub(super) fn until(self, latest: Time) -> Self {
        ProfilePlan { latest, ..self }
    }

    /// As [`SizePlan::earliest`], among the sizes from `least` on.
    pub(super) fn earliest_from(&self, least: Procs, most: Procs) -> Option<Estimate> {
        let mut best = Fit::none_by(self.latest);
        self.profile.best_shape(self.from, least, most, &|n: Procs| self.walltimes.at(n), &mut best);
        best.found().map(|Fit { start, procs, walltime }| Estimate { procs, walltime, start })
    }

    /// Nothing of at least that size and walltime starts before this.
    fn start_bound(&self, procs: Procs, walltime: Span) -> Time {
        self.bounds.as_ref().map_or(self.from, |bounds| bounds.at_least(procs, walltime, self.from))
    }
}

impl SizePlan for ProfilePlan<'_, '_> {
    fn capacity(&self) -> Procs {
        self.profile.capacity()
    }

    fn least(&self) -> Procs {
        self.walltimes.least()
    }

    fn most(&self) -> Procs {
        self.walltimes.most().min(self.profile.capacity())
    }

    fn walltime(&self, procs: Procs) -> Span {
        self.walltimes.at(procs)
    }

    fn estimate_at(&mut self, procs: Procs) -> Option<Estimate> {
        let walltime = self.walltimes.at(procs);
        let start = self.profile.earliest_fit(self.start_bound(procs, walltime), procs, walltime)?;
        Some(Estimate { procs, walltime, start })
    }

    fn earliest(&mut self, most: Procs) -> Option<Estimate> {
        let least = self.least();
        let most = most.max(least);
        let mut best = Fit::none_by(self.latest);
        let walltime = |n: Procs| self.walltimes.at(n);
        match &mut self.bounds {
            Some(bounds) => bounds.best_shape(self.profile, self.from, least, most, &walltime, &mut best),
            None => self.profile.best_shape(self.from, least, most, &walltime, &mut best),
        }
        best.found().map(|fit| {
            let procs = fewest_with(fit.walltime, least, fit.procs, self.walltimes);
            Estimate { procs, walltime: fit.walltime, start: fit.start }
        })
    }

    fn fewest(&mut self, least: Procs, known: Estimate, latest: Time) -> Estimate {
        if least >= known.procs {
            return known;
        }
        let least = fewest_with(latest - self.from, least, known.procs, self.walltimes);
        let at = |n: Procs| self.walltimes.at(n);
        if let Some(bounds) = &mut self.bounds {
            let known = Fit { start: known.start, procs: known.procs, walltime: known.walltime };
            let Fit { start, procs, walltime } =
                bounds.fewest_by(self.profile, self.from, least, latest, &at, known);
            return Estimate { procs, walltime, start };
        }
        let (from, walltime) = (self.from, self.walltimes.at(least));
        // Usually the smallest size that is short enough fits; otherwise the larger sizes are searched together.
        if let Some(start) = self.profile.earliest_fit_ending_by(from, least, walltime, latest) {
            return Estimate { procs: least, walltime, start };
        }
        let known = Fit { start: known.start, procs: known.procs, walltime: known.walltime };
        let Fit { start, procs, walltime } = self.profile.fewest_by(from, least, latest, &at, known);
        Estimate { procs, walltime, start }
    }
}

/// A request whose sizes are estimated one by one by a function.
pub(crate) struct EverySize<'a, 'b, F> {
    /// Processors of the cluster.
    pub(crate) capacity: Procs,
    /// The sizes.
    pub(crate) walltimes: &'a Walltimes<'b>,
    /// The estimate of a size.
    pub(crate) estimate: F,
}

impl<F: FnMut(Procs) -> Option<Estimate>> SizePlan for EverySize<'_, '_, F> {
    fn capacity(&self) -> Procs {
        self.capacity
    }

    fn least(&self) -> Procs {
        self.walltimes.least()
    }

    fn most(&self) -> Procs {
        self.walltimes.most().min(self.capacity)
    }

    fn walltime(&self, procs: Procs) -> Span {
        self.walltimes.at(procs)
    }

    fn estimate_at(&mut self, procs: Procs) -> Option<Estimate> {
        (self.estimate)(procs)
    }
}
