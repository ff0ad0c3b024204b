//! Arrivals over a working day: the polynomial that Calzarossa and Serazzi fitted in 1985 ("A characterization of the
//! variation in time of workload arrival patterns") to the arrivals of a normal day.

use pliant_model::rng::stream_seed;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Coefficients of the powers of `t`, the constant first.
const COEFFICIENTS: [f64; 9] = [3.1, -8.5, 24.7, 130.8, 107.7, -804.2, -2038.5, 1856.8, 4618.6];

/// The rate of arrivals at `t`, from -0.5 (8:30) to 0.5 (18:00): a peak in the morning and one in the afternoon.
pub fn diurnal_rate(t: f64) -> f64 {
    COEFFICIENTS.iter().rev().fold(0.0, |value, coefficient| value * t + coefficient)
}

/// The seconds in which somebody arrives, of a day pressed into `seconds` seconds: in each with a tenth of the rate as
/// its probability (paper 004, section 5.1.4).
pub fn diurnal_arrivals(seconds: u32, seed: u64) -> Vec<u32> {
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "diurnal"));
    let rate = |second: u32| diurnal_rate(f64::from(second) / f64::from(seconds) - 0.5);
    (0..seconds).filter(|second| rng.random::<f64>() < rate(*second) / 10.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g004_4_the_polynomial_has_the_published_shape() {
        let check = |t, expected: f64, within| {
            let found = diurnal_rate(t);
            assert!((found - expected).abs() < within, "at {t}: {found} instead of {expected}");
        };
        check(-0.5, 0.7211, 1e-3);
        check(-0.31, 5.583, 1e-3);
        check(0.0, 3.1, 1e-12);
        check(0.35, 4.64, 1e-2);
        let at = |step: i32| diurnal_rate(f64::from(step) / 10_000.0);
        let greatest = (-5_000..=5_000).map(at).fold(0.0, f64::max);
        assert!((greatest - 5.583).abs() < 1e-3, "{greatest}");
        assert!((-5_000..=5_000).all(|step| at(step) > 0.7), "a probability everywhere");
        let integral: f64 = (-5_000..5_000).map(|step| (at(step) + at(step + 1)) / 2.0 / 10_000.0).sum();
        assert!((integral - 3.959).abs() < 1e-3, "{integral}");
    }

    #[test]
    fn as_many_arrive_as_the_rate_says() {
        let expected: f64 = (0..100).map(|second| diurnal_rate(f64::from(second) / 100.0 - 0.5) / 10.0).sum();
        assert!((expected - 39.4).abs() < 0.05, "{expected}");
        let total: usize = (1..=400).map(|seed| diurnal_arrivals(100, seed).len()).sum();
        assert!((total as f64 / 400.0 - expected).abs() < 1.0, "{total}");
    }
}
