//! What a campaign of multi-jobs found: parameter sweeps on clusters that have the jobs of others (paper 002).

use serde::{Deserialize, Serialize};

/// The results of a campaign of multi-jobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// The version of the file.
    pub schema: String,
    /// The campaign's name.
    pub name: String,
    /// How often each thing that is drawn was drawn.
    pub draws: usize,
    /// The logs.
    pub logs: Vec<LogRow>,
    /// The experiments on each of their logs.
    pub experiments: Vec<ExperimentRow>,
    /// Scenarios 1 and 2.
    pub frozen: Vec<FrozenCell>,
    /// Scenarios 3 and 4.
    pub arriving: Vec<ArrivingCell>,
    /// How policies of scenarios 3 and 4 compare with one of them.
    pub ratios: Vec<RatioRow>,
    /// How far predictions were off.
    pub errors: Vec<ErrorRow>,
}

/// A log as clusters.
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
    /// Processors that the jobs of each cluster would keep busy.
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
    /// Processors of the clusters, in turn.
    pub processors: Vec<u32>,
    /// How many starts in the log were drawn.
    pub starts: usize,
    /// From how much of the log, beginning with its first job, they were drawn, s.
    pub within_s: i64,
    /// For how long the log runs after a start at most, s.
    pub longest_delay_s: i64,
}

impl ExperimentRow {
    /// True if there are several starts, all of them closer to each other than the log runs after each: they have mostly the same
    /// jobs, and are hardly more than one.
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
    /// Of these values.
    pub fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            let rank = (share * sorted.len() as f64 * (1.0 - 1e-12)).ceil() as usize;
            sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
        };
        let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
        Spread { runs: sorted.len(), mean, median: rank(0.5), p95: rank(0.95) }
    }
}

/// What a policy is worth if nobody comes after.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrozenCell {
    /// The experiment.
    pub experiment: String,
    /// The log.
    pub log: String,
    /// How long each job of the log took; none for its own time.
    pub job_time_s: Option<i64>,
    /// How long the log ran before.
    pub delay_s: i64,
    /// Instances.
    pub instances: u64,
    /// The law of their times.
    pub law: String,
    /// The policy.
    pub policy: String,
    /// The most pending work of a cluster, mean over the starts.
    pub largest_pending_s: f64,
    /// Makespans.
    pub makespan_s: Spread,
    /// In how many of the starts Algorithm 1 as it is printed gives out another number of instances, in %.
    pub printed_wrong_percent: f64,
}

/// What a policy is worth while others go on submitting.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrivingCell {
    /// The experiment.
    pub experiment: String,
    /// The log.
    pub log: String,
    /// How long the log ran before.
    pub delay_s: i64,
    /// Instances.
    pub instances: usize,
    /// Their times.
    pub times: String,
    /// The policy.
    pub policy: String,
    /// Makespans.
    pub makespan_s: Spread,
    /// Mean times from the submission to the end of an instance.
    pub response_s: Spread,
    /// Mean of the makespans that were expected.
    pub expected_s: f64,
    /// Mean number of waiting instances that went to another cluster.
    pub moves: f64,
    /// Mean number of copies.
    pub copies: f64,
}

impl ArrivingCell {
    /// True if instances are like the jobs of a category, and not all of one time that the user knows.
    pub fn is_like_a_category(&self) -> bool {
        !self.times.ends_with(" s")
    }
}

/// What a policy is worth beside another one: start by start, as whatever begins at the same moment of the log has the same
/// jobs of others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatioRow {
    /// The experiment.
    pub experiment: String,
    /// The log.
    pub log: String,
    /// The policy.
    pub policy: String,
    /// The other one.
    pub reference: String,
    /// Of each start, in the order of the log: the natural logarithm of its makespan (mean over draws) over that of the other
    /// one, mean over all cells.
    pub log_ratios: Vec<f64>,
}

/// How far the predictions of an estimator were off on a log.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRow {
    /// The log.
    pub log: String,
    /// The level that was asked first.
    pub level: String,
    /// The estimator.
    pub estimator: String,
    /// Jobs that were predicted.
    pub jobs: u64,
    /// Share of them that the level itself predicted, in %.
    pub at_level_percent: f64,
    /// Mean error without its sign over the mean runtime.
    pub relative_error: f64,
    /// Mean of predicted less true runtime over the mean runtime.
    pub relative_bias: f64,
    /// Share of the jobs that ran no longer than predicted, in %.
    pub within_percent: f64,
}
