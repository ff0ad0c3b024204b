//! Runs of free processors around an interval on which processors were given back.

use std::ops::Range;

use pliant_model::{Procs, Time};

use super::Profile;
use super::classes::{CLASSES, class_of, corner};

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

/// Runs of free processors around one freed interval: per class of sizes, where the run with that many free
/// processors begins and ends. Errs on the side of too long: the freed interval itself counts as a whole.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    /// Classes before `first` have gained nothing, classes from `classes` on have no run.
    pub(super) first: usize,
    pub(super) classes: usize,
    pub(super) begin: [i64; CLASSES],
    pub(super) end: [i64; CLASSES],
}

impl Runs {
    pub(super) const NONE: Runs = Runs { first: 0, classes: 0, begin: [0; CLASSES], end: [0; CLASSES] };

    /// Measures the runs of some classes around a freed interval, as far as they lie between `now` and `last`; false if there are none
    /// (any more). O(blocks met while walking out of the interval).
    pub(super) fn measure(
        &mut self,
        profile: &Profile,
        (now, last): (Time, Time),
        freed: Freed,
        asked: Range<usize>,
    ) -> bool {
        let (from, until) = (freed.from.max(now), freed.until.min(last));
        (self.first, self.classes) = (0, 0);
        if from >= until {
            return false;
        }
        let least = i64::from(freed.least.0.max(1));
        let (begin, end, widest) = profile.across(from, until);
        if widest < least {
            return false;
        }
        let first = class_of(least).max(asked.start);
        let classes = (class_of(widest) + 1).min(asked.end);
        if first >= classes {
            return false;
        }
        (self.first, self.classes) = (first, classes);
        let mut open = classes;
        profile.narrowing_left(begin, from, now, |end, free| {
            while open > first && corner(open - 1) > free {
                open -= 1;
                self.begin[open] = end.max(now.0);
            }
            open > first
        });
        self.begin[first..open].fill(now.0);
        let mut open = classes;
        profile.narrowing_right(end, until, last, |begin, free| {
            while open > first && corner(open - 1) > free {
                open -= 1;
                self.end[open] = begin.min(last.0);
            }
            open > first
        });
        self.end[first..open].fill(last.0);
        true
    }
}
