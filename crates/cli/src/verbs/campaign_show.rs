//! `pliant campaign show`: the results of a campaign as a table, means over the seeds.

use std::path::PathBuf;

use clap::Args;
use pliant_sim::campaign::{self, Cell};
use serde_json::{Map, Value, json};

use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, decimals};

/// Columns: title, metric, factor, decimals. Those that no run has are left out.
const COLUMNS: &[(&str, &str, f64, usize)] = &[
    ("impacted %", "impacted_percent", 1.0, 1),
    ("moves %", "reallocations_percent", 1.0, 1),
    ("early %", "early_percent", 1.0, 1),
    ("rel. response", "relative_mean_response", 1.0, 3),
    ("jobs earlier", "jobs_earlier", 1.0, 0),
    ("gained h", "gained_s", 1.0 / 3600.0, 1),
    ("makespan gain %", "makespan_gain_percent", 1.0, 2),
    ("mean wait h", "mean_wait_s", 1.0 / 3600.0, 3),
    ("mean response h", "mean_response_s", 1.0 / 3600.0, 3),
    ("utilization %", "utilization", 100.0, 1),
];

#[derive(Args)]
pub(crate) struct Arguments {
    /// The folder that `campaign run` or `campaign merge` wrote.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let results = campaign::read_results(&arguments.dir)?;
    let cells = campaign::cells(&results);
    let (there, planned) = (results.runs.len(), results.planned);
    let value = json!({
        "campaign": results.name,
        "reference": results.reference,
        "runs": there,
        "planned": planned,
        "cells": cells.iter().map(cell_value).collect::<Vec<_>>(),
    });
    let text = || {
        format!(
            "campaign {}: {there} of {planned} runs, means over the seeds, compared with policy {}\n\n{}",
            results.name,
            results.reference,
            table(&cells)
        )
    };
    output.print("campaign-show", text, value)
}

fn table(cells: &[Cell]) -> String {
    let shown: Vec<_> = COLUMNS
        .iter()
        .filter(|(_, metric, ..)| cells.iter().any(|cell| cell.metrics.contains_key(*metric)))
        .collect();
    let words = ["workload", "platform", "moldable", "share", "policy"];
    let mut header = words.to_vec();
    header.push("seeds");
    header.extend(shown.iter().map(|(title, ..)| *title));
    let mut table = Table::new(words.len(), &header);
    for cell in cells {
        let share = format!("{:.2}", cell.dedicated_share);
        let (workload, platform) = (cell.workload.clone(), cell.platform.clone());
        let mut row = vec![workload, platform, cell.moldable.clone(), share, cell.policy.clone()];
        row.push(cell.seeds.to_string());
        for (_, metric, factor, digits) in &shown {
            row.push(decimals(cell.metrics.get(*metric).map(|spread| spread.mean * factor), *digits));
        }
        table.row(row);
    }
    table.render()
}

fn cell_value(cell: &Cell) -> Value {
    let metrics: Map<String, Value> = cell
        .metrics
        .iter()
        .map(|(name, spread)| {
            let spread =
                json!({ "runs": spread.runs, "min": spread.min, "mean": spread.mean, "max": spread.max });
            (name.clone(), spread)
        })
        .collect();
    json!({
        "workload": cell.workload,
        "platform": cell.platform,
        "moldable": cell.moldable,
        "dedicated_share": cell.dedicated_share,
        "policy": cell.policy,
        "seeds": cell.seeds,
        "metrics": metrics,
    })
}
