//! The first start of each class of sizes and walltimes on one plan or on several: a table that travels.
//!
//! [`StartBounds`](super::StartBounds) belongs to a plan and learns from its searches. A table of class starts is made at once, in one
//! pass over the profile for each class of sizes, and is right when it is made: nothing of a class starts earlier. Reservations leave
//! it true; processors that become free earlier than planned do not.

use pliant_model::{Procs, Span, Time};

use super::Profile;
use super::classes::{CLASSES, class_of, corner};

/// What stands in the table for a class that never starts.
const NEVER: u32 = u32::MAX;

/// How many steps of a plan count. A queue of a million jobs has as many; a table is made after each change.
const STEPS_MAX: usize = 8192;

/// The first starts, per class of sizes and class of walltimes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClassStarts {
    at: Time,
    /// Seconds after `at`: `after_s[size class * CLASSES + walltime class]`.
    after_s: Vec<u32>,
}

impl ClassStarts {
    /// The first starts on a profile, not before `from`.
    pub(crate) fn on(profile: &Profile, from: Time) -> ClassStarts {
        let steps = profile.iter().map(|(begin, free)| (begin, i64::from(free.0)));
        ClassStarts::of_steps(profile.capacity(), from, steps)
    }

    /// The first starts where so many processors are free from each time on until the next, not before `from`. O(classes of sizes *
    /// [`STEPS_MAX`]).
    pub(crate) fn of_steps(
        capacity: Procs,
        from: Time,
        steps: impl Iterator<Item = (Time, i64)>,
    ) -> ClassStarts {
        let sizes = class_of(i64::from(capacity.0.max(1))) + 1;
        let mut after_s = vec![NEVER; sizes * CLASSES];
        let steps = steps.take(STEPS_MAX + 1);
        let mut steps: Vec<(Time, i64)> = steps.collect();
        // Nothing is known of what follows: all could be free.
        if let Some((_, free)) = steps.get_mut(STEPS_MAX) {
            *free = i64::MAX;
        }
        let ends = steps.iter().skip(1).map(|(time, _)| time.0).chain([i64::MAX]);
        let steps: Vec<(i64, i64, i64)> = steps
            .iter()
            .zip(ends)
            .filter(|(_, end)| *end > from.0)
            .map(|((begin, free), end)| (begin.0.max(from.0), end, *free))
            .collect();
        for (size, row) in after_s.chunks_exact_mut(CLASSES).enumerate() {
            let (mut filled, mut begin) = (0, None);
            for (time, end, free) in &steps {
                if *free < corner(size) {
                    begin = None;
                    continue;
                }
                let begin = *begin.get_or_insert(*time);
                let classes = class_of(end.saturating_sub(begin).max(1)) + 1;
                if classes > filled {
                    row[filled..classes].fill(seconds(Time(begin) - from));
                    filled = classes;
                }
                if filled == CLASSES && *end == i64::MAX {
                    break;
                }
            }
        }
        ClassStarts { at: from, after_s }
    }

    /// The entries of a class of sizes.
    pub const ROW: usize = CLASSES;
    /// The most entries of a table.
    pub const LENGTH_MAX: usize = CLASSES * CLASSES;

    /// A table as it is sent: the seconds after `at` per class of sizes and class of walltimes, [`u32::MAX`] for a class that never starts.
    /// None if these are not whole rows, or too many.
    pub fn from_seconds(at: Time, after_s: Vec<u32>) -> Option<ClassStarts> {
        let rows = after_s.chunks_exact(ClassStarts::ROW);
        let is_table = rows.remainder().is_empty() && (1..=CLASSES).contains(&rows.len());
        is_table.then_some(ClassStarts { at, after_s })
    }

    /// The time from which the entries count.
    pub fn at(&self) -> Time {
        self.at
    }

    /// The entries, in seconds after [`ClassStarts::at`].
    pub fn seconds(&self) -> &[u32] {
        &self.after_s
    }

    /// A time before which no job of that class of sizes and that walltime starts.
    pub(crate) fn of_class(&self, size: usize, walltime: Span, now: Time) -> Time {
        let entry = self.after_s.get(size * CLASSES + class_of(walltime.0.max(1)));
        self.time(entry.copied().unwrap_or(NEVER)).max(now)
    }

    /// Lowers every entry to that of another table, and takes over its larger classes.
    pub(crate) fn lower_to(&mut self, other: &ClassStarts) {
        let at = self.at.min(other.at);
        let later = self.at - at;
        if later > Span::ZERO {
            self.after_s.iter_mut().for_each(|entry| *entry = put_off(*entry, later));
        }
        self.at = at;
        let later = other.at - at;
        self.after_s.resize(self.after_s.len().max(other.after_s.len()), NEVER);
        for (own, theirs) in self.after_s.iter_mut().zip(&other.after_s) {
            *own = (*own).min(put_off(*theirs, later));
        }
    }

    /// True if an entry is earlier than that of `other` by more than `least`, or later by more than that and an eighth of the wait. With
    /// no `least` every difference counts.
    pub(crate) fn differs_from(&self, other: &ClassStarts, now: Time, least: Span) -> bool {
        if self.after_s.len() != other.after_s.len() {
            return true;
        }
        let differs = |(new, old): (&u32, &u32)| {
            let (new, old) = (self.time(*new).max(now), other.time(*old).max(now));
            let later = if least.0 == 0 { 0 } else { ((old - now).0 / 8).saturating_add(least.0) };
            old.0.saturating_sub(new.0) > least.0 || new.0.saturating_sub(old.0) > later
        };
        self.after_s.iter().zip(&other.after_s).any(differs)
    }

    fn time(&self, after_s: u32) -> Time {
        if after_s == NEVER { Time::MAX } else { Time(self.at.0.saturating_add(i64::from(after_s))) }
    }
}

/// So many seconds as an entry.
fn seconds(after: Span) -> u32 {
    u32::try_from(after.0.max(0)).unwrap_or(NEVER - 1).min(NEVER - 1)
}

/// An entry that counts from so much earlier.
fn put_off(after_s: u32, by: Span) -> u32 {
    if after_s == NEVER { NEVER } else { seconds(Span(i64::from(after_s).saturating_add(by.0))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_with_many_steps_is_bounded_by_its_first_ones() {
        // All four processors are free every other second, and from a time on.
        let starts = |last: i64, least: i64| {
            let busy = (0..last).map(move |at| (Time(at), if at % 2 == 0 { 4 } else { least }));
            let starts = ClassStarts::of_steps(Procs(4), Time(0), busy.chain([(Time(last), 4)]));
            let of = |procs, walltime| starts.of_class(class_of(procs), Span(walltime), Time(0)).0;
            (of(4, 1), of(4, 5), of(1, 5), of(64, 1))
        };
        assert_eq!(starts(8_000, 0), (0, 8_000, 8_000, Time::MAX.0));
        assert_eq!(starts(20_000, 0), (0, 8_192, 8_192, Time::MAX.0));
        assert_eq!(starts(20_000, 1), (0, 8_192, 0, Time::MAX.0));
    }
}
