//! Statistics over independent draws of several months, with 95 % intervals.
//!
//! A campaign draws the jobs of each month anew with each seed. What several policies make of one draw is not independent, so
//! a draw counts once: with the mean over its runs. Draws of one month resemble each other. So an interval is that of Student's
//! t over the means of the months: it covers other months as well as other draws.

use std::fmt::Write;

/// The quantile 0.975 of Student's t with 1, 2, ... degrees of freedom.
const T: [f64; 11] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201];

/// A mean with its 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Estimate {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Estimate {
    /// The mean over months of the means of their draws.
    pub(super) fn of(months: &[Vec<f64>]) -> Estimate {
        // The draws of a single month are independent of each other.
        if let [only] = months {
            return Estimate::of_means(only);
        }
        Estimate::of_means(&months.iter().map(|draws| mean(draws)).collect::<Vec<_>>())
    }

    /// The share, in percent, of the runs that have a property. Each draw has the share of its own runs, from 0 to 1.
    pub(super) fn of_shares(months: &[Vec<f64>]) -> Estimate {
        let mut draws = months.iter().flatten().copied();
        let first = draws.next().unwrap_or(f64::NAN);
        let count = draws.clone().count() + 1;
        let Estimate { mean, low, high } = Estimate::of(months);
        // If all draws agree, the months say nothing about the spread. This bound is exact for independent draws
        // (Clopper and Pearson): each run that has the property in all of them may lack it, and the reverse.
        let (low, high) = if draws.all(|draw| draw == first) {
            let bound = 1.0 - 0.025_f64.powf(1.0 / count as f64);
            (mean * (1.0 - bound), mean + (1.0 - mean) * bound)
        } else {
            (low.max(0.0), high.min(1.0))
        };
        Estimate { mean: 100.0 * mean, low: 100.0 * low, high: 100.0 * high }
    }

    fn of_means(means: &[f64]) -> Estimate {
        let center = mean(means);
        let squares: f64 = means.iter().map(|one| (one - center).powi(2)).sum();
        let count = means.len() as f64;
        // A single value has no interval.
        let quantile = means.len().checked_sub(2).map_or(f64::INFINITY, |index| T[index.min(T.len() - 1)]);
        let half = quantile * (squares / (count - 1.0) / count).sqrt();
        Estimate { mean: center, low: center - half, high: center + half }
    }

    /// Whether the value is above a bound: none if the interval contains the bound.
    pub(super) fn is_above(self, bound: f64) -> Option<bool> {
        match (self.low > bound, self.high < bound) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// Whether the value is below a bound: none if the interval contains the bound.
    pub(super) fn is_below(self, bound: f64) -> Option<bool> {
        self.is_above(bound).map(|above| !above)
    }

    /// The text `39 [31, 47]`.
    pub(super) fn shown(self, decimals: usize) -> String {
        let [mean, low, high] = [self.mean, self.low, self.high].map(|value| number(value, decimals));
        format!("{mean} [{low}, {high}]")
    }

    /// The text of a difference: `+3.1 [2.0, 4.2]`.
    pub(super) fn signed(self, decimals: usize) -> String {
        let mut text = self.shown(decimals);
        if !text.starts_with('-') {
            text.insert(0, '+');
        }
        text
    }
}

/// A number without a negative zero.
pub(super) fn number(value: f64, decimals: usize) -> String {
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = write!(text, "{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|one| matches!(one, '0' | '.')) => rest.to_owned(),
        _ => text,
    }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The middle value, or the mean of the middle two.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    let lower = sorted.len().saturating_sub(1) / 2;
    0.5 * (sorted[lower] + sorted[upper])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_the_independent_values() {
        let estimate = Estimate::of(&[vec![1.0, 3.0], vec![4.0, 4.0], vec![6.0, 6.0]]);
        // Means 2, 4 and 6: a standard error of 2 over the root of 3, and t with two degrees of freedom.
        assert_eq!(estimate.shown(2), "4.00 [-0.97, 8.97]");
        assert_eq!((estimate.is_above(0.0), estimate.is_above(-1.0)), (None, Some(true)));
        assert_eq!((estimate.is_below(9.0), estimate.is_below(-1.0)), (Some(true), Some(false)));
        assert_eq!(estimate.signed(0), "+4 [-1, 9]");
        let only = Estimate::of(&[vec![1.0, 3.0]]);
        assert_eq!(only.shown(1), "2.0 [-10.7, 14.7]");
    }

    #[test]
    fn shares_stay_within_0_and_100() {
        let share = |months: &[Vec<f64>]| Estimate::of_shares(months).shown(0);
        assert_eq!(share(&[vec![0.0, 0.0], vec![0.5, 0.0]]), "12 [0, 100]");
        // 1 - 0.025^(1/60) is 6 %.
        assert_eq!(share(&vec![vec![0.0; 10]; 6]), "0 [0, 6]");
        assert_eq!(share(&vec![vec![1.0; 10]; 6]), "100 [94, 100]");
        assert_eq!(share(&vec![vec![0.5; 10]; 6]), "50 [47, 53]");
    }

    #[test]
    fn medians_and_numbers() {
        assert_eq!((median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0])), (2.0, 2.5));
        assert_eq!([number(-0.04, 1), number(-0.06, 1), number(0.0, 0)], ["0.0", "-0.1", "0"]);
    }
}
