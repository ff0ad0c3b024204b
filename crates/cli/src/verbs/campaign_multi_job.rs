//! Campaigns of multi-jobs: what `campaign run`, `campaign show` and `report` do with them.

use std::path::Path;

use pliant_sim::campaign::Shard;
use pliant_sim::campaign::multi_job::{self, MultiJobCampaign, RatioRow, Results};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::input::log_dirs;
use crate::multi_job_tables::{
    ARRIVING, EXPERIMENTS, FROZEN, RATIOS, arriving_row, experiment_row, frozen_rows, ratio, ratio_rows,
};
use crate::output::Output;
use crate::table::Table;
use crate::verbs::campaign_warnings::Warnings;

/// Runs a campaign file into a folder.
pub(crate) fn run(
    output: Output,
    file: &Path,
    dir: &Path,
    threads: usize,
    shard: Shard,
) -> Result<(), Failure> {
    if shard != Shard::WHOLE {
        return Err(Failure::input("--shard: expected a campaign of simulations, found one of multi-jobs")
            .hint("it takes minutes; run it whole"));
    }
    let mut warnings = Warnings::default();
    let mut campaign = MultiJobCampaign { log_dirs: log_dirs(), ..MultiJobCampaign::read(file)? };
    warnings.skipped(&campaign.skip_absent());
    let results = multi_job::run(&campaign, dir, threads)?;
    warnings.close_starts(&results.experiments);
    let dir = dir.display().to_string();
    let value = json!({
        "campaign": results.name,
        "out": dir,
        "logs": results.logs.len(),
        "cells": results.frozen.len() + results.arriving.len(),
        "warnings": warnings.all(),
    });
    let text = || {
        format!(
            "campaign {}: {} rows of frozen and {} of arriving experiments on {} logs are in {dir}\n\
             look at them with: pliant campaign show {dir}, pliant report {dir}\n",
            results.name,
            results.frozen.len(),
            results.arriving.len(),
            results.logs.len(),
        )
    };
    output.print("campaign-run", text, value)
}

/// Shows a folder.
pub(crate) fn show(output: Output, dir: &Path) -> Result<(), Failure> {
    let results = multi_job::read_results(dir)?;
    let value = json!({
        "campaign": results.name,
        "draws": results.draws,
        "logs": results.logs,
        "experiments": results.experiments,
        "frozen": results.frozen,
        "arriving": results.arriving,
        "ratios": results.ratios.iter().map(ratio_value).collect::<Vec<_>>(),
        "errors": results.errors,
    });
    output.print("campaign-show", || describe(&results), value)
}

fn ratio_value(row: &RatioRow) -> Value {
    let (ratio, interval) = ratio(row);
    json!({
        "experiment": row.experiment,
        "log": row.log,
        "policy": row.policy,
        "reference": row.reference,
        "ratio": ratio,
        "low": interval.map(|(low, _)| low),
        "high": interval.map(|(_, high)| high),
        "log_ratios": row.log_ratios,
    })
}

fn describe(results: &Results) -> String {
    let mut text =
        format!("campaign {}: means over starts and up to {} draws of each\n", results.name, results.draws);
    let mut add = |title: &str, left: usize, titles: &[&str], rows: Vec<Vec<String>>| {
        if rows.is_empty() {
            return;
        }
        let mut table = Table::new(left, titles);
        rows.into_iter().for_each(|row| table.row(row));
        text.push_str(&format!("\n{title}\n{}", table.render()));
    };
    let experiments = results.experiments.iter().map(experiment_row).collect();
    add("from where in the logs experiments start", 2, &EXPERIMENTS, experiments);
    add("what is pending, and nobody comes after", 2, &FROZEN, frozen_rows(&results.frozen));
    let arriving = results.arriving.iter().map(arriving_row).collect();
    add("others go on submitting", 2, &ARRIVING, arriving);
    add("policies beside each other, start by start", 4, &RATIOS, ratio_rows(&results.ratios));
    text.push_str("\nlogs as clusters, and how far predictions were off: pliant report, --output json\n");
    text
}

/// The page of a folder.
pub(crate) fn page(dir: &Path) -> Result<String, Failure> {
    let results = multi_job::read_results(dir)?;
    Ok(crate::multi_job_page::render(&results))
}

/// What `report` tells of the page.
pub(crate) fn told(out: &Path, bytes: usize) -> Value {
    json!({ "kind": "multi-job-campaign", "page": out, "bytes": bytes, "warnings": [] })
}
