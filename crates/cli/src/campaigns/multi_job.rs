//! Campaigns of multi-jobs.

use pliant_report::campaigns::{
    ARRIVING, EXPERIMENTS, FROZEN, RATIOS, arriving_row, experiment_row, frozen_rows, multi_job_page, ratio,
    ratio_rows,
};
use pliant_sim::campaign::multi_job::{RatioRow, Results};
use serde_json::{Value, json};

use super::{View, Warnings};
use crate::table::{Table, counted};

impl View for Results {
    fn warn(&self, warnings: &mut Warnings) {
        warnings.close_starts(&self.experiments);
    }

    fn summary(&self) -> (String, Value) {
        let (logs, frozen, arriving) = (self.logs.len(), self.frozen.len(), self.arriving.len());
        let on = counted(logs as u64, "log");
        let text = format!("{frozen} rows of frozen and {arriving} of arriving experiments on {on}\n");
        (text, json!({ "logs": logs, "cells": frozen + arriving }))
    }

    fn caption(&self) -> String {
        format!("means over starts and up to {} of each", counted(self.draws as u64, "draw"))
    }

    fn text(&self) -> String {
        let mut text = String::new();
        let mut add = |title: &str, left: usize, titles: &[&str], rows: Vec<Vec<String>>| {
            if rows.is_empty() {
                return;
            }
            let mut table = Table::new(left, titles);
            rows.into_iter().for_each(|row| table.row(row));
            text.push_str(&format!("\n{title}\n{}", table.render()));
        };
        let experiments = self.experiments.iter().map(experiment_row).collect();
        add("from where in the logs experiments start", 2, &EXPERIMENTS, experiments);
        add("the pending jobs, without later arrivals", 2, &FROZEN, frozen_rows(&self.frozen));
        let arriving = self.arriving.iter().map(arriving_row).collect();
        add("others go on submitting", 2, &ARRIVING, arriving);
        add("policies compared, start by start", 4, &RATIOS, ratio_rows(&self.ratios));
        text.push_str("\nlogs as clusters, and how far predictions were off: pliant report, --format json\n");
        text
    }

    fn value(&self) -> Value {
        json!({
            "draws": self.draws,
            "logs": self.logs,
            "experiments": self.experiments,
            "frozen": self.frozen,
            "arriving": self.arriving,
            "ratios": self.ratios.iter().map(ratio_value).collect::<Vec<_>>(),
            "errors": self.errors,
        })
    }

    fn page(&self) -> String {
        multi_job_page(self)
    }
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
