//! What it costs to cluster and to map an application as it grows: `cargo bench -p pliant-tig --bench mapping`. Each iteration is
//! over [`GRAPHS`] applications of a size, since one may be much harder than the next; criterion's throughput is
//! applications per second. docs/research/performance.md says what was measured.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]
#![allow(clippy::unwrap_used, reason = "what the tests share is used")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{
    BatchSize, BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group,
    criterion_main,
};
use pliant_tig::clustering::{Clustering, Weights, cluster, relax, round, threshold};
use pliant_tig::wase::{self, Options};
use pliant_tig::{Availability, Mapping, MappingError, TaskGraph, best_fit};
use support::{random_graph, random_grid};

/// Tasks per application, as in paper 003.
const SIZES: [usize; 5] = [8, 16, 32, 64, 128];
/// Applications of each size.
const GRAPHS: u64 = 8;
/// The threshold of eq. 5 itself.
const DELTA: f64 = 0.5;
/// The class of clusters whose threshold is searched for.
const TASKS_PER_CLUSTER: [f64; 2] = [4.0, 6.0];
/// What a task of RCR 1 needs.
const MCR_MFLOPS: f64 = 25.0;

fn graphs(tasks: usize) -> Vec<TaskGraph> {
    (0..GRAPHS).map(|seed| random_graph(tasks, MCR_MFLOPS, seed)).collect()
}

fn group<'a>(criterion: &'a mut Criterion, name: &str) -> BenchmarkGroup<'a, WallTime> {
    let mut group = criterion.benchmark_group(name);
    // The linear program takes up to seconds for an iteration.
    group.sample_size(10).sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(GRAPHS));
    group
}

fn clustering(criterion: &mut Criterion) {
    let mut group = group(criterion, "clustering");
    for tasks in SIZES {
        let graphs = graphs(tasks);
        let weights: Vec<Weights> = graphs.iter().map(|graph| Weights::of(graph, DELTA)).collect();
        group.bench_with_input(BenchmarkId::new("contraction", tasks), &weights, |bencher, weights| {
            bencher.iter(|| {
                weights.iter().for_each(|weights| drop(black_box(cluster(black_box(weights), usize::MAX))));
            });
        });
        group.bench_with_input(BenchmarkId::new("threshold", tasks), &graphs, |bencher, graphs| {
            let search = |graph| threshold::of_mean_size(black_box(graph), TASKS_PER_CLUSTER, usize::MAX);
            bencher.iter(|| graphs.iter().for_each(|graph| drop(black_box(search(graph)))));
        });
        group.bench_with_input(BenchmarkId::new("linear_program", tasks), &weights, |bencher, weights| {
            let solve = |weights| round(weights, &relax(black_box(weights)).expect("it has an optimum"));
            bencher.iter(|| weights.iter().for_each(|weights| drop(black_box(solve(weights)))));
        });
    }
    group.finish();
}

fn mapping(criterion: &mut Criterion) {
    let mut group = group(criterion, "mapping");
    let grid = random_grid(512, 8, 7);
    let wase = |(graph, clusters): &Clustered, free: &mut Availability| {
        wase::map(graph, &grid, clusters, &Options::default(), free)
    };
    let best_fit = |(graph, _): &Clustered, free: &mut Availability| best_fit::map(graph, &grid, free);
    for tasks in SIZES {
        // A search that fails is over sooner.
        let are_mapped = |one: &Clustered| {
            let free = || Availability::of(&grid);
            wase(one, &mut free()).is_ok() && best_fit(one, &mut free()).is_ok()
        };
        let clustered = |seed| {
            let graph = random_graph(tasks, MCR_MFLOPS, seed);
            let clusters = cluster(&Weights::of(&graph, DELTA), usize::MAX);
            (graph, clusters)
        };
        let applications: Vec<Clustered> =
            (0..).map(clustered).filter(are_mapped).take(GRAPHS as usize).collect();
        let mut bench =
            |name, map: &dyn Fn(&Clustered, &mut Availability) -> Result<Mapping, MappingError>| {
                group.bench_function(BenchmarkId::new(name, tasks), |bencher| {
                    let free = || vec![Availability::of(&grid); applications.len()];
                    let map_all = |mut free: Vec<Availability>| {
                        for (application, free) in applications.iter().zip(&mut free) {
                            drop(black_box(map(application, free)));
                        }
                        free
                    };
                    bencher.iter_batched(free, map_all, BatchSize::LargeInput);
                });
            };
        bench("wase", &wase);
        bench("best_fit", &best_fit);
    }
    group.finish();
}

/// An application and its clusters.
type Clustered = (TaskGraph, Clustering);

criterion_group!(benches, clustering, mapping);
criterion_main!(benches);
