//! The pages of campaigns of every kind, and the tables that they share with the command line.

mod mapping;
mod mapping_table;
mod multi_job;
mod multi_job_tables;
mod simulations;

use pliant_model::campaign::Results;

pub use mapping::mapping_page;
pub use mapping_table::{mapping_row, mapping_titles};
pub use multi_job::multi_job_page;
pub use multi_job_tables::{
    ARRIVING, EXPERIMENTS, FROZEN, RATIOS, arriving_row, experiment_row, frozen_rows, ratio, ratio_rows,
};
pub use simulations::{simulations_figure, simulations_page};

/// The page of a campaign of any kind.
pub fn campaign_page(results: &Results) -> String {
    match results {
        Results::Simulations(results) => simulations_page(results),
        Results::Mapping(results) => mapping_page(results),
        Results::MultiJob(results) => multi_job_page(results),
    }
}
