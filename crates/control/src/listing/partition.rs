//! Partitions (queues) of a batch system.

use pliant_model::Span;
use serde::{Deserialize, Serialize};

use super::DefaultMemory;

/// A partition.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Partition {
    /// Its name.
    pub name: String,
    /// Jobs that name no partition go here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_default: bool,
    /// Why it does not accept or start jobs, in the batch system's word; none if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
    /// Waiting jobs do not start at the moment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// Waiting jobs of a partition with a higher one come first, whatever their priorities are.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub tier: u32,
    /// The longest time limit of a job; none if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub walltime: Option<Span>,
    /// The most nodes of a job; none if unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Nodes are not shared between jobs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// The memory of its jobs that do not mention memory, if it differs from the cluster's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_memory: Option<DefaultMemory>,
}
