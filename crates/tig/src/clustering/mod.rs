//! Step 1 of WASE: correlation clustering of the tasks by their traffic (paper 003, section 4).
//!
//! [`Weights`] are eq. 5; [`Clustering::cost`] is what a clustering misses of them; [`cluster()`] finds a good
//! one fast, [`relax()`] a lower bound on all of them by a linear program, which [`round()`] turns into a
//! clustering as the paper does; [`threshold`] finds the weights that give clusters of a wanted size.

mod contraction;
mod exact;
mod moves;
mod relaxation;
mod rounding;
pub mod threshold;
mod weights;

pub use contraction::greedy;
pub use moves::improve;
pub use relaxation::{Relaxation, RelaxationError, relax};
pub use rounding::round;
pub use weights::{Weight, Weights};

use crate::{TaskGraph, TaskId};

/// Graphs of at most this many tasks are clustered exhaustively.
pub const EXACT_MAX: usize = 8;

/// The default: the best clustering of at most [`EXACT_MAX`] tasks, else what [`greedy()`] finds, with at most
/// `size_max` tasks in a cluster.
pub fn cluster(weights: &Weights, size_max: usize) -> Clustering {
    if weights.tasks() <= EXACT_MAX {
        exact::exact(weights, size_max.max(1))
    } else {
        greedy(weights, size_max)
    }
}

/// A cluster of tasks: its position in the clustering.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClusterId(pub u32);

impl ClusterId {
    /// Position in the clustering.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Every task in one cluster. Clusters are numbered by their first task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clustering {
    of: Vec<ClusterId>,
    clusters: Vec<Vec<TaskId>>,
}

impl Clustering {
    /// The clustering in which two tasks are together if their labels are equal.
    pub fn of_labels(labels: &[usize]) -> Clustering {
        let mut number: Vec<Option<ClusterId>> = vec![None; labels.iter().max().map_or(0, |max| max + 1)];
        let mut clusters: Vec<Vec<TaskId>> = Vec::new();
        let mut of = Vec::with_capacity(labels.len());
        for (task, label) in labels.iter().enumerate() {
            let cluster = *number[*label].get_or_insert_with(|| {
                clusters.push(Vec::new());
                ClusterId(clusters.len() as u32 - 1)
            });
            clusters[cluster.index()].push(TaskId(task as u32));
            of.push(cluster);
        }
        Clustering { of, clusters }
    }

    /// How many clusters.
    pub fn count(&self) -> usize {
        self.clusters.len()
    }

    /// How many tasks.
    pub fn tasks_count(&self) -> usize {
        self.of.len()
    }

    /// The clusters, in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = ClusterId> + use<> {
        (0..self.clusters.len() as u32).map(ClusterId)
    }

    /// The cluster of a task.
    pub fn of(&self, task: TaskId) -> ClusterId {
        self.of[task.index()]
    }

    /// The tasks of a cluster, in order.
    pub fn tasks(&self, cluster: ClusterId) -> &[TaskId] {
        &self.clusters[cluster.index()]
    }

    /// Tasks per cluster.
    pub fn mean_size(&self) -> f64 {
        self.of.len() as f64 / self.clusters.len().max(1) as f64
    }

    /// Tasks of the largest cluster.
    pub fn max_size(&self) -> usize {
        self.clusters.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The objective of correlation clustering: the positive weights that are cut and the negative ones that
    /// are not, all as positive numbers. Less is better.
    pub fn cost(&self, weights: &Weights) -> f64 {
        let cut = |weight: &Weight| self.of[weight.ends[0]] != self.of[weight.ends[1]];
        let missed = |weight: &&Weight| cut(weight) == (weight.value > 0.0);
        let missed = weights.edges().iter().filter(missed).map(|weight| weight.value.abs());
        // An empty sum is -0.
        missed.sum::<f64>() + 0.0
    }

    /// The traffic between clusters, in % of all traffic.
    pub fn cut_percent(&self, graph: &TaskGraph) -> f64 {
        graph.traffic_percent(|one, other| self.of(one) != self.of(other))
    }

    pub(crate) fn labels(&self) -> Vec<usize> {
        self.of.iter().map(|cluster| cluster.index()).collect()
    }
}
