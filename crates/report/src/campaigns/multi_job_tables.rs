//! The tables of a campaign of multi-jobs.

use pliant_model::campaign::multi_job::{ArrivingCell, ExperimentRow, FrozenCell, RatioRow};

use crate::bootstrap::{Interval, mean_difference};

/// The titles of a table of where experiments start.
pub const EXPERIMENTS: [&str; 5] = ["experiment", "log", "starts", "within s", "longest delay s"];

/// The row of an experiment on one of its logs.
pub fn experiment_row(row: &ExperimentRow) -> Vec<String> {
    vec![
        row.experiment.clone(),
        row.log.clone(),
        row.starts.to_string(),
        row.within_s.to_string(),
        row.longest_delay_s.to_string(),
    ]
}

/// The titles of a table of frozen experiments.
pub const FROZEN: [&str; 9] = [
    "experiment",
    "log",
    "pre-load job s",
    "delay s",
    "law",
    "jobs",
    "largest pre-load s",
    "random / statistics s",
    "ratio",
];

/// The titles of a table of arriving experiments.
pub const ARRIVING: [&str; 11] = [
    "experiment",
    "log",
    "delay s",
    "times",
    "jobs",
    "policy",
    "makespan s",
    "p95 s",
    "response s",
    "expected s",
    "moves",
];

/// The rows of the frozen experiments: both policies in one.
pub fn frozen_rows(cells: &[FrozenCell]) -> Vec<Vec<String>> {
    let same = |one: &FrozenCell, other: &FrozenCell| {
        let group = |cell: &FrozenCell| {
            (cell.experiment.clone(), cell.log.clone(), cell.job_time_s, cell.delay_s, cell.instances)
        };
        group(one) == group(other) && one.law == other.law
    };
    let drawn = cells.iter().filter(|cell| cell.policy == "random");
    let row = |random: &FrozenCell| {
        let best = cells.iter().find(|cell| cell.policy == "statistics" && same(cell, random))?;
        Some(vec![
            random.experiment.clone(),
            random.log.clone(),
            random.job_time_s.map_or("log".to_owned(), |time| time.to_string()),
            random.delay_s.to_string(),
            random.law.clone(),
            random.instances.to_string(),
            format!("{:.0}", random.largest_pending_s),
            format!("{:.0} / {:.0}", random.makespan_s.mean, best.makespan_s.mean),
            format!("{:.3}", random.makespan_s.mean / best.makespan_s.mean.max(1.0)),
        ])
    };
    drawn.filter_map(row).collect()
}

/// The row of an arriving experiment.
pub fn arriving_row(cell: &ArrivingCell) -> Vec<String> {
    vec![
        cell.experiment.clone(),
        cell.log.clone(),
        cell.delay_s.to_string(),
        cell.times.clone(),
        cell.instances.to_string(),
        cell.policy.clone(),
        format!("{:.0}", cell.makespan_s.mean),
        format!("{:.0}", cell.makespan_s.p95),
        format!("{:.0}", cell.response_s.mean),
        format!("{:.0}", cell.expected_s),
        format!("{:.1}", cell.moves),
    ]
}

/// The titles of a table of how policies compare.
pub const RATIOS: [&str; 6] =
    ["experiment", "log", "policy", "compared with", "makespan ratio", "95 % interval"];
/// The seed of the intervals.
const RATIOS_SEED: u64 = 1;

/// The rows of how policies compare: of each log, and of all of an experiment.
pub fn ratio_rows(ratios: &[RatioRow]) -> Vec<Vec<String>> {
    let mut pooled: Vec<RatioRow> = Vec::new();
    for row in ratios {
        let same = |one: &&mut RatioRow| (&one.experiment, &one.policy) == (&row.experiment, &row.policy);
        match pooled.iter_mut().find(same) {
            Some(all) => {
                all.log = "all of them".to_owned();
                all.log_ratios.extend(&row.log_ratios);
            }
            None => pooled.push(row.clone()),
        }
    }
    // Of a single log that is the same again.
    pooled.retain(|all| ratios.iter().all(|row| row.log != all.log));
    ratios.iter().chain(&pooled).map(ratio_row).collect()
}

fn ratio_row(row: &RatioRow) -> Vec<String> {
    let (ratio, interval) = ratio(row);
    vec![
        row.experiment.clone(),
        row.log.clone(),
        row.policy.clone(),
        row.reference.clone(),
        format!("{ratio:.3}"),
        interval.map_or_else(|| "too few starts".to_owned(), |(low, high)| format!("{low:.3} to {high:.3}")),
    ]
}

/// The geometric mean over the starts, and its interval.
pub fn ratio(row: &RatioRow) -> (f64, Option<(f64, f64)>) {
    let mean = row.log_ratios.iter().sum::<f64>() / row.log_ratios.len().max(1) as f64;
    let interval = mean_difference(&row.log_ratios, RATIOS_SEED);
    (mean.exp(), interval.map(|Interval { low, high, .. }| (low.exp(), high.exp())))
}
