//! The page of a campaign of multi-jobs: figures like 3 to 11 of paper 002, a table like its Table 5, and what
//! they do not show.

use pliant_report::html::{LineFigure, Section, Series, TextTable, render_figures};
use pliant_sim::campaign::multi_job::{ArrivingCell, ErrorRow, FrozenCell, LogRow, RatioRow, Results};

use crate::verbs::campaign_multi_job::{ARRIVING, FROZEN, RATIOS, arriving_row, frozen_rows, ratio_rows};

/// The page.
pub(crate) fn render(results: &Results) -> String {
    let note = format!(
        "Means over starts in the logs and up to {} draws of each. Numbers in brackets are the paper's.",
        results.draws
    );
    let mut sections = vec![logs(&results.logs)];
    sections.extend(frozen(&results.frozen));
    sections.extend(arriving(&results.arriving));
    sections.extend(table_5(&results.arriving));
    sections.extend(ratios(&results.ratios));
    sections.push(errors(&results.errors));
    render_figures(&results.name, &note, &sections)
}

fn columns(titles: &[&str]) -> Vec<String> {
    titles.iter().map(|title| (*title).to_owned()).collect()
}

/// Values in the order of their first appearance.
fn distinct<T, K: PartialEq>(all: &[T], key: impl Fn(&T) -> K) -> Vec<K> {
    let mut found: Vec<K> = Vec::new();
    for one in all {
        let key = key(one);
        if !found.contains(&key) {
            found.push(key);
        }
    }
    found
}

/// Figure 3: how unequal clusters are.
fn logs(logs: &[LogRow]) -> Section {
    let row = |log: &LogRow| {
        vec![
            log.log.clone(),
            log.busy_processors.len().to_string(),
            log.jobs.to_string(),
            format!("{:.1}", log.span_s as f64 / 86_400.0),
            log.groups.to_string(),
            log.users.to_string(),
            log.executables.to_string(),
        ]
    };
    let most = logs.iter().map(|log| log.busy_processors.len()).max().unwrap_or(0);
    let series = |log: &LogRow| Series {
        name: log.log.clone(),
        values: (0..most).map(|at| log.busy_processors.get(at).copied()).collect(),
    };
    Section {
        title: "The jobs of other users".to_owned(),
        note: "A cluster is a partition of the log, or a stretch of one; the busiest is the first."
            .to_owned(),
        tables: vec![TextTable {
            columns: columns(&["log", "clusters", "jobs", "days", "groups", "users", "executables"]),
            rows: logs.iter().map(row).collect(),
        }],
        figures: vec![LineFigure {
            title: "Work by cluster [3]".to_owned(),
            note: "Processors that the jobs would keep busy.".to_owned(),
            x: "cluster".to_owned(),
            y: "processors".to_owned(),
            points: (1..=most).map(|at| at.to_string()).collect(),
            series: logs.iter().map(series).collect(),
            logarithmic: false,
        }],
    }
}

/// Figures 4 to 6: makespan over the number of instances, one figure for each log and pre-load.
fn frozen(cells: &[FrozenCell]) -> Vec<Section> {
    let of = |experiment: &String| {
        let cells: Vec<&FrozenCell> = cells.iter().filter(|cell| &cell.experiment == experiment).collect();
        let place = |cell: &&FrozenCell| (cell.log.clone(), cell.job_time_s, cell.delay_s);
        let figure = |place_of: (String, Option<i64>, i64)| {
            let cells: Vec<&FrozenCell> =
                cells.iter().copied().filter(|cell| place(cell) == place_of).collect();
            let points = distinct(&cells, |cell| cell.instances);
            let series = |(law, policy): (String, String)| Series {
                values: points
                    .iter()
                    .map(|count| {
                        let at = |cell: &&&FrozenCell| {
                            cell.instances == *count && cell.law == law && cell.policy == policy
                        };
                        cells.iter().find(at).map(|cell| cell.makespan_s.mean / 3600.0)
                    })
                    .collect(),
                name: format!("{policy}, {law}"),
            };
            let (log, job_time, delay) = &place_of;
            let jobs =
                job_time.map_or("jobs of their own times".to_owned(), |time| format!("jobs of {time} s"));
            LineFigure {
                title: format!("Makespan on {log}, {jobs}, after {delay} s [4-6]"),
                note: String::new(),
                x: "instances".to_owned(),
                y: "hours".to_owned(),
                points: points.iter().map(u64::to_string).collect(),
                series: distinct(&cells, |cell| (cell.law.clone(), cell.policy.clone()))
                    .into_iter()
                    .map(series)
                    .collect(),
                logarithmic: true,
            }
        };
        let rows: Vec<FrozenCell> = cells.iter().map(|cell| (*cell).clone()).collect();
        Section {
            title: format!("Scenarios 1 and 2: {experiment}"),
            note: "What is pending is frozen, and nobody comes after.".to_owned(),
            tables: vec![TextTable { columns: columns(&FROZEN), rows: frozen_rows(&rows) }],
            figures: distinct(&cells, place).into_iter().map(figure).collect(),
        }
    };
    distinct(cells, |cell| cell.experiment.clone()).iter().map(of).collect()
}

