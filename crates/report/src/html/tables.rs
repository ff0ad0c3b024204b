//! HTML tables: one writer, and the tables of a page of runs.

use std::fmt::Write as _;

use pliant_model::Run;
use serde_json::Value;

use super::NamedRun;
use super::number::{count, decimals, duration, durations, percent};
use super::page::escape;
use crate::comparison::{Comparison, Gained};
use crate::metrics::Summary;

/// More clusters than this make a matrix that nobody reads; the largest flows are listed instead.
const MATRIX_CLUSTERS: usize = 16;
const FLOWS_LISTED: usize = 20;

/// A table whose first column names the row and whose other columns are numbers.
pub(super) struct Table {
    html: String,
}

impl Table {
    /// Columns as (title, explanation); the explanation appears when the pointer rests on the title.
    pub(super) fn new(columns: &[(&str, &str)]) -> Table {
        let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
        for (title, explanation) in columns {
            let _ = write!(html, "<th title=\"{}\">{}</th>", escape(explanation), escape(title));
        }
        html.push_str("</tr></thead><tbody>");
        Table { html }
    }

    /// A row of a name and its values, all as text.
    pub(super) fn row(&mut self, name: &str, values: &[String]) {
        let _ = write!(self.html, "<tr><th scope=\"row\">{}</th>", escape(name));
        for value in values {
            let _ = write!(self.html, "<td>{}</td>", escape(value));
        }
        self.html.push_str("</tr>");
    }

    /// The markup.
    pub(super) fn html(mut self) -> String {
        self.html.push_str("</tbody></table></div>\n");
        self.html
    }
}

/// The figures of one run, large.
pub(super) fn tiles(summary: &Summary) -> String {
    let tiles = [
        ("jobs", count(summary.jobs), format!("{} refused", count(summary.refused))),
        ("makespan", duration(summary.makespan_s as f64), "from the first submission".to_owned()),
        ("mean wait", duration(summary.mean_wait_s), format!("median {}", duration(summary.median_wait_s))),
        (
            "mean response",
            duration(summary.mean_response_s),
            format!("95 % within {}", duration(summary.p95_response_s)),
        ),
        (
            "bounded slowdown",
            decimals(summary.mean_bounded_slowdown),
            format!("median {}", decimals(summary.median_bounded_slowdown)),
        ),
        ("utilization", percent(summary.utilization), "of all processors to the makespan".to_owned()),
        ("moves", count(summary.reallocations), format!("of {} jobs", count(summary.jobs_moved))),
    ];
    let mut html = String::from("<div class=\"tiles\">");
    for (name, value, more) in tiles {
        let _ = write!(html, "<div><span>{name}</span><strong>{value}</strong><small>{more}</small></div>");
    }
    html.push_str("</div>\n");
    html
}

