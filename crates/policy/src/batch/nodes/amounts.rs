//! Amounts of what a node has and jobs take of it.

use pliant_model::Mebibytes;

use super::snapshot::Node;

/// What is free on a node, or what a job takes of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Amounts {
    /// Cores; of a licence, how many.
    pub cores: u32,
    /// Memory.
    pub memory: Mebibytes,
    /// GPUs.
    pub gpus: u32,
    /// Local disk space.
    pub scratch: Mebibytes,
}

/// A job's part of a node, or of a licence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Part {
    /// The position of the node; licences follow the nodes.
    pub node: u32,
    /// What it takes.
    pub taken: Amounts,
}

impl Amounts {
    /// More than any node has.
    pub(super) const ALL: Amounts = Amounts {
        cores: u32::MAX,
        memory: Mebibytes(u32::MAX),
        gpus: u32::MAX,
        scratch: Mebibytes(u32::MAX),
    };

    /// So many cores and nothing else.
    pub(super) fn of(cores: u32) -> Amounts {
        Amounts { cores, ..Amounts::default() }
    }

    /// What a node has for jobs.
    pub fn on(node: &Node) -> Amounts {
        if !node.up {
            return Amounts::default();
        }
        Amounts { cores: node.cores.0, memory: node.memory, gpus: node.gpus, scratch: node.scratch }
    }

    /// The smaller of each.
    pub(in crate::batch) fn min(self, other: Amounts) -> Amounts {
        self.each(other, Ord::min)
    }

    /// What is left without `taken`, at least nothing.
    #[must_use]
    pub fn without(self, taken: Amounts) -> Amounts {
        self.each(taken, u32::saturating_sub)
    }

    /// Both together.
    #[must_use]
    pub fn with(self, more: Amounts) -> Amounts {
        self.each(more, u32::saturating_add)
    }

    /// Whether there is as much of each.
    pub fn covers(self, needed: Amounts) -> bool {
        self.min(needed) == needed
    }

    fn each(self, other: Amounts, of: impl Fn(u32, u32) -> u32) -> Amounts {
        Amounts {
            cores: of(self.cores, other.cores),
            memory: Mebibytes(of(self.memory.0, other.memory.0)),
            gpus: of(self.gpus, other.gpus),
            scratch: Mebibytes(of(self.scratch.0, other.scratch.0)),
        }
    }
}
