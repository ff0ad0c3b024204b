//! The records and results of a campaign of mappings.
//!
//! | file | holds |
//! |---|---|
//! | `results.json` | means by each axis, clusterings against their bound, use cases |
//! | `trials.csv` | every trial |
//! | `timing.json` | the durations of mapping and clustering, which differ between machines |

use std::collections::BTreeMap;
use std::fmt::Write as _;

use pliant_model::campaign::{self, mapping};
use pliant_tig::{MappingError, Metrics};
use serde::{Deserialize, Serialize};

use super::{Axis, Cell, ClusteringRow, Timing, UseCaseRow};
use crate::campaign::experiment::Files;

/// The version of `results.json`.
const SCHEMA: &str = "pliant.mapping-campaign/2";

/// The record of a cell.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::campaign) enum Record {
    /// An application.
    Application {
        /// Its clustering.
        clustering: ClusteringRow,
        /// Its trials: each policy on each grid.
        trials: Vec<Trial>,
    },
    /// A use case.
    UseCase(Vec<UseCaseRow>),
}

/// One mapping.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::campaign) struct Trial {
    /// Its measures ([`MEASURES`]); none if it failed.
    pub(super) measures: Option<Vec<f64>>,
    /// Why it failed; none if it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failure: Option<Failure>,
    pub(super) map_seconds: f64,
    pub(super) cut_seconds: f64,
}

/// Why a mapping failed.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::campaign) enum Failure {
    /// No LAN was suitable for a cluster.
    Lan,
    /// No machine had enough power or links left for a task.
    Machine,
}

impl Failure {
    pub(super) fn of(error: &MappingError) -> Failure {
        match error {
            MappingError::Cluster { .. } => Self::Lan,
            MappingError::Task { .. } => Self::Machine,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Lan => "lan",
            Self::Machine => "machine",
        }
    }
}

/// The input of results that is not in the records.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::campaign) struct Plan {
    pub(super) reference: String,
    pub(super) policies: Vec<String>,
    /// Of each policy.
    pub(super) trials: usize,
    pub(super) tasks: Vec<usize>,
    pub(super) cluster_sizes: Vec<[usize; 2]>,
    pub(super) mcr_mflops: Vec<f64>,
    pub(super) machines: Vec<usize>,
    pub(super) lan_hosts: Vec<usize>,
}

/// The measures of a mapping; the last one only if the application specifies its bandwidth.
const MEASURES: [&str; 16] = [
    "affinity_mean",
    "affinity_min",
    "lan_hit_ratio",
    "distance_mean",
    "inter_lan_percent",
    "cut_percent",
    "lans_used",
    "distance_lan",
    "reach_lan",
    "distance_man",
    "reach_man",
    "distance_wan",
    "reach_wan",
    "distance_beyond",
    "reach_beyond",
    "overload_percent",
];

/// The values of these measures.
pub(super) fn values(metrics: &Metrics) -> Vec<f64> {
    let mut all = vec![
        metrics.affinity_mean,
        metrics.affinity_min,
        metrics.lan_hit_ratio,
        metrics.distance_mean,
        metrics.inter_lan_percent,
        metrics.cut_percent,
        metrics.lans_used as f64,
    ];
    all.extend(
        metrics.distances.iter().zip(&metrics.reach).flat_map(|(distance, reach)| [*distance, *reach]),
    );
    all.extend(metrics.overload_percent);
    all
}

/// A trial with its parameters.
struct Row<'a> {
    tasks: usize,
    seed: u64,
    class: [usize; 2],
    mcr_mflops: f64,
    machines: usize,
    lan_hosts: usize,
    policy: usize,
    trial: &'a Trial,
}

