//! Results of finished campaigns, one module per kind: the interface between the campaign runner and the reports.

pub mod mapping;
pub mod multi_job;
pub mod simulations;

use serde::Serialize;

/// The results of a campaign.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Results {
    /// Of simulations.
    Simulations(simulations::Results),
    /// Of mappings.
    Mapping(mapping::Results),
    /// Of multi-jobs.
    MultiJob(multi_job::Results),
}
