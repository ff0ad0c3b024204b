//! Campaigns of multi-jobs (paper 002, section 5; spec A.2.3): logs divided into clusters, experiments on them and
//! brokers.
//!
//! A *frozen* experiment is scenarios 1 and 2: what is pending at some moment, and nobody comes after. An *arriving* one
//! is scenarios 3 and 4: others go on submitting.

mod arriving;
mod execute;
mod file;
mod frozen;
mod ratios;
mod results;
mod words;

use std::path::{Path, PathBuf};

use pliant_model::Span;
use pliant_policy::runtimes::{Level, Settings};
use pliant_trace::generate::{GridLog, JobLaw};

pub use pliant_model::campaign::multi_job::{
    ArrivingCell, ErrorRow, ExperimentRow, FrozenCell, LogRow, RatioRow, Results, Spread,
};

pub(super) use execute::MultiJobs;
pub use words::law_name;

use super::{CampaignError, Skipped, jobs::find_log};
use crate::multi_job::{Broker, Division};

/// A campaign of multi-jobs, as its file says.
#[derive(Clone, PartialEq, Debug)]
pub struct MultiJobCampaign {
    /// Its name.
    pub name: String,
    /// The folder that relative paths in it start from.
    pub base: PathBuf,
    /// Where logs are looked for that are not there; none, unless the caller names some.
    pub log_dirs: Vec<PathBuf>,
    /// The seed of all that is drawn.
    pub seed: u64,
    /// How often each thing that is drawn is drawn.
    pub draws: usize,
    /// Which jobs statistics are of.
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

/// The jobs of other users.
#[derive(Clone, PartialEq, Debug)]
pub struct Log {
    /// Its name.
    pub name: String,
    /// Where they come from.
    pub source: LogSource,
    /// How they become clusters.
    pub division: Division,
}

/// Where the jobs of other users come from.
#[derive(Clone, PartialEq, Debug)]
pub enum LogSource {
    /// A log.
    File {
        /// Relative to the campaign file, or to one of [`MultiJobCampaign::log_dirs`].
        path: PathBuf,
        /// True if the campaign may be run without it where its file is absent.
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
    /// Positions of the logs.
    pub logs: Vec<usize>,
    /// How long each job of the log takes; none for the log's own times.
    pub job_times: Vec<Option<Span>>,
    /// How long the log runs before it is frozen.
    pub delays: Vec<Span>,
    /// How many starts in the log are drawn.
    pub starts: usize,
    /// Numbers of instances.
    pub instances: Vec<u64>,
    /// Laws of their times.
    pub laws: Vec<JobLaw>,
    /// Mean of their times.
    pub mean: Span,
}

/// Scenarios 3 and 4 on some logs.
#[derive(Clone, PartialEq, Debug)]
pub struct Arriving {
    /// Its name.
    pub name: String,
    /// Positions of the logs.
    pub logs: Vec<usize>,
    /// Processors of the clusters, in turn.
    pub processors: Vec<u32>,
    /// How many starts in the log are drawn.
    pub starts: usize,
    /// How long the log runs before the multi-job comes.
    pub delays: Vec<Span>,
    /// Numbers of instances.
    pub instances: Vec<usize>,
    /// How long they take.
    pub times: Vec<Times>,
    /// Positions of the policies.
    pub policies: Vec<usize>,
    /// Position of the policy that others are compared with, start by start.
    pub reference: Option<usize>,
    /// How often each thing that is drawn is drawn.
    pub draws: usize,
}

/// How long instances take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Times {
    /// All so long, and the user knows it.
    Equal(Span),
    /// As long as jobs of a category that are drawn from the log, which its statistics are to tell.
    Category {
        /// The level.
        level: Level,
        /// Which of them: the one with the `rank`-th most jobs.
        rank: usize,
    },
}

/// A broker with a name.
#[derive(Clone, PartialEq, Debug)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// What it does.
    pub broker: Broker,
}

impl Times {
    /// In words: `100 s`, or `user 1` for the user with most jobs.
    pub fn label(self) -> String {
        match self {
            Self::Equal(time) => time.to_string(),
            Self::Category { level, rank } => format!("{level} {rank}"),
        }
    }
}

impl MultiJobCampaign {
    /// Takes out the optional logs whose file is not there, and the experiments that have no log left.
    pub fn skip_absent(&mut self) -> Vec<Skipped> {
        let mut skipped = Vec::new();
        let mut place = Vec::new();
        let mut kept = Vec::new();
        for log in std::mem::take(&mut self.logs) {
            match &log.source {
                LogSource::File { path, optional: true } if self.path(path).is_err() => {
                    skipped.push(Skipped { workload: log.name, file: path.clone() });
                    place.push(None);
                }
                _ => {
                    place.push(Some(kept.len()));
                    kept.push(log);
                }
            }
        }
        self.logs = kept;
        let keep = |logs: &mut Vec<usize>| *logs = logs.iter().filter_map(|log| place[*log]).collect();
        self.frozen.iter_mut().for_each(|one| keep(&mut one.logs));
        self.arriving.iter_mut().for_each(|one| keep(&mut one.logs));
        self.frozen.retain(|one| !one.logs.is_empty());
        self.arriving.retain(|one| !one.logs.is_empty());
        skipped
    }

    /// Where a log is.
    fn path(&self, file: &Path) -> Result<PathBuf, CampaignError> {
        find_log(&self.base, &self.log_dirs, file)
    }
}
