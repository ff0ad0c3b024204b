//! The summary table at the top of a campaign's page: what each policy was worth, as means over the seeds,
//! over all workloads and for each of them.

use std::fmt::Write as _;

use super::boxes::in_order;
use super::metric::metric;
use super::number::{count, fixed};
use super::page::escape;
use super::table::{Cell, Table, best};
use crate::campaign_table::{CampaignRow, CampaignTable};

/// More workloads than this are folded away behind their means.
const WORKLOADS_OPEN: usize = 3;

/// A metric of the summary: key, title, explanation, and whether the least or the greatest is the best.
type Column = (&'static str, &'static str, &'static str, Option<Best>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Best {
    Least,
    Greatest,
}

const COLUMNS: [Column; 16] = [
    ("refused", "Refused", "Jobs that no cluster could take; the other columns are without them", None),
    ("impacted_percent", "Impacted", "Federated jobs whose completion differs from the reference", None),
    ("reallocations_percent", "Moves / job", "Moves over federated jobs; can exceed 100 %", None),
    (
        "early_percent",
        "Early",
        "Impacted jobs that ended earlier than in the reference",
        Some(Best::Greatest),
    ),
    (
        "relative_mean_response",
        "Relative response",
        "Mean response of the impacted jobs over their mean in the reference; below 1 is better",
        Some(Best::Least),
    ),
    ("jobs_earlier", "Ended earlier", "All jobs that ended earlier than in the reference", None),
    ("gained_s", "Time gained", "Total time gained by jobs that ended earlier", None),
    (
        "makespan_gain_percent",
        "Makespan gain",
        "Makespan gained over the reference's makespan",
        Some(Best::Greatest),
    ),
    ("mean_wait_s", "Mean wait", "Submission to start, all jobs", Some(Best::Least)),
    ("mean_response_s", "Mean response", "Submission to end, all jobs", Some(Best::Least)),
    ("utilization", "Utilization", "Used processor time over all processor time to the makespan", None),
    (
        "unhappy_users",
        "Unhappy users",
        "Users whose mandatory requests were not completed by their deadline",
        Some(Best::Least),
    ),
    (
        "unfairness",
        "Unfairness",
        "The largest satisfaction (usage over fair share) minus the smallest",
        Some(Best::Least),
    ),
    ("completed_requests", "Completed", "Requests that were completed", Some(Best::Greatest)),
    ("killed_requests", "Killed", "Runs of optional requests that were ended for a mandatory one", None),
    ("wasted_percent", "Wasted", "Resource time of runs that were killed or cancelled", None),
];

/// The summary of a campaign as a section of its page.
pub(super) fn section(table: &CampaignTable) -> String {
    let shown: Vec<Column> =
        COLUMNS.into_iter().filter(|(key, ..)| says_something(&table.rows, key)).collect();
    if shown.is_empty() {
        return String::new();
    }
    let workloads = in_order(table.rows.iter().map(|row| &row.workload));
    let noun = if table.has_kinds() { "workload" } else { "scenario" };
    let mut html = String::from("<section><h2>Summary</h2>\n");
    let means = means_over(&workloads, noun);
    let _ = writeln!(html, "<p class=\"quiet\">{means} The best of each group is bold.</p>");
    let only = workloads.first().filter(|_| workloads.len() == 1 && !table.has_kinds());
    html.push_str(&summary(table, &shown, &[only.map(String::as_str)]));
    if workloads.len() > 1 {
        let open = if workloads.len() <= WORKLOADS_OPEN { " open" } else { "" };
        let each: Vec<Option<&str>> = workloads.iter().map(|name| Some(name.as_str())).collect();
        let _ = write!(
            html,
            "<details{open}><summary>By {noun}</summary>{}</details>",
            summary(table, &shown, &each)
        );
    }
    html.push_str("</section>\n");
    html
}

