//! Campaigns of multi-jobs (paper 002, section 5): logs divided into clusters, experiments on them and
//! brokers.
//!
//! A *frozen* experiment is scenarios 1 and 2: the pending work of one moment, without later submissions. An *arriving* one
//! is scenarios 3 and 4: background jobs are still submitted.

mod arriving;
mod execute;
mod file;
mod frozen;
mod keywords;
mod ratios;
mod results;

use std::path::{Path, PathBuf};

use pliant_model::Span;
use pliant_policy::runtimes::{Level, Settings};
use pliant_trace::generate::{GridLog, JobLaw};

pub use pliant_model::campaign::multi_job::{
    ArrivingCell, ErrorRow, ExperimentRow, FrozenCell, LogRow, RatioRow, Results, Spread,
};

pub(super) use execute::MultiJobs;
pub use keywords::law_name;

use super::{CampaignError, SkippedWorkload, jobs::find_log};
use crate::multi_job::{Broker, Division};

/// A campaign of multi-jobs, as read from its file.
#[derive(Clone, PartialEq, Debug)]
pub struct MultiJobCampaign {
    /// Its name.
    pub name: String,
    /// The base folder of its relative paths.
    pub base: PathBuf,
    /// Folders that are searched for logs that are not in `base`.
    pub log_dirs: Vec<PathBuf>,
    /// The seed of all draws.
    pub seed: u64,
    /// The number of draws of each random quantity.
    pub draws: usize,
    /// The settings of runtime statistics.
    pub settings: Settings,
    /// The logs.
    pub logs: Vec<Log>,
    /// Scenarios 1 and 2.
    pub frozen: Vec<Frozen>,
    /// Scenarios 3 and 4.
    pub arriving: Vec<Arriving>,
    /// The brokers of scenarios 3 and 4.
    pub policies: Vec<Policy>,
}

/// A log with background jobs.
#[derive(Clone, PartialEq, Debug)]
pub struct Log {
    /// Its name.
    pub name: String,
    /// The source of its jobs.
    pub source: LogSource,
    /// How it is divided into clusters.
    pub division: Division,
}

/// The source of background jobs.
#[derive(Clone, PartialEq, Debug)]
pub enum LogSource {
    /// A log.
    File {
        /// Relative to the campaign file, or to one of [`MultiJobCampaign::log_dirs`].
        path: PathBuf,
        /// True if the campaign may run without it when its file is absent.
        optional: bool,
    },
    /// A generator.
    Generated(GridLog),
}

/// Scenarios 1 and 2 on some logs.
#[derive(Clone, PartialEq, Debug)]
pub struct Frozen {
    /// Its name.
    pub name: String,
    /// The positions of its logs.
    pub logs: Vec<usize>,
    /// The runtimes of the log's jobs; none: the log's own runtimes.
    pub job_times: Vec<Option<Span>>,
    /// The times that the log runs before it is frozen.
    pub delays: Vec<Span>,
    /// The number of starts that are drawn in the log.
    pub starts: usize,
    /// The numbers of instances.
    pub instances: Vec<u64>,
    /// The distributions of their runtimes.
    pub laws: Vec<JobLaw>,
    /// The mean of their runtimes.
    pub mean: Span,
}

/// Scenarios 3 and 4 on some logs.
#[derive(Clone, PartialEq, Debug)]
pub struct Arriving {
    /// Its name.
    pub name: String,
    /// The positions of its logs.
    pub logs: Vec<usize>,
    /// The processors of the clusters, repeated in this order.
    pub processors: Vec<u32>,
    /// The number of starts that are drawn in the log.
    pub starts: usize,
    /// The times that the log runs before the multi-job is submitted.
    pub delays: Vec<Span>,
    /// The numbers of instances.
    pub instances: Vec<usize>,
    /// The runtimes of instances.
    pub times: Vec<Times>,
    /// The positions of its policies.
    pub policies: Vec<usize>,
    /// The position of the reference policy, compared start by start.
    pub reference: Option<usize>,
    /// The number of draws of each random quantity.
    pub draws: usize,
}

/// The runtimes of instances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Times {
    /// Equal runtimes that the user knows.
    Equal(Span),
    /// Runtimes drawn from the jobs of a category of the log, to be predicted by its statistics.
    Category {
        /// The level.
        level: Level,
        /// The category has the `rank`-th most jobs of its level.
        rank: usize,
    },
}

/// A broker with a name.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub broker: Broker,
}

impl Times {
    /// The label: `100 s`, or `user 1` for the user with most jobs.
    pub fn label(self) -> String {
        match self {
            Self::Equal(time) => time.to_string(),
            Self::Category { level, rank } => format!("{level} {rank}"),
        }
    }
}

impl MultiJobCampaign {
    /// Removes the optional logs whose file is absent, and the experiments without a log.
    pub fn skip_absent(&mut self) -> Vec<SkippedWorkload> {
        let mut skipped = Vec::new();
        let mut new_index = Vec::new();
        let mut kept = Vec::new();
        for log in std::mem::take(&mut self.logs) {
            match &log.source {
                LogSource::File { path, optional: true } if self.path(path).is_err() => {
                    skipped.push(SkippedWorkload { workload: log.name, file: path.clone() });
                    new_index.push(None);
                }
                _ => {
                    new_index.push(Some(kept.len()));
                    kept.push(log);
                }
            }
        }
        self.logs = kept;
        let keep = |logs: &mut Vec<usize>| *logs = logs.iter().filter_map(|log| new_index[*log]).collect();
        self.frozen.iter_mut().for_each(|one| keep(&mut one.logs));
        self.arriving.iter_mut().for_each(|one| keep(&mut one.logs));
        self.frozen.retain(|one| !one.logs.is_empty());
        self.arriving.retain(|one| !one.logs.is_empty());
        skipped
    }

    /// Finds a log.
    fn path(&self, file: &Path) -> Result<PathBuf, CampaignError> {
        find_log(&self.base, &self.log_dirs, file)
    }
}
