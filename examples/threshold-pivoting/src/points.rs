//! Thresholds by number, so that the completed ones of an exploration cover their range evenly.
//!
//! Numbers are bit-reversed into a fraction (van der Corput's sequence): 0, 1/2, 1/4, 3/4, 1/8, ... The fraction is that of the
//! decades between 1 and the smallest threshold, so that the first three, which are mandatory, are 1, the middle and a
//! quarter of the way.

/// Decades that thresholds go down from 1.
const DECADES: f64 = 10.0;

/// The threshold of that number.
pub(crate) fn threshold(point: u32) -> f64 {
    let fraction = f64::from(point.reverse_bits()) / 2_f64.powi(32);
    10_f64.powf(-DECADES * fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_points_are_far_apart() {
        for (point, expected) in [1.0, 1e-5, 10_f64.powf(-2.5), 10_f64.powf(-7.5)].into_iter().enumerate() {
            let found = threshold(point as u32);
            assert!((found / expected - 1.0).abs() < 1e-12, "{point}: {found:e}");
        }
    }

    /// Of the first 2^n there is one in each of 2^n parts of the range.
    #[test]
    fn every_beginning_is_even() {
        for bits in 0..8 {
            let mut parts: Vec<u32> = (0..1 << bits)
                .map(|point| (-threshold(point).log10() / DECADES * f64::from(1 << bits)).round() as u32)
                .collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..1 << bits).collect::<Vec<_>>());
        }
    }
}
