//! A mapping: which machine each task goes to, and why there.

use crate::clustering::ClusterId;
use crate::{Level, MachineId, NodeId, TaskGraph, TaskId};

/// A whole application on machines.
#[derive(Clone, PartialEq, Debug)]
pub struct Mapping {
    /// Where each task goes.
    pub placements: Vec<Placement>,
    /// Where each cluster was sent; empty if the algorithm knows no clusters.
    pub clusters: Vec<ClusterPlacement>,
}

/// Where a task goes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Placement {
    /// The machine.
    pub machine: MachineId,
    /// Eq. 10 at the moment of the placement: what the machine had left over what the task needs. At least 1.
    pub affinity: f64,
    /// By which step.
    pub stage: Stage,
}

/// The step that placed a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// On the LAN that was selected for its cluster.
    Selected,
    /// That LAN was full: on a machine that is this far up the dendrogram.
    Proxy(Level),
    /// Best fit over the whole grid.
    BestFit,
    /// On any machine with enough power.
    Drawn,
    /// Moved there by the search that follows the mapping.
    Refined,
}

impl Stage {
    /// The stable word.
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

/// Where a cluster was sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ClusterPlacement {
    /// The LAN that was selected for it.
    pub lan: NodeId,
    /// Eqs. 7 to 9 at that moment.
    pub suitability: f64,
}

/// An application that was not mapped. Nothing of it is left on the grid.
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
    /// No machine that may be used had room for a task.
    #[error("expected a machine with {mcr_mflops:.1} MFlop/s left, found {best:.1} at most")]
    Task {
        /// The task.
        task: TaskId,
        /// What it needs, in MFlop/s.
        mcr_mflops: f64,
        /// The most that any machine had left.
        best: f64,
    },
}

impl MappingError {
    /// With the names of the application.
    pub fn describe(&self, graph: &TaskGraph) -> String {
        match self {
            Self::Task { task, mcr_mflops, best } if mcr_mflops <= best => format!(
                "task `{}` needs {mcr_mflops:.1} MFlop/s; a machine has {best:.1} left, but no link to it has room",
                graph.task(*task).name
            ),
            Self::Task { task, .. } => format!("task `{}`: {self}", graph.task(*task).name),
            Self::Cluster { .. } => self.to_string(),
        }
    }
}
