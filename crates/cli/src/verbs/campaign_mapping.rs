//! Campaigns of mappings: what `campaign run`, `campaign show` and `report` do with them.

use std::path::Path;

use pliant_sim::campaign::Shard;
use pliant_sim::campaign::mapping::{self, Axis, Cell, MappingCampaign, Results};
use serde_json::{Value, json};

use crate::failure::Failure;
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

/// The columns of a policy's row: title, measure, factor and decimals.
const COLUMNS: [(&str, &str, f64, usize); 8] = [
    ("affinity", "affinity_mean", 1.0, 2),
    ("least", "affinity_min", 1.0, 2),
    ("LAN hit %", "lan_hit_ratio", 100.0, 1),
    ("distance", "distance_mean", 1.0, 3),
    ("inter-LAN %", "inter_lan_percent", 1.0, 1),
    ("cut %", "cut_percent", 1.0, 1),
    ("LANs", "lans_used", 1.0, 1),
    ("overload %", "overload_percent", 1.0, 2),
];

/// The titles of a table of policies.
pub(crate) fn titles() -> Vec<String> {
    let columns = COLUMNS.iter().map(|(title, ..)| *title);
    ["policy", "trials", "failed %"].into_iter().chain(columns).map(str::to_owned).collect()
}

/// The row of a cell in such a table.
pub(crate) fn row(cell: &Cell) -> Vec<String> {
    let failed = 100.0 * cell.failed as f64 / cell.trials.max(1) as f64;
    let mut row = vec![cell.policy.clone(), grouped(cell.trials as u64), format!("{failed:.1}")];
    row.extend(COLUMNS.iter().map(|(_, measure, factor, decimals)| {
        cell.means.get(*measure).map_or("-".to_owned(), |mean| format!("{:.decimals$}", mean * factor))
    }));
    row
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
