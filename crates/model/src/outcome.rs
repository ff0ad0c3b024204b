//! Finished simulation runs: the interface between drivers and reports.

use crate::{ClusterId, Estimate, Platform, Procs, Reason, RefusalCause, Span, Time};

/// One finished job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct JobOutcome {
    /// The job's number in its log.
    pub log_id: u64,
    /// The cluster that ran it.
    pub cluster: ClusterId,
    /// When it was submitted.
    pub submit: Time,
    /// When it started.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// Processors used.
    pub procs: Procs,
    /// The walltime on that cluster.
    pub walltime: Span,
    /// Number of moves to another cluster while it waited.
    pub moves: u32,
    /// True if it was submitted through the federation, false if it was submitted directly to its cluster.
    pub managed: bool,
    /// Why it ran on this cluster.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MoveRecord {
    /// Time of the move.
    pub at: Time,
    /// The job's number in its log.
    pub log_id: u64,
    /// The source cluster.
    pub from: ClusterId,
    /// The target cluster.
    pub to: ClusterId,
    /// The expected completion at the source.
    pub before: Time,
    /// The expected completion at the target.
    pub after: Time,
    /// Processors at the target.
    pub procs: Procs,
}

/// The plan of a job right after its submission: when its cluster expected it to start and to complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedJob {
    /// The job's number in its log.
    pub log_id: u64,
    /// The plan.
    pub plan: Estimate,
}

/// A finished run on a platform.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Run {
    /// The platform.
    pub platform: Platform,
    /// Every job that ran, in the order of the workload.
    pub jobs: Vec<JobOutcome>,
    /// Every job that was refused, by its number in the log.
    pub refused: Vec<(u64, RefusalCause)>,
    /// Every move, in order; empty if the driver does not record moves. `reallocations` counts all.
    pub moves: Vec<MoveRecord>,
    /// Number of moves.
    pub reallocations: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MapReason;

    #[test]
    fn a_response_is_the_wait_and_the_runtime() {
        let job = JobOutcome {
            log_id: 1,
            cluster: ClusterId(0),
            submit: Time(100),
            start: Time(130),
            end: Time(200),
            procs: Procs(1),
            walltime: Span(90),
            moves: 0,
            managed: true,
            reason: Reason::Mapped(MapReason::Given),
        };
        assert_eq!((job.wait(), job.runtime(), job.response()), (Span(30), Span(70), Span(100)));
    }
}
