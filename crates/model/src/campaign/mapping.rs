//! Results of a campaign of mappings: task interaction graphs on grids (paper 003).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The results of a campaign of mappings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// The version of the file format.
    pub schema: String,
    /// The campaign's name.
    pub name: String,
    /// The reference policy of comparisons.
    pub reference: String,
    /// The policies, in the order of the campaign file.
    pub policies: Vec<String>,
    /// Trials of each policy.
    pub trials: usize,
    /// Means for each value of each axis.
    pub cells: Vec<Cell>,
    /// Clusterings compared with their lower bound.
    pub clusterings: Vec<ClusteringRow>,
    /// Applications given as files.
    pub use_cases: Vec<UseCaseRow>,
    /// Running times; not in `results.json`.
    #[serde(skip)]
    pub timing: Vec<Timing>,
}

/// A parameter by which trials are grouped.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// All trials.
    All,
    /// The trials that every policy mapped, so that failures do not bias the comparison.
    MappedByAll,
    /// Tasks of the graph.
    Tasks,
    /// The largest allowed number of tasks per cluster of the class.
    ClusterSize,
    /// MCR.
    Mcr,
    /// Machines of the grid.
    Machines,
    /// Machines of the grid, for the applications that the policy mapped at every value of the axis.
    MachinesPaired,
    /// Machines per LAN.
    LanHosts,
    /// Tasks of the graph on grids of four machines per LAN, or the smallest number if there is none of four: Figure 8.
    TasksOnSmallLans,
}

/// The trials of a policy for one value of an axis.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The axis.
    pub axis: Axis,
    /// Its value; 0 where the axis has none.
    pub value: f64,
    /// The policy.
    pub policy: String,
    /// Number of trials.
    pub trials: usize,
    /// Number of failed trials.
    pub failed: usize,
    /// Means over the successful trials.
    pub means: BTreeMap<String, f64>,
}

/// The quality of the clusterings of a graph.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusteringRow {
    /// Tasks of the graph.
    pub tasks: usize,
    /// Its seed.
    pub seed: u64,
    /// Bounds on the mean number of tasks per cluster.
    pub class: [usize; 2],
    /// The demand of a task of RCR 1. It does not affect the clustering, but each value has a graph of its own.
    pub mcr_mflops: f64,
    /// Edges of the graph.
    pub edges: usize,
    /// The threshold.
    pub delta: f64,
    /// Tasks per cluster found by contraction at this threshold.
    pub mean_size: f64,
    /// Tasks of the largest of these clusters.
    pub max_size: usize,
    /// The optimum of the linear program: a lower bound on the cost of any clustering.
    pub bound: f64,
    /// Rows of the program.
    pub rows: usize,
    /// Rounds of separation.
    pub rounds: usize,
    /// Cost of the clustering by contraction and local search.
    pub contraction: f64,
    /// Cost of the clustering by region growing.
    pub rounding: f64,
    /// Cost of the clustering by region growing and local search.
    pub rounding_searched: f64,
    /// Traffic between the clusters found by contraction, in %.
    pub cut_percent: f64,
}

/// A use case at one number of clusters and one MCR.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UseCaseRow {
    /// The use case.
    pub name: String,
    /// Clusters.
    pub clusters: usize,
    /// Clusters requested.
    pub wanted_clusters: usize,
    /// The demand of a task of RCR 1.
    pub mcr_mflops: f64,
    /// Tasks by LAN; all 0 if the mapping failed.
    pub lans: Vec<(String, usize)>,
    /// Mean affinity.
    pub affinity_mean: Option<f64>,
    /// Least affinity.
    pub affinity_min: Option<f64>,
    /// Traffic between LANs, in %.
    pub inter_lan_percent: Option<f64>,
    /// Traffic between clusters, in %.
    pub cut_percent: f64,
}

/// Median running times of a policy on graphs of one size.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// The policy.
    pub policy: String,
    /// Tasks of the graph.
    pub tasks: usize,
    /// Milliseconds to map.
    pub map_ms: f64,
    /// Milliseconds to find the threshold and the clusters; 0 if the policy does not cluster.
    pub cut_ms: f64,
}
