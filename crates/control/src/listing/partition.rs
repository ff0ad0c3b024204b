//! The partitions (queues) of a batch system: where jobs go, and which are never started there.

use pliant_model::Span;
use serde::{Deserialize, Serialize};

/// A partition.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Where jobs go that name none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_default: bool,
    /// Why it takes or starts no jobs at the moment, in the batch system's word; none if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
    /// What waits there is not started at the moment either.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// The longest limit of a job; none if there is no longest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime: Option<Span>,
    /// The most nodes of a job; none if there is no most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Every job has its nodes to itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}
