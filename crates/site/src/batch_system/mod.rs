//! What drivers of batch systems share: running commands, errors, checks of settings, submissions and listings.

pub(crate) mod commands;
#[cfg(test)]
pub(crate) mod damaged;
pub(crate) mod error;
pub(crate) mod search;
pub(crate) mod settings;
pub(crate) mod submitter;

use std::ffi::OsString;
use std::path::Path;

use pliant_control::listing::{CoreLayout, ListedJob, Listing};
use pliant_model::{Resources, Span};
use pliant_policy::alternatives::Alternative;

pub use error::{BatchSystemError, System, Unreadable};
pub use settings::SettingError;
pub use submitter::Submitters;

/// The file in a job's folder that takes what its batch system prints, and what the job prints before its supervisor has it.
pub const BATCH_OUTPUT: &str = "batch-output";

/// A job to be submitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submission<'a> {
    /// Its number at the server: with the server's name its tag.
    pub number: u32,
    /// Its folder, on a file system that the nodes share: where it starts.
    pub folder: &'a Path,
    /// The program that its first node runs, and its arguments.
    pub program: &'a [OsString],
    /// Its cores.
    pub shape: CoreLayout,
    /// What it needs besides cores.
    pub resources: Option<&'a Resources>,
    /// Its partition, if it is not the server's own.
    pub partition: Option<&'a str>,
    /// The node where they are to be, if they are to be on one.
    pub node: Option<&'a str>,
    /// Its walltime. Slurm counts in minutes, so it may get up to 59 s more.
    pub walltime: Span,
    /// The sizes among which the batch system chooses, in order of preference, if it can; empty if there is only the one.
    pub alternatives: &'a [Alternative],
    /// It does not start before [`crate::BatchSystem::release`].
    pub held: bool,
    /// It may start before or after others that are submitted at the same time.
    pub in_any_order: bool,
    /// How far it stands back behind other jobs, in Slurm; 0 for not at all.
    pub nice: u32,
}

impl<'a> Submission<'a> {
    /// A job of one size that may start on any node as soon as it fits.
    pub fn new(
        number: u32,
        folder: &'a Path,
        program: &'a [OsString],
        shape: CoreLayout,
        walltime: Span,
    ) -> Submission<'a> {
        Submission {
            number,
            folder,
            program,
            shape,
            resources: None,
            partition: None,
            node: None,
            walltime,
            alternatives: &[],
            held: false,
            in_any_order: false,
            nice: 0,
        }
    }
}

/// The jobs and nodes that a batch system listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedJobs {
    /// The listing.
    pub listing: Listing,
    /// What was not understood of others' jobs, which are left out.
    pub unread: Vec<String>,
}

/// The jobs that a command printed.
#[derive(PartialEq, Eq, Default, Debug)]
pub(crate) struct PrintedJobs {
    pub(crate) jobs: Vec<ListedJob>,
    /// What was not understood of others' jobs, which are left out.
    pub(crate) unread: Vec<String>,
}

/// The outcome of an attempt to prevent a job from starting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StartPrevention {
    /// It does not start any more, and never did: Slurm has cancelled it, OAR holds it.
    Prevented,
    /// It has started, and was left alone; as it is, or was when it ended.
    Started(Box<ListedJob>),
    /// An administrator holds it, and it was left alone.
    HeldByAdministrator,
    /// The batch system does not know it, or not any more. Whether it ran stands in its folder.
    Unknown,
}

impl StartPrevention {
    /// Whether it does not start any more by itself.
    pub fn is_prevented(&self) -> bool {
        matches!(self, StartPrevention::Prevented | StartPrevention::Unknown)
    }
}
