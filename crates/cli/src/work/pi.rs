//! Pi by Monte Carlo: the share of random points of a square that fall into the quarter circle, times four.

use std::num::NonZeroUsize;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use super::in_pieces;

/// Points of a block; each block has a stream of random numbers of its own.
const BLOCK: u64 = 1 << 22;

/// What the points say about pi.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Estimate {
    /// Points in the square.
    pub(crate) samples: u64,
    /// Those of them in the quarter circle.
    pub(crate) inside: u64,
}

impl Estimate {
    /// The estimate.
    pub(crate) fn pi(self) -> f64 {
        4.0 * self.share()
    }

    /// Its standard error: each point is a draw with the probability of the circle's share.
    pub(crate) fn standard_error(self) -> f64 {
        let share = self.share();
        4.0 * (share * (1.0 - share) / self.samples as f64).sqrt()
    }

    fn share(self) -> f64 {
        self.inside as f64 / self.samples as f64
    }
}

/// Draws `samples` points, at least one. `progress` gets the number of drawn points.
pub(crate) fn estimate(
    samples: u64,
    seed: u64,
    threads: NonZeroUsize,
    mut progress: impl FnMut(u64),
) -> Estimate {
    let mut estimate = Estimate { samples: 0, inside: 0 };
    let blocks = (0..samples.div_ceil(BLOCK)).map(|block| (block, BLOCK.min(samples - block * BLOCK)));
    let count = |(block, points)| Estimate { samples: points, inside: inside(seed, block, points) };
    in_pieces(blocks, threads, count, |block| {
        estimate.samples += block.samples;
        estimate.inside += block.inside;
        progress(estimate.samples);
    });
    estimate
}

/// How many points of a block are in the circle. Coordinates are whole numbers below 2^32, so that a point is outside
/// exactly if the sum of their squares is no 64-bit number; the grid is too fine to be seen (1 part in 10^9).
fn inside(seed: u64, block: u64, points: u64) -> u64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(block);
    let mut inside = 0;
    for _ in 0..points {
        let point = random.next_u64();
        let (x, y) = (point >> 32, point & u64::from(u32::MAX));
        inside += u64::from((x * x).checked_add(y * y).is_some());
    }
    inside
}

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;

    fn on(threads: usize, samples: u64, seed: u64) -> Estimate {
        estimate(samples, seed, NonZeroUsize::new(threads).unwrap(), |_| {})
    }

    #[test]
    fn estimates_are_within_five_standard_errors() {
        for (samples, seed) in [(1_000, 1), (100_000, 2), (BLOCK + 1, 3), (2 * BLOCK, 4)] {
            let found = on(2, samples, seed);
            assert_eq!(found.samples, samples);
            let error = (found.pi() - PI).abs();
            assert!(error < 5.0 * found.standard_error(), "{samples} points, seed {seed}: {}", found.pi());
        }
    }

    #[test]
    fn the_standard_error_is_that_of_the_binomial() {
        let found = Estimate { samples: 1_000_000, inside: 750_000 };
        assert_eq!(found.pi(), 3.0);
        assert!((found.standard_error() - 0.001_732_050_8).abs() < 1e-10, "{}", found.standard_error());
    }

    #[test]
    fn threads_do_not_change_the_answer_but_seeds_and_blocks_do() {
        let samples = 2 * BLOCK + 17;
        let found = on(1, samples, 9);
        for threads in [2, 3, 8] {
            assert_eq!(on(threads, samples, 9), found, "{threads} threads");
        }
        assert_ne!(on(1, samples, 10), found);
        assert_ne!(inside(9, 0, 100_000), inside(9, 1, 100_000));
    }

    #[test]
    fn progress_reaches_the_end_and_never_goes_back() {
        let mut reported = Vec::new();
        estimate(2 * BLOCK + 1, 1, NonZeroUsize::MIN, |drawn| reported.push(drawn));
        assert_eq!(reported, [BLOCK, 2 * BLOCK, 2 * BLOCK + 1]);
    }
}
