//! What policies may be told, the same in options and in campaign files.

use std::ops::RangeInclusive;

/// Seconds between two reallocation events: at least one, and no more than some thirty years, so that sums of
/// times stay far from their limit.
pub const PERIOD_S: RangeInclusive<i64> = 1..=1_000_000_000;

/// Seconds that a move must gain.
pub const THRESHOLD_S: RangeInclusive<i64> = 0..=1_000_000_000;

/// Jobs that heuristics look at.
pub const WINDOW: RangeInclusive<u32> = 1..=u32::MAX;

/// How many of the last jobs of a category a prediction may be of: each costs a number in memory per category.
pub const LAST_JOBS: RangeInclusive<i64> = 1..=100_000;

/// Jobs of a sequence of a log.
pub const SEQUENCE_JOBS: RangeInclusive<i64> = 1..=100_000_000;
