//! Estimates and decisions, each with a machine-readable reason.

use std::fmt;

use crate::{ClusterId, JobId, Procs, Span, Time};

/// A cluster's offer for a request at the present time. Its completion is the ECT.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Estimate {
    /// Processors.
    pub procs: Procs,
    /// Walltime on that many processors of that cluster.
    pub walltime: Span,
    /// Planned start.
    pub start: Time,
}

impl Estimate {
    /// Expected completion time: planned start plus walltime (never the unknown runtime).
    pub fn completion(&self) -> Time {
        self.start + self.walltime
    }

    /// Processors and walltime, as a job is submitted.
    pub fn shape(&self) -> (Procs, Span) {
        (self.procs, self.walltime)
    }
}

/// Why a request was mapped to a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum MapReason {
    /// It gave the earliest expected completion (MCT).
    EarliestCompletion,
    /// It was drawn at random among the clusters that can run the request.
    Drawn,
    /// The user or the log chose it, or it is the only one.
    Given,
    /// A local user submitted directly to its batch system, not through the federation (non-dedicated platforms).
    Local,
}

/// Why a waiting job was moved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "kebab-case"))]
pub enum MoveReason {
    /// The target's expected completion is earlier by at least the threshold (regular).
    EarlierCompletion,
    /// Every waiting job was cancelled and the target gave the earliest completion (all-cancellation).
    Resubmitted,
    /// A sibling job waited there and was the first to start (siblings).
    FirstStart,
    /// An operator has drained its cluster, and the target completes it first of all others.
    Drained,
}

/// Why a job runs on its cluster: its mapping or its last move.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Reason {
    /// It was mapped there.
    Mapped(MapReason),
    /// It was moved there.
    Moved(MoveReason),
}

impl Reason {
    /// The stable keyword used in result files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Mapped(MapReason::EarliestCompletion) => "mct",
            Self::Mapped(MapReason::Drawn) => "random",
            Self::Mapped(MapReason::Given) => "given",
            Self::Mapped(MapReason::Local) => "local",
            Self::Moved(MoveReason::EarlierCompletion) => "moved-earlier",
            Self::Moved(MoveReason::Resubmitted) => "resubmitted",
            Self::Moved(MoveReason::FirstStart) => "first-start",
            Self::Moved(MoveReason::Drained) => "drained",
        }
    }

    /// The reason with that keyword.
    pub fn from_word(word: &str) -> Option<Reason> {
        Some(match word {
            "mct" => Self::Mapped(MapReason::EarliestCompletion),
            "random" => Self::Mapped(MapReason::Drawn),
            "given" => Self::Mapped(MapReason::Given),
            "local" => Self::Mapped(MapReason::Local),
            "moved-earlier" => Self::Moved(MoveReason::EarlierCompletion),
            "resubmitted" => Self::Moved(MoveReason::Resubmitted),
            "first-start" => Self::Moved(MoveReason::FirstStart),
            "drained" => Self::Moved(MoveReason::Drained),
            _ => return None,
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A request that no cluster can take: a normal result, not an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The job.
    pub job: JobId,
    /// Why.
    pub cause: RefusalCause,
}

/// Why a request was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum RefusalCause {
    /// It requests more processors than its origin cluster has.
    LargerThanCluster {
        /// The cluster.
        cluster: ClusterId,
        /// Processors requested.
        requested: Procs,
        /// Processors of the cluster.
        available: Procs,
    },
    /// It requests more processors than any cluster has.
    LargerThanAll {
        /// Processors requested.
        requested: Procs,
        /// Processors of the largest cluster.
        available: Procs,
    },
    /// No node, or no number of nodes, has the resources that it requests.
    InsufficientResources,
    /// It must run on the cluster that its user chose, but names no cluster of the platform.
    NoOrigin,
}

impl fmt::Display for RefusalCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LargerThanCluster { cluster, requested, available } => {
                write!(f, "asks for {requested} processors, cluster {cluster} has {available}")
            }
            Self::LargerThanAll { requested, available } => {
                write!(f, "asks for {requested} processors, the largest cluster has {available}")
            }
            Self::InsufficientResources => write!(f, "asks for resources that no nodes have"),
            Self::NoOrigin => write!(f, "names no cluster of the platform to be submitted to"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_is_the_start_and_the_walltime() {
        let estimate = Estimate { procs: Procs(2), walltime: Span(30), start: Time(100) };
        assert_eq!(estimate.completion(), Time(130));
    }

    #[test]
    fn every_reason_has_a_unique_keyword() {
        let mapped = [MapReason::EarliestCompletion, MapReason::Drawn, MapReason::Given, MapReason::Local];
        let moved = [
            MoveReason::EarlierCompletion,
            MoveReason::Resubmitted,
            MoveReason::FirstStart,
            MoveReason::Drained,
        ];
        let reasons = mapped.map(Reason::Mapped).into_iter().chain(moved.map(Reason::Moved));
        for reason in reasons {
            assert_eq!(Reason::from_word(&reason.to_string()), Some(reason));
        }
        assert_eq!(Reason::from_word("MCT"), None);
    }
}
