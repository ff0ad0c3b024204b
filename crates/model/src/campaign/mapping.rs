//! What a campaign of mappings found: task interaction graphs on grids (paper 003).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The results of a campaign of mappings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// The version of the file.
    pub schema: String,
    /// The campaign's name.
    pub name: String,
    /// The policy that the others are compared with.
    pub reference: String,
    /// The policies, in order.
    pub policies: Vec<String>,
    /// Trials of each policy.
    pub trials: usize,
    /// Means by each axis.
    pub cells: Vec<Cell>,
    /// Clusterings against their bound.
    pub clusterings: Vec<ClusteringRow>,
    /// Applications that were given as files.
    pub use_cases: Vec<UseCaseRow>,
    /// How long it took; not in `results.json`.
    #[serde(skip)]
    pub timing: Vec<Timing>,
}

/// What trials are grouped by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// All trials.
    All,
    /// Those that every policy mapped: where policies are compared without the bias of their failures.
    MappedByAll,
    /// Tasks of the graph.
    Tasks,
    /// Most tasks per cluster of the class.
    ClusterSize,
    /// MCR.
    Mcr,
    /// Machines of the grid.
    Machines,
    /// Machines of the grid, over the applications that the policy mapped on every such grid: the same ones at
    /// each value.
    MachinesPaired,
    /// Machines per LAN.
    LanHosts,
    /// Tasks of the graph on grids of four machines per LAN, or whatever the least is: Figure 8.
    TasksOnSmallLans,
}

/// Trials of a policy that have one value of an axis.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The axis.
    pub axis: Axis,
    /// Its value; 0 where the axis has none.
    pub value: f64,
    /// The policy.
    pub policy: String,
    /// How many trials.
    pub trials: usize,
    /// How many of them failed.
    pub failed: usize,
    /// Means over the others.
    pub means: BTreeMap<String, f64>,
}

/// How good the clusterings of a graph are.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusteringRow {
    /// Tasks of the graph.
    pub tasks: usize,
    /// Its seed.
    pub seed: u64,
    /// Least and most tasks per cluster, on average.
    pub class: [usize; 2],
    /// What a task of RCR 1 needs; it has no part in the clustering, but each has a graph of its own.
    pub mcr_mflops: f64,
    /// Edges of the graph.
    pub edges: usize,
    /// The threshold.
    pub delta: f64,
    /// Tasks per cluster that contraction found at it.
    pub mean_size: f64,
    /// The largest of these clusters.
    pub max_size: usize,
    /// The optimum of the linear program: no clustering costs less.
    pub bound: f64,
    /// Rows of the program.
    pub rows: usize,
    /// Rounds of separation.
    pub rounds: usize,
    /// Cost by contraction and local search.
    pub contraction: f64,
    /// Cost by region growing.
    pub rounding: f64,
    /// The same with local search.
    pub rounding_searched: f64,
    /// Traffic between the clusters that contraction found, in %.
    pub cut_percent: f64,
}

/// A use case, cut into so many clusters, at one MCR.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UseCaseRow {
    /// The use case.
    pub name: String,
    /// Clusters.
    pub clusters: usize,
    /// Clusters that were asked for.
    pub wanted_clusters: usize,
    /// What a task of RCR 1 needs.
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

/// Median times of a policy on graphs of one size.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// The policy.
    pub policy: String,
    /// Tasks of the graph.
    pub tasks: usize,
    /// Milliseconds to map.
    pub map_ms: f64,
    /// Milliseconds to find the threshold and the clusters; 0 if it needs none.
    pub cut_ms: f64,
}
