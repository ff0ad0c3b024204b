//! How fast this machine is: the services of a local federation promise runtimes, so they are measured first.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use crate::work::{matrix, pi};

/// How long each measurement takes, about.
const LONG_ENOUGH: Duration = Duration::from_millis(150);
/// Rows and columns of the matrices that are measured, and promised for.
pub(super) const MATRIX_SIZE: usize = 500;

/// What one core does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct CoreSpeed {
    /// Random points a second.
    pub(super) samples_per_s: f64,
    /// Products of two matrices of [`MATRIX_SIZE`] a second.
    pub(super) products_per_s: f64,
}

/// Measures this machine, in less than a second as a rule.
pub(super) fn measure() -> CoreSpeed {
    let one = NonZeroUsize::MIN;
    let samples_per_s = rate(100_000, |samples| {
        pi::estimate(samples, 1, one, |_| {});
    });
    let size = NonZeroUsize::new(MATRIX_SIZE).unwrap_or(one);
    let (a, b) = matrix::factors(size, 1);
    let products_per_s = rate(1, |products| {
        for _ in 0..products {
            matrix::product(&a, &b, one, |_| {});
        }
    });
    CoreSpeed { samples_per_s, products_per_s }
}

/// How many units a second are done, from ever larger amounts until one takes long enough.
fn rate(mut units: u64, mut act: impl FnMut(u64)) -> f64 {
    loop {
        let begun = Instant::now();
        act(units);
        let taken = begun.elapsed();
        if taken >= LONG_ENOUGH {
            return units as f64 / taken.as_secs_f64();
        }
        units *= 2;
    }
}
