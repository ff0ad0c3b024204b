//! Campaigns of mappings: a matrix `graph x cluster size x MCR x grid x policy` of task interaction graphs on grids
//! (paper 003, section 5), and applications from files.
//!
//! Only `timing.json` holds the durations of mapping and clustering.

mod execute;
mod file;
mod policy;
mod results;
mod use_case;

use std::path::{Path, PathBuf};

use pliant_tig::generate::{BandwidthRanges, Tiers};

pub use pliant_model::campaign::mapping::{Axis, Cell, ClusteringRow, Results, Timing, UseCaseRow};

pub(super) use execute::Mappings;
pub use policy::{Algorithm, ClusteringChoice, Policy};

/// A campaign of mappings, as read from its file.
#[derive(Clone, PartialEq, Debug)]
pub struct MappingCampaign {
    /// Its name.
    pub name: String,
    /// The base folder of its relative paths.
    pub base: PathBuf,
    /// The seeds of the graphs; the first one also draws the grids.
    pub seeds: Vec<u64>,
    /// Tasks per graph.
    pub tasks: Vec<usize>,
    /// Classes of clusters: least and most tasks per cluster, on average.
    pub cluster_sizes: Vec<[usize; 2]>,
    /// The demand of a task of RCR 1, in MFlop/s.
    pub mcr_mflops: Vec<f64>,
    /// Range of RCR and RQoC.
    pub weights: [f64; 2],
    /// The maximal number of edges per task.
    pub edges_per_task: f64,
    /// The demand of an edge of RQoC 1, in Mb/s.
    pub bandwidth_mbps: Option<f64>,
    /// Machines per grid.
    pub machines: Vec<usize>,
    /// Machines per LAN.
    pub lan_hosts: Vec<usize>,
    /// Range of powers.
    pub power_mflops: [f64; 2],
    /// Range of loads.
    pub load: [f64; 2],
    /// Shape of the grids; the number of WANs and the hosts of a LAN are set for each.
    pub tiers: Tiers,
    /// Ranges of bandwidths.
    pub bandwidths: BandwidthRanges,
    /// The policies.
    pub policies: Vec<Policy>,
    /// The position of the reference policy.
    pub reference: usize,
    /// Applications from files.
    pub use_cases: Vec<UseCase>,
}

/// An application on a platform, both from files.
#[derive(Clone, PartialEq, Debug)]
pub struct UseCase {
    /// Its name.
    pub name: String,
    /// The task interaction graph.
    pub application: PathBuf,
    /// The grid.
    pub grid: PathBuf,
    /// The numbers of clusters to form.
    pub clusters: Vec<usize>,
    /// The demand of a task of RCR 1, in MFlop/s.
    pub mcr_mflops: Vec<f64>,
}

impl MappingCampaign {
    /// The number of trials of each policy.
    pub fn trials(&self) -> usize {
        self.applications() * self.grids()
    }

    /// The number of applications: each number of tasks, class of clusters and MCR has one graph per seed.
    pub fn applications(&self) -> usize {
        self.tasks.len() * self.seeds.len() * self.cluster_sizes.len() * self.mcr_mflops.len()
    }

    /// The number of grids.
    pub fn grids(&self) -> usize {
        self.machines.len() * self.lan_hosts.len()
    }

    /// A path of the campaign file.
    fn path(&self, path: &Path) -> PathBuf {
        self.base.join(path)
    }
}
