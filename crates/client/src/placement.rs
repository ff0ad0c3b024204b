//! Why a job was submitted to its first server, by the estimates that were compared.

use pliant_control::job::{ComparedEstimate, JobRecord};
use pliant_policy::completion::is_earlier;

/// Why a job was submitted to its first server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PlacementReason<'a> {
    /// The compared estimates are not known.
    Unknown,
    /// No other server offered to run it.
    Only,
    /// It completes there earlier than at the next best server.
    Earliest(&'a ComparedEstimate),
    /// It completes there as early as at another server, which comes later by rank or name.
    Tie(&'a ComparedEstimate),
    /// Another server would have completed it earlier.
    PassedOver(&'a ComparedEstimate),
}

impl PlacementReason<'_> {
    /// The stable word for scripts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Only => "only-one",
            Self::Earliest(_) => "earliest-completion",
            Self::Tie(_) => "tie",
            Self::PassedOver(_) => "passed-over",
        }
    }
}

/// Why a job was submitted to its first server.
pub fn placement_reason(record: &JobRecord) -> PlacementReason<'_> {
    let (chosen, others): (Vec<&ComparedEstimate>, Vec<&ComparedEstimate>) =
        record.compared.iter().partition(|one| one.server == record.handle.server);
    let earlier = |best, one| if precedes(one, best) { one } else { best };
    match (chosen.first(), others.into_iter().reduce(earlier)) {
        (None, _) => PlacementReason::Unknown,
        (Some(_), None) => PlacementReason::Only,
        (Some(chosen), Some(best)) if precedes(chosen, best) => PlacementReason::Earliest(best),
        (Some(chosen), Some(best)) if precedes(best, chosen) => PlacementReason::PassedOver(best),
        (Some(_), Some(best)) => PlacementReason::Tie(best),
    }
}

fn precedes(one: &ComparedEstimate, other: &ComparedEstimate) -> bool {
    is_earlier(&one.estimate, &other.estimate)
}
