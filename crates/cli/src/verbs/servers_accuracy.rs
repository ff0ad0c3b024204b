//! `pliant servers --accuracy`: how good the estimates of servers were, of their last jobs and by day.

use chrono::DateTime;
use pliant_control::agent::{DayErrors, PromiseDay};
use pliant_model::Span;
use pliant_wire::Accuracy;
use serde_json::{Value, json};

use crate::table::{Table, counted, grouped};
use crate::time_text::signed;

/// The quantiles of errors, in percent.
const QUANTILES: [u32; 5] = [5, 25, 50, 75, 95];

/// The part of the document about one server.
pub(super) fn value(accuracy: &Accuracy) -> Value {
    let errors = |errors: &DayErrors| {
        json!({
            "median_s": errors.median,
            "absolute_median_s": errors.absolute_median,
            "absolute_p90_s": errors.absolute_p90,
            "kept": errors.kept,
        })
    };
    let day = |day: &PromiseDay| {
        json!({
            "day_s": day.day,
            "jobs": day.jobs,
            "start": errors(&day.start),
            "completion": errors(&day.completion),
        })
    };
    json!({
        "jobs": accuracy.jobs,
        "percent": QUANTILES,
        "start_error_s": accuracy.start_error,
        "completion_error_s": accuracy.completion_error,
        "days": accuracy.days.iter().map(day).collect::<Vec<_>>(),
    })
}

/// Tables of errors, of the last jobs and by day.
pub(super) fn text(accuracy: &[Accuracy], last: u32) -> String {
    if accuracy.is_empty() {
        return "No job has ended yet.\n".to_owned();
    }
    let by_day = match accuracy.iter().all(|one| one.days.is_empty()) {
        true => String::new(),
        false => format!("\n{}", days_text(accuracy)),
    };
    quantiles_text(accuracy, last) + &by_day
}

fn quantiles_text(accuracy: &[Accuracy], last: u32) -> String {
    let quantiles = QUANTILES.map(|percent| format!("{percent} %"));
    let mut header = vec!["server", "error of", "jobs"];
    header.extend(quantiles.iter().map(String::as_str));
    let mut table = Table::new(2, &header);
    for one in accuracy.iter().filter(|one| one.jobs > 0) {
        for (what, errors) in [("start", &one.start_error), ("completion", &one.completion_error)] {
            let mut row = vec![one.server.to_string(), what.to_owned(), grouped(one.jobs.into())];
            let shown = |errors: &[Span; 5]| errors.map(signed).to_vec();
            row.extend(errors.as_ref().map_or_else(|| vec!["-".to_owned(); QUANTILES.len()], shown));
            table.row(row);
        }
    }
    format!(
        "Errors of the estimates of the last {} of each server, by quantile. +5m means 5 minutes later than expected.\n{}",
        counted(last.into(), "job"),
        table.render()
    )
}

fn days_text(accuracy: &[Accuracy]) -> String {
    let mut table = Table::new(
        3,
        &["server", "day (UTC)", "error of", "jobs", "kept", "median", "median size", "90 % size"],
    );
    for one in accuracy {
        for day in &one.days {
            for (what, errors) in [("start", &day.start), ("completion", &day.completion)] {
                table.row(vec![
                    one.server.to_string(),
                    DateTime::from_timestamp(day.day.0, 0)
                        .map_or_else(String::new, |day| day.format("%F").to_string()),
                    what.to_owned(),
                    grouped(day.jobs.into()),
                    format!("{} %", u64::from(errors.kept) * 100 / u64::from(day.jobs.max(1))),
                    signed(errors.median),
                    signed(errors.absolute_median).trim_start_matches('+').to_owned(),
                    signed(errors.absolute_p90).trim_start_matches('+').to_owned(),
                ]);
            }
        }
    }
    format!(
        "By day, exact to an eighth. Kept: at most a tenth of the promised response time late, or a minute.\n{}",
        table.render()
    )
}
