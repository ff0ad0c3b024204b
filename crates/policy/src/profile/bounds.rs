//! What is known about where jobs cannot start, so that searches need not look there again.
//!
//! [`Touched`] says, after processors were given back, how long the runs of free processors are that the
//! freed interval lies in: a waiting job whose walltime is longer than every such run cannot gain from it.
//! [`StartBounds`] remembers, for each class of sizes and walltimes, a time before which nothing of that
//! class can start. Reservations leave it true; a release lowers it only for the classes that the freed
//! runs are long enough for. Both are bounds, never answers: the search that follows decides.

use pliant_model::{Procs, Span, Time};

use super::classes::{CLASSES, class_of, corner, largest};
use super::{Fit, Profile};

/// The length of a run that never ends.
const ENDLESS: u32 = u32::MAX - 1;

/// An interval on which processors were given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freed {
    /// Where it begins.
    pub from: Time,
    /// Where it ends.
    pub until: Time,
    /// One processor less than this was free all along the interval before: smaller jobs gain nothing.
    pub least: Procs,
}

/// Runs of free processors around one freed interval: per class of sizes, the length of the run with that
/// many free processors and when it starts. Errs on the side of too long and too early.
#[derive(Clone, Debug)]
struct Runs {
    /// Classes before `first` have gained nothing, classes from `classes` on have no run.
    first: usize,
    classes: usize,
    longest_s: [u32; CLASSES],
    earliest: [i64; CLASSES],
}

/// The runs of free processors that meet some freed intervals.
#[derive(Clone, Debug)]
pub struct Touched {
    /// Per class of sizes, the longest of all runs, in seconds.
    longest_s: [u32; CLASSES],
    /// The first `used` are those told apart; the others are storage.
    around: Vec<Runs>,
    used: usize,
}

/// How many freed intervals are told apart; the runs of further ones are merged into the last.
const TOLD_APART: usize = 16;

impl Default for Touched {
    fn default() -> Self {
        Self { longest_s: [0; CLASSES], around: vec![Runs::NONE; TOLD_APART + 1], used: 0 }
    }
}

impl Touched {
    /// Nothing was freed.
    pub fn clear(&mut self) {
        self.longest_s = [0; CLASSES];
        self.used = 0;
    }

    /// True if nothing was freed.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Adds the runs that meet an interval where processors were just given back. Runs count from `now`
    /// on. O(blocks met while walking out of the interval).
    pub fn add(&mut self, profile: &Profile, now: Time, freed: Freed) {
        let (told, rest) = self.around.split_at_mut(self.used);
        let runs = &mut rest[0];
        if !runs.measure(profile, now, freed) {
            return;
        }
        let gained = runs.first..runs.classes;
        for (longest, length) in self.longest_s[gained.clone()].iter_mut().zip(&runs.longest_s[gained]) {
            *longest = (*longest).max(*length);
        }
        let full = told.len() == TOLD_APART;
        match told.last_mut() {
            Some(last) if last.covers(runs) => {}
            Some(last) if full => last.merge(runs),
            _ => self.used += 1,
        }
    }

    /// Per class of sizes, no run is longer, in seconds; 0 where there is none.
    pub fn longest_s(&self) -> &[u32; CLASSES] {
        &self.longest_s
    }

    /// When the runs could let a job of that shape start, at the earliest, so that it ends by `deadline`;
    /// none if they cannot.
    pub fn earliest_start(&self, procs: Procs, walltime: Span, deadline: Time) -> Option<Time> {
        let class = class_of(i64::from(procs.0));
        let length = u32::try_from(walltime.0).unwrap_or(ENDLESS).min(ENDLESS);
        let latest = deadline.0 - walltime.0;
        let mut earliest = i64::MAX;
        for runs in &self.around[..self.used] {
            if runs.has(class) && runs.longest_s[class] >= length && runs.earliest[class] <= latest {
                earliest = earliest.min(runs.earliest[class]);
            }
        }
        (earliest != i64::MAX).then_some(Time(earliest))
    }
}

impl Runs {
    const NONE: Runs = Runs { first: 0, classes: 0, longest_s: [0; CLASSES], earliest: [i64::MAX; CLASSES] };

    fn has(&self, class: usize) -> bool {
        (self.first..self.classes).contains(&class)
    }

