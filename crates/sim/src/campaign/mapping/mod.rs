//! Campaigns of mappings: a matrix `graph x cluster size x MCR x grid x policy` of task interaction graphs on grids
//! (paper 003, section 5), and applications that are given as files.
//!
//! How long mapping and clustering took is in `timing.json`, and in no other result.

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

/// A campaign of mappings, as its file says.
#[derive(Clone, PartialEq, Debug)]
pub struct MappingCampaign {
    /// Its name.
    pub name: String,
    /// The folder that relative paths in it start from.
    pub base: PathBuf,
    /// Seeds of the graphs; the first one also draws the grids.
    pub seeds: Vec<u64>,
    /// Tasks per graph.
    pub tasks: Vec<usize>,
    /// Classes of clusters: least and most tasks per cluster, on average.
    pub cluster_sizes: Vec<[usize; 2]>,
    /// What a task of RCR 1 needs, in MFlop/s.
    pub mcr_mflops: Vec<f64>,
    /// Range of RCR and RQoC.
    pub weights: [f64; 2],
    /// At most so many edges per task.
    pub edges_per_task: f64,
    /// What an edge of RQoC 1 needs, in Mb/s.
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
    /// Position of the policy that the others are compared with.
    pub reference: usize,
    /// Applications that are given as files.
    pub use_cases: Vec<UseCase>,
}

/// An application on a platform, both given as files.
#[derive(Clone, PartialEq, Debug)]
pub struct UseCase {
    /// Its name.
    pub name: String,
    /// The task interaction graph.
    pub application: PathBuf,
    /// The grid.
    pub grid: PathBuf,
    /// Numbers of clusters to cut it into.
    pub clusters: Vec<usize>,
    /// What a task of RCR 1 needs, in MFlop/s.
    pub mcr_mflops: Vec<f64>,
}

impl MappingCampaign {
    /// How many trials each policy has.
    pub fn trials(&self) -> usize {
        self.applications() * self.grids()
    }

    /// How many applications: each number of tasks, class of clusters and MCR has as many graphs as there are seeds.
    pub fn applications(&self) -> usize {
        self.tasks.len() * self.seeds.len() * self.cluster_sizes.len() * self.mcr_mflops.len()
    }

    /// How many grids.
    pub fn grids(&self) -> usize {
        self.machines.len() * self.lan_hosts.len()
    }

    /// A path of the campaign file.
    fn path(&self, path: &Path) -> PathBuf {
        self.base.join(path)
    }
}
