//! One self-contained HTML file that opens offline: a run, several runs of one comparison, a campaign, or a mapping.
//!
//! Tables are written here; charts are drawn in the page by the scripts in `assets/`, from data embedded
//! as JSON and packed columns. The page asks the network for nothing and its policy forbids it to.
//! `docs/development/plots.md` says why the charts are not a library's.

mod boxes;
mod campaign;
mod campaign_summary;
mod charts;
mod drawing;
mod families;
mod figures;
mod layout;
mod lines;
mod mapping;
mod mapping_drawing;
mod metric;
mod number;
mod pack;
mod page;
mod relative;
mod relative_figure;
mod runs;
mod series;
mod table;
mod tables;

use std::collections::BTreeMap;

pub use drawing::{DrawnBar, DrawnBin, drawn_bars, drawn_bins};
pub use figures::{LineFigure, Section, Series, TextTable, render_figures};
pub(crate) use lines::tick;
pub use mapping::{MappedApplication, render_mapping};
pub(crate) use number::{count, counted};
pub use page::{CHART_SCRIPTS, PALETTE};
use pliant_model::Run;

use crate::campaign_table::CampaignTable;
use crate::comparison::ComparisonError;
use crate::metrics::Summary;

/// One run of a page.
#[derive(Clone, Copy, Debug)]
pub struct NamedRun<'a> {
    /// What the page calls it.
    pub name: &'a str,
    /// The run.
    pub run: &'a Run,
    /// Its summary.
    pub summary: &'a Summary,
}

/// The page of one run, or of several runs of one workload; the first is the reference of the others.
/// `note` is a sentence under the title. The page opens on the variant with the least mean response. Fails if
/// the runs are not of one workload; no runs make a page that says so.
pub fn render_runs(title: &str, note: &str, runs: &[NamedRun<'_>]) -> Result<String, ComparisonError> {
    runs::render(title, note, runs)
}

/// A part of the page of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunPart {
    /// The Gantt chart.
    Schedule,
    /// Utilization and queue length over time.
    Utilization,
}

/// The page of one run with one of its parts alone.
pub fn render_part(run: &NamedRun<'_>, part: RunPart) -> String {
    runs::render_part(run, part)
}

/// The page of a campaign whose policies are compared with others by name (`compare_with`: of each policy, those that it is
/// divided by): ratios of the mean response and of the mean bounded slowdown, log by log, with intervals, then the summary.
pub fn render_comparison(
    title: &str,
    note: &str,
    table: &CampaignTable,
    compare_with: &BTreeMap<String, Vec<String>>,
) -> String {
    relative::render(title, note, table, compare_with)
}

/// The figure of the mean response on that page, as an SVG file of its own.
pub fn comparison_figure(table: &CampaignTable, compare_with: &BTreeMap<String, Vec<String>>) -> String {
    relative::figure_file(table, compare_with)
}

/// The page of a campaign: a summary of what each policy was worth, then box plots over the seeds, for each
/// metric, by workload and policy, dedicated and non-dedicated platforms apart.
pub fn render_campaign(title: &str, note: &str, table: &CampaignTable) -> String {
    campaign::render(title, note, table)
}
