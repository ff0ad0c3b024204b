//! The folder of a campaign of mappings.
//!
//! | file | holds |
//! |---|---|
//! | `campaign.json` | which kind of campaign, its name |
//! | `results.json` | means by each axis, clusterings against their bound, use cases |
//! | `trials.csv` | every trial |
//! | `timing.json` | how long mapping and clustering took: the only file that differs between two machines |

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use pliant_tig::Metrics;
use serde::{Deserialize, Serialize};

use super::MappingCampaign;
use crate::campaign::CampaignError;
use crate::campaign::store::{write_json, write_whole};

/// The version of `campaign.json`, `results.json` and `timing.json`.
const SCHEMA: &str = "pliant.mapping-campaign/2";

/// One mapping.
pub(super) struct Trial {
    pub(super) tasks: usize,
    pub(super) seed: u64,
    pub(super) class: [usize; 2],
    pub(super) mcr_mflops: f64,
    pub(super) machines: usize,
    pub(super) lan_hosts: usize,
    pub(super) policy: usize,
    /// None if it failed.
    pub(super) metrics: Option<Metrics>,
    pub(super) map_seconds: f64,
    pub(super) cut_seconds: f64,
}

/// The results of a campaign of mappings.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    schema: String,
    /// The campaign's name.
    pub name: String,
    /// The policy that the others are compared with.
    pub reference: String,
    /// The policies, in order.
    pub policies: Vec<String>,
    /// Trials of each policy.
    pub trials: usize,
    /// Means by each axis.
    pub cells: Vec<Cell>,
    /// Clusterings against their bound.
    pub clusterings: Vec<ClusteringRow>,
    /// Applications that were given as files.
    pub use_cases: Vec<UseCaseRow>,
    /// How long it took; not in `results.json`.
    #[serde(skip)]
    pub timing: Vec<Timing>,
}

/// What trials are grouped by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// All trials.
    All,
    /// Those that every policy mapped: where policies are compared without the bias of their failures.
    MappedByAll,
    /// Tasks of the graph.
    Tasks,
    /// Most tasks per cluster of the class.
    ClusterSize,
    /// MCR.
    Mcr,
    /// Machines of the grid.
    Machines,
    /// Machines of the grid, over the applications that the policy mapped on every such grid: the same ones at
    /// each value.
    MachinesPaired,
    /// Machines per LAN.
    LanHosts,
    /// Tasks of the graph on grids of four machines per LAN, or whatever the least is: Figure 8.
    TasksOnSmallLans,
}

/// Trials of a policy that have one value of an axis.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// The axis.
    pub axis: Axis,
    /// Its value; 0 where the axis has none.
    pub value: f64,
    /// The policy.
    pub policy: String,
    /// How many trials.
    pub trials: usize,
    /// How many of them failed.
    pub failed: usize,
    /// Means over the others.
    pub means: BTreeMap<String, f64>,
}

/// How good the clusterings of a graph are.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusteringRow {
    /// Tasks of the graph.
    pub tasks: usize,
    /// Its seed.
    pub seed: u64,
    /// Least and most tasks per cluster, on average.
    pub class: [usize; 2],
    /// What a task of RCR 1 needs; it has no part in the clustering, but each has a graph of its own.
    pub mcr_mflops: f64,
    /// Edges of the graph.
    pub edges: usize,
    /// The threshold.
    pub delta: f64,
    /// Tasks per cluster that contraction found at it.
    pub mean_size: f64,
    /// The largest of these clusters.
    pub max_size: usize,
    /// The optimum of the linear program: no clustering costs less.
    pub bound: f64,
    /// Rows of the program.
    pub rows: usize,
    /// Rounds of separation.
    pub rounds: usize,
    /// Cost by contraction and local search.
    pub contraction: f64,
    /// Cost by region growing.
    pub rounding: f64,
    /// The same with local search.
    pub rounding_searched: f64,
    /// Traffic between the clusters that contraction found, in %.
    pub cut_percent: f64,
}

/// A use case, cut into so many clusters, at one MCR.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UseCaseRow {
    /// The use case.
    pub name: String,
    /// Clusters.
    pub clusters: usize,
    /// Clusters that were asked for.
    pub wanted_clusters: usize,
    /// What a task of RCR 1 needs.
    pub mcr_mflops: f64,
    /// Tasks by LAN; all 0 if the mapping failed.
    pub lans: Vec<(String, usize)>,
    /// Mean affinity.
    pub affinity_mean: Option<f64>,
    /// Least affinity.
    pub affinity_min: Option<f64>,
    /// Traffic between LANs, in %.
    pub inter_lan_percent: Option<f64>,
    /// Traffic between clusters, in %.
    pub cut_percent: f64,
}

