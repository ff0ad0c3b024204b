//! Runs a campaign of mappings: a graph is drawn and clustered once for each application, then mapped on every grid.
//!
//! Every combination of tasks, seed, class of clusters and MCR has a graph of its own, as in the paper: 240 of them.

use std::time::Instant;

use pliant_model::campaign::Results;
use pliant_model::rng::stream_seed;
use pliant_tig::clustering::{self, Clustering, Weights, threshold};
use pliant_tig::generate::{self, Connected, Machines, Tiers};
use pliant_tig::{Grid, Metrics, TaskGraph};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::results::{self, Failure, Plan, Record, Trial, values};
use super::{Algorithm, ClusteringChoice, ClusteringRow, MappingCampaign, use_case};
use crate::campaign::experiment::{Experiment, Files, RecordSink, Shared};
use crate::campaign::{CampaignError, Fingerprint, Kind};

/// A campaign of mappings in execution. A cell is an application on every grid under every policy, or a use case.
pub(in crate::campaign) struct Mappings<'a> {
    campaign: &'a MappingCampaign,
    applications: Vec<Application>,
    grids: Shared<Vec<Grid>>,
}

/// The parameters of a random graph.
#[derive(Clone, Copy)]
struct Application {
    tasks: usize,
    seed: u64,
    class: [usize; 2],
    mcr_mflops: f64,
}

impl<'a> Mappings<'a> {
    pub(in crate::campaign) fn new(campaign: &'a MappingCampaign) -> Mappings<'a> {
        let mut applications = Vec::with_capacity(campaign.applications());
        for tasks in campaign.tasks.iter().copied() {
            for seed in campaign.seeds.iter().copied() {
                for class in campaign.cluster_sizes.iter().copied() {
                    let of_class = campaign.mcr_mflops.iter().copied();
                    applications.extend(of_class.map(|mcr_mflops| Application {
                        tasks,
                        seed,
                        class,
                        mcr_mflops,
                    }));
                }
            }
        }
        Mappings { campaign, applications, grids: Shared::new() }
    }

    fn grids(&self) -> Result<&Vec<Grid>, CampaignError> {
        let Self { campaign, .. } = self;
        self.grids.get(|| {
            let sizes = campaign
                .machines
                .iter()
                .flat_map(|machines| campaign.lan_hosts.iter().map(move |lan_hosts| (*machines, *lan_hosts)));
            sizes.map(|(machines, lan_hosts)| draw_grid(campaign, machines, lan_hosts)).collect()
        })
    }
}

impl Experiment for Mappings<'_> {
    type Record = Record;
    type Plan = Plan;

    const KIND: Kind = Kind::Mapping;

    fn name(&self) -> &str {
        &self.campaign.name
    }

    fn identify(&self, fingerprint: &mut Fingerprint) -> Result<(), CampaignError> {
        // The name and the folder of the file do not change results.
        let (name, base) = Default::default();
        fingerprint.add(&MappingCampaign { name, base, ..self.campaign.clone() });
        for case in &self.campaign.use_cases {
            fingerprint.file(&self.campaign.path(&case.application))?;
            fingerprint.file(&self.campaign.path(&case.grid))?;
        }
        Ok(())
    }

    fn plan(&self) -> Plan {
        let MappingCampaign { tasks, cluster_sizes, mcr_mflops, machines, lan_hosts, .. } =
            self.campaign.clone();
        Plan {
            reference: self.campaign.policies[self.campaign.reference].name.clone(),
            policies: self.campaign.policies.iter().map(|policy| policy.name.clone()).collect(),
            trials: self.campaign.trials(),
            tasks,
            cluster_sizes,
            mcr_mflops,
            machines,
            lan_hosts,
        }
    }

    fn groups(&self) -> Vec<Vec<String>> {
        let application = |one: &Application| {
            let Application { tasks, seed, class: [least, most], mcr_mflops } = one;
            vec![format!("tasks-{tasks}_clusters-{least}-{most}_mcr-{mcr_mflops}_seed-{seed}")]
        };
        let use_cases = self.campaign.use_cases.iter().map(|case| vec![format!("use-case_{}", case.name)]);
        self.applications.iter().map(application).chain(use_cases).collect()
    }

    fn run(&self, group: usize, _: &[usize], keep: &RecordSink<'_, Record>) -> Result<(), CampaignError> {
        let started = Instant::now();
        let record = match self.applications.get(group) {
            Some(application) => {
                let cut = cut(self.campaign, *application)?;
                let trials = map(self.campaign, &cut, self.grids()?);
                Record::Application { clustering: cut.row, trials }
            }
            None => {
                let case = &self.campaign.use_cases[group - self.applications.len()];
                Record::UseCase(use_case::run(self.campaign, case)?)
            }
        };
        keep(0, record, started.elapsed().as_secs_f64())
    }

