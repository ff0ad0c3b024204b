//! Quantiles and box statistics, by one rule everywhere.
//!
//! The rule is linear interpolation between order statistics (type 7 of Hyndman and Fan, "Sample quantiles
//! in statistical packages", 1996): for `n` sorted values, the quantile `q` lies at position `q (n - 1)`.

use serde::{Deserialize, Serialize};

/// A value that quantiles can be taken of.
pub(crate) trait Sample: Copy {
    /// The value as a number.
    fn number(self) -> f64;
}

impl Sample for f64 {
    fn number(self) -> f64 {
        self
    }
}

impl Sample for i64 {
    fn number(self) -> f64 {
        self as f64
    }
}

/// The quantile `q` (0..=1) of `sorted` values by linear interpolation; none if there are none.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    quantile_of(sorted, q)
}

pub(crate) fn quantile_of<T: Sample>(sorted: &[T], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let below = position.floor() as usize;
    let low = sorted[below].number();
    let high = sorted[(below + 1).min(last)].number();
    Some(low + (high - low) * (position - below as f64))
}

/// The five numbers of a box plot, and the mean.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Quartiles {
    /// How many values.
    pub count: u64,
    /// The least.
    pub min: f64,
    /// First quartile.
    pub q1: f64,
    /// Median.
    pub median: f64,
    /// Third quartile.
    pub q3: f64,
    /// The greatest.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
}

impl Quartiles {
    /// The box of some values, in any order. Values that are not finite are left out; none if nothing is left.
    pub fn of(values: &[f64]) -> Option<Quartiles> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |q| quantile(&sorted, q);
        Some(Quartiles {
            count: sorted.len() as u64,
            min: at(0.0)?,
            q1: at(0.25)?,
            median: at(0.5)?,
            q3: at(0.75)?,
            max: at(1.0)?,
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_interpolate_between_order_statistics() {
        let found = Quartiles::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        let expected = Quartiles { count: 4, min: 1.0, q1: 1.75, median: 2.5, q3: 3.25, max: 4.0, mean: 2.5 };
        assert_eq!(found, expected);
    }

    #[test]
    fn one_value_is_its_own_box() {
        let found = Quartiles::of(&[7.0]).unwrap();
        assert_eq!((found.min, found.q1, found.median, found.q3, found.max), (7.0, 7.0, 7.0, 7.0, 7.0));
    }

    #[test]
    fn nothing_has_no_box() {
        assert_eq!(Quartiles::of(&[]), None);
        assert_eq!(Quartiles::of(&[f64::NAN]), None);
        assert_eq!(quantile(&[], 0.5), None);
    }
}
