//! The page of a campaign of multi-jobs: figures like 3 to 11 of paper 002, a table like its Table 5, and what
//! they do not show.

use pliant_model::campaign::multi_job::{
    ArrivingCell, ErrorRow, ExperimentRow, FrozenCell, LogRow, RatioRow, Results,
};

use super::multi_job_tables::{
    ARRIVING, EXPERIMENTS, FROZEN, RATIOS, arriving_row, experiment_row, frozen_rows, ratio_rows,
};
use crate::html::{LineFigure, Section, Series, TextTable, render_figures};

/// The page of a campaign of multi-jobs.
pub fn multi_job_page(results: &Results) -> String {
    let note = format!(
        "Means over starts in the logs and up to {} draws of each. Numbers in brackets are those of the paper's figures and \
         table of the same scenario.",
        results.draws
    );
    let mut sections = vec![logs(&results.logs), experiments(&results.experiments)];
    sections.extend(frozen(&results.frozen));
    sections.extend(arriving(&results.arriving, &results.experiments));
    sections.extend(table_5(&results.arriving, &results.experiments));
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

fn experiments(rows: &[ExperimentRow]) -> Section {
    Section {
        title: "Starts of the experiments in the logs".to_owned(),
        note: "Starts are drawn from so much of the log that after the longest delay a tenth of it is left. Where that is less \
               than the delay they have mostly the same jobs."
            .to_owned(),
        tables: vec![TextTable {
            columns: columns(&EXPERIMENTS),
            rows: rows.iter().map(experiment_row).collect(),
        }],
        figures: Vec::new(),
    }
}

/// Figures 4 to 6: makespan over the number of instances, one figure for each log and pre-load.
fn frozen(cells: &[FrozenCell]) -> Vec<Section> {
    let of = |experiment: &String| {
        let cells: Vec<&FrozenCell> = cells.iter().filter(|cell| &cell.experiment == experiment).collect();
        let group = |cell: &&FrozenCell| (cell.log.clone(), cell.job_time_s, cell.delay_s);
        let figure = |of_group: (String, Option<i64>, i64)| {
            let cells: Vec<&FrozenCell> =
                cells.iter().copied().filter(|cell| group(cell) == of_group).collect();
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
            let (log, job_time, delay) = &of_group;
            // Figure 4 is of both; 5 of the log's own times, 6 of scenario 1.
            let like = if job_time.is_some() { "[4, 6]" } else { "[4, 5]" };
            let jobs =
                job_time.map_or("jobs of their own times".to_owned(), |time| format!("jobs of {time} s"));
            LineFigure {
                title: format!("Makespan on {log}, {jobs}, after {delay} s {like}"),
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
            note: "The pending jobs are frozen, and no later jobs arrive.".to_owned(),
            tables: vec![TextTable { columns: columns(&FROZEN), rows: frozen_rows(&rows) }],
            figures: distinct(&cells, group).into_iter().map(figure).collect(),
        }
    };
    distinct(cells, |cell| cell.experiment.clone()).iter().map(of).collect()
}

/// Which figures of the paper are of the scenario of a cell, as the end of a title: 3a, 3b or 4. Nothing if the folder does not
/// say which processors its experiment has.
fn figures_like(cell: &ArrivingCell, experiments: &[ExperimentRow]) -> &'static str {
    let Some(row) = experiments.iter().find(|row| row.experiment == cell.experiment) else { return "" };
    match (row.has_several_processors(), cell.is_like_a_category()) {
        (true, _) => " [10, 11]",
        (false, true) => " [9]",
        (false, false) => " [7, 8]",
    }
}

/// Figures 7 to 11: every policy over the number of instances.
fn arriving(cells: &[ArrivingCell], experiments: &[ExperimentRow]) -> Vec<Section> {
    let of = |experiment: &String| {
        let cells: Vec<&ArrivingCell> = cells.iter().filter(|cell| &cell.experiment == experiment).collect();
        let group = |cell: &&ArrivingCell| (cell.log.clone(), cell.delay_s, cell.times.clone());
        let figure = |of_group: (String, i64, String)| {
            let cells: Vec<&ArrivingCell> =
                cells.iter().copied().filter(|cell| group(cell) == of_group).collect();
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
            let (log, delay, times) = &of_group;
            let like = cells.first().map_or("", |cell| figures_like(cell, experiments));
            LineFigure {
                title: format!("Makespan on {log}, instances of {times}, after {delay} s{like}"),
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
            note: "Background jobs keep arriving while the multi-job runs.".to_owned(),
            tables: vec![TextTable { columns: columns(&ARRIVING), rows }],
            figures: distinct(&cells, group).into_iter().map(figure).collect(),
        }
    };
    distinct(cells, |cell| cell.experiment.clone()).iter().map(of).collect()
}

/// Table 5: random allocation compared with statistics by user on clusters of several processors, where policies of those names are.
fn table_5(cells: &[ArrivingCell], experiments: &[ExperimentRow]) -> Option<Section> {
    let is_scenario_4 = |cell: &&ArrivingCell| {
        experiments.iter().any(|row| row.experiment == cell.experiment && row.has_several_processors())
    };
    let same = |one: &ArrivingCell, other: &ArrivingCell| {
        let group = |cell: &ArrivingCell| {
            (cell.experiment.clone(), cell.log.clone(), cell.delay_s, cell.times.clone(), cell.instances)
        };
        group(one) == group(other)
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
    let drawn = cells.iter().filter(|cell| cell.policy == "RND").filter(is_scenario_4);
    let rows: Vec<Vec<String>> = drawn.filter_map(row).collect();
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
        title: "Random allocation and statistics by user, scenario 4 [table 5]".to_owned(),
        note: "Clusters of several processors. Mean response of an instance; a ratio above 1 means that statistics are faster."
            .to_owned(),
        tables: vec![TextTable { columns: columns(&titles), rows }],
        figures: Vec::new(),
    })
}

/// Makespans relative to a reference policy.
fn ratios(ratios: &[RatioRow]) -> Option<Section> {
    (!ratios.is_empty()).then(|| Section {
        title: "Policies compared with the reference".to_owned(),
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
        title: "Prediction errors".to_owned(),
        note: "Each job is predicted when it is submitted by those that have ended; error and bias are shares of the \
               mean runtime. A calibrated quantile of 0.8 is not exceeded by 80 %."
            .to_owned(),
        tables: vec![TextTable { columns: columns(&titles), rows: errors.iter().map(row).collect() }],
        figures: Vec::new(),
    }
}
