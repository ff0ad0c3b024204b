//! The tables of a page of runs.

use std::fmt::Write as _;

use pliant_model::Run;
use serde_json::Value;

use super::NamedRun;
use super::number::{count, counted, decimals, duration, durations, percent};
use super::page::escape;
use super::table::{Table, column};
use crate::comparison::{Comparison, JobGain};
use crate::metrics::Summary;

/// Above this number of clusters the largest flows are listed instead of a matrix.
const MATRIX_CLUSTERS: usize = 16;
const FLOWS_LISTED: usize = 20;

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
        ("moves", count(summary.reallocations), format!("of {}", counted(summary.jobs_moved, "job"))),
    ];
    // On one cluster nothing can move.
    let shown = if summary.clusters.len() > 1 { tiles.len() } else { tiles.len() - 1 };
    let mut html = String::from("<div class=\"tiles\">");
    for (name, value, more) in tiles.into_iter().take(shown) {
        let _ = write!(html, "<div><span>{name}</span><strong>{value}</strong><small>{more}</small></div>");
    }
    html.push_str("</div>\n");
    html
}

/// The summaries of several runs; the least wait, response and slowdown are marked.
pub(super) fn summaries(runs: &[NamedRun<'_>]) -> String {
    let text = |value: fn(&Summary) -> String| runs.iter().map(move |run| value(run.summary));
    let times = |metric: fn(&Summary) -> f64| durations(runs.iter().map(|run| metric(run.summary)));
    let time = |title, explanation, metric: fn(&Summary) -> f64| column(title, explanation, times(metric));
    let values =
        |metric: fn(&Summary) -> f64| runs.iter().map(|run| Some(metric(run.summary))).collect::<Vec<_>>();
    let marked = |title, explanation, metric| time(title, explanation, metric).marked(&values(metric), false);
    let refused = runs.iter().any(|run| run.summary.refused > 0);
    let slowdown = "Response over runtime, runs shorter than 10 s counting as 10 s";
    let columns = [
        Some(column("Jobs", "Jobs that ran", text(|it| count(it.jobs)))),
        refused.then(|| column("Refused", "Jobs that no cluster could take", text(|it| count(it.refused)))),
        Some(time("Makespan", "The last end, from the first submission", |it| it.makespan_s as f64)),
        Some(marked("Mean wait", "Submission to start", |it| it.mean_wait_s)),
        Some(time("Median wait", "Half of the jobs waited no longer", |it| it.median_wait_s)),
        Some(marked("95 % wait", "95 % of the jobs waited no longer", |it| it.p95_wait_s)),
        Some(marked("Mean response", "Submission to end", |it| it.mean_response_s)),
        Some(
            column("Mean slowdown", slowdown, text(|it| decimals(it.mean_bounded_slowdown)))
                .marked(&values(|it| it.mean_bounded_slowdown), false),
        ),
        Some(column(
            "Utilization",
            "Used processor time over all processor time to the makespan",
            text(|it| percent(it.utilization)),
        )),
        Some(column("Moves", "Moves of waiting jobs between clusters", text(|it| count(it.reallocations)))),
    ];
    Table::of_columns("Run", runs.iter().map(|run| run.name), columns.into_iter().flatten())
}

/// Runs against the reference. A makespan that no run changes has no column.
pub(super) fn comparisons(rows: &[(&str, Comparison, JobGain)]) -> String {
    let share = |value: f64| format!("{value:.1} %");
    let ratio = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.3}"));
    let compared = |text: &dyn Fn(&Comparison) -> String| -> Vec<String> {
        rows.iter().map(|(_, found, _)| text(found)).collect()
    };
    let counts = |number: fn(&JobGain) -> u64| rows.iter().map(move |(_, _, gained)| count(number(gained)));
    let times =
        |metric: fn(&JobGain) -> i64| durations(rows.iter().map(|(_, _, gained)| metric(gained) as f64));
    let early: Vec<_> = rows.iter().map(|(_, found, _)| found.early_percent).collect();
    let relative: Vec<_> = rows.iter().map(|(_, found, _)| found.relative_mean_response).collect();
    let makespan_changes = rows.iter().any(|(_, _, gained)| gained.makespan_gain_s != 0);
    let columns = [
        Some(column(
            "Impacted",
            "Federated jobs whose completion differs from the reference",
            compared(&|found| share(found.impacted_percent)),
        )),
        Some(column(
            "Moves / job",
            "Moves over federated jobs; can exceed 100 %",
            compared(&|found| share(found.reallocations_percent)),
        )),
        Some(
            column(
                "Early",
                "Impacted jobs that ended earlier than in the reference",
                compared(&|found| found.early_percent.map_or("-".to_owned(), share)),
            )
            .marked(&early, true),
        ),
        Some(
            column(
                "Relative response",
                "Mean response of the impacted jobs over their mean in the reference; below 1 is better",
                compared(&|found| ratio(found.relative_mean_response)),
            )
            .marked(&relative, false),
        ),
        Some(column(
            "Mean of ratios",
            "Mean over the impacted jobs of response over response in the reference",
            compared(&|found| ratio(found.mean_response_ratio)),
        )),
        Some(column(
            "Ended earlier",
            "All jobs that ended earlier than in the reference",
            counts(|it| it.jobs_earlier),
        )),
        Some(column(
            "Ended later",
            "All jobs that ended later than in the reference",
            counts(|it| it.jobs_later),
        )),
        Some(column("Time gained", "Total time gained by jobs that ended earlier", times(|it| it.gained_s))),
        Some(column("Time lost", "What the jobs that ended later lost together", times(|it| it.lost_s))),
        makespan_changes.then(|| {
            let explanation = "Makespan of the reference minus makespan of the run";
            column("Makespan gain", explanation, times(|it| it.makespan_gain_s))
        }),
    ];
    Table::of_columns("Run", rows.iter().map(|(name, ..)| *name), columns.into_iter().flatten())
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
            [
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

/// The caller's notes on the run.
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
        table.row(key, [text]);
    }
    format!("<details class=\"settings\"><summary>Settings of this run</summary>{}</details>\n", table.html())
}

/// How many jobs moved from where to where.
pub(super) fn moves(run: &Run) -> String {
    if run.reallocations == 0 {
        return "<p class=\"quiet\">No waiting job was moved.</p>\n".to_owned();
    }
    if run.moves.is_empty() {
        let moves = counted(run.reallocations, "move");
        return format!("<p class=\"quiet\">{moves}; the run did not record single moves.</p>\n");
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
            table.row(names[from], [names[to].to_owned(), count(moves)]);
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