/// What the means are of; a workload is called `noun`.
fn means_over(workloads: &[String], noun: &str) -> String {
    match workloads {
        [one] => format!("Means over the seeds, on {}.", escape(one)),
        several => format!("Means over {} {noun}s and their seeds.", several.len()),
    }
}

/// Whether any run has a metric that is not 0.
fn says_something(rows: &[CampaignRow], key: &str) -> bool {
    rows.iter().any(|row| row.metrics.get(key).is_some_and(|value| *value != 0.0))
}

/// Rows that are compared with each other.
struct Group<'a> {
    title: String,
    policies: Vec<(&'a str, Vec<&'a CampaignRow>)>,
}

/// The title of a group; `None` is all workloads.
fn title(workload: Option<&str>, kind: Option<&str>) -> String {
    match (workload, kind) {
        (Some(name), Some(kind)) => format!("{name}, {}", kind.to_lowercase()),
        (Some(name), None) => name.to_owned(),
        (None, kind) => kind.unwrap_or("All scenarios together").to_owned(),
    }
}

/// A group for each kind of platform and workload (`None`: all of them), in it a row for each policy.
fn summary(table: &CampaignTable, columns: &[Column], workloads: &[Option<&str>]) -> String {
    let mut groups = Vec::new();
    for (dedicated, kind) in [(true, "Dedicated platform"), (false, "Non-dedicated platform")] {
        let kind = table.has_kinds().then_some(kind);
        for workload in workloads {
            let mine = |row: &&CampaignRow| {
                row.dedicated == dedicated && workload.is_none_or(|name| row.workload == name)
            };
            let mine: Vec<&CampaignRow> = table.rows.iter().filter(mine).collect();
            if !mine.is_empty() {
                groups.push(Group { title: title(*workload, kind), policies: by_policy(&mine) });
            }
        }
    }
    // A column has one unit, so that groups compare at a glance.
    let greatest = |(key, ..): &Column| {
        let means = groups.iter().flat_map(|group| &group.policies).filter_map(|(_, runs)| mean(runs, key));
        means.fold(0.0, |most, value| f64::max(most, value.abs()))
    };
    let units: Vec<f64> = columns.iter().map(greatest).collect();
    let mut header = vec![("Policy", ""), ("Runs", "")];
    header.extend(columns.iter().map(|(_, title, explanation, _)| (*title, *explanation)));
    let mut table = Table::new(&header);
    for group in &groups {
        table.group(&group.title);
        policies(&mut table, group, columns, &units);
    }
    table.html()
}

/// The runs of a group under one policy after the other, in order of appearance.
fn by_policy<'a>(rows: &[&'a CampaignRow]) -> Vec<(&'a str, Vec<&'a CampaignRow>)> {
    let mut policies: Vec<(&str, Vec<&CampaignRow>)> = Vec::new();
    for row in rows {
        match policies.iter_mut().find(|(name, _)| *name == row.policy) {
            Some((_, mine)) => mine.push(row),
            None => policies.push((&row.policy, vec![row])),
        }
    }
    policies
}

/// A row for each policy of a group.
fn policies(table: &mut Table, group: &Group<'_>, columns: &[Column], units: &[f64]) {
    let runs = group.policies.iter().map(|(_, runs)| count(runs.len() as u64));
    let mut lines: Vec<Vec<Cell>> = runs.map(|runs| vec![runs.into()]).collect();
    for ((key, _, _, better), greatest) in columns.iter().zip(units) {
        let means: Vec<Option<f64>> = group.policies.iter().map(|(_, runs)| mean(runs, key)).collect();
        let texts =
            means.iter().map(|mean| mean.map_or_else(|| "-".to_owned(), |mean| text(key, mean, *greatest)));
        let texts: Vec<String> = texts.collect();
        let marks = match better {
            Some(better) => best(&means, &texts, *better == Best::Greatest),
            None => vec![false; texts.len()],
        };
        for ((line, text), mark) in lines.iter_mut().zip(texts).zip(marks) {
            line.push(Cell::marked(text, mark));
        }
    }
    for ((name, _), line) in group.policies.iter().zip(lines) {
        table.row(name, line);
    }
}

