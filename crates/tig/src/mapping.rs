//! A mapping: the machine of each task, and the step that placed it.

use crate::clustering::ClusterId;
use crate::{Level, MachineId, NodeId, TaskGraph, TaskId};

/// A mapping of a whole application.
#[derive(Clone, PartialEq, Debug)]
pub struct Mapping {
    /// The placement of each task.
    pub placements: Vec<Placement>,
    /// The selected LAN of each cluster; empty for algorithms without clusters.
    pub clusters: Vec<ClusterPlacement>,
}

/// The placement of a task.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Placement {
    /// The machine.
    pub machine: MachineId,
    /// Eq. 10 at placement: the machine's remaining power over the task's demand. At least 1.
    pub affinity: f64,
    /// The step that placed it.
    pub stage: Stage,
}

/// The step that placed a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// On the LAN selected for its cluster.
    Selected,
    /// On a machine this far up the dendrogram, since that LAN was full.
    Proxy(Level),
    /// Best fit over the whole grid.
    BestFit,
    /// On a random machine with enough power.
    Drawn,
    /// Moved by the search after the mapping.
    Refined,
}

impl Stage {
    /// The stable keyword.
    pub fn word(self) -> &'static str {
        match self {
            Self::Selected => "selected-lan",
            Self::Proxy(Level::Lan | Level::Man) => "same-man",
            Self::Proxy(Level::Wan) => "same-wan",
            Self::Proxy(Level::Root) => "other-wan",
            Self::BestFit => "best-fit",
            Self::Drawn => "random",
            Self::Refined => "refined",
        }
    }
}

/// The selected LAN of a cluster.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClusterPlacement {
    /// The LAN.
    pub lan: NodeId,
    /// Its suitability at that moment (eqs. 7 to 9).
    pub suitability: f64,
}

/// An application that could not be mapped. The grid is unchanged.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum MappingError {
    /// No LAN was suitable for a cluster.
    #[error(
        "expected a LAN of suitability 1 for cluster {} ({tasks} tasks, {mcr_mflops:.1} MFlop/s), found \
         {best:.3} at most", cluster.0
    )]
    Cluster {
        /// The cluster.
        cluster: ClusterId,
        /// How many tasks it has.
        tasks: usize,
        /// What they need together, in MFlop/s (eq. 6).
        mcr_mflops: f64,
        /// The best suitability that was found.
        best: f64,
    },
    /// No machine that may be used has enough power left for a task.
    #[error("expected a machine with {mcr_mflops:.1} MFlop/s left, found {best:.1} at most")]
    Task {
        /// The task.
        task: TaskId,
        /// What it needs, in MFlop/s.
        mcr_mflops: f64,
        /// The largest free power of a machine.
        best: f64,
    },
}

impl MappingError {
    /// With the names of the application.
    pub fn describe(&self, graph: &TaskGraph) -> String {
        match self {
            Self::Task { task, mcr_mflops, best } if mcr_mflops <= best => format!(
                "task `{}` needs {mcr_mflops:.1} MFlop/s; a machine has {best:.1} left, but no link to it has enough bandwidth left",
                graph.task(*task).name
            ),
            Self::Task { task, .. } => format!("task `{}`: {self}", graph.task(*task).name),
            Self::Cluster { .. } => self.to_string(),
        }
    }
}
