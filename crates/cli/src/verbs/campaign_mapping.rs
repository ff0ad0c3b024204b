//! Campaigns of mappings: what `campaign run`, `campaign show` and `report` do with them.

use std::path::Path;

use pliant_sim::campaign::Shard;
use pliant_sim::campaign::mapping::{self, Axis, MappingCampaign, Results};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::mapping_table::{row, titles};
use crate::output::Output;
use crate::table::{Table, grouped};

/// Runs a campaign file into a folder.
pub(crate) fn run(
    output: Output,
    file: &Path,
    dir: &Path,
    threads: usize,
    shard: Shard,
) -> Result<(), Failure> {
    if shard != Shard::WHOLE {
        return Err(Failure::input("--shard: expected a campaign of simulations, found one of mappings")
            .hint("it takes less than a minute; run it whole"));
    }
    let campaign = MappingCampaign::read(file)?;
    let results = mapping::run(&campaign, dir, threads)?;
    let dir = dir.display().to_string();
    let value = json!({
        "campaign": results.name,
        "out": dir,
        "trials": results.trials,
        "policies": results.policies,
        "applications": campaign.applications(),
        "grids": campaign.grids(),
    });
    let text = || {
        format!(
            "campaign {}: {} applications on {} grids, {} trials of each of {} policies are in {dir}\n\
             look at them with: pliant campaign show {dir}, pliant report {dir}\n",
            results.name,
            campaign.applications(),
            campaign.grids(),
            grouped(results.trials as u64),
            results.policies.len(),
        )
    };
    output.print("campaign-run", text, value)
}

/// Shows a folder.
pub(crate) fn show(output: Output, dir: &Path) -> Result<(), Failure> {
    let results = mapping::read_results(dir)?;
    let value = json!({
        "campaign": results.name,
        "reference": results.reference,
        "trials": results.trials,
        "cells": results.cells,
        "clusterings": results.clusterings,
        "use_cases": results.use_cases,
        "timing": results.timing,
    });
    output.print("campaign-show", || describe(&results), value)
}

fn describe(results: &Results) -> String {
    let mut text = format!(
        "campaign {}: {} trials of each policy; means over the mappings that did not fail\n",
        results.name,
        grouped(results.trials as u64)
    );
    for (axis, title) in [(Axis::All, "all trials"), (Axis::MappedByAll, "trials that every policy mapped")] {
        let titles = titles();
        let mut table = Table::new(1, &titles.iter().map(String::as_str).collect::<Vec<_>>());
        results.cells.iter().filter(|cell| cell.axis == axis).for_each(|cell| table.row(row(cell)));
        text.push_str(&format!("\n{title}\n{}", table.render()));
    }
    text.push_str("\nevery cell, clusterings against their bound, use cases and times: --output json\n");
    text
}

/// The kind and the page of a folder.
pub(crate) fn page(dir: &Path) -> Result<String, Failure> {
    let results = mapping::read_results(dir)?;
    Ok(crate::mapping_page::render(&results))
}

/// What `report` tells of the page.
pub(crate) fn told(out: &Path, bytes: usize) -> Value {
    json!({ "kind": "mapping-campaign", "page": out, "bytes": bytes, "warnings": [] })
}
