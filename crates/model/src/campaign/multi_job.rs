//! Results of a campaign of multi-jobs: parameter sweeps on clusters with background load (paper 002).

use serde::{Deserialize, Serialize};

/// The results of a campaign of multi-jobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// The version of the file format.
    pub schema: String,
    /// The campaign's name.
    pub name: String,
    /// Number of random draws per cell.
    pub draws: usize,
    /// The logs.
    pub logs: Vec<LogRow>,
    /// The experiments on each of their logs.
    pub experiments: Vec<ExperimentRow>,
    /// Scenarios 1 and 2.
    pub frozen: Vec<FrozenCell>,
    /// Scenarios 3 and 4.
    pub arriving: Vec<ArrivingCell>,
    /// Makespans of policies of scenarios 3 and 4 relative to a reference policy.
    pub ratios: Vec<RatioRow>,
    /// Prediction errors.
    pub errors: Vec<ErrorRow>,
}

/// A log and the clusters made from it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogRow {
    /// Its name.
    pub log: String,
    /// Jobs on the clusters.
    pub jobs: usize,
    /// From the first submission to the last, s.
    pub span_s: i64,
    /// Executables of the whole log.
    pub executables: usize,
    /// Users of the whole log.
    pub users: usize,
    /// Groups of the whole log.
    pub groups: usize,
    /// Processors that the background jobs of each cluster keep busy.
    pub busy_processors: Vec<f64>,
}

/// An experiment on one of its logs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExperimentRow {
    /// Its name.
    pub experiment: String,
    /// The log.
    pub log: String,
    /// Processors of each cluster.
    pub processors: Vec<u32>,
    /// Number of starts drawn in the log.
    pub starts: usize,
    /// Length of the part of the log, from its first job, in which starts are drawn, s.
    pub within_s: i64,
    /// The longest simulated time after a start, s.
    pub longest_delay_s: i64,
}

impl ExperimentRow {
    /// True if all of several starts are closer to each other than the simulated time after each: they share most
    /// background jobs and hardly count as independent.
    pub fn starts_overlap(&self) -> bool {
        self.starts > 1 && self.within_s < self.longest_delay_s
    }

    /// True if clusters have several processors: scenario 4.
    pub fn has_several_processors(&self) -> bool {
        self.processors.iter().any(|count| *count > 1)
    }
}

/// Mean, median, 95th percentile and number of some values.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// How many.
    pub runs: usize,
    /// Their mean.
    pub mean: f64,
    /// Their median.
    pub median: f64,
    /// The smallest value that 95 % do not exceed.
    pub p95: f64,
}

impl Spread {
    /// The spread of these values.
    pub fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
        };
        let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
        Spread { runs: sorted.len(), mean, median: rank(0.5), p95: rank(0.95) }
    }
}

/// Makespans of a policy without later background jobs: scenarios 1 and 2.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrozenCell {
    /// The experiment.
    pub experiment: String,
    /// The log.
    pub log: String,
    /// The runtime of every background job; none if each keeps its own.
    pub job_time_s: Option<i64>,
    /// Simulated time of the log before the start.
    pub delay_s: i64,
    /// Instances.
    pub instances: u64,
    /// The law of the instances' runtimes.
    pub law: String,
    /// The policy.
    pub policy: String,
    /// The largest pending work of a cluster, mean over the starts.
    pub largest_pending_s: f64,
    /// Makespans.
    pub makespan_s: Spread,
    /// Share of the starts in which Algorithm 1 as printed allocates another number of instances, in %.
    pub printed_wrong_percent: f64,
}

/// Makespans of a policy while background jobs keep arriving: scenarios 3 and 4.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrivingCell {
    /// The experiment.
    pub experiment: String,
    /// The log.
    pub log: String,
    /// Simulated time of the log before the start.
    pub delay_s: i64,
    /// Instances.
    pub instances: usize,
    /// The law of the instances' runtimes.
    pub times: String,
    /// The policy.
    pub policy: String,
    /// Makespans.
    pub makespan_s: Spread,
    /// Mean response times of instances.
    pub response_s: Spread,
    /// Mean of the predicted makespans.
    pub expected_s: f64,
    /// Mean number of waiting instances that moved to another cluster.
    pub moves: f64,
    /// Mean number of sibling jobs.
    pub copies: f64,
}

impl ArrivingCell {
    /// True if runtimes are drawn from a category of jobs, false if all instances have one known runtime.
    pub fn is_like_a_category(&self) -> bool {
        !self.times.ends_with(" s")
    }
}

/// Makespans of a policy relative to a reference policy, paired by start: both see the same background jobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatioRow {
    /// The experiment.
    pub experiment: String,
    /// The log.
    pub log: String,
    /// The policy.
    pub policy: String,
    /// The reference policy.
    pub reference: String,
    /// For each start, in the order of the log: the natural logarithm of the ratio of makespans (mean over draws),
    /// averaged over all cells.
    pub log_ratios: Vec<f64>,
}

/// Prediction errors of an estimator on a log.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRow {
    /// The log.
    pub log: String,
    /// The level asked first.
    pub level: String,
    /// The estimator.
    pub estimator: String,
    /// Number of predicted jobs.
    pub jobs: u64,
    /// Share of them predicted by the level itself, in %.
    pub at_level_percent: f64,
    /// Mean absolute error over the mean runtime.
    pub relative_error: f64,
    /// Mean of predicted minus actual runtime over the mean runtime.
    pub relative_bias: f64,
    /// Share of the jobs that ran no longer than predicted, in %.
    pub within_percent: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_of_values_in_any_order() {
        // 20, 19, ... 1: ten do not exceed 10, nineteen do not exceed 19.
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(Spread::of(&values), Spread { runs: 20, mean: 10.5, median: 10.0, p95: 19.0 });
        // With one more, 95 % of the values are 19.95 of them, and so 20.
        let values: Vec<f64> = (1..=21).map(f64::from).collect();
        assert_eq!(Spread::of(&values), Spread { runs: 21, mean: 11.0, median: 11.0, p95: 20.0 });
        assert_eq!(Spread::of(&[7.0]), Spread { runs: 1, mean: 7.0, median: 7.0, p95: 7.0 });
        assert_eq!(Spread::of(&[]), Spread::default());
    }

    #[test]
    fn several_starts_within_the_simulated_time_overlap() {
        let row = |starts, within_s, processors: &[u32]| ExperimentRow {
            experiment: String::new(),
            log: String::new(),
            processors: processors.to_vec(),
            starts,
            within_s,
            longest_delay_s: 100,
        };
        let overlap = |starts, within_s| row(starts, within_s, &[1]).starts_overlap();
        assert!(overlap(2, 99) && !overlap(2, 100) && !overlap(1, 99) && !overlap(2, 101));
        let several = |processors: &[u32]| row(1, 0, processors).has_several_processors();
        assert!(several(&[1, 2]) && !several(&[1, 1]));
    }

    #[test]
    fn runtimes_are_one_time_or_a_category() {
        let cell = |times: &str| ArrivingCell { times: times.to_owned(), ..ArrivingCell::default() };
        assert!(cell("executable 3").is_like_a_category() && !cell("600 s").is_like_a_category());
    }
}
