//! Jobs that local users submitted straight to their cluster, as far as a replay of the federation needs them.
//!
//! A server in front of an external batch system sees such jobs in its listings and never changes them. It keeps their
//! shapes and times, so that a later replay has the same load. It does not keep their owners, names or programs, which no
//! policy needs.

use pliant_model::{Span, Time};
use pliant_policy::nodes::Shape;
use serde::{Deserialize, Serialize};

/// A job of a local user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LocalJob {
    /// The job's cores and their layout.
    pub shape: Shape,
    /// The job's time limit; none if it has none or the listing does not show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime: Option<Span>,
    /// The partition (queue).
    pub partition: String,
    /// When it was submitted.
    pub submitted: Time,
    /// When it started; none while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When it ended or left the listings; none before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
}

impl LocalJob {
    /// True if it ended before its time limit.
    pub fn is_early(&self) -> bool {
        let planned = self.started.zip(self.walltime).map(|(started, walltime)| started + walltime);
        self.ended.zip(planned).is_some_and(|(ended, planned)| ended < planned)
    }
}