/// Builds results from the available records.
pub(super) fn collect(name: String, plan: &Plan, records: Vec<Record>) -> (campaign::Results, Files) {
    let (mut applications, mut use_cases) = (Vec::new(), Vec::new());
    for record in records {
        match record {
            Record::Application { clustering, trials } => applications.push((clustering, trials)),
            Record::UseCase(rows) => use_cases.extend(rows),
        }
    }
    let rows: Vec<Row<'_>> =
        applications.iter().flat_map(|(application, trials)| rows(plan, application, trials)).collect();
    let timing = timing(plan, &rows);
    let mut times = serde_json::to_vec_pretty(&timing).unwrap_or_default();
    times.push(b'\n');
    let files = vec![("trials.csv", to_csv(plan, &rows).into_bytes()), ("timing.json", times)];
    let results = mapping::Results {
        schema: SCHEMA.to_owned(),
        name,
        reference: plan.reference.clone(),
        policies: plan.policies.clone(),
        trials: plan.trials,
        cells: cells(plan, &rows),
        clusterings: applications.into_iter().map(|(clustering, _)| clustering).collect(),
        use_cases,
        timing,
    };
    (campaign::Results::Mapping(results), files)
}

/// The trials of an application with their parameters.
fn rows<'a>(plan: &Plan, application: &ClusteringRow, trials: &'a [Trial]) -> Vec<Row<'a>> {
    let ClusteringRow { tasks, seed, class, mcr_mflops, .. } = *application;
    let grids =
        plan.machines.iter().flat_map(|machines| plan.lan_hosts.iter().map(move |hosts| (machines, hosts)));
    let of_grids = grids.zip(trials.chunks_exact(plan.policies.len()));
    let row = |((machines, lan_hosts), trials): ((&usize, &usize), &'a [Trial])| {
        let (machines, lan_hosts) = (*machines, *lan_hosts);
        let row =
            move |(policy, trial)| Row { tasks, seed, class, mcr_mflops, machines, lan_hosts, policy, trial };
        trials.iter().enumerate().map(row)
    };
    of_grids.flat_map(row).collect()
}

