//! The page and the figure of a campaign of simulations.

use pliant_model::campaign::simulations::{Record, Results};

use crate::campaign_table::{CampaignRow, CampaignTable};
use crate::html::{comparison_figure, count, counted, render_campaign, render_comparison};

/// The page of a campaign of simulations.
pub fn simulations_page(results: &Results) -> String {
    let note = format!(
        "{} of {}, compared with policy {} under the same seed.",
        count(results.runs.len() as u64),
        counted(results.planned as u64, "run"),
        results.reference
    );
    match results.compare_with.is_empty() {
        true => render_campaign(&results.name, &note, &table(results)),
        false => render_comparison(&results.name, &note, &table(results), &results.compare_with),
    }
}

/// The figure of a campaign whose policies are compared with others by name, as an SVG file; none for other campaigns.
pub fn simulations_figure(results: &Results) -> Option<String> {
    (!results.compare_with.is_empty()).then(|| comparison_figure(&table(results), &results.compare_with))
}

fn table(results: &Results) -> CampaignTable {
    CampaignTable { rows: results.runs.iter().map(|run| row(run, results)).collect() }
}

/// A row of the page, which knows workloads and two kinds of platforms only: what else varies is put into
/// the workload's name.
fn row(run: &Record, results: &Results) -> CampaignRow {
    let varies = |differs: fn(&Record, &Record) -> bool| results.runs.iter().any(|other| differs(run, other));
    let mut workload = run.workload.clone();
    if varies(|run, other| run.workload == other.workload && run.platform != other.platform) {
        workload.push_str(&format!(" on {}", run.platform));
    }
    if varies(|run, other| run.moldable != other.moldable) {
        workload.push_str(&format!(", moldable {}", run.moldable));
    }
    if varies(|run, other| {
        run.dedicated_share < 1.0
            && other.dedicated_share < 1.0
            && run.dedicated_share != other.dedicated_share
    }) {
        workload.push_str(&format!(", share {}", run.dedicated_share));
    }
    CampaignRow {
        workload,
        dedicated: run.dedicated_share >= 1.0,
        policy: run.policy.clone(),
        seed: run.seed,
        metrics: run.metrics.clone(),
    }
}
