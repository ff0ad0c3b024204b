//! What a campaign of simulations found: workloads, or users with optional computations, under policies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The results of a campaign of simulations.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// The version of the file.
    pub schema: String,
    /// The campaign's name.
    pub name: String,
    /// The policy that the others are compared with.
    pub reference: String,
    /// Of each policy that has them, the policies that it is compared with beside the reference.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub compare_with: BTreeMap<String, Vec<String>>,
    /// How many runs the whole campaign has.
    pub planned: usize,
    /// Those that are there, in the order of the matrix.
    pub runs: Vec<Record>,
}

/// The result of one run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The run's key.
    pub key: String,
    /// The workload.
    pub workload: String,
    /// The platform.
    pub platform: String,
    /// Which jobs were moldable.
    pub moldable: String,
    /// Share of the jobs that came through the federation.
    pub dedicated_share: f64,
    /// The seed.
    pub seed: u64,
    /// The policy.
    pub policy: String,
    /// What the run was worth, by the metric's name.
    pub metrics: BTreeMap<String, f64>,
}
