//! Running a campaign of mappings: graphs and grids are drawn, graphs cut once, then every trial is mapped.
//!
//! Every combination of tasks, seed, class of clusters and MCR has a graph of its own, as in the paper: 240 of them.

use std::path::Path;
use std::time::Instant;

use pliant_model::rng::stream_seed;
use pliant_tig::clustering::{self, Clustering, Weights, threshold};
use pliant_tig::generate::{self, Connected, Machines, Tiers};
use pliant_tig::{Grid, Metrics, TaskGraph};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::results::{self, ClusteringRow, Results, Trial};
use super::{Algorithm, ClusteringChoice, MappingCampaign, use_case};
use crate::campaign::{CampaignError, execute::checked};

/// Runs a campaign into `dir`, with that many threads (0: one per core).
pub fn run(campaign: &MappingCampaign, dir: &Path, threads: usize) -> Result<Results, CampaignError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(checked(threads)?)
        .build()
        .map_err(|error| CampaignError::Threads(error.to_string()))?;
    let use_cases = use_case::run(campaign)?;
    let (clusterings, trials) = pool.install(|| {
        let cut = cut_all(campaign)?;
        let trials = map_all(campaign, &cut)?;
        Ok::<_, CampaignError>((cut.into_iter().map(|cut| cut.row).collect(), trials))
    })?;
    results::write(campaign, dir, trials, clusterings, use_cases)
}

/// What a graph is drawn for.
#[derive(Clone, Copy)]
struct Wanted {
    tasks: usize,
    seed: u64,
    class: [usize; 2],
    mcr_mflops: f64,
}

/// A graph that was cut into clusters of its class.
struct Cut {
    graph: TaskGraph,
    wanted: Wanted,
    contraction: Clustering,
    capped: Clustering,
    relaxation: Clustering,
    seconds: f64,
    row: ClusteringRow,
}

impl Cut {
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

fn cut_all(campaign: &MappingCampaign) -> Result<Vec<Cut>, CampaignError> {
    let mut wanted = Vec::with_capacity(campaign.applications());
    for tasks in campaign.tasks.iter().copied() {
        for seed in campaign.seeds.iter().copied() {
            for class in campaign.cluster_sizes.iter().copied() {
                let of_class = campaign.mcr_mflops.iter().copied();
                wanted.extend(of_class.map(|mcr_mflops| Wanted { tasks, seed, class, mcr_mflops }));
            }
        }
    }
    wanted.into_par_iter().with_max_len(1).map(|wanted| cut(campaign, wanted)).collect()
}

fn cut(campaign: &MappingCampaign, wanted: Wanted) -> Result<Cut, CampaignError> {
    let Wanted { tasks, seed, class, mcr_mflops } = wanted;
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
    let begun = Instant::now();
    let (delta, contraction) = threshold::of_mean_size(&graph, sizes, usize::MAX);
    let seconds = begun.elapsed().as_secs_f64();
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
    Ok(Cut { graph, wanted, contraction, capped, relaxation: rounded, seconds, row })
}

/// The grid of that many machines and machines per LAN.
fn draw_grid(campaign: &MappingCampaign, machines: usize, lan_hosts: usize) -> Result<Grid, CampaignError> {
    let key = format!("{machines} machines, {lan_hosts} per LAN");
    let Tiers { mans_per_wan, lans_per_man, .. } = campaign.tiers;
    let per_wan = mans_per_wan.saturating_mul(lans_per_man).saturating_mul(lan_hosts).max(1);
    let shape = Tiers { wans: machines.div_ceil(per_wan), lan_hosts, ..campaign.tiers };
    let what = Machines { count: machines, power_mflops: campaign.power_mflops, load: campaign.load };
    let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(campaign.seeds[0], &format!("grid {key}")));
    generate::tiers(&shape, &campaign.bandwidths, &what, &mut rng).map_err(|error| failed(&key, error))
}

fn map_all(campaign: &MappingCampaign, cuts: &[Cut]) -> Result<Vec<Trial>, CampaignError> {
    let mut grids = Vec::with_capacity(campaign.grids());
    for machines in &campaign.machines {
        for lan_hosts in &campaign.lan_hosts {
            grids.push((*machines, *lan_hosts, draw_grid(campaign, *machines, *lan_hosts)?));
        }
    }
    let pairs: Vec<(&Cut, &(usize, usize, Grid))> =
        cuts.iter().flat_map(|cut| grids.iter().map(move |grid| (cut, grid))).collect();
    let trials = pairs.into_par_iter().flat_map_iter(|(cut, (machines, lan_hosts, grid))| {
        campaign.policies.iter().enumerate().map(move |(policy, chosen)| {
            let clusters = cut.clusters(chosen.clustering);
            let begun = Instant::now();
            let mapping = chosen.map(&cut.graph, grid, clusters);
            let map_seconds = begun.elapsed().as_secs_f64();
            Trial {
                tasks: cut.wanted.tasks,
                seed: cut.wanted.seed,
                class: cut.wanted.class,
                mcr_mflops: cut.wanted.mcr_mflops,
                machines: *machines,
                lan_hosts: *lan_hosts,
                policy,
                metrics: mapping.ok().map(|mapping| Metrics::of(&cut.graph, grid, clusters, &mapping)),
                map_seconds,
                cut_seconds: if chosen.algorithm == Algorithm::Wase { cut.seconds } else { 0.0 },
            }
        })
    });
    Ok(trials.collect())
}
