//! The record of a launch, as its owner sees it.

use std::fmt;

use pliant_model::{Procs, Span, Time};
use serde::{Deserialize, Serialize};

use super::LaunchId;
use crate::job::Exit;
use crate::names::{Name, User};

/// The progress of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchState {
    /// Its tasks are being mapped.
    Mapping,
    /// Its subjobs are queued or prepared, and nothing runs.
    Reserving,
    /// It was committed.
    Running,
    /// Its end was decided, and not all servers have acknowledged that.
    Ending,
    /// All of its subjobs have ended.
    Over,
}

impl LaunchState {
    /// The name in user interfaces and files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Mapping => "mapping",
            Self::Reserving => "reserving",
            Self::Running => "running",
            Self::Ending => "ending",
            Self::Over => "over",
        }
    }
}

/// The end of a launch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchEnd {
    /// Every task ended with exit code 0.
    Completed,
    /// It was a dry run, and was mapped.
    Mapped,
    /// Its tasks could not be mapped; the reason. Nothing ran.
    NotMapped(String),
    /// Not all machines could be reserved; the reason. Nothing ran.
    NotReserved(String),
    /// It was cancelled.
    Cancelled,
    /// A task or subjob failed or was lost; the rest was ended.
    Failed(String),
}

impl LaunchEnd {
    /// The name in user interfaces and files.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Mapped => "mapped",
            Self::NotMapped(_) => "not-mapped",
            Self::NotReserved(_) => "not-reserved",
            Self::Cancelled => "cancelled",
            Self::Failed(_) => "failed",
        }
    }
}

impl fmt::Display for LaunchEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed => f.write_str("completed"),
            Self::Mapped => f.write_str("mapped"),
            Self::NotMapped(why) => write!(f, "not mapped: {why}"),
            Self::NotReserved(why) => write!(f, "not reserved: {why}"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Failed(what) => write!(f, "failed: {what}"),
        }
    }
}

/// The record of a launch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// The launch's ID.
    pub id: LaunchId,
    /// The owner.
    pub owner: User,
    /// The name.
    pub name: String,
    /// When it was accepted.
    pub submitted: Time,
    /// The progress.
    pub state: LaunchState,
    /// The end, once decided.
    pub end: Option<LaunchEnd>,
    /// The tasks, in the order of the application; spawned tasks come last.
    pub tasks: Vec<TaskRecord>,
    /// Servers that have not acknowledged the decision.
    pub unacknowledged: Vec<Name>,
    /// The subjobs that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_subjobs: Vec<OpenSubjob>,
}

/// A subjob of a launch that has not ended: the processors of a server that the launch has or waits for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OpenSubjob {
    /// The server.
    pub server: Name,
    /// The processors for its tasks.
    pub procs: Procs,
    /// The walltime of its tasks.
    pub walltime: Span,
    /// When it was committed; none if it is queued or prepared.
    pub committed: Option<Time>,
}

/// A task of a launch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Its name.
    pub name: String,
    /// The server and its machine, once it is mapped.
    pub allocation: Option<(Name, String)>,
    /// The affinity: the machine's remaining power over the power that the task needs, when it was mapped; 1 or more.
    pub affinity: Option<f64>,
    /// Its address, once known.
    pub address: Option<String>,
    /// Its exit.
    pub exit: Option<Exit>,
    /// Why it was not spawned.
    pub not_spawned: Option<String>,
}
