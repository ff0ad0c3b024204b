//! The earliest start of every size on a plan, for one walltime.
//!
//! A federation keeps such rows for each of its clusters and for groups of them, for some walltimes. Sizes are in classes, of
//! which the small ones have one value each; so a bound that is made of a row is close to the completion itself.

use pliant_model::{Procs, Time};

/// Classes of positive values, `2^BITS` for each octave. Values below `2^(BITS + 1)` have a class each.
pub(crate) struct FineClasses<const BITS: u32>;

impl<const BITS: u32> FineClasses<BITS> {
    /// The class of a value, which is at least 1.
    pub(crate) const fn of(value: u32) -> usize {
        let octave = value.ilog2();
        let shift = octave.saturating_sub(BITS);
        ((shift as usize) << BITS) + (value >> shift) as usize - 1
    }

    /// The least value of a class.
    pub(crate) const fn corner(class: usize) -> u32 {
        let number = class + 1;
        let shift = (number >> BITS).saturating_sub(1);
        let value = ((number - (shift << BITS)) as u64) << shift;
        if value > u32::MAX as u64 { u32::MAX } else { value as u32 }
    }

    /// The largest value of a class.
    pub(crate) const fn largest(class: usize) -> u32 {
        let next = Self::corner(class + 1);
        if next == u32::MAX { next } else { next - 1 }
    }
}

/// Classes of sizes.
pub(crate) type SizeClasses = FineClasses<6>;

/// A step of a plan: from then on so many processors are free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Free {
    /// When, in seconds.
    pub(crate) at_s: i32,
    pub(crate) procs: u32,
}

/// Fills a row: for each class of sizes, no job of such a size that lasts at least `walltime_s` starts earlier. `never` is for sizes of
/// which there are never enough processors. The steps are in order; the last one holds for ever. O(steps + classes).
pub(crate) fn earliest_starts(
    steps: &[Free],
    walltime_s: i32,
    never: i32,
    least: &mut Vec<usize>,
    row: &mut [i32],
) {
    let (mut filled, mut last, mut first) = (0, 0, 0);
    // The steps of the window that may be its lowest, from the lowest on: those before which no later one is as low.
    least.clear();
    for (index, step) in steps.iter().enumerate() {
        let end = step.at_s.saturating_add(walltime_s);
        while let Some(next) = steps.get(last).filter(|next| last <= index || next.at_s < end) {
            while least.len() > first && least.last().is_some_and(|low| steps[*low].procs >= next.procs) {
                least.pop();
            }
            least.push(last);
            last += 1;
        }
        while least[first] < index {
            first += 1;
        }
        let lowest = steps[least[first]].procs;
        if lowest > 0 {
            let until = (SizeClasses::of(lowest) + 1).min(row.len());
            if until > filled {
                row[filled..until].fill(step.at_s);
                filled = until;
            }
        }
    }
    row[filled..].fill(never);
}

/// Lowers a row to another one; true if that changes it.
pub(crate) fn lower_to(row: &mut [i32], other: &[i32]) -> bool {
    let mut is_lowered = false;
    for (own, other) in row.iter_mut().zip(other) {
        is_lowered |= other < own;
        *own = (*own).min(*other);
    }
    is_lowered
}

/// Processors as the number that classes are made of.
pub(crate) fn size(procs: Procs) -> u32 {
    procs.0.max(1)
}

/// Seconds after `base`, at most `never`; times before it count as that.
pub(crate) fn seconds_after(base: Time, time: Time, never: i32) -> i32 {
    (time.0.saturating_sub(base.0)).clamp(0, never.into()) as i32
}

#[cfg(test)]
mod tests {
    use pliant_model::Span;
    use proptest::prelude::*;

    use super::super::Profile;
    use super::*;

    #[test]
    fn every_value_lies_between_its_corner_and_the_next() {
        fn check<const BITS: u32>(values: impl Iterator<Item = u32>) {
            let mut last = 0;
            for value in values {
                let class = FineClasses::<BITS>::of(value);
                let (corner, largest) =
                    (FineClasses::<BITS>::corner(class), FineClasses::<BITS>::largest(class));
                assert!(
                    corner <= value && value <= largest,
                    "{value} in class {class} of {corner}..={largest}"
                );
                assert!(class >= last, "{value}");
                last = class;
            }
        }
        let values =
            || (1..5000).chain((12..32).flat_map(|power| [(1 << power) - 1, 1 << power])).chain([u32::MAX]);
        check::<1>(values());
        check::<2>(values());
        check::<6>(values());
        assert_eq!(
            (SizeClasses::of(127), SizeClasses::corner(126)),
            (126, 127),
            "small values have a class each"
        );
    }

    proptest! {
        /// A row is what the profile says for the corner of each class.
        #[test]
        fn rows_are_those_of_the_profile(
            drawn in prop::collection::vec((1..400_i32, 0..200_u32), 0..30), walltime_s in 1..1500_i32,
        ) {
            let mut at_s = 0;
            let mut steps = Vec::new();
            for (gap, procs) in drawn {
                steps.push(Free { at_s, procs });
                at_s += gap;
            }
            steps.push(Free { at_s, procs: 200 });
            let profile = Profile::of_steps(
                steps.iter().map(|step| (Time(step.at_s.into()), Procs(step.procs))),
            );
            let mut row = vec![0; SizeClasses::of(210) + 1];
            earliest_starts(&steps, walltime_s, i32::MAX, &mut Vec::new(), &mut row);
            for (class, start) in row.iter().enumerate() {
                let (corner, walltime) = (Procs(SizeClasses::corner(class)), Span(walltime_s.into()));
                let expected = profile.earliest_fit(Time(0), corner, walltime);
                prop_assert_eq!((*start < i32::MAX).then_some(Time((*start).into())), expected, "{:?}", corner);
            }
        }
    }
}
