//! Jobs that local users submitted straight to their cluster, as far as a replay of the federation needs them.
//!
//! A server in front of an external batch system sees such jobs in its listings and touches none of them. Of each it
//! keeps how much it took and when, so that a later replay meets the same load; not whose it was, what it was called or
//! what it ran: no policy asks, and listings here do not even carry it.

use pliant_model::{Span, Time};
use pliant_policy::nodes::Shape;
use serde::{Deserialize, Serialize};

/// A job of a local user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocalJob {
    /// Its cores, and how they lie.
    pub shape: Shape,
    /// Its limit; none if it has none, or one that is not told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime: Option<Span>,
    /// The partition (queue).
    pub partition: String,
    /// When it was submitted.
    pub submitted: Time,
    /// When it started; none if it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When it ended, or was seen to be gone; none if it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
}

impl LocalJob {
    /// True if it has given its processors back before the end of its limit.
    pub fn is_early(&self) -> bool {
        let planned = self.started.zip(self.walltime).map(|(started, walltime)| started + walltime);
        self.ended.zip(planned).is_some_and(|(ended, planned)| ended < planned)
    }
}
