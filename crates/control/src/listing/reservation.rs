//! Advance reservations of a batch system.

use std::collections::BTreeMap;

use pliant_model::Time;
use serde::{Deserialize, Serialize};

use super::NodeAllocation;

/// What an operator keeps for some users or for maintenance. Other jobs get nothing of it from its beginning until its end.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reservation {
    /// Name in the batch system.
    pub name: String,
    /// When it begins.
    pub from: Time,
    /// When it ends.
    pub until: Time,
    /// Its nodes. Without a number of cores it is all of the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeAllocation>,
    /// True if the jobs of this server have their nodes of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ours: bool,
    /// Its units of licences.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub licences: BTreeMap<String, u32>,
}