    fn collect(name: String, plan: Plan, _: usize, records: Vec<Record>) -> (Results, Files) {
        results::collect(name, &plan, records)
    }
}

/// A graph with its clustering.
struct ClusteredGraph {
    graph: TaskGraph,
    contraction: Clustering,
    capped: Clustering,
    relaxation: Clustering,
    seconds: f64,
    row: ClusteringRow,
}

impl ClusteredGraph {
    fn clusters(&self, choice: ClusteringChoice) -> &Clustering {
        match choice {
            ClusteringChoice::Contraction => &self.contraction,
            ClusteringChoice::Capped => &self.capped,
            ClusteringChoice::Relaxation => &self.relaxation,
        }
    }
}

fn failed(key: &str, problem: impl ToString) -> CampaignError {
    CampaignError::Measure { key: key.to_owned(), problem: problem.to_string() }
}

fn cut(campaign: &MappingCampaign, application: Application) -> Result<ClusteredGraph, CampaignError> {
    let Application { tasks, seed, class, mcr_mflops } = application;
    let graph_key = format!("{tasks} tasks, {} to {} per cluster, MCR {mcr_mflops}", class[0], class[1]);
    let key = format!("{graph_key}, seed {seed}");
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, &format!("graph {graph_key}")));
    let what = Connected {
        tasks,
        edges_per_task: campaign.edges_per_task,
        weights: campaign.weights,
        mcr_mflops,
        bandwidth_mbps: campaign.bandwidth_mbps,
    };
    let graph = generate::connected(&what, &mut rng).map_err(|error| failed(&key, error))?;
    let sizes = class.map(|size| size as f64);
    let started = Instant::now();
    let (delta, contraction) = threshold::of_mean_size(&graph, sizes, usize::MAX);
    let seconds = started.elapsed().as_secs_f64();
    let (_, capped) = threshold::of_mean_size(&graph, sizes, class[1]);
    let weights = Weights::of(&graph, delta);
    let relaxation = clustering::relax(&weights).map_err(|error| failed(&key, error))?;
    let rounded = clustering::round(&weights, &relaxation);
    let searched = clustering::improve(&weights, rounded.clone(), usize::MAX);
    let row = ClusteringRow {
        tasks,
        seed,
        class,
        mcr_mflops,
        edges: graph.edges().len(),
        delta,
        mean_size: contraction.mean_size(),
        max_size: contraction.max_size(),
        bound: relaxation.bound,
        rows: relaxation.rows,
        rounds: relaxation.rounds,
        contraction: clustering::cluster(&weights, usize::MAX).cost(&weights),
        rounding: rounded.cost(&weights),
        rounding_searched: searched.cost(&weights),
        cut_percent: contraction.cut_percent(&graph),
    };
    Ok(ClusteredGraph { graph, contraction, capped, relaxation: rounded, seconds, row })
}

/// The grid of these numbers of machines and of machines per LAN.
fn draw_grid(campaign: &MappingCampaign, machines: usize, lan_hosts: usize) -> Result<Grid, CampaignError> {
    let key = format!("{machines} machines, {lan_hosts} per LAN");
    let Tiers { mans_per_wan, lans_per_man, .. } = campaign.tiers;
    let per_wan = mans_per_wan.saturating_mul(lans_per_man).saturating_mul(lan_hosts).max(1);
    let shape = Tiers { wans: machines.div_ceil(per_wan), lan_hosts, ..campaign.tiers };
    let what = Machines { count: machines, power_mflops: campaign.power_mflops, load: campaign.load };
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(campaign.seeds[0], &format!("grid {key}")));
    generate::tiers(&shape, &campaign.bandwidths, &what, &mut rng).map_err(|error| failed(&key, error))
}

/// The trials of an application: each policy on each grid.
fn map(campaign: &MappingCampaign, cut: &ClusteredGraph, grids: &[Grid]) -> Vec<Trial> {
    let trials = grids.iter().flat_map(|grid| {
        campaign.policies.iter().map(move |policy| {
            let clusters = cut.clusters(policy.clustering);
            let started = Instant::now();
            let mapping = policy.map(&cut.graph, grid, clusters);
            let map_seconds = started.elapsed().as_secs_f64();
            let cut_seconds = if policy.algorithm == Algorithm::Wase { cut.seconds } else { 0.0 };
            let (metrics, failure) = match mapping {
                Ok(mapping) => (Some(Metrics::of(&cut.graph, grid, clusters, &mapping)), None),
                Err(error) => (None, Some(Failure::of(&error))),
            };
            Trial { measures: metrics.as_ref().map(values), failure, map_seconds, cut_seconds }
        })
    });
    trials.collect()
}