/// Figures 7 to 11: every policy over the number of instances.
fn arriving(cells: &[ArrivingCell]) -> Vec<Section> {
    let of = |experiment: &String| {
        let cells: Vec<&ArrivingCell> = cells.iter().filter(|cell| &cell.experiment == experiment).collect();
        let place = |cell: &&ArrivingCell| (cell.log.clone(), cell.delay_s, cell.times.clone());
        let figure = |place_of: (String, i64, String)| {
            let cells: Vec<&ArrivingCell> =
                cells.iter().copied().filter(|cell| place(cell) == place_of).collect();
            let points = distinct(&cells, |cell| cell.instances);
            let series = |policy: String| Series {
                values: points
                    .iter()
                    .map(|count| {
                        let at = |cell: &&&ArrivingCell| cell.instances == *count && cell.policy == policy;
                        cells.iter().find(at).map(|cell| cell.makespan_s.mean / 3600.0)
                    })
                    .collect(),
                name: policy,
            };
            let (log, delay, times) = &place_of;
            LineFigure {
                title: format!("Makespan on {log}, instances of {times}, after {delay} s [7-11]"),
                note: String::new(),
                x: "instances".to_owned(),
                y: "hours".to_owned(),
                points: points.iter().map(usize::to_string).collect(),
                series: distinct(&cells, |cell| cell.policy.clone()).into_iter().map(series).collect(),
                logarithmic: true,
            }
        };
        let rows = cells.iter().map(|cell| arriving_row(cell)).collect();
        Section {
            title: format!("Scenarios 3 and 4: {experiment}"),
            note: "Others go on submitting while the multi-job runs.".to_owned(),
            tables: vec![TextTable { columns: columns(&ARRIVING), rows }],
            figures: distinct(&cells, place).into_iter().map(figure).collect(),
        }
    };
    distinct(cells, |cell| cell.experiment.clone()).iter().map(of).collect()
}

/// Table 5: random allocation beside the paper's, where both are.
fn table_5(cells: &[ArrivingCell]) -> Option<Section> {
    let same = |one: &ArrivingCell, other: &ArrivingCell| {
        let place = |cell: &ArrivingCell| {
            (cell.experiment.clone(), cell.log.clone(), cell.delay_s, cell.times.clone(), cell.instances)
        };
        place(one) == place(other)
    };
    let row = |random: &ArrivingCell| {
        let statistics = cells.iter().find(|cell| cell.policy == "STAT-user" && same(cell, random))?;
        let ratio = |random: f64, statistics: f64| format!("{:.2}", random / statistics.max(1.0));
        Some(vec![
            random.experiment.clone(),
            random.log.clone(),
            random.delay_s.to_string(),
            random.times.clone(),
            random.instances.to_string(),
            format!("{:.0}", random.response_s.mean),
            format!("{:.0}", statistics.response_s.mean),
            ratio(random.response_s.mean, statistics.response_s.mean),
            ratio(random.makespan_s.mean, statistics.makespan_s.mean),
        ])
    };
    let rows: Vec<Vec<String>> = cells.iter().filter(|cell| cell.policy == "RND").filter_map(row).collect();
    let titles = [
        "experiment",
        "log",
        "delay s",
        "times",
        "jobs",
        "RND: response s",
        "STAT-user: response s",
        "ratio",
        "ratio of makespans",
    ];
    (!rows.is_empty()).then(|| Section {
        title: "Random allocation and statistics by user [table 5]".to_owned(),
        note: "Mean response of an instance; a ratio above 1 says that statistics are sooner done."
            .to_owned(),
        tables: vec![TextTable { columns: columns(&titles), rows }],
        figures: Vec::new(),
    })
}

/// What policies are worth beside one of them.
fn ratios(ratios: &[RatioRow]) -> Option<Section> {
    (!ratios.is_empty()).then(|| Section {
        title: "Policies beside each other".to_owned(),
        note: "Makespan over that of the policy in the fourth column, geometric means over starts and cells. The \
               intervals are of the starts, drawn again in blocks; below 1 a policy is sooner done."
            .to_owned(),
        tables: vec![TextTable { columns: columns(&RATIOS), rows: ratio_rows(ratios) }],
        figures: Vec::new(),
    })
}

fn errors(errors: &[ErrorRow]) -> Section {
    let row = |row: &ErrorRow| {
        vec![
            format!("{}: {} {}", row.log, row.level, row.estimator),
            row.jobs.to_string(),
            format!("{:.1}", row.at_level_percent),
            format!("{:.2}", row.relative_error),
            format!("{:+.2}", row.relative_bias),
            format!("{:.1}", row.within_percent),
        ]
    };
    let titles = ["predicted by", "jobs", "at that level %", "error", "bias", "ran no longer %"];
    Section {
        title: "How far predictions are off".to_owned(),
        note: "Each job is predicted when it is submitted by those that have ended; error and bias are shares of the \
               mean runtime. A calibrated quantile of 0.8 is not exceeded by 80 %."
            .to_owned(),
        tables: vec![TextTable { columns: columns(&titles), rows: errors.iter().map(row).collect() }],
        figures: Vec::new(),
    }
}
