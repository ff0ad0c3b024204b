//! Ranges of policy parameters, the same for options and campaign files.

use std::ops::RangeInclusive;

/// The period of reallocation in seconds: at most some thirty years, so that sums of times cannot overflow.
pub const PERIOD_S: RangeInclusive<i64> = 1..=1_000_000_000;

/// The gain that a move must have, in seconds.
pub const THRESHOLD_S: RangeInclusive<i64> = 0..=1_000_000_000;

/// The number of jobs that heuristics consider.
pub const WINDOW: RangeInclusive<u32> = 1..=u32::MAX;

/// The number of last jobs of a category that a prediction uses: each costs a number in memory per category.
pub const LAST_JOBS: RangeInclusive<i64> = 1..=100_000;

/// The number of jobs of a sequence of a log.
pub const SEQUENCE_JOBS: RangeInclusive<i64> = 1..=100_000_000;
