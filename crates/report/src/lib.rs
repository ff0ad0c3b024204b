//! What a finished run was worth: published metrics, comparisons with a reference run, result folders
//! (CSV, Parquet, SWF, JSON) and self-contained HTML pages.
//!
//! The input is a [`pliant_model::Run`], in memory or read back from a folder, or the [results of a
//! campaign](pliant_model::campaign). This crate knows no policy
//! and no simulator, and decides nothing. `docs/reference/results.md` describes every file and every metric.

mod bootstrap;
mod campaign_metrics;
mod campaign_table;
pub mod campaigns;
mod comparison;
mod exploration;
mod files;
pub mod html;
mod metrics;
mod planned;
pub mod plot;
mod quantile;
mod relative;
pub mod timeline;

pub use bootstrap::{Interval, JOBS_MIN, mean_difference};
pub use campaign_metrics::{measure_exploration, measure_run};
pub use campaign_table::{CampaignRow, CampaignTable};
pub use comparison::{Comparison, ComparisonError, JobGain, compare, gained_before};
pub use exploration::{ExplorationSummary, fair_shares, summarize_exploration};
pub use files::{
    FileError, FileFormat, InstanceRow, RESULT_FILES, RefusedRow, ResultFolder, prepare_folder, read_folder,
    refused_rows, write_folder, write_formats, write_instances,
};
pub use metrics::{ClusterRow, SUMMARY_SCHEMA, Summary, summarize};
pub use planned::{PlannedStarts, compare_with_plans};
pub use quantile::{Quartiles, quantile};
pub use relative::{Relative, WORKLOADS_MIN, relative};
