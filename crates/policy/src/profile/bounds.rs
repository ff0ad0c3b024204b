//! Lower bounds on starts, so that searches skip times without a fit.
//!
//! [`StartBounds`] remembers, for each class of sizes and walltimes, a time before which nothing of that
//! class can start. Reservations leave it true; a release lowers it only for the classes that the freed
//! runs are long enough for. It is a bound, never an answer: the search that follows decides.

use pliant_model::{Procs, Span, Time};

use super::classes::{CLASSES, class_of, corner, largest};
use super::runs::{Freed, Runs};
use super::{Fit, Profile};

/// Lower bounds on the earliest start, per class of sizes and class of walltimes.
#[derive(Clone, Debug)]
pub struct StartBounds {
    sizes: usize,
    /// `bound[size class * CLASSES + walltime class]`.
    bound: Vec<i64>,
}

impl StartBounds {
    /// Nothing is known yet.
    pub fn new(capacity: Procs) -> StartBounds {
        let sizes = class_of(i64::from(capacity.0.max(1))) + 1;
        StartBounds { sizes, bound: vec![i64::MIN; sizes * CLASSES] }
    }

    /// Takes into account that processors were given back since the last call.
    pub fn freed(&mut self, profile: &Profile, now: Time, freed: Freed) {
        let mut runs = Runs::NONE;
        if !runs.measure(profile, (now, Time(i64::MAX)), freed, 0..self.sizes) {
            return;
        }
        for size in runs.first..runs.classes {
            let (earliest, length) = (runs.begin[size], runs.end[size].saturating_sub(runs.begin[size]));
            let classes = class_of(length) + 1;
            for bound in &mut self.bound[size * CLASSES..][..classes] {
                *bound = (*bound).min(earliest);
            }
        }
    }

    /// A time before which no job of at least that size and walltime can start.
    pub fn at_least(&self, procs: Procs, walltime: Span, now: Time) -> Time {
        let size = class_of(i64::from(procs.0)).min(self.sizes - 1);
        Time(self.bound[size * CLASSES + class_of(walltime.0.max(1))]).max(now)
    }

    /// As [`StartBounds::at_least`], for a class of sizes. Classes too large for the cluster never start.
    pub(crate) fn of_class(&self, size: usize, walltime: Span, now: Time) -> Time {
        if size >= self.sizes {
            return Time::MAX;
        }
        Time(self.bound[size * CLASSES + class_of(walltime.0.max(1))]).max(now)
    }

    /// Raises the bound of the class of (`procs`, `walltime`) to the truth for the class's corner, and
    /// returns it. The search begins at the old bound, so that while processors are only reserved the
    /// searches of one class pass over the profile once, whatever their number.
    fn advance(&mut self, profile: &Profile, procs: i64, walltime: Span, now: Time) -> Time {
        let (size, span) = (class_of(procs), class_of(walltime.0.max(1)));
        let index = size * CLASSES + span;
        let mut known = self.bound[index].max(now.0);
        if size > 0 {
            known = known.max(self.bound[index - CLASSES]);
        }
        if span > 0 {
            known = known.max(self.bound[index - 1]);
        }
        let found = profile.earliest_fit(Time(known), Procs(corner(size) as u32), Span(corner(span)));
        let found = found.map_or(i64::MAX, |time| time.0);
        self.bound[index] = found;
        Time(found)
    }

    /// The same answer as [`Profile::fewest_by`], found class by class, the smallest sizes first: classes that start too late to
    /// complete by `latest` are left out.
    pub(crate) fn fewest_by(
        &mut self,
        profile: &Profile,
        now: Time,
        least: Procs,
        latest: Time,
        walltime: &dyn Fn(Procs) -> Span,
        known: Fit,
    ) -> Fit {
        let (low, high) = (i64::from(least.0), i64::from(known.procs.0) - 1);
        if low > high {
            return known;
        }
        // Class 1 holds no value.
        for class in (class_of(low)..=class_of(high)).filter(|class| *class != 1) {
            let largest = largest(class).min(high) as u32;
            let quickest = walltime(Procs(largest));
            let last = latest - quickest;
            if self.at_least(Procs(corner(class) as u32), quickest, now) > last {
                continue;
            }
            let start = self.advance(profile, corner(class), quickest, now);
            if start > last {
                continue;
            }
            let smallest = Procs(corner(class).max(low) as u32);
            let larger = Fit { procs: Procs(largest + 1), ..known };
            let found = profile.fewest_by(start, smallest, latest, walltime, larger);
            if found.procs.0 <= largest {
                return found;
            }
        }
        known
    }

    /// The completion-minimal shape with at least `least` and at most `most` processors: the same answer
    /// as one pass of `Profile::best_shape` over the whole profile, found class by class.
    ///
    /// Every size of a class needs at least the class's corner and lasts at least as long as the class's
    /// largest size; so no size of the class completes before (bound on the start of such a corner) +
    /// (walltime of the largest size). Classes are taken by that bound, and those that cannot reach the
    /// best completion found so far are left out. The walltimes of smaller classes are longer, so the classes below one that
    /// could not even complete in time if it started now are not looked at.
    pub(crate) fn best_shape(
        &mut self,
        profile: &Profile,
        now: Time,
        least: Procs,
        most: Procs,
        walltime: &dyn Fn(Procs) -> Span,
        best: &mut Fit,
    ) {
        let (low, high) = (i64::from(least.0), i64::from(most.0));
        let (first, last) = (class_of(low), class_of(high));
        let mut order = [(i64::MAX, 0_u8, Span(0)); CLASSES];
        let mut pending = 0;
        // Class 1 holds no value: its corner is that of class 0.
        for class in (first..=last).rev().filter(|class| *class != 1) {
            let quickest = walltime(Procs(largest(class).min(high) as u32));
            if (now + quickest).0 > best.completion() {
                break;
            }
            let bound = self.of_class(class, quickest, now).0.saturating_add(quickest.0);
            if bound <= best.completion() {
                order[pending] = (bound, class as u8, quickest);
                pending += 1;
            }
        }
        let order = &mut order[..pending];
        order.sort_unstable();
        for (bound, class, quickest) in order.iter().copied() {
            let reach = best.completion();
            if bound > reach {
                break;
            }
            let class = usize::from(class);
            let largest = Procs(largest(class).min(high) as u32);
            let smallest = Procs(corner(class).max(low) as u32);
            let start = self.advance(profile, corner(class), quickest, now);
            if start.0.saturating_add(quickest.0) <= reach {
                profile.best_shape(start, smallest, largest, walltime, best);
            }
        }
    }
}