/// The summaries of several runs.
pub(super) fn summaries(runs: &[NamedRun<'_>]) -> String {
    let mut table = Table::new(&[
        ("Run", ""),
        ("Jobs", "Jobs that ran"),
        ("Refused", "Jobs that no cluster could take"),
        ("Makespan", "The last end, from the first submission"),
        ("Mean wait", "Submission to start"),
        ("Median wait", "Half of the jobs waited no longer"),
        ("95 % wait", "95 % of the jobs waited no longer"),
        ("Mean response", "Submission to end"),
        ("Mean slowdown", "Response over runtime, runs shorter than 10 s counting as 10 s"),
        ("Utilization", "Used processor time over all processor time to the makespan"),
        ("Moves", "Moves of waiting jobs between clusters"),
    ]);
    let times = |metric: fn(&Summary) -> f64| durations(runs.iter().map(|run| metric(run.summary)));
    let makespan = times(|summary| summary.makespan_s as f64);
    let (mean, median) = (times(|summary| summary.mean_wait_s), times(|summary| summary.median_wait_s));
    let (p95, response) = (times(|summary| summary.p95_wait_s), times(|summary| summary.mean_response_s));
    for (index, NamedRun { name, summary, .. }) in runs.iter().enumerate() {
        table.row(
            name,
            &[
                count(summary.jobs),
                count(summary.refused),
                makespan[index].clone(),
                mean[index].clone(),
                median[index].clone(),
                p95[index].clone(),
                response[index].clone(),
                decimals(summary.mean_bounded_slowdown),
                percent(summary.utilization),
                count(summary.reallocations),
            ],
        );
    }
    table.html()
}

/// Runs against the reference.
pub(super) fn comparisons(rows: &[(&str, Comparison, Gained)]) -> String {
    let mut table = Table::new(&[
        ("Run", ""),
        ("Impacted", "Federated jobs whose completion differs from the reference"),
        ("Moves / job", "Moves over federated jobs; can exceed 100 %"),
        ("Early", "Impacted jobs that ended earlier than in the reference"),
        (
            "Relative response",
            "Mean response of the impacted jobs over their mean in the reference; below 1 is better",
        ),
        ("Mean of ratios", "Mean over the impacted jobs of response over response in the reference"),
        ("Ended earlier", "All jobs that ended earlier than in the reference"),
        ("Time gained", "What these jobs gained together"),
        ("Time lost", "What the jobs that ended later lost together"),
        ("Makespan gain", "Makespan of the reference minus makespan of the run"),
    ]);
    let share = |value: f64| format!("{value:.1} %");
    let optional = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let times =
        |metric: fn(&Gained) -> i64| durations(rows.iter().map(|(_, _, gained)| metric(gained) as f64));
    let (gain, loss) = (times(|gained| gained.gained_s), times(|gained| gained.lost_s));
    let makespan = times(|gained| gained.makespan_gain_s);
    for (index, (name, comparison, gained)) in rows.iter().enumerate() {
        table.row(
            name,
            &[
                share(comparison.impacted_percent),
                share(comparison.reallocations_percent),
                comparison.early_percent.map_or("-".to_owned(), share),
                optional(comparison.relative_mean_response),
                optional(comparison.mean_response_ratio),
                count(gained.jobs_earlier),
                gain[index].clone(),
                loss[index].clone(),
                makespan[index].clone(),
            ],
        );
    }
    table.html()
}

/// What each cluster did.
pub(super) fn clusters(summary: &Summary) -> String {
    let mut table = Table::new(&[
        ("Cluster", ""),
        ("Processors", ""),
        ("Speed", "Relative to the reference"),
        ("Batch policy", "Of its batch system"),
        ("Jobs", "Jobs that ran there"),
        ("Utilization", "Used processor time over its processor time to the makespan of the whole run"),
        ("Mean wait", "Of the jobs that ran there"),
    ]);
    let waits = durations(summary.clusters.iter().map(|row| row.mean_wait_s));
    for (row, wait) in summary.clusters.iter().zip(waits) {
        table.row(
            &row.name,
            &[
                count(u64::from(row.procs)),
                decimals(row.speed),
                row.batch.clone(),
                count(row.jobs),
                percent(row.utilization),
                wait,
            ],
        );
    }
    table.html()
}

/// What the caller told about the run.
pub(super) fn settings(summary: &Summary) -> String {
    if summary.run.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[("Setting", ""), ("Value", "")]);
    for (key, value) in &summary.run {
        let text = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        table.row(key, &[text]);
    }
    format!("<details class=\"settings\"><summary>Settings of this run</summary>{}</details>\n", table.html())
}

/// How many jobs moved from where to where.
pub(super) fn moves(run: &Run) -> String {
    if run.reallocations == 0 {
        return "<p class=\"quiet\">No waiting job was moved.</p>\n".to_owned();
    }
    if run.moves.is_empty() {
        let moves = count(run.reallocations);
        return format!(
            "<p class=\"quiet\">{moves} moves; the run was told not to keep them one by one.</p>\n"
        );
    }
    let names: Vec<&str> = run.platform.clusters().iter().map(|cluster| cluster.name.as_str()).collect();
    let mut flows = std::collections::BTreeMap::new();
    for record in &run.moves {
        *flows.entry((record.from.index(), record.to.index())).or_insert(0_u64) += 1;
    }
    if names.len() > MATRIX_CLUSTERS {
        let mut largest: Vec<_> = flows.into_iter().collect();
        largest.sort_by_key(|(pair, moves)| (std::cmp::Reverse(*moves), *pair));
        let mut table = Table::new(&[("From", ""), ("To", ""), ("Moves", "")]);
        for ((from, to), moves) in largest.into_iter().take(FLOWS_LISTED) {
            table.row(names[from], &[names[to].to_owned(), count(moves)]);
        }
        return format!("<p class=\"quiet\">The {FLOWS_LISTED} largest flows.</p>\n{}", table.html());
    }
    matrix(&names, &flows)
}

fn matrix(names: &[&str], flows: &std::collections::BTreeMap<(usize, usize), u64>) -> String {
    let most = flows.values().copied().max().unwrap_or(1).max(1);
    let mut html =
        String::from("<div class=\"scroll\"><table class=\"matrix\"><thead><tr><th>from \\ to</th>");
    for name in names {
        let _ = write!(html, "<th>{}</th>", escape(name));
    }
    html.push_str("</tr></thead><tbody>");
    for (from, name) in names.iter().enumerate() {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", escape(name));
        for to in 0..names.len() {
            let moves = flows.get(&(from, to)).copied().unwrap_or(0);
            let heat = 0.55 * moves as f64 / most as f64;
            let text = if from == to && moves == 0 { "-".to_owned() } else { count(moves) };
            let _ = write!(html, "<td style=\"--heat:{heat:.3}\">{text}</td>");
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>\n");
    html
}
