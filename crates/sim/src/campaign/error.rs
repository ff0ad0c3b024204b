//! The errors of campaigns, each with its location and a hint.

use std::fmt;
use std::path::{Path, PathBuf};

use pliant_model::Span;
use pliant_trace::TraceError;

use super::THREADS_MAX;
use crate::SimError;

/// A campaign that cannot be read, run, merged or shown.
#[derive(Debug)]
pub enum CampaignError {
    /// A system call failed.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The attempted action, as in "write this file".
        action: &'static str,
        /// The reason.
        source: std::io::Error,
    },
    /// The folder holds runs of another campaign, or of another version of this one.
    Changed {
        /// The folder.
        dir: PathBuf,
        /// Name and fingerprint of the campaign to be run.
        expected: (String, String),
        /// Name and fingerprint of the campaign in the folder.
        found: (String, String),
    },
    /// A file of a campaign folder is damaged.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A folder was written by another version of Pliant.
    Version {
        /// The file with the version.
        path: PathBuf,
        /// The version that this build writes.
        expected: &'static str,
        /// The version that was found.
        found: String,
    },
    /// Another process runs a campaign into the folder.
    Busy(PathBuf),
    /// Two cells of a campaign have the same key.
    Repeated(String),
    /// There is no campaign in the folder.
    Absent(PathBuf),
    /// The campaign file, a workload or a platform cannot be read or understood.
    Trace(TraceError),
    /// A log has no jobs in a month of the campaign.
    Month {
        /// The log.
        path: PathBuf,
        /// What was expected and what was found.
        problem: String,
    },
    /// A run cannot be simulated.
    Run {
        /// Its key.
        key: String,
        /// The reason.
        source: SimError,
    },
    /// A run cannot be measured against its reference.
    Measure {
        /// Its key.
        key: String,
        /// The reason.
        problem: String,
    },
    /// A log is too short for an experiment.
    NoStart {
        /// The experiment, and the log.
        key: String,
        /// The time that the log has to run before the multi-job is submitted.
        delay: Span,
        /// The length of the log, or of a period of it.
        span: Span,
    },
    /// A workload is too short for a sequence.
    Sequence {
        /// The workload.
        workload: String,
        /// What is wrong.
        problem: String,
    },
    /// Threads cannot be started.
    Threads(String),
    /// More threads than [`super::THREADS_MAX`] were requested.
    TooManyThreads(usize),
    /// The file of a workload does not exist.
    NoLog(PathBuf),
    /// No workload of the campaign has its file.
    NoWorkload,
    /// There is nothing to merge.
    NothingToMerge,
    /// A shard specification is invalid.
    Shard(String),
    /// [`Progress::is_cancelled`](super::Progress::is_cancelled) ended the campaign.
    Cancelled,
}

impl CampaignError {
    pub(super) fn io(path: &Path, action: &'static str, source: std::io::Error) -> CampaignError {
        CampaignError::Io { path: path.to_owned(), action, source }
    }

    /// True for an error in the user's input, false for a system error.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Threads(_) | Self::NoLog(_) | Self::Busy(_) | Self::Cancelled => false,
            Self::Trace(error) => !error.is_io(),
            _ => true,
        }
    }

    /// A hint how to solve it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Changed { dir, .. } => format!(
                "choose another --out, or remove {} to begin anew: runs of two campaigns are never mixed",
                dir.display()
            ),
            Self::Damaged { path, .. } => {
                format!("remove {} and run the campaign again: finished runs are kept", path.display())
            }
            Self::Version { .. } => {
                "use the version of Pliant that wrote this folder, or run the campaign into another one; nothing was changed"
                    .into()
            }
            Self::Busy(_) => "wait until that process has ended, or choose another --out".into(),
            Self::Repeated(_) => {
                "list each value of a key once, and give every table a name of its own".into()
            }
            Self::Absent(_) => {
                "give a folder written by `pliant campaign run` or `pliant campaign merge`".into()
            }
            Self::NothingToMerge => "pliant campaign merge --out WHOLE SHARD-1 SHARD-2 ...".into(),
            Self::Shard(_) => "--shard 2/16 runs every 16th group of runs, beginning with the second".into(),
            Self::TooManyThreads(_) => {
                "one per core is fastest: leave --threads and RAYON_NUM_THREADS out".into()
            }
            Self::NoLog(_) => {
                "logs are searched in the folder of the campaign file and in PLIANT_TRACES; `optional = true` skips a \
                 workload where its file is absent"
                    .into()
            }
            Self::NoStart { .. } => {
                "shorten `delays_s`, cut the log into fewer `stretches`, or take a longer log".into()
            }
            Self::Month { .. } => "`months` names calendar months (UTC) by the log's UnixStartTime".into(),
            Self::Sequence { .. } => {
                "positions count the jobs that are left after repairs, from 0: docs/reference/files/campaign.md".into()
            }
            Self::NoWorkload => {
                "put the files of the workloads in the folder of the campaign file or in PLIANT_TRACES".into()
            }
            Self::Threads(_) => "try a smaller --threads".into(),
            Self::Cancelled => "run it again: finished runs are kept".into(),
            Self::Trace(error) => return error.hint(),
            Self::Io { .. } | Self::Run { .. } | Self::Measure { .. } => return None,
        })
    }
}

impl fmt::Display for CampaignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, action, source } => write!(f, "{}: cannot {action}: {source}", path.display()),
            Self::Changed { dir, expected, found } => write!(
                f,
                "{}: expected runs of campaign `{}` ({}), found those of `{}` ({})",
                dir.display(),
                expected.0,
                expected.1,
                found.0,
                found.1
            ),
            Self::Damaged { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::Version { path, expected, found } => {
                write!(f, "{}: expected version `{expected}`, found `{found}`", path.display())
            }
            Self::Busy(dir) => {
                write!(f, "{}: another process runs a campaign into this folder", dir.display())
            }
            Self::Repeated(key) => write!(f, "expected each run once, found {key} twice"),
            Self::Absent(dir) => {
                write!(f, "{}: expected a campaign folder, found no campaign.json", dir.display())
            }
            Self::Trace(error) => write!(f, "{error}"),
            Self::Month { path, problem } => write!(f, "{}: {problem}", path.display()),
            Self::Run { key, source } => write!(f, "run {key}: {source}"),
            Self::Measure { key, problem } => write!(f, "run {key}: {problem}"),
            Self::NoStart { key, delay, span } => write!(
                f,
                "{key}: expected a log, or stretches of one, of which nine tenths are longer than the delay of {delay}, \
                 found {span}"
            ),
            Self::Sequence { workload, problem } => write!(f, "workload {workload}: {problem}"),
            Self::Threads(problem) => write!(f, "cannot start threads: {problem}"),
            Self::TooManyThreads(found) => {
                write!(f, "expected at most {THREADS_MAX} threads, found {found}")
            }
            Self::NoLog(path) => write!(f, "{}: cannot read this file: there is none", path.display()),
            Self::NoWorkload => write!(f, "expected a workload whose file exists, found none"),
            Self::NothingToMerge => write!(f, "expected at least one campaign folder to merge, found none"),
            Self::Shard(found) => {
                write!(f, "expected a shard i/n with 1 <= i <= n, found `{found}`")
            }
            Self::Cancelled => write!(f, "cancelled before its end"),
        }
    }
}

impl std::error::Error for CampaignError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Trace(error) => error.source(),
            Self::Run { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<TraceError> for CampaignError {
    fn from(error: TraceError) -> CampaignError {
        CampaignError::Trace(error)
    }
}
