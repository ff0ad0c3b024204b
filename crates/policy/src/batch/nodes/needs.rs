//! What a job needs of its nodes besides cores.

use pliant_model::{Mebibytes, Procs};

use super::amounts::Amounts;
#[cfg(feature = "serde")]
use super::snapshot::is_default;

/// What a job needs of its nodes besides cores. By default nothing, on nodes of any kind.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Needs {
    /// Memory for each core.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub memory_per_core: Mebibytes,
    /// The memory for all cores, if it is less than for each of them together.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub memory_max: Option<Mebibytes>,
    /// More memory on each node.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub memory_per_node: Mebibytes,
    /// GPUs for each core, on its node.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub gpus_per_core: u32,
    /// More GPUs on each node.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub gpus_per_node: u32,
    /// More GPUs in all, on whichever of its nodes.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub gpus: u32,
    /// Local disk space on each node.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub scratch_per_node: Mebibytes,
    /// Local disk space that each node must have for all of its jobs together ([`super::Rules::scratch_by_size`]).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub scratch_size: Mebibytes,
    /// The largest number of cores per node.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub most_per_node: Option<Procs>,
    /// The cores of each task, which are on one node: a job has a multiple of it of each node. One if none.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub cores_per_task: Option<Procs>,
    /// The kinds of nodes on which it can run.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub kinds: KindSet,
    /// Licences: positions in [`super::ClusterSnapshot::licences`] and how many of each.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_default"))]
    pub licences: Vec<(u32, u32)>,
}

impl Default for Needs {
    fn default() -> Needs {
        Needs::NONE
    }
}

impl Needs {
    /// Nothing, on nodes of any kind.
    pub const NONE: Needs = Needs {
        memory_per_core: Mebibytes(0),
        memory_max: None,
        memory_per_node: Mebibytes(0),
        gpus_per_core: 0,
        gpus_per_node: 0,
        gpus: 0,
        scratch_per_node: Mebibytes(0),
        scratch_size: Mebibytes(0),
        most_per_node: None,
        cores_per_task: None,
        kinds: KindSet::ALL,
        licences: Vec::new(),
    };

    /// The cores that a job with these needs can have of a node on which so much is free.
    pub fn cores_of(&self, free: Amounts) -> u32 {
        // Where sizes are compared, no job takes any: all of it is free.
        if free.gpus < self.gpus_per_node || free.scratch < self.scratch_per_node.max(self.scratch_size) {
            return 0;
        }
        let Some(memory) = free.memory.0.checked_sub(self.memory_per_node.0) else { return 0 };
        let by_memory = match self.memory_max {
            Some(max) if memory >= max.0 => u32::MAX,
            _ => memory.checked_div(self.memory_per_core.0).unwrap_or(u32::MAX),
        };
        let by_gpus = (free.gpus - self.gpus_per_node).checked_div(self.gpus_per_core).unwrap_or(u32::MAX);
        let most = self.most_per_node.map_or(u32::MAX, |most| most.0);
        let cores = free.cores.min(by_memory).min(by_gpus).min(most);
        // No task is split.
        self.cores_per_task.map_or(cores, |task| cores - cores % task.0.max(1))
    }

    /// What a job with these needs takes of a node with so many cores of it; [`Needs::gpus`] come on top.
    pub fn on(&self, cores: u32) -> Amounts {
        let most = self.memory_max.map_or(u32::MAX, |max| max.0);
        let memory =
            self.memory_per_core.0.saturating_mul(cores).min(most).saturating_add(self.memory_per_node.0);
        let gpus = self.gpus_per_core.saturating_mul(cores).saturating_add(self.gpus_per_node);
        Amounts { cores, memory: Mebibytes(memory), gpus, scratch: self.scratch_per_node }
    }
}

/// A set of positions in [`super::ClusterSnapshot::kinds`], one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct KindSet(pub u64);

impl KindSet {
    /// All kinds.
    pub const ALL: KindSet = KindSet(u64::MAX);

    /// The kinds of both.
    #[must_use]
    pub fn and(self, other: KindSet) -> KindSet {
        KindSet(self.0 & other.0)
    }

    /// Whether it has a kind.
    pub fn has(self, kind: u8) -> bool {
        self.0.checked_shr(u32::from(kind)).is_some_and(|rest| rest & 1 == 1)
    }
}

impl Default for KindSet {
    fn default() -> KindSet {
        KindSet::ALL
    }
}
