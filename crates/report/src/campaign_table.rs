//! The results of a campaign as a table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The results of a campaign, one row per run.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct CampaignTable {
    /// The rows, in the order in which workloads and policies are to be shown.
    pub rows: Vec<CampaignRow>,
}

impl CampaignTable {
    /// Whether jobs may have come by other ways than the federation. Explorations have no such jobs.
    pub(crate) fn has_kinds(&self) -> bool {
        !self.rows.iter().all(|row| row.metrics.contains_key("unhappy_users"))
    }
}

/// One run of a campaign.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CampaignRow {
    /// The workload.
    pub workload: String,
    /// True if all jobs came through the federation.
    pub dedicated: bool,
    /// The policies.
    pub policy: String,
    /// The seed.
    pub seed: u64,
    /// Metrics by their names in [`crate::Summary`] and [`crate::Comparison`], or of the caller's own.
    pub metrics: BTreeMap<String, f64>,
}
