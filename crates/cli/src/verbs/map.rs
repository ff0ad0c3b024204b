//! `pliant map`: a task interaction graph onto a grid (paper 003): where every task goes and what that is worth.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use pliant_report::html::{MappedApplication, render_mapping};
use pliant_tig::clustering::{self, Clustering, Relaxation, Weights, threshold};
use pliant_tig::refine::refine;
use pliant_tig::wase::{self, Fit, Options, Search, Suitability};
use pliant_tig::{Availability, Grid, Mapping, Metrics, TaskGraph, best_fit};
use pliant_trace::tig::{read_graph, read_grid};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::numbers::{similarity_threshold, whole};
use crate::output::Output;
use crate::table::{Table, counted};
use crate::verbs::report::write_page;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The application: a task interaction graph as TOML or DOT (docs/reference/files/mapping.md).
    #[arg(value_name = "APP")]
    application: PathBuf,
    /// The grid as TOML or DOT.
    #[arg(long, value_name = "GRID")]
    platform: PathBuf,
    /// The LAN where the search begins [default: the grid's].
    #[arg(long, value_name = "LAN")]
    user_lan: Option<String>,
    /// The power that a task of RCR 1 needs, in MFlop/s [default: the application's].
    #[arg(long, value_name = "MFLOPS", allow_negative_numbers = true)]
    mcr: Option<f64>,
    /// The mapping algorithm.
    #[arg(long, value_enum, default_value_t = Algorithm::Wase)]
    algorithm: Algorithm,
    /// The clustering algorithm.
    #[arg(long, value_enum, default_value_t = Method::Contraction)]
    clustering: Method,
    /// The similarity threshold, above 0 and below 1: a higher value makes larger clusters; 0.5 is eq. 5 of the paper.
    #[arg(long, value_name = "DELTA", default_value_t = 0.5, value_parser = similarity_threshold, allow_negative_numbers = true)]
    similarity: f64,
    /// Searches for the threshold that gives about N clusters.
    #[arg(long, value_name = "N", value_parser = whole(1..=1_000_000_usize), conflicts_with = "similarity")]
    clusters: Option<usize>,
    /// The largest number of tasks in a cluster.
    #[arg(long, value_name = "N", value_parser = whole(1..=1_000_000_usize))]
    cluster_max: Option<usize>,
    /// The test of a LAN that is to take a cluster.
    #[arg(long, value_enum, default_value_t = SuitabilityTest::Mean)]
    suitability: SuitabilityTest,
    /// The rule that chooses the machine of a LAN for a task.
    #[arg(long, value_enum, default_value_t = FitRule::Worst)]
    fit: FitRule,
    /// Weighs power against distance: by how much a LAN must be more suitable for each hop that it is further away.
    #[arg(long, value_name = "SHARE", value_parser = share, allow_negative_numbers = true)]
    per_hop: Option<f64>,
    /// Takes only links with enough free bandwidth; the application needs bandwidth_mbps.
    #[arg(long)]
    bandwidth: bool,
    /// Improves the mapping by a local search.
    #[arg(long)]
    refine: bool,
    /// Shows the lower bound of the cost of any clustering, and the gap to it.
    #[arg(long)]
    bound: bool,
    /// Writes an HTML page with a drawing of the mapping.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// `--algorithm`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Algorithm {
    /// WASE.
    Wase,
    /// The greedy baseline: best fit over the whole grid.
    BestFit,
}

/// `--clustering`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    /// Greedy contraction with local search; the best of all for up to 8 tasks.
    Contraction,
    /// Linear program and region growing, as in the paper.
    Relaxation,
}

/// `--suitability`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SuitabilityTest {
    /// By mean and deviation, as in the paper.
    Mean,
    /// Those that hold all tasks of the cluster.
    Packing,
}

/// `--fit`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FitRule {
    /// The one with most power left, as in the paper.
    Worst,
    /// The one with least power left.
    Best,
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1000.0).contains(number));
    number.ok_or_else(|| "expected a number of 0 to 1000".to_owned())
}