    /// Measures the runs around a freed interval; false if there are none (any more).
    fn measure(&mut self, profile: &Profile, now: Time, freed: Freed) -> bool {
        let (from, until) = (freed.from.max(now), freed.until);
        (self.first, self.classes) = (0, 0);
        if from >= until {
            return false;
        }
        let least = i64::from(freed.least.0.max(1));
        let (begin, end, widest) = profile.across(from, until);
        if widest < least {
            return false;
        }
        let (first, classes) = (class_of(least), class_of(widest) + 1);
        (self.first, self.classes) = (first, classes);
        let earliest = &mut self.earliest;
        let mut open = classes;
        profile.narrowing_left(begin, from, now, |end, free| {
            while open > first && corner(open - 1) > free {
                open -= 1;
                earliest[open] = end.max(now.0);
            }
            open > first
        });
        earliest[first..open].fill(now.0);
        let length = |until: i64, from: i64| u32::try_from(until - from).unwrap_or(ENDLESS).min(ENDLESS);
        let mut open = classes;
        profile.narrowing_right(end, until, |begin, free| {
            while open > first && corner(open - 1) > free {
                open -= 1;
                self.longest_s[open] = length(begin, self.earliest[open]);
            }
            open > first
        });
        self.longest_s[first..open].fill(ENDLESS);
        true
    }

    fn covers(&self, other: &Runs) -> bool {
        other.first >= self.first
            && other.classes <= self.classes
            && (other.first..other.classes).all(|class| {
                self.longest_s[class] >= other.longest_s[class]
                    && self.earliest[class] <= other.earliest[class]
            })
    }

    fn merge(&mut self, other: &Runs) {
        let (first, classes) = (self.first.min(other.first), self.classes.max(other.classes));
        for class in first..classes {
            let of = |runs: &Runs| {
                if runs.has(class) { (runs.longest_s[class], runs.earliest[class]) } else { (0, i64::MAX) }
            };
            let (own, theirs) = (of(self), of(other));
            (self.longest_s[class], self.earliest[class]) = (own.0.max(theirs.0), own.1.min(theirs.1));
        }
        (self.first, self.classes) = (first, classes);
    }
}

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
        if !runs.measure(profile, now, freed) {
            return;
        }
        for size in runs.first..runs.classes.min(self.sizes) {
            let length = runs.longest_s[size];
            if length == 0 {
                continue;
            }
            let classes = if length == ENDLESS { CLASSES } else { class_of(i64::from(length)) + 1 };
            let earliest = runs.earliest[size];
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

    /// Replaces the bound of a class.
    pub(crate) fn set(&mut self, size: usize, walltime: Span, bound: Time) {
        self.bound[size * CLASSES + class_of(walltime.0.max(1))] = bound.0;
    }

    /// Lowers every bound to that of another, smaller or equal cluster.
    pub(crate) fn lower_to(&mut self, other: &StartBounds) {
        for (own, theirs) in self.bound.iter_mut().zip(&other.bound) {
            *own = (*own).min(*theirs);
        }
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

    /// The completion-minimal shape with at least `least` and at most `most` processors: the same answer
    /// as one pass of `Profile::best_shape` over the whole profile, found class by class.
    ///
    /// Every size of a class needs at least the class's corner and lasts at least as long as the class's
    /// largest size; so no size of the class completes before (bound on the start of such a corner) +
    /// (walltime of the largest size). Classes are taken by that bound, and those that cannot reach the
    /// best completion found so far are left out.
    pub fn best_shape(
        &mut self,
        profile: &Profile,
        now: Time,
        least: Procs,
        most: Procs,
        walltime: &dyn Fn(Procs) -> Span,
        best: &mut Option<Fit>,
    ) {
        let (low, high) = (i64::from(least.0), i64::from(most.0));
        let (first, last) = (class_of(low), class_of(high));
        let mut order = [(i64::MAX, 0_u8); CLASSES];
        let mut pending = 0;
        for class in first..=last {
            // Class 1 holds no value: its corner is that of class 0.
            if class == 1 {
                continue;
            }
            let quickest = walltime(Procs(largest(class).min(high) as u32));
            let bound = self.at_least(Procs(corner(class) as u32), quickest, now);
            order[pending] = (bound.0.saturating_add(quickest.0), class as u8);
            pending += 1;
        }
        let order = &mut order[..pending];
        order.sort_unstable();
        for (bound, class) in order.iter().copied() {
            let reach = best.map_or(i64::MAX, |fit| (fit.start + fit.walltime).0);
            if bound > reach {
                break;
            }
            let class = usize::from(class);
            let largest = Procs(largest(class).min(high) as u32);
            let smallest = Procs(corner(class).max(low) as u32);
            let quickest = walltime(largest);
            let start = self.advance(profile, corner(class), quickest, now);
            if start.0.saturating_add(quickest.0) <= reach {
                profile.best_shape(start, smallest, largest, walltime, best);
            }
        }
    }
}
