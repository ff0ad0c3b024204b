//! The nodes that a cluster declares.

use std::collections::BTreeMap;

use crate::resources::{WORD_BYTES_MAX, is_word};
use crate::{Mebibytes, Procs};

/// Nodes of a cluster that are alike.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeGroup {
    /// How many nodes.
    pub count: u32,
    /// Processors of each.
    pub procs: Procs,
    /// Memory of each.
    pub memory: Mebibytes,
    /// GPUs of each.
    #[cfg_attr(feature = "serde", serde(default))]
    pub gpus: u32,
    /// The kind of the GPUs, such as `a100`.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub gpu_kind: Option<String>,
    /// Local disk space of each.
    #[cfg_attr(feature = "serde", serde(default))]
    pub scratch: Mebibytes,
    /// Features of each.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub features: Vec<String>,
}

/// The nodes of a cluster, and what its jobs share besides nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClusterNodes {
    /// The nodes.
    pub groups: Vec<NodeGroup>,
    /// How many units of each licence its jobs may hold at once.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "BTreeMap::is_empty"))]
    pub licences: BTreeMap<String, u32>,
    /// The memory for each processor of a request that does not mention memory.
    #[cfg_attr(feature = "serde", serde(default))]
    pub default_memory: Mebibytes,
}

/// The most nodes of a cluster: more than the largest machines have.
pub const NODES_MAX: u64 = 200_000;

/// The most processors of a node: with [`NODES_MAX`] the number of processors of a cluster fits in 32 bits.
pub const PROCS_PER_NODE_MAX: u32 = 20_000;

/// The most groups of nodes of a cluster.
pub const NODE_GROUPS_MAX: usize = 64;

/// Invalid nodes of a cluster.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NodesError {
    /// There are none, or too many groups.
    #[error("expected 1 to {NODE_GROUPS_MAX} groups of nodes, found {0}")]
    Groups(usize),
    /// A group is empty.
    #[error("expected nodes with processors, found a group of {count} nodes with {procs} processors")]
    Empty {
        /// Its nodes.
        count: u32,
        /// Their processors.
        procs: Procs,
    },
    /// There are too many nodes.
    #[error("expected at most {NODES_MAX} nodes, found {found}")]
    TooMany {
        /// The nodes of all groups.
        found: u64,
    },
    /// A node has too many processors.
    #[error("expected at most {PROCS_PER_NODE_MAX} processors on a node, found {0}")]
    TooLarge(Procs),
    /// A kind of GPU without GPUs.
    #[error("expected GPUs of the kind `{0}`, found none")]
    NoGpus(String),
    /// A job on all processors of a node has no memory there by default.
    #[error(
        "expected the default memory of {default} for each of the {procs} processors of a node, found {found} in all"
    )]
    DefaultMemory {
        /// What each processor has by default.
        default: Mebibytes,
        /// The processors of the node.
        procs: Procs,
        /// The memory of the node.
        found: Mebibytes,
    },
    /// A name cannot be used.
    #[error("expected a name of 1 to {WORD_BYTES_MAX} letters, digits, `.`, `_` and `-`, found `{0}`")]
    Word(String),
}

impl NodeGroup {
    /// So many nodes with processors alone.
    pub fn of(count: u32, procs: Procs) -> NodeGroup {
        NodeGroup {
            count,
            procs,
            memory: Mebibytes::ZERO,
            gpus: 0,
            gpu_kind: None,
            scratch: Mebibytes::ZERO,
            features: Vec::new(),
        }
    }

    /// Checks a group of nodes on which a processor has so much memory by default.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn check(&self, default_memory: Mebibytes) -> Result<(), NodesError> {
        let NodeGroup { count, procs, memory, gpus, gpu_kind, features, .. } = self;
        if *count == 0 || procs.0 == 0 {
            return Err(NodesError::Empty { count: *count, procs: *procs });
        }
        if procs.0 > PROCS_PER_NODE_MAX {
            return Err(NodesError::TooLarge(*procs));
        }
        let needed = u64::from(default_memory.0) * u64::from(procs.0);
        if needed > u64::from(memory.0) {
            return Err(NodesError::DefaultMemory { default: default_memory, procs: *procs, found: *memory });
        }
        if let Some(kind) = gpu_kind.as_ref().filter(|_| *gpus == 0) {
            return Err(NodesError::NoGpus(kind.clone()));
        }
        match gpu_kind.iter().chain(features).find(|word| !is_word(word)) {
            Some(word) => Err(NodesError::Word(word.clone())),
            None => Ok(()),
        }
    }
}

impl ClusterNodes {
    /// Checks the nodes.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn check(&self) -> Result<(), NodesError> {
        if !(1..=NODE_GROUPS_MAX).contains(&self.groups.len()) {
            return Err(NodesError::Groups(self.groups.len()));
        }
        self.groups.iter().try_for_each(|group| group.check(self.default_memory))?;
        if let Some(word) = self.licences.keys().find(|word| !is_word(word)) {
            return Err(NodesError::Word(word.clone()));
        }
        let found = self.groups.iter().map(|group| u64::from(group.count)).sum();
        if found > NODES_MAX { Err(NodesError::TooMany { found }) } else { Ok(()) }
    }

    /// Processors of all nodes, which were checked.
    pub fn procs(&self) -> Procs {
        let procs = |group: &NodeGroup| group.count.saturating_mul(group.procs.0);
        Procs(self.groups.iter().map(procs).fold(0, u32::saturating_add))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(count: u32, procs: u32) -> NodeGroup {
        NodeGroup {
            count,
            procs: Procs(procs),
            memory: Mebibytes(1024),
            gpus: 0,
            gpu_kind: None,
            scratch: Mebibytes::ZERO,
            features: Vec::new(),
        }
    }

    fn nodes(groups: Vec<NodeGroup>) -> ClusterNodes {
        ClusterNodes { groups, licences: BTreeMap::new(), default_memory: Mebibytes::ZERO }
    }

    #[test]
    fn invalid_nodes_are_refused() {
        assert_eq!(nodes(vec![group(3, 4), group(1, 2)]).check(), Ok(()));
        assert_eq!(nodes(vec![group(3, 4), group(1, 2)]).procs(), Procs(14));
        assert_eq!(nodes(vec![]).check(), Err(NodesError::Groups(0)));
        assert_eq!(nodes(vec![group(1, 1); 65]).check(), Err(NodesError::Groups(65)));
        assert_eq!(nodes(vec![group(0, 4)]).check(), Err(NodesError::Empty { count: 0, procs: Procs(4) }));
        let many = nodes(vec![group(u32::MAX, 2), group(1, 2)]);
        assert_eq!(many.check(), Err(NodesError::TooMany { found: 1 << 32 }));
        assert_eq!(nodes(vec![group(1, 20_001)]).check(), Err(NodesError::TooLarge(Procs(20_001))));
        let kind = NodeGroup { gpu_kind: Some("a100".to_owned()), ..group(1, 1) };
        assert_eq!(nodes(vec![kind]).check(), Err(NodesError::NoGpus("a100".to_owned())));
        let default = ClusterNodes { default_memory: Mebibytes(300), ..nodes(vec![group(1, 4)]) };
        let message =
            "expected the default memory of 300M for each of the 4 processors of a node, found 1G in all";
        assert_eq!(default.check().map_err(|error| error.to_string()), Err(message.to_owned()));
        let feature = NodeGroup { features: vec!["a b".to_owned()], ..group(1, 1) };
        assert_eq!(nodes(vec![feature]).check(), Err(NodesError::Word("a b".to_owned())));
    }
}
