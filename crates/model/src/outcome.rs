//! What is left of a run when it is over: the interface between the drivers and the reports.

use crate::{ClusterId, Platform, Procs, Reason, RefusalCause, Span, Time};

/// One finished job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobOutcome {
    /// The number in the log it came from.
    pub log_id: u64,
    /// Where it ran.
    pub cluster: ClusterId,
    /// When it was submitted.
    pub submit: Time,
    /// When it started.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// On how many processors.
    pub procs: Procs,
    /// The walltime it had there.
    pub walltime: Span,
    /// How often it was moved to another cluster while it waited.
    pub moves: u32,
    /// True if it came through the federation, false if a local user submitted it straight to its cluster.
    pub managed: bool,
    /// Why it ran where it ran.
    pub reason: Reason,
}

impl JobOutcome {
    /// Submission to start.
    pub fn wait(&self) -> Span {
        self.start - self.submit
    }

    /// Submission to end (response time).
    pub fn response(&self) -> Span {
        self.end - self.submit
    }

    /// Start to end.
    pub fn runtime(&self) -> Span {
        self.end - self.start
    }
}

/// One move of a waiting job between clusters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MoveRecord {
    /// When.
    pub at: Time,
    /// The job, by its number in the log.
    pub log_id: u64,
    /// From where.
    pub from: ClusterId,
    /// To where.
    pub to: ClusterId,
    /// The completion expected before.
    pub before: Time,
    /// The completion expected after.
    pub after: Time,
    /// Processors after.
    pub procs: Procs,
}

/// A finished run on a platform.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// The platform.
    pub platform: Platform,
    /// Every job that ran, in the order of the workload.
    pub jobs: Vec<JobOutcome>,
    /// Every job that was refused, by its number in the log.
    pub refused: Vec<(u64, RefusalCause)>,
    /// Every move, in order. Empty if the driver was told not to keep them; `reallocations` counts all.
    pub moves: Vec<MoveRecord>,
    /// Number of moves.
    pub reallocations: u64,
}
