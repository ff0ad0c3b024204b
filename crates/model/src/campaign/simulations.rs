//! Results of a campaign of simulations: workloads or explorations under several policies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The results of a campaign of simulations.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// The version of the file format.
    pub schema: String,
    /// The campaign's name.
    pub name: String,
    /// The reference policy of comparisons.
    pub reference: String,
    /// Additional reference policies of a policy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub compare_with: BTreeMap<String, Vec<String>>,
    /// Number of runs of the whole campaign.
    pub planned: usize,
    /// The finished runs, in the order of the matrix.
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
    /// The jobs that were moldable.
    pub moldable: String,
    /// Share of the jobs submitted through the federation.
    pub dedicated_share: f64,
    /// The seed.
    pub seed: u64,
    /// The policy.
    pub policy: String,
    /// Metrics of the run by name.
    pub metrics: BTreeMap<String, f64>,
}