/// A mapping with its evaluation.
struct MappingResult {
    graph: TaskGraph,
    grid: Grid,
    clusters: Clustering,
    delta: f64,
    cost: f64,
    relaxation: Option<Relaxation>,
    mapping: Mapping,
    metrics: Metrics,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let mapped = map(arguments)?;
    if let Some(path) = &arguments.report {
        let MappingResult { graph, grid, clusters: clustering, mapping, metrics, .. } = &mapped;
        let title = arguments.application.display().to_string();
        let note = format!(
            "{} in {}, on {}, MCR {} MFlop/s",
            counted(graph.tasks().len() as u64, "task"),
            counted(clustering.count() as u64, "cluster"),
            arguments.platform.display(),
            graph.mcr_mflops()
        );
        let application = MappedApplication { graph, grid, clustering, mapping, metrics };
        write_page(path, &render_mapping(&title, &note, &application))?;
    }
    output.print("map", || text(&mapped, arguments), value(&mapped, arguments))
}

fn map(arguments: &Arguments) -> Result<MappingResult, Failure> {
    let mut graph = read_graph(&arguments.application)?;
    if let Some(mcr) = arguments.mcr {
        graph = graph
            .with_mcr(mcr)
            .map_err(|error| Failure::input(format!("--mcr: {error}")).hint(error.hint()))?;
    }
    let mut grid = read_grid(&arguments.platform)?;
    if let Some(lan) = &arguments.user_lan {
        grid = grid
            .with_user_lan(lan)
            .map_err(|error| Failure::input(format!("--user-lan: {error}")).hint(error.hint()))?;
    }
    if arguments.bandwidth && graph.bandwidth_mbps().is_none() {
        let problem = format!(
            "{}: expected `bandwidth_mbps` with --bandwidth, found none",
            arguments.application.display()
        );
        return Err(Failure::input(problem).hint("it is what an edge of RQoC 1 needs of a link, in Mb/s"));
    }
    let size_max = arguments.cluster_max.unwrap_or(usize::MAX);
    let delta = match arguments.clusters {
        Some(count) => threshold::of_count(&graph, count, size_max).0,
        None => arguments.similarity,
    };
    let weights = Weights::of(&graph, delta);
    let relaxation = (arguments.bound || arguments.clustering == Method::Relaxation)
        .then(|| clustering::relax(&weights))
        .transpose()
        .map_err(Failure::system)?;
    let clusters = match (&relaxation, arguments.clustering) {
        (Some(relaxation), Method::Relaxation) => clustering::round(&weights, relaxation),
        _ => clustering::cluster(&weights, size_max),
    };
    let mapping = map_graph(&graph, &grid, &clusters, arguments)?;
    let metrics = Metrics::of(&graph, &grid, &clusters, &mapping);
    let cost = clusters.cost(&weights);
    Ok(MappingResult { graph, grid, clusters, delta, cost, relaxation, mapping, metrics })
}

fn map_graph(
    graph: &TaskGraph,
    grid: &Grid,
    clusters: &Clustering,
    arguments: &Arguments,
) -> Result<Mapping, Failure> {
    let options = Options {
        suitability: match arguments.suitability {
            SuitabilityTest::Mean => Suitability::Mean,
            SuitabilityTest::Packing => Suitability::Packing,
        },
        search: arguments.per_hop.map_or(Search::Closest, |per_hop| Search::Weighed { per_hop }),
        fit: match arguments.fit {
            FitRule::Worst => Fit::Worst,
            FitRule::Best => Fit::Best,
        },
        bandwidth: arguments.bandwidth,
    };
    let mut free = Availability::of(grid);
    let mapping = match arguments.algorithm {
        Algorithm::Wase => wase::map(graph, grid, clusters, &options, &mut free),
        Algorithm::BestFit => best_fit::map(graph, grid, &mut free),
    };
    let mut mapping = mapping.map_err(|unplaceable| {
        Failure::input(format!("{}: {}", arguments.application.display(), unplaceable.describe(graph)))
            .hint("lower --mcr, try --suitability packing or smaller clusters (--cluster-max), or give a larger grid")
    })?;
    if arguments.refine {
        refine(graph, grid, &mut mapping, &mut free, arguments.bandwidth);
    }
    Ok(mapping)
}

