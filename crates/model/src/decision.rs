//! Estimates and decisions, each with a machine-readable reason.

use std::fmt;

use crate::{ClusterId, JobId, Procs, Span, Time};

/// What a cluster would give a request now. Its completion is the ECT.
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
}

/// Why a request was first sent to a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MapReason {
    /// It gave the earliest expected completion (MCT).
    EarliestCompletion,
    /// Drawn at random among the clusters that can run it.
    Drawn,
    /// The user or the log chose it, or there is only one.
    Given,
    /// Submitted straight to the batch system, not through the federation (non-dedicated platforms).
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
    /// A copy of it waited there, and was the first to start (copies).
    FirstStart,
}

/// Why a job ended up where it is: its mapping, or the last move.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// Where it was first sent.
    Mapped(MapReason),
    /// Where it was last moved.
    Moved(MoveReason),
}

impl Reason {
    /// The stable word used in result files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Mapped(MapReason::EarliestCompletion) => "mct",
            Self::Mapped(MapReason::Drawn) => "random",
            Self::Mapped(MapReason::Given) => "given",
            Self::Mapped(MapReason::Local) => "local",
            Self::Moved(MoveReason::EarlierCompletion) => "moved-earlier",
            Self::Moved(MoveReason::Resubmitted) => "resubmitted",
            Self::Moved(MoveReason::FirstStart) => "first-start",
        }
    }

    /// The reason of that word.
    pub fn from_word(word: &str) -> Option<Reason> {
        Some(match word {
            "mct" => Self::Mapped(MapReason::EarliestCompletion),
            "random" => Self::Mapped(MapReason::Drawn),
            "given" => Self::Mapped(MapReason::Given),
            "local" => Self::Mapped(MapReason::Local),
            "moved-earlier" => Self::Moved(MoveReason::EarlierCompletion),
            "resubmitted" => Self::Moved(MoveReason::Resubmitted),
            "first-start" => Self::Moved(MoveReason::FirstStart),
            _ => return None,
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A request that no cluster can take. A normal result, not an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The job.
    pub job: JobId,
    /// Why.
    pub cause: RefusalCause,
}

/// Why a request was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RefusalCause {
    /// It asks for more processors than the cluster it is bound to has.
    LargerThanCluster {
        /// The cluster.
        cluster: ClusterId,
        /// What was asked for.
        requested: Procs,
        /// What there is.
        available: Procs,
    },
    /// It asks for more processors than any cluster has.
    LargerThanAll {
        /// What was asked for.
        requested: Procs,
        /// The largest cluster.
        available: Procs,
    },
    /// It must go to the cluster that its user chose, but names none of the platform.
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
            Self::NoOrigin => write!(f, "names no cluster of the platform to be submitted to"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_word_of_its_own() {
        let mapped = [MapReason::EarliestCompletion, MapReason::Drawn, MapReason::Given, MapReason::Local];
        let moved = [MoveReason::EarlierCompletion, MoveReason::Resubmitted, MoveReason::FirstStart];
        let reasons = mapped.map(Reason::Mapped).into_iter().chain(moved.map(Reason::Moved));
        for reason in reasons {
            assert_eq!(Reason::from_word(reason.word()), Some(reason));
        }
        assert_eq!(Reason::from_word("MCT"), None);
    }
}