/// Median times of a policy on graphs of one size.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// The policy.
    pub policy: String,
    /// Tasks of the graph.
    pub tasks: usize,
    /// Milliseconds to map.
    pub map_ms: f64,
    /// Milliseconds to find the threshold and the clusters; 0 if it needs none.
    pub cut_ms: f64,
}

#[derive(Serialize, Deserialize)]
struct Manifest {
    schema: String,
    name: String,
}

/// Collects results and writes the folder.
pub(super) fn write(
    campaign: &MappingCampaign,
    dir: &Path,
    trials: Vec<Trial>,
    clusterings: Vec<ClusteringRow>,
    use_cases: Vec<UseCaseRow>,
) -> Result<Results, CampaignError> {
    fs::create_dir_all(dir).map_err(|source| CampaignError::io(dir, "create this folder", source))?;
    let results = Results {
        schema: SCHEMA.to_owned(),
        name: campaign.name.clone(),
        reference: campaign.policies[campaign.reference].name.clone(),
        policies: campaign.policies.iter().map(|policy| policy.name.clone()).collect(),
        trials: campaign.trials(),
        cells: cells(campaign, &trials),
        clusterings,
        use_cases,
        timing: timing(campaign, &trials),
    };
    write_json(&dir.join("results.json"), &results)?;
    write_json(&dir.join("timing.json"), &results.timing)?;
    write_whole(&dir.join("trials.csv"), to_csv(campaign, &trials).as_bytes())?;
    // Last, so that a folder that says what it is has everything.
    write_json(
        &dir.join("campaign.json"),
        &Manifest { schema: SCHEMA.to_owned(), name: campaign.name.clone() },
    )?;
    Ok(results)
}

/// Whether a folder is of a campaign of mappings.
pub fn is_folder(dir: &Path) -> bool {
    let manifest = fs::read(dir.join("campaign.json")).ok();
    let manifest = manifest.and_then(|text| serde_json::from_slice::<Manifest>(&text).ok());
    manifest.is_some_and(|manifest| manifest.schema == SCHEMA)
}

/// The results in a folder.
pub fn read_results(dir: &Path) -> Result<Results, CampaignError> {
    let read = |name: &str| {
        let path = dir.join(name);
        fs::read(&path).map_err(|source| CampaignError::io(&path, "read this file", source))
    };
    let damaged = |name: &str, error: serde_json::Error| CampaignError::Damaged {
        path: dir.join(name),
        problem: error.to_string(),
    };
    let mut results: Results =
        serde_json::from_slice(&read("results.json")?).map_err(|error| damaged("results.json", error))?;
    results.timing =
        serde_json::from_slice(&read("timing.json")?).map_err(|error| damaged("timing.json", error))?;
    Ok(results)
}

/// Names and values of a mapping's measures.
fn measures(metrics: &Metrics) -> Vec<(&'static str, f64)> {
    let mut all = vec![
        ("affinity_mean", metrics.affinity_mean),
        ("affinity_min", metrics.affinity_min),
        ("lan_hit_ratio", metrics.lan_hit_ratio),
        ("distance_mean", metrics.distance_mean),
        ("inter_lan_percent", metrics.inter_lan_percent),
        ("cut_percent", metrics.cut_percent),
        ("lans_used", metrics.lans_used as f64),
    ];
    let hops = ["lan", "man", "wan", "beyond"];
    let distances = ["distance_lan", "distance_man", "distance_wan", "distance_beyond"];
    let reaches = ["reach_lan", "reach_man", "reach_wan", "reach_beyond"];
    for at in 0..hops.len() {
        all.push((distances[at], metrics.distances[at]));
        all.push((reaches[at], metrics.reach[at]));
    }
    all.extend(metrics.overload_percent.map(|overload| ("overload_percent", overload)));
    all
}

