//! Unique job numbers, the keys of results.
//!
//! Memory is a bit per number where numbers are dense, as in the logs of one machine, and two words per
//! number where they are far apart.

use rustc_hash::FxHashMap;

/// JobNumbers that are given instead of missing or repeated ones begin behind this one. No batch system counts
/// so far, and floating-point readers (spreadsheets, scripts in pages) still distinguish them.
pub(crate) const GIVEN: u64 = 1_000_000_000_000_000;

/// The numbers in use.
#[derive(Default)]
pub(crate) struct JobNumbers {
    /// By the number divided by 64: which of the 64 are taken.
    blocks: FxHashMap<u64, u64>,
    /// The last used block, kept apart: neighbours in a log have neighbouring numbers.
    block: u64,
    taken: u64,
    last_given: u64,
}

impl JobNumbers {
    /// Takes a number; false if it was taken before.
    pub(crate) fn take(&mut self, number: u64) -> bool {
        let block = number / 64;
        if block != self.block {
            self.blocks.insert(self.block, self.taken);
            self.taken = self.blocks.get(&block).copied().unwrap_or(0);
            self.block = block;
        }
        let bit = 1 << (number % 64);
        let free = self.taken & bit == 0;
        self.taken |= bit;
        free
    }

    /// A number for the job of a line: [`GIVEN`] plus the line, or the next one that is free.
    pub(crate) fn give(&mut self, line: u64) -> u64 {
        let mut number = GIVEN.saturating_add(line).max(self.last_given + 1);
        while !self.take(number) {
            number += 1;
        }
        self.last_given = number;
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_taken_once_and_given_ones_avoid_it() {
        let mut numbers = JobNumbers::default();
        let taken: Vec<bool> =
            [0, 63, 64, 5, 63, 7_000_000, 64, 0, 6].map(|number| numbers.take(number)).into();
        assert_eq!(taken, [true, true, true, true, false, true, false, false, true]);
        assert!(numbers.take(GIVEN + 3) && numbers.take(i64::MAX as u64));
        assert_eq!([2, 3, 3].map(|line| numbers.give(line) - GIVEN), [2, 4, 5]);
        assert!(!numbers.take(GIVEN + 5));
    }
}
