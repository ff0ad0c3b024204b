//! What is wanted of an exploration, how far it is, and why it could not go on.

use std::path::PathBuf;
use std::time::Duration;

use pliant_control::optional::explore::Progress;
use pliant_model::SpanMs;
use pliant_policy::optional::Reallocation;
use pliant_staging::FileSpec;

use super::Platform;
use crate::Sweep;

/// What a user wants.
#[derive(Clone, PartialEq, Debug)]
pub struct Wanted {
    /// What each request runs.
    pub service: String,
    /// With which arguments.
    pub sweep: Sweep,
    /// Files that every request finds in its folder, and where they are here.
    pub inputs: Vec<(FileSpec, PathBuf)>,
    /// Requests that have to be completed.
    pub mandatory: u32,
    /// All requests.
    pub most: u32,
    /// How long optional ones are worth something.
    pub deadline: SpanMs,
    /// So many requests were guessed, mandatory ones included, and are submitted at once: the paper's legacy client. Mandatory
    /// ones are all submitted, and no more than there are, whatever the guess.
    pub legacy: Option<u32>,
    /// How mandatory requests that wait are moved to servers that would complete them sooner, if they are.
    pub reallocation: Option<Reallocation>,
    /// How long a server may be out of reach.
    pub patience: Duration,
}

/// What is told while an exploration goes on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ExplorationUpdate<'a> {
    /// How far it is: now and then, and in the end.
    Progress(&'a Explored),
    /// Something that its user may want to know, or do something about.
    Trouble(&'a str),
}

/// How far an exploration is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Explored {
    /// What was completed.
    pub progress: Progress,
    /// Requests on the platform.
    pub open: usize,
    /// Servers that have taken some.
    pub servers: usize,
    /// When the mandatory requests were completed, if they are: since the beginning, whichever client began.
    pub mandatory_done: Option<SpanMs>,
    /// By how much that was after the deadline.
    pub late: Option<SpanMs>,
    /// Time to the deadline; below zero it has passed.
    pub left: SpanMs,
    /// What was had of the platform.
    pub platform: Platform,
    /// The user stopped it.
    pub interrupted: bool,
    /// All servers that may have had something left have said that it is cancelled. Only in the end.
    pub settled: bool,
}
