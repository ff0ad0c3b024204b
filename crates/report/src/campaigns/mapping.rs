//! The page of a campaign of mappings: the figures of paper 003, section 5, and what they do not show.

use pliant_model::campaign::mapping::{Axis, Cell, ClusteringRow, Results, Timing};

use super::mapping_table::{mapping_row, mapping_titles};
use crate::html::{LineFigure, Section, Series, TextTable, count, render_figures};

/// A figure over an axis: its number in the paper, title, sentence, axis, measure (none: failures), factor, unit.
struct Drawn {
    number: &'static str,
    title: &'static str,
    axis: Axis,
    measure: Option<&'static str>,
    factor: f64,
    unit: &'static str,
    /// Only the policy of reference and the baseline, as in the paper; else all.
    pair: bool,
}

const fn drawn(
    number: &'static str,
    title: &'static str,
    axis: Axis,
    measure: Option<&'static str>,
    factor: f64,
    unit: &'static str,
    pair: bool,
) -> Drawn {
    Drawn { number, title, axis, measure, factor, unit, pair }
}

/// Like figures 3 to 5 and 8 to 11; 6 and 7 are times.
const FIGURES: [Drawn; 7] = [
    drawn("3, 5", "Failures by tasks", Axis::Tasks, None, 100.0, "failed, %", true),
    drawn("4", "Failures by size of clusters", Axis::ClusterSize, None, 100.0, "failed, %", true),
    drawn(
        "8",
        "Tasks in the MAN of their cluster's LAN, smallest LANs",
        Axis::TasksOnSmallLans,
        Some("distance_man"),
        100.0,
        "tasks, %",
        true,
    ),
    drawn("9, 10", "LAN hit ratio by tasks", Axis::Tasks, Some("lan_hit_ratio"), 100.0, "tasks, %", true),
    drawn("11", "Least affinity by machines", Axis::Machines, Some("affinity_min"), 1.0, "affinity", true),
    drawn("", "Mean affinity by MCR", Axis::Mcr, Some("affinity_mean"), 1.0, "affinity", true),
    drawn(
        "",
        "Traffic between LANs by tasks",
        Axis::Tasks,
        Some("inter_lan_percent"),
        1.0,
        "traffic, %",
        true,
    ),
];

/// The same for all policies.
const BEYOND: [Drawn; 6] = [
    drawn("", "Failures by tasks", Axis::Tasks, None, 100.0, "failed, %", false),
    drawn("", "Failures by machines", Axis::Machines, None, 100.0, "failed, %", false),
    drawn(
        "",
        "Least affinity by machines, on the applications mapped on every grid",
        Axis::MachinesPaired,
        Some("affinity_min"),
        1.0,
        "affinity",
        false,
    ),
    drawn("", "LAN hit ratio by tasks", Axis::Tasks, Some("lan_hit_ratio"), 100.0, "tasks, %", false),
    drawn(
        "",
        "Traffic between LANs by tasks",
        Axis::Tasks,
        Some("inter_lan_percent"),
        1.0,
        "traffic, %",
        false,
    ),
    drawn(
        "",
        "Traffic beyond the capacity of links, by tasks",
        Axis::Tasks,
        Some("overload_percent"),
        1.0,
        "traffic, %",
        false,
    ),
];

/// The page of a campaign of mappings.
pub fn mapping_page(results: &Results) -> String {
    let note = format!(
        "{} trials of each of {} policies. Means are over the mappings that did not fail, as in the paper.",
        count(results.trials as u64),
        results.policies.len()
    );
    let mut paper = figures(results, &FIGURES);
    paper.insert(2, times(results));
    let sections = [
        summary(
            results,
            Axis::All,
            "Summary of policies",
            "Over all trials; a policy with fewer failures includes harder trials.",
        ),
        summary(
            results,
            Axis::MappedByAll,
            "On the trials that every policy mapped",
            "The same trials for all policies, so that they can be compared.",
        ),
        Section {
            title: "The figures of the paper".to_owned(),
            note: "Numbers in brackets are the paper's. Times are of the machine that ran the campaign."
                .to_owned(),
            figures: paper,
            ..Section::default()
        },
        Section {
            title: "Beyond the paper".to_owned(),
            note: "Each option alone, and all options together.".to_owned(),
            figures: figures(results, &BEYOND),
            ..Section::default()
        },
        use_cases(results),
        clusterings(&results.clusterings),
    ];
    render_figures(&results.name, &note, &sections)
}

fn summary(results: &Results, axis: Axis, title: &str, note: &str) -> Section {
    let rows = results.cells.iter().filter(|cell| cell.axis == axis).map(mapping_row).collect();
    let tables = vec![TextTable { columns: mapping_titles(), rows }];
    Section { title: title.to_owned(), note: note.to_owned(), tables, figures: Vec::new() }
}

fn figures(results: &Results, wanted: &[Drawn]) -> Vec<LineFigure> {
    wanted.iter().map(|drawn| figure(results, drawn)).collect()
}

fn figure(results: &Results, drawn: &Drawn) -> LineFigure {
    let cells: Vec<&Cell> = results.cells.iter().filter(|cell| cell.axis == drawn.axis).collect();
    let mut values: Vec<f64> = cells.iter().map(|cell| cell.value).collect();
    values.dedup();
    let value = |cell: &&Cell| match drawn.measure {
        None => Some(drawn.factor * cell.failed as f64 / cell.trials.max(1) as f64),
        Some(measure) => cell.means.get(measure).map(|mean| mean * drawn.factor),
    };
    let series = |policy: &String| Series {
        name: policy.clone(),
        values: values
            .iter()
            .map(|at| cells.iter().find(|cell| cell.value == *at && &cell.policy == policy).and_then(value))
            .collect(),
    };
    let number = if drawn.number.is_empty() { String::new() } else { format!(" [{}]", drawn.number) };
    let policies = results.policies.iter().take(if drawn.pair { 2 } else { usize::MAX });
    LineFigure {
        title: format!("{}{number}", drawn.title),
        x: axis_name(drawn.axis).to_owned(),
        y: drawn.unit.to_owned(),
        points: values.iter().map(f64::to_string).collect(),
        series: policies.map(series).collect(),
        ..LineFigure::default()
    }
}