fn mean(runs: &[&CampaignRow], key: &str) -> Option<f64> {
    let values: Vec<f64> = runs.iter().filter_map(|row| row.metrics.get(key).copied()).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Ratios near 1 differ in their third decimal, makespans in hundredths of a percent.
fn text(key: &str, value: f64, greatest: f64) -> String {
    match key {
        "relative_mean_response" => fixed(value, 3),
        "makespan_gain_percent" => format!("{} %", fixed(value, 2)),
        _ => metric(key).unit.text(value, greatest),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn row(workload: &str, dedicated: bool, policy: &str, metrics: &[(&str, f64)]) -> CampaignRow {
        let metrics: BTreeMap<String, f64> =
            metrics.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        CampaignRow { workload: workload.into(), dedicated, policy: policy.into(), seed: 1, metrics }
    }

    fn rows() -> Vec<CampaignRow> {
        vec![
            row("june", true, "none", &[("mean_wait_s", 7200.0), ("gained_s", 0.0)]),
            row("june", true, "reg", &[("mean_wait_s", 3600.0), ("relative_mean_response", 0.8125)]),
            row("june", true, "reg", &[("mean_wait_s", 1800.0), ("relative_mean_response", 0.8135)]),
            row("june", true, "can", &[("mean_wait_s", 9000.0), ("relative_mean_response", 1.1)]),
        ]
    }

    #[test]
    fn each_policy_has_its_means_and_the_best_is_marked() {
        let html = section(&CampaignTable { rows: rows() });
        assert!(html.contains("Means over the seeds, on june."), "{html}");
        for row in [
            "none</th><td>1</td><td>-</td><td>2.00 h</td>",
            "reg</th><td>2</td><td class=\"best\">0.813</td><td class=\"best\">0.75 h</td>",
            "can</th><td>1</td><td>1.100</td><td>2.50 h</td>",
        ] {
            assert!(html.contains(row), "{row}: {html}");
        }
        assert!(!html.contains("Time gained"), "a metric that is always 0 has no column: {html}");
        assert!(!html.contains("By workload"), "{html}");
    }

    #[test]
    fn workloads_and_kinds_of_platform_stand_apart() {
        let mut rows = rows();
        rows.push(row("may", false, "none", &[("mean_wait_s", 60.0)]));
        let html = section(&CampaignTable { rows });
        let position = |text: &str| html.find(text).unwrap_or_else(|| panic!("no `{text}` in {html}"));
        let order = [
            "2 workloads",
            ">Dedicated platform",
            ">Non-dedicated platform",
            "By workload",
            ">june, dedicated platform",
            ">may, non-dedicated platform",
        ];
        assert!(order.map(position).is_sorted(), "{html}");
    }

    #[test]
    fn explorations_have_scenarios_and_no_kinds_of_platform() {
        let run = |scenario, policy, unhappy| row(scenario, true, policy, &[("unhappy_users", unhappy)]);
        let rows = [run("night", "legacy", 3.0), run("day", "legacy", 5.0), run("day", "fair", 1.0)];
        let html = section(&CampaignTable { rows: rows[..1].to_vec() });
        assert!(html.contains("on night.") && html.contains(">night<"), "{html}");
        let html = section(&CampaignTable { rows: rows.to_vec() });
        let position = |text: &str| html.find(text).unwrap_or_else(|| panic!("no `{text}` in {html}"));
        let order = ["2 scenarios", ">All scenarios together<", "By scenario", ">night<", ">day<"];
        assert!(order.map(position).is_sorted(), "{html}");
        assert!(!html.to_lowercase().contains("dedicated") && !html.contains("workload"), "{html}");
    }

    #[test]
    fn without_runs_there_is_no_summary() {
        assert_eq!(section(&CampaignTable::default()), "");
    }
}