fn cells(campaign: &MappingCampaign, trials: &[Trial]) -> Vec<Cell> {
    let numbers = |values: &[usize]| values.iter().map(|value| *value as f64).collect::<Vec<f64>>();
    let small = campaign.lan_hosts.iter().min().copied().unwrap_or(0);
    let per_trial = campaign.policies.len();
    let by_all = |at: usize| {
        let first = at - at % per_trial;
        trials[first..first + per_trial].iter().all(|trial| trial.metrics.is_some())
    };
    let mut cells = Vec::new();
    let mut add = |axis: Axis, values: Vec<f64>, value_of: &dyn Fn(usize, &Trial) -> Option<f64>| {
        for value in values {
            for (policy, chosen) in campaign.policies.iter().enumerate() {
                let of_cell = trials
                    .iter()
                    .enumerate()
                    .filter(|(at, trial)| trial.policy == policy && value_of(*at, trial) == Some(value));
                let of_cell: Vec<&Trial> = of_cell.map(|(_, trial)| trial).collect();
                cells.push(cell(axis, value, &chosen.name, &of_cell));
            }
        }
    };
    add(Axis::All, vec![0.0], &|_, _| Some(0.0));
    add(Axis::MappedByAll, vec![0.0], &|at, _| by_all(at).then_some(0.0));
    add(Axis::Tasks, numbers(&campaign.tasks), &|_, trial| Some(trial.tasks as f64));
    let classes: Vec<f64> = campaign.cluster_sizes.iter().map(|class| class[1] as f64).collect();
    add(Axis::ClusterSize, classes, &|_, trial| Some(trial.class[1] as f64));
    add(Axis::Mcr, campaign.mcr_mflops.clone(), &|_, trial| Some(trial.mcr_mflops));
    add(Axis::Machines, numbers(&campaign.machines), &|_, trial| Some(trial.machines as f64));
    let paired = paired(campaign, trials);
    add(Axis::MachinesPaired, numbers(&campaign.machines), &|at, trial| {
        paired[at].then_some(trial.machines as f64)
    });
    add(Axis::LanHosts, numbers(&campaign.lan_hosts), &|_, trial| Some(trial.lan_hosts as f64));
    add(Axis::TasksOnSmallLans, numbers(&campaign.tasks), &|_, trial| {
        (trial.lan_hosts == small).then_some(trial.tasks as f64)
    });
    cells
}

/// Which trials are of an application that their policy mapped on grids of every number of machines (with LANs of
/// one size).
fn paired(campaign: &MappingCampaign, trials: &[Trial]) -> Vec<bool> {
    let key = |trial: &Trial| {
        (trial.policy, trial.tasks, trial.seed, trial.class, trial.mcr_mflops.to_bits(), trial.lan_hosts)
    };
    let mut mapped = BTreeMap::new();
    for trial in trials.iter().filter(|trial| trial.metrics.is_some()) {
        *mapped.entry(key(trial)).or_insert(0) += 1;
    }
    trials.iter().map(|trial| mapped.get(&key(trial)) == Some(&campaign.machines.len())).collect()
}

fn cell(axis: Axis, value: f64, policy: &str, trials: &[&Trial]) -> Cell {
    let mapped: Vec<&Metrics> = trials.iter().filter_map(|trial| trial.metrics.as_ref()).collect();
    let mut means: BTreeMap<String, f64> = BTreeMap::new();
    for metrics in &mapped {
        for (name, value) in measures(metrics) {
            *means.entry(name.to_owned()).or_default() += value / mapped.len() as f64;
        }
    }
    let failed = trials.len() - mapped.len();
    Cell { axis, value, policy: policy.to_owned(), trials: trials.len(), failed, means }
}

fn timing(campaign: &MappingCampaign, trials: &[Trial]) -> Vec<Timing> {
    let mut rows = Vec::new();
    for (policy, chosen) in campaign.policies.iter().enumerate() {
        for tasks in &campaign.tasks {
            let of = trials.iter().filter(|trial| trial.policy == policy && trial.tasks == *tasks);
            let of: Vec<&Trial> = of.collect();
            // The median: a mean would be of the moments in which something else had the processor.
            let median_ms = |seconds: fn(&Trial) -> f64| {
                let mut all: Vec<f64> = of.iter().map(|trial| seconds(trial)).collect();
                all.sort_by(f64::total_cmp);
                1e3 * all.get(all.len() / 2).copied().unwrap_or(0.0)
            };
            rows.push(Timing {
                policy: chosen.name.clone(),
                tasks: *tasks,
                map_ms: median_ms(|trial| trial.map_seconds),
                cut_ms: median_ms(|trial| trial.cut_seconds),
            });
        }
    }
    rows
}

/// One line per trial; a mapping that failed has no measures.
fn to_csv(campaign: &MappingCampaign, trials: &[Trial]) -> String {
    let names: Vec<&str> = trials
        .iter()
        .find_map(|trial| trial.metrics.as_ref())
        .map(|metrics| measures(metrics).into_iter().map(|(name, _)| name).collect())
        .unwrap_or_default();
    let mut text = String::from("tasks,seed,cluster_size,mcr_mflops,machines,lan_hosts,policy,mapped");
    names.iter().for_each(|name| text.extend([",", name]));
    text.push('\n');
    for trial in trials {
        let Trial { tasks, seed, class, mcr_mflops, machines, lan_hosts, .. } = trial;
        let policy = &campaign.policies[trial.policy].name;
        let mapped = u8::from(trial.metrics.is_some());
        let _ = write!(
            text,
            "{tasks},{seed},{}-{},{mcr_mflops},{machines},{lan_hosts},{policy},{mapped}",
            class[0], class[1]
        );
        match &trial.metrics {
            None => text.extend(names.iter().map(|_| ',')),
            Some(metrics) => {
                for (_, value) in measures(metrics) {
                    let _ = write!(text, ",{value}");
                }
            }
        }
        text.push('\n');
    }
    text
}
