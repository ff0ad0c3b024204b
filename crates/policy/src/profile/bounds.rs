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

/// Runs of free processors around one freed interval: per class of sizes, the length of the run with that
/// many free processors and when it starts. Errs on the side of too long and too early.
#[derive(Clone, Debug)]
struct Runs {
    /// Classes from here on have no run.
    classes: usize,
    longest_s: [u32; CLASSES],
    earliest: [i64; CLASSES],
}

/// The runs of free processors that meet some freed intervals.
#[derive(Clone, Debug)]
pub struct Touched {
    /// Per class of sizes, the longest of all runs, in seconds.
    longest_s: [u32; CLASSES],
    /// Classes from here on have no run.
    classes: usize,
    /// The first `used` are those told apart; the others are storage.
    around: Vec<Runs>,
    used: usize,
}

/// How many freed intervals are told apart; the runs of further ones are merged into the last.
const TOLD_APART: usize = 16;

impl Default for Touched {
    fn default() -> Self {
        Self { longest_s: [0; CLASSES], classes: 0, around: vec![Runs::NONE; TOLD_APART + 1], used: 0 }
    }
}

impl Touched {
    /// Nothing was freed.
    pub fn clear(&mut self) {
        self.longest_s = [0; CLASSES];
        self.classes = 0;
        self.used = 0;
    }

    /// True if nothing was freed.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Adds the runs that meet `[from, until)`, where processors were just given back. Runs count from
    /// `now` on. O(blocks met while walking out of the interval).
    pub fn add(&mut self, profile: &Profile, now: Time, from: Time, until: Time) {
        let (told, rest) = self.around.split_at_mut(self.used);
        let runs = &mut rest[0];
        if !runs.measure(profile, now, from.max(now), until) {
            return;
        }
        self.classes = self.classes.max(runs.classes);
        for (longest, length) in self.longest_s.iter_mut().zip(&runs.longest_s[..runs.classes]) {
            *longest = (*longest).max(*length);
        }
        let full = told.len() == TOLD_APART;
        match told.last_mut() {
            Some(last) if last.covers(runs) => {}
            Some(last) if full => last.merge(runs),
            _ => self.used += 1,
        }
    }

    /// The longest run, per class of sizes, in seconds; classes beyond the end have none.
    pub fn longest_s(&self) -> &[u32] {
        &self.longest_s[..self.classes]
    }

    /// When the runs could let a job of that shape start, at the earliest, so that it ends by `deadline`;
    /// none if they cannot.
    pub fn earliest_start(&self, procs: Procs, walltime: Span, deadline: Time) -> Option<Time> {
        let class = class_of(i64::from(procs.0));
        let length = u32::try_from(walltime.0).unwrap_or(ENDLESS).min(ENDLESS);
        let latest = deadline.0 - walltime.0;
        let mut earliest = i64::MAX;
        for runs in &self.around[..self.used] {
            if class < runs.classes && runs.longest_s[class] >= length && runs.earliest[class] <= latest {
                earliest = earliest.min(runs.earliest[class]);
            }
        }
        (earliest != i64::MAX).then_some(Time(earliest))
    }
}

impl Runs {
    const NONE: Runs = Runs { classes: 0, longest_s: [0; CLASSES], earliest: [i64::MAX; CLASSES] };

    /// Measures the runs around `[from, until)`; false if there are none.
    fn measure(&mut self, profile: &Profile, now: Time, from: Time, until: Time) -> bool {
        self.classes = 0;
        if from >= until {
            return false;
        }
        let widest = profile.max_free(from, until);
        if widest == 0 {
            return false;
        }
        let classes = class_of(widest) + 1;
        self.classes = classes;
        let earliest = &mut self.earliest;
        let mut open = classes;
        profile.narrowing_left(from, now, |end, free| {
            while open > 0 && corner(open - 1) > free {
                open -= 1;
                earliest[open] = end.max(now.0);
            }
            open > 0
        });
        earliest[..open].fill(now.0);
        let length = |until: i64, from: i64| u32::try_from(until - from).unwrap_or(ENDLESS).min(ENDLESS);
        let mut open = classes;
        profile.narrowing_right(until, |begin, free| {
            while open > 0 && corner(open - 1) > free {
                open -= 1;
                self.longest_s[open] = length(begin, self.earliest[open]);
            }
            open > 0
        });
        self.longest_s[..open].fill(ENDLESS);
        true
    }

    fn covers(&self, other: &Runs) -> bool {
        other.classes <= self.classes
            && (0..other.classes).all(|class| {
                self.longest_s[class] >= other.longest_s[class]
                    && self.earliest[class] <= other.earliest[class]
            })
    }

    fn merge(&mut self, other: &Runs) {
        for class in 0..self.classes.min(other.classes) {
            self.longest_s[class] = self.longest_s[class].max(other.longest_s[class]);
            self.earliest[class] = self.earliest[class].min(other.earliest[class]);
        }
        for class in self.classes..other.classes {
            self.longest_s[class] = other.longest_s[class];
            self.earliest[class] = other.earliest[class];
        }
        self.classes = self.classes.max(other.classes);
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

    /// Takes into account that processors were given back on `[from, until)` since the last call.
    pub fn freed(&mut self, profile: &Profile, now: Time, from: Time, until: Time) {
        let mut runs = Runs::NONE;
        if !runs.measure(profile, now, from.max(now), until) {
            return;
        }
        for size in 0..runs.classes.min(self.sizes) {
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
