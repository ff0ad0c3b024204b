//! How sure a mean difference between two replays of the same jobs is: a paired moving-block bootstrap.
//!
//! The differences of the jobs, in the order of submission, are drawn again in circular blocks of neighbours (Politis and
//! Romano, "A circular block-resampling procedure for stationary data", 1992): jobs that waited in the same queue share
//! their fate, and drawn one by one they would look like more evidence than they are. Blocks have the square root of the
//! number of jobs, longer than what is best for short memories, since busy periods are long. The interval holds the
//! middle 95 % of the means.
//!
//! It says how much another stretch of the same kind of work could differ. It knows nothing of how well the replay follows
//! the real clusters, and with a handful of busy periods in all it is too narrow. Cost: `RESAMPLES` sums of all jobs.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::quantile::quantile;

/// How often the differences are drawn again.
const RESAMPLES: usize = 2_000;
/// Fewer jobs than that have no interval.
pub const JOBS_MIN: usize = 30;

/// A mean, and where it could as well have been.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Interval {
    /// The mean of all.
    pub mean: f64,
    /// The lower end of the 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// True if there may be no difference at all.
    pub fn holds_zero(&self) -> bool {
        self.low <= 0.0 && self.high >= 0.0
    }
}

/// The mean of differences in the order of submission, with its interval; none of fewer than [`JOBS_MIN`]. The same seed
/// gives the same interval.
pub fn mean_difference(differences: &[f64], seed: u64) -> Option<Interval> {
    (differences.len() >= JOBS_MIN)
        .then(|| resampled(differences, (differences.len() as f64).sqrt().ceil() as usize, seed))
        .flatten()
}

/// The mean of values that do not depend on each other, with its interval. The same seed gives the same interval.
pub(crate) fn mean_of_independent(values: &[f64], seed: u64) -> Option<Interval> {
    if values.is_empty() { None } else { resampled(values, 1, seed) }
}

/// With blocks of that length.
fn resampled(differences: &[f64], block: usize, seed: u64) -> Option<Interval> {
    let count = differences.len();
    let mean = |sum: f64| sum / count as f64;
    // Sums of everything before a position, round the circle once more: a block is one difference.
    let mut before = Vec::with_capacity(count + block + 1);
    before.push(0.0);
    for difference in differences.iter().chain(differences.iter().take(block)) {
        before.push(before[before.len() - 1] + difference);
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut draw = || {
        let (mut left, mut sum) = (count, 0.0);
        while left > 0 {
            let (first, length) = (rng.random_range(0..count), block.min(left));
            sum += before[first + length] - before[first];
            left -= length;
        }
        mean(sum)
    };
    let mut means: Vec<f64> = (0..RESAMPLES).map(|_| draw()).collect();
    means.sort_by(f64::total_cmp);
    let (low, high) = (quantile(&means, 0.025)?, quantile(&means, 0.975)?);
    Some(Interval { mean: mean(differences.iter().sum()), low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `trials` intervals of autoregressive series around 10 hold that mean, and how wide they are.
    fn coverage(memory: f64, count: usize, trials: u64, block: Option<usize>) -> (u64, f64) {
        let (mut holding, mut width) = (0, 0.0);
        for trial in 0..trials {
            let mut rng = ChaCha8Rng::seed_from_u64(trial);
            let mut noise = 0.0;
            let series: Vec<f64> = (0..count + 100)
                .map(|_| {
                    // The sum of twelve uniform numbers is as good as normal.
                    let shock: f64 = (0..12).map(|_| rng.random_range(-0.5..0.5)).sum();
                    noise = memory * noise + shock;
                    10.0 + noise
                })
                .skip(100)
                .collect();
            let found = match block {
                Some(block) => resampled(&series, block, trial),
                None => mean_difference(&series, trial),
            };
            let Interval { mean, low, high } = found.unwrap();
            assert!(low <= mean && mean <= high);
            holding += u64::from(low <= 10.0 && high >= 10.0);
            width += high - low;
        }
        (holding, width / trials as f64)
    }

    #[test]
    fn intervals_hold_the_mean_about_as_often_as_they_say() {
        // 95 % are meant. Blocks of a short series are few, and what is remembered makes them fewer.
        for (memory, least) in [(0.0, 172), (0.5, 168), (0.8, 156)] {
            let (holding, _) = coverage(memory, 400, 200, None);
            assert!((least..=198).contains(&holding), "{holding} of 200 with a memory of {memory}");
        }
    }

    #[test]
    fn one_by_one_they_would_seem_surer_than_they_are() {
        let (holding, narrow) = coverage(0.8, 400, 200, Some(1));
        let (_, wide) = coverage(0.8, 400, 200, None);
        assert!(holding < 140, "{holding} of 200");
        assert!(wide > 1.8 * narrow, "{wide} against {narrow}");
    }

    #[test]
    fn the_width_of_independent_differences_is_that_of_the_normal_distribution() {
        let (_, width) = coverage(0.0, 400, 50, Some(1));
        let expected = 2.0 * 1.96 / 20.0;
        assert!((width / expected - 1.0).abs() < 0.05, "{width} against {expected}");
    }

    #[test]
    fn the_same_seed_draws_the_same_and_few_or_equal_jobs_say_what_they_can() {
        let differences: Vec<f64> = (0..100).map(|number| f64::from(number % 17)).collect();
        assert_eq!(mean_difference(&differences, 3), mean_difference(&differences, 3));
        assert_ne!(mean_difference(&differences, 3), mean_difference(&differences, 4));
        assert_eq!(mean_difference(&differences[..JOBS_MIN - 1], 3), None);
        let equal = mean_difference(&[0.0; JOBS_MIN], 3).unwrap();
        assert_eq!((equal.low, equal.mean, equal.high), (0.0, 0.0, 0.0));
        assert!(equal.holds_zero() && !Interval { mean: 2.0, low: 1.0, high: 3.0 }.holds_zero());
    }
}
