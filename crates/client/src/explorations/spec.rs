//! What a user asks of an exploration, and its progress.

use std::path::PathBuf;
use std::time::Duration;

use pliant_control::optional::explore::Progress;
use pliant_model::SpanMs;
use pliant_policy::optional::Reallocation;
use pliant_staging::FileSpec;
use pliant_wire::Executable;

use super::PlatformUsage;
use crate::ParameterSpace;

/// An exploration as its user asks for it.
#[derive(Clone, PartialEq, Debug)]
pub struct ExplorationSpec {
    /// What each request runs.
    pub executable: Executable,
    /// The arguments of each request.
    pub parameters: ParameterSpace,
    /// Files that every request finds in its folder, and their local paths.
    pub inputs: Vec<(FileSpec, PathBuf)>,
    /// The number of mandatory requests.
    pub mandatory: u32,
    /// The number of all requests.
    pub most: u32,
    /// How long optional requests are of use.
    pub deadline: SpanMs,
    /// The paper's legacy client: that many requests, mandatory ones included, are submitted at once.
    pub legacy: Option<u32>,
    /// How waiting mandatory requests are moved to servers that would complete them earlier; none are moved without it.
    pub reallocation: Option<Reallocation>,
    /// The timeout for unreachable servers.
    pub timeout: Duration,
}

/// A report about an exploration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ExplorationUpdate<'a> {
    /// The progress.
    Progress(&'a ExplorationStatus),
    /// A warning for the user.
    Warning(&'a str),
}

/// The progress of an exploration.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ExplorationStatus {
    /// The completed requests.
    pub progress: Progress,
    /// Requests on the platform.
    pub open: usize,
    /// Servers that have accepted requests.
    pub servers: usize,
    /// When the last mandatory request was completed, since the first client began.
    pub mandatory_done: Option<SpanMs>,
    /// How long after the deadline that was.
    pub late: Option<SpanMs>,
    /// Time to the deadline; negative once it has passed.
    pub left: SpanMs,
    /// The usage of the platform.
    pub platform: PlatformUsage,
    /// The user stopped it.
    pub interrupted: bool,
    /// All servers have acknowledged that open requests are cancelled. Set in the end.
    pub settled: bool,
}
