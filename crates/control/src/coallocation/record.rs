//! A launch as its owner sees it.

use std::fmt;

use pliant_model::Time;
use serde::{Deserialize, Serialize};

use super::LaunchId;
use crate::job::Exit;
use crate::names::{Name, User};

/// How far a launch is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchState {
    /// Its tasks get their machines.
    Mapping,
    /// Its subjobs are queued or held, and nothing runs.
    Reserving,
    /// It was decided that its tasks run.
    Running,
    /// It was decided that nothing of it runs, which not all servers have acknowledged.
    Ending,
    /// Nothing of it is left.
    Over,
}

impl LaunchState {
    /// The stable word.
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

/// How a launch ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Every task ended with exit code 0.
    Completed,
    /// It was only to be mapped, and is.
    Mapped,
    /// No machines were found for its tasks, and why. Nothing ran.
    NotMapped(String),
    /// Not all machines could be reserved, and why. Nothing ran.
    NotReserved(String),
    /// It was cancelled.
    Cancelled,
    /// Something of it failed or was lost, and what; the rest was ended.
    Failed(String),
}

impl End {
    /// The stable word.
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

impl fmt::Display for End {
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

/// A launch as it stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LaunchRecord {
    /// Which.
    pub id: LaunchId,
    /// Whose.
    pub owner: User,
    /// What it is called.
    pub name: String,
    /// When it was accepted.
    pub submitted: Time,
    /// How far it is.
    pub state: LaunchState,
    /// How it ended, or is about to.
    pub end: Option<End>,
    /// Its tasks, in the order of the application; those that were spawned come last.
    pub tasks: Vec<TaskRecord>,
    /// Servers that have not acknowledged what was decided.
    pub unacknowledged: Vec<Name>,
}

/// A task of a launch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskRecord {
    /// Its name.
    pub name: String,
    /// The server and its machine, once it is mapped.
    pub place: Option<(Name, String)>,
    /// What the machine had left over what the task needs, when it was mapped: 1 and above.
    pub affinity: Option<f64>,
    /// Where it listens, once that is known.
    pub address: Option<String>,
    /// How it ended.
    pub exit: Option<Exit>,
    /// Why it was not spawned.
    pub not_spawned: Option<String>,
}
