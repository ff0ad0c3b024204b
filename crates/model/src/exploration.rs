//! Finished runs of optional computations (paper 004): the interface between drivers and reports.

use crate::{SpanMs, TimeMs};

/// One user with mandatory and optional requests, after departure.
#[derive(Clone, PartialEq, Debug)]
pub struct Exploration {
    /// Arrival time (t0).
    pub arrival: TimeMs,
    /// Deadline of the mandatory requests (t0 + d).
    pub deadline: TimeMs,
    /// The user's weight: the fair share of active users is proportional to it.
    pub weight: u32,
    /// Mandatory requests (n_min).
    pub mandatory: u32,
    /// When the last mandatory request was completed; none if one never was.
    pub mandatory_done: Option<TimeMs>,
    /// Completed requests, mandatory and optional.
    pub completed: u32,
    /// Resource time used on servers of speed 1, killed and cancelled runs included.
    pub usage: SpanMs,
    /// The part of `usage` spent on completed requests.
    pub useful: SpanMs,
    /// Runs that were killed for another user's mandatory request.
    pub killed: u32,
    /// When the user left.
    pub left: TimeMs,
}

/// The capacity of the platform from an instant on: cores times speed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Capacity {
    /// Start of the interval.
    pub since: TimeMs,
    /// Cores times speed.
    pub resources: f64,
}

/// A finished run of optional computations.
#[derive(Clone, PartialEq, Debug)]
pub struct ExplorationRun {
    /// The resources over time, in order; constant in the paper (n_R).
    pub capacity: Vec<Capacity>,
    /// Every user, in the order of arrival.
    pub explorations: Vec<Exploration>,
    /// The largest number of optional requests stored on the platform at one time.
    pub stored_most: u32,
    /// Submissions sent by clients, including repeated ones.
    pub submissions: u64,
}
