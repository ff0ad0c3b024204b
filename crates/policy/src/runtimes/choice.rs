//! The order statistic of a window of runtimes: a quantile with a margin.

use super::window::Window;

/// A quantile of past runtimes, times a margin.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Choice {
    quantile: f64,
    margin: f64,
}

/// Invalid parameters of a [`Choice`].
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum ChoiceError {
    /// The quantile is not above 0 and at most 1.
    #[error("expected a quantile above 0 and at most 1, found {0}")]
    Quantile(f64),
    /// The margin is not in [`Choice::MARGINS`].
    #[error("expected a margin of {least} to {most}, found {0}", least = Choice::MARGINS.start(), most = Choice::MARGINS.end())]
    Margin(f64),
}

impl Choice {
    /// The valid margins.
    pub const MARGINS: std::ops::RangeInclusive<f64> = 0.01..=100.0;

    /// `margin` times the smallest time that at least `quantile` of the runs do not exceed.
    pub fn new(quantile: f64, margin: f64) -> Result<Choice, ChoiceError> {
        if !(quantile > 0.0 && quantile <= 1.0) {
            return Err(ChoiceError::Quantile(quantile));
        }
        if !Choice::MARGINS.contains(&margin) {
            return Err(ChoiceError::Margin(margin));
        }
        Ok(Choice { quantile, margin })
    }

    /// The order statistic of a window; none if it is empty. O(1).
    pub(super) fn of<Value: Ord + Copy>(self, window: &Window<Value>) -> Option<Value> {
        let last = window.len().checked_sub(1)?;
        // Reduced slightly, so that rounding cannot make 0.95 of 20 runs 20 runs.
        let rank = (self.quantile * window.len() as f64 * (1.0 - 1e-12)).ceil() as usize;
        window.sorted().get(rank.saturating_sub(1).min(last)).copied()
    }

    /// `took` times the margin, rounded up.
    pub(super) fn with_margin(self, took: f64) -> u64 {
        (took * self.margin * (1.0 - 1e-12)).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_outside_their_domain_are_refused() {
        for quantile in [0.0, -0.1, 1.000_1, f64::NAN, f64::INFINITY] {
            let error = Choice::new(quantile, 1.0).unwrap_err().to_string();
            assert_eq!(error, format!("expected a quantile above 0 and at most 1, found {quantile}"));
        }
        for margin in [0.0, 0.009, -1.0, 100.1, f64::NAN] {
            let error = Choice::new(0.5, margin).unwrap_err().to_string();
            assert_eq!(error, format!("expected a margin of 0.01 to 100, found {margin}"));
        }
    }
}
