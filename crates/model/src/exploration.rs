//! What is left of a run of optional computations (paper 004) when it is over: the interface between the driver
//! and the reports.

use crate::{SpanMs, TimeMs};

/// One user with mandatory and optional requests, who has left.
#[derive(Clone, PartialEq, Debug)]
pub struct Exploration {
    /// When the user came (t0).
    pub arrival: TimeMs,
    /// Until when the mandatory requests are wanted (t0 + d).
    pub deadline: TimeMs,
    /// The user's weight: of two users who are there, one of twice the weight deserves twice the resources.
    pub weight: u32,
    /// Mandatory requests (n_min).
    pub mandatory: u32,
    /// When the last mandatory request was completed; none if some never was.
    pub mandatory_done: Option<TimeMs>,
    /// Completed requests, mandatory and optional.
    pub completed: u32,
    /// Resource time consumed on servers of speed 1, killed and cancelled runs included.
    pub consumed: SpanMs,
    /// The part of it that went into completed requests.
    pub useful: SpanMs,
    /// Runs that were killed for another user's mandatory request.
    pub killed: u32,
    /// When the user was done with everything.
    pub left: TimeMs,
}

/// How many resources there are from an instant on: cores times their speed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Capacity {
    /// Since when.
    pub since: TimeMs,
    /// How many.
    pub resources: f64,
}

/// A finished run of optional computations.
#[derive(Clone, PartialEq, Debug)]
pub struct ExplorationRun {
    /// The resources over time, in order; constant in the paper (n_R).
    pub capacity: Vec<Capacity>,
    /// Every user, in the order of arrival.
    pub explorations: Vec<Exploration>,
    /// The most requests that were stored on the platform at a time beside mandatory ones.
    pub stored_most: u32,
    /// Submissions sent by clients, those that were sent again included.
    pub submissions: u64,
}