/// How far a clustering is above the bound, in %, if there is anything to miss.
fn gap_percent(mapped: &MappingResult) -> Option<f64> {
    let bound = mapped.relaxation.as_ref()?.bound;
    (bound > 1e-9).then(|| 100.0 * (mapped.cost / bound - 1.0).max(0.0))
}

fn text(mapped: &MappingResult, arguments: &Arguments) -> String {
    let MappingResult { graph, grid, clusters, mapping, metrics, .. } = mapped;
    let mut table = Table::new(1, &["task", "cluster", "MFlop/s", "lan", "machine", "affinity", "placed"]);
    for (task, placed) in graph.task_ids().zip(&mapping.placements) {
        table.row(vec![
            graph.task(task).name.clone(),
            clusters.of(task).0.to_string(),
            format!("{:.1}", graph.mcr(task)),
            grid.node(grid.lan_of(placed.machine)).name.clone(),
            grid.machine(placed.machine).name.clone(),
            format!("{:.2}", placed.affinity),
            placed.stage.word().to_owned(),
        ]);
    }
    let mut text = table.render();
    text.push_str(&format!(
        "\nclusters            {} (threshold {:.4}, cost {:.3})\n",
        clusters.count(),
        mapped.delta,
        mapped.cost
    ));
    if let Some(relaxation) = &mapped.relaxation {
        let gap = gap_percent(mapped).map_or("the best".to_owned(), |gap| format!("{gap:.2} % above it"));
        text.push_str(&format!("lower bound         {:.3}: {gap}\n", relaxation.bound));
    }
    text.push_str(&format!(
        "affinity            {:.2} on average, {:.2} at least\n\
         LAN hit ratio       {:.1} %, intra-cluster distance {:.3}\n\
         inter-LAN traffic   {:.2} %, between clusters {:.2} %, on {} LANs\n",
        metrics.affinity_mean,
        metrics.affinity_min,
        100.0 * metrics.lan_hit_ratio,
        metrics.distance_mean,
        metrics.inter_lan_percent,
        metrics.cut_percent,
        metrics.lans_used
    ));
    if let Some(overload) = metrics.overload_percent {
        text.push_str(&format!("beyond the links    {overload:.2} % of the traffic\n"));
    }
    if let Some(path) = &arguments.report {
        text.push_str(&format!("wrote {}\n", path.display()));
    }
    text
}

fn value(mapped: &MappingResult, arguments: &Arguments) -> Value {
    let MappingResult { graph, grid, clusters, mapping, metrics, .. } = mapped;
    let tasks: Vec<Value> = graph
        .task_ids()
        .zip(&mapping.placements)
        .map(|(task, placed)| {
            json!({
                "task": graph.task(task).name,
                "cluster": clusters.of(task).0,
                "mcr_mflops": graph.mcr(task),
                "lan": grid.node(grid.lan_of(placed.machine)).name,
                "machine": grid.machine(placed.machine).name,
                "affinity": placed.affinity,
                "placed": placed.stage.word(),
            })
        })
        .collect();
    let clusters_value: Vec<Value> = clusters
        .ids()
        .map(|cluster| {
            let placed = mapping.clusters.get(cluster.index());
            json!({
                "cluster": cluster.0,
                "tasks": clusters.tasks(cluster).iter().map(|task| &graph.task(*task).name).collect::<Vec<_>>(),
                "lan": placed.map(|placed| &grid.node(placed.lan).name),
                "suitability": placed.map(|placed| placed.suitability),
            })
        })
        .collect();
    json!({
        "tasks": tasks,
        "clusters": clusters_value,
        "similarity": mapped.delta,
        "clustering_cost": mapped.cost,
        "clustering_bound": mapped.relaxation.as_ref().map(|relaxation| relaxation.bound),
        "clustering_gap_percent": gap_percent(mapped),
        "affinity_mean": metrics.affinity_mean,
        "affinity_min": metrics.affinity_min,
        "lan_hit_ratio": metrics.lan_hit_ratio,
        "distances": metrics.distances,
        "distance_mean": metrics.distance_mean,
        "inter_lan_percent": metrics.inter_lan_percent,
        "cut_percent": metrics.cut_percent,
        "lans_used": metrics.lans_used,
        "overload_percent": metrics.overload_percent,
        "page": arguments.report,
    })
}