fn axis_name(axis: Axis) -> &'static str {
    match axis {
        Axis::All | Axis::MappedByAll => "",
        Axis::Tasks | Axis::TasksOnSmallLans => "tasks",
        Axis::ClusterSize => "tasks per cluster, at most on average",
        Axis::Mcr => "MCR, MFlop/s",
        Axis::Machines | Axis::MachinesPaired => "machines",
        Axis::LanHosts => "machines per LAN",
    }
}

/// Figures 6 and 7.
fn times(results: &Results) -> LineFigure {
    let mut tasks: Vec<usize> = results.timing.iter().map(|timing| timing.tasks).collect();
    tasks.sort_unstable();
    tasks.dedup();
    let series = |name: String, policy: &String, time: fn(&Timing) -> f64| Series {
        name,
        values: tasks
            .iter()
            .map(|tasks| {
                let of = |timing: &&Timing| timing.tasks == *tasks && &timing.policy == policy;
                results.timing.iter().find(of).map(time)
            })
            .collect(),
    };
    let mut all = Vec::new();
    for policy in results.policies.iter().take(2) {
        all.push(series(policy.clone(), policy, |timing| timing.map_ms));
    }
    if let Some(first) = results.policies.first() {
        all.push(series(format!("{first} with its clustering"), first, |timing| {
            timing.map_ms + timing.cut_ms
        }));
    }
    LineFigure {
        title: "Scheduling time by tasks [6, 7]".to_owned(),
        note: "The clustering includes the search for the threshold.".to_owned(),
        x: "tasks".to_owned(),
        y: "milliseconds".to_owned(),
        points: tasks.iter().map(usize::to_string).collect(),
        series: all,
        ..LineFigure::default()
    }
}

fn use_cases(results: &Results) -> Section {
    let mut columns: Vec<String> = ["use case", "clusters", "MCR"].map(str::to_owned).to_vec();
    let lans: Vec<String> = results
        .use_cases
        .first()
        .map(|row| row.lans.iter().map(|(lan, _)| format!("on {lan}")).collect())
        .unwrap_or_default();
    columns.extend(lans);
    columns.extend(
        ["mean affinity", "least", "inter-LAN % (clustering)", "inter-LAN % (scheduling)"].map(str::to_owned),
    );
    let number = |value: Option<f64>| value.map_or("failed".to_owned(), |value| format!("{value:.2}"));
    let rows = results.use_cases.iter().map(|row| {
        let mut cells = vec![row.name.clone(), row.clusters.to_string(), row.mcr_mflops.to_string()];
        cells.extend(row.lans.iter().map(|(_, tasks)| tasks.to_string()));
        cells.extend([number(row.affinity_mean), number(row.affinity_min)]);
        cells.extend([format!("{:.2}", row.cut_percent), number(row.inter_lan_percent)]);
        cells
    });
    Section {
        title: "Use cases [table 2]".to_owned(),
        note: "The files of an application and its grid state which values are invented.".to_owned(),
        tables: vec![TextTable { columns, rows: rows.collect() }],
        figures: Vec::new(),
    }
}

/// Sums of the costs by size and class: a mean of ratios would be ruled by graphs with hardly anything to miss.
fn clusterings(rows: &[ClusteringRow]) -> Section {
    let mut keys: Vec<(usize, [usize; 2])> = rows.iter().map(|row| (row.tasks, row.class)).collect();
    keys.sort_unstable();
    keys.dedup();
    let row = |(tasks, class): &(usize, [usize; 2])| {
        let of: Vec<&ClusteringRow> =
            rows.iter().filter(|row| row.tasks == *tasks && row.class == *class).collect();
        let sum = |value: fn(&ClusteringRow) -> f64| of.iter().map(|row| value(row)).sum::<f64>();
        let mean = |value: fn(&ClusteringRow) -> f64| sum(value) / of.len().max(1) as f64;
        let bound = sum(|row| row.bound);
        let gap = |cost: f64| {
            if bound > 1e-9 {
                format!("{:.2} %", 100.0 * (cost / bound - 1.0).max(0.0))
            } else {
                "-".to_owned()
            }
        };
        vec![
            format!("{tasks} tasks, {} to {} per cluster", class[0], class[1]),
            format!("{:.3}", mean(|row| row.delta)),
            format!("{:.2}", mean(|row| row.mean_size)),
            format!("{:.1}", mean(|row| row.max_size as f64)),
            format!("{:.2}", mean(|row| row.bound)),
            gap(sum(|row| row.contraction)),
            gap(sum(|row| row.rounding)),
            gap(sum(|row| row.rounding_searched)),
            format!("{:.0}", mean(|row| row.rows as f64)),
        ]
    };
    let columns = [
        "graphs",
        "threshold",
        "tasks per cluster",
        "largest",
        "lower bound",
        "contraction above it",
        "region growing",
        "with local search",
        "rows of the program",
    ];
    Section {
        title: "Clusterings against the bound of the linear program".to_owned(),
        note:
            "Means over the graphs. No clustering costs less than the bound; the columns show the excess of each method."
                .to_owned(),
        tables: vec![TextTable {
            columns: columns.map(str::to_owned).to_vec(),
            rows: keys.iter().map(row).collect(),
        }],
        figures: Vec::new(),
    }
}
