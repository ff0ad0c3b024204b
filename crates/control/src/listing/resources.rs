//! What a batch system hands out besides cores, and what jobs request of it.

use std::collections::BTreeMap;

use pliant_model::{Constraint, Mebibytes};
use serde::{Deserialize, Serialize};

use super::is_default;

/// What a cluster counts besides the cores of its nodes.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct CountedResources {
    /// True if memory is handed out: no job gets what others have.
    #[serde(skip_serializing_if = "is_default")]
    pub memory: bool,
    /// The memory of a job that does not mention memory, unless its partition says otherwise.
    #[serde(skip_serializing_if = "is_default")]
    pub default_memory: DefaultMemory,
    /// The units of each licence.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub licences: BTreeMap<String, u32>,
}

/// The memory of a job that does not mention memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DefaultMemory {
    /// All memory of its nodes.
    #[default]
    All,
    /// So much for each core.
    PerCore(Mebibytes),
    /// So much on each node.
    PerNode(Mebibytes),
}

/// What a listed job requests of its nodes besides cores.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestedResources {
    /// Memory for each core.
    #[serde(skip_serializing_if = "is_default")]
    pub memory_per_core: Mebibytes,
    /// Memory on each node besides.
    #[serde(skip_serializing_if = "is_default")]
    pub memory_per_node: Mebibytes,
    /// It gets all memory of its nodes, so that no other job with memory runs there.
    #[serde(skip_serializing_if = "is_default")]
    pub all_memory: bool,
    /// The cores of each of its tasks, which are on one node; none if each has one core, or if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores_per_task: Option<u32>,
    /// GPUs for each core.
    #[serde(skip_serializing_if = "is_default")]
    pub gpus_per_core: u32,
    /// More GPUs on each node.
    #[serde(skip_serializing_if = "is_default")]
    pub gpus_per_node: u32,
    /// More GPUs, on whichever of its nodes.
    #[serde(skip_serializing_if = "is_default")]
    pub gpus: u32,
    /// The kind of its GPUs, if it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_kind: Option<String>,
    /// Local disk space that each of its nodes must have, for all of its jobs together.
    #[serde(skip_serializing_if = "is_default")]
    pub scratch_size: Mebibytes,
    /// The features of its nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constraint: Option<Constraint>,
    /// Units of licences.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub licences: BTreeMap<String, u32>,
}