fn cells(plan: &Plan, trials: &[Row<'_>]) -> Vec<Cell> {
    let numbers = |values: &[usize]| values.iter().map(|value| *value as f64).collect::<Vec<f64>>();
    let small = plan.lan_hosts.iter().min().copied().unwrap_or(0);
    let per_trial = plan.policies.len();
    let by_all = |at: usize| {
        let first = at - at % per_trial;
        trials[first..first + per_trial].iter().all(|row| row.trial.measures.is_some())
    };
    let mut cells = Vec::new();
    let mut add = |axis: Axis, values: Vec<f64>, value_of: &dyn Fn(usize, &Row<'_>) -> Option<f64>| {
        for value in values {
            for (policy, chosen) in plan.policies.iter().enumerate() {
                let of_cell = trials
                    .iter()
                    .enumerate()
                    .filter(|(at, trial)| trial.policy == policy && value_of(*at, trial) == Some(value));
                let of_cell: Vec<&Row<'_>> = of_cell.map(|(_, trial)| trial).collect();
                cells.push(cell(axis, value, chosen, &of_cell));
            }
        }
    };
    add(Axis::All, vec![0.0], &|_, _| Some(0.0));
    add(Axis::MappedByAll, vec![0.0], &|at, _| by_all(at).then_some(0.0));
    add(Axis::Tasks, numbers(&plan.tasks), &|_, trial| Some(trial.tasks as f64));
    let classes: Vec<f64> = plan.cluster_sizes.iter().map(|class| class[1] as f64).collect();
    add(Axis::ClusterSize, classes, &|_, trial| Some(trial.class[1] as f64));
    add(Axis::Mcr, plan.mcr_mflops.clone(), &|_, trial| Some(trial.mcr_mflops));
    add(Axis::Machines, numbers(&plan.machines), &|_, trial| Some(trial.machines as f64));
    let paired = paired(plan, trials);
    add(Axis::MachinesPaired, numbers(&plan.machines), &|at, trial| {
        paired[at].then_some(trial.machines as f64)
    });
    add(Axis::LanHosts, numbers(&plan.lan_hosts), &|_, trial| Some(trial.lan_hosts as f64));
    add(Axis::TasksOnSmallLans, numbers(&plan.tasks), &|_, trial| {
        (trial.lan_hosts == small).then_some(trial.tasks as f64)
    });
    cells
}

/// Marks the trials of applications that their policy mapped on grids of every number of machines (with LANs of one size).
fn paired(plan: &Plan, trials: &[Row<'_>]) -> Vec<bool> {
    let key = |trial: &Row<'_>| {
        (trial.policy, trial.tasks, trial.seed, trial.class, trial.mcr_mflops.to_bits(), trial.lan_hosts)
    };
    let mut mapped = BTreeMap::new();
    for trial in trials.iter().filter(|row| row.trial.measures.is_some()) {
        *mapped.entry(key(trial)).or_insert(0) += 1;
    }
    trials.iter().map(|trial| mapped.get(&key(trial)) == Some(&plan.machines.len())).collect()
}

fn cell(axis: Axis, value: f64, policy: &str, trials: &[&Row<'_>]) -> Cell {
    let mapped: Vec<&Vec<f64>> = trials.iter().filter_map(|row| row.trial.measures.as_ref()).collect();
    let mut means: BTreeMap<String, f64> = BTreeMap::new();
    for measures in &mapped {
        for (name, value) in MEASURES.iter().zip(*measures) {
            *means.entry((*name).to_owned()).or_default() += value / mapped.len() as f64;
        }
    }
    let failed = trials.len() - mapped.len();
    Cell { axis, value, policy: policy.to_owned(), trials: trials.len(), failed, means }
}

fn timing(plan: &Plan, trials: &[Row<'_>]) -> Vec<Timing> {
    let mut rows = Vec::new();
    for (policy, chosen) in plan.policies.iter().enumerate() {
        for tasks in &plan.tasks {
            let of = trials.iter().filter(|trial| trial.policy == policy && trial.tasks == *tasks);
            let of: Vec<&Row<'_>> = of.collect();
            // The median, because a mean would be dominated by interference of other processes.
            let median_ms = |seconds: fn(&Trial) -> f64| {
                let mut all: Vec<f64> = of.iter().map(|trial| seconds(trial.trial)).collect();
                all.sort_by(f64::total_cmp);
                1e3 * all.get(all.len() / 2).copied().unwrap_or(0.0)
            };
            rows.push(Timing {
                policy: chosen.clone(),
                tasks: *tasks,
                map_ms: median_ms(|trial| trial.map_seconds),
                cut_ms: median_ms(|trial| trial.cut_seconds),
            });
        }
    }
    rows
}

/// One line per trial; a failed mapping has no measures, but says why it failed.
fn to_csv(plan: &Plan, trials: &[Row<'_>]) -> String {
    let count = trials.iter().find_map(|row| row.trial.measures.as_ref()).map_or(0, Vec::len);
    let names = &MEASURES[..count.min(MEASURES.len())];
    let mut text =
        String::from("tasks,seed,cluster_size,mcr_mflops,machines,lan_hosts,policy,mapped,failure");
    names.iter().for_each(|name| text.extend([",", name]));
    text.push('\n');
    for row in trials {
        let Row { tasks, seed, class: [least, most], mcr_mflops, machines, lan_hosts, policy, trial } = row;
        let policy = &plan.policies[*policy];
        let mapped = u8::from(trial.measures.is_some());
        let failure = trial.failure.map_or("", Failure::name);
        let _ = write!(
            text,
            "{tasks},{seed},{least}-{most},{mcr_mflops},{machines},{lan_hosts},{policy},{mapped},{failure}"
        );
        match &trial.measures {
            None => text.extend(names.iter().map(|_| ',')),
            Some(values) => values.iter().for_each(|value| {
                let _ = write!(text, ",{value}");
            }),
        }
        text.push('\n');
    }
    text
}
