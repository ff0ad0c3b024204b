//! What it costs to cluster and to map an application as it grows: `cargo bench -p pliant-tig`. docs/performance.md quotes
//! these figures.

#![allow(missing_docs, reason = "criterion's macros make undocumented functions")]
#![allow(clippy::unwrap_used, reason = "what the tests share is used")]

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use pliant_tig::clustering::{Weights, cluster, relax, round};
use pliant_tig::wase::{self, Options};
use pliant_tig::{Availability, best_fit};
use support::{random_graph, random_grid};

const SIZES: [usize; 3] = [32, 64, 128];
/// The threshold that gives clusters of four to six tasks.
const DELTA: f64 = 0.5;
const MCR_MFLOPS: f64 = 60.0;

fn clustering(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("clustering");
    for tasks in SIZES {
        let weights = Weights::of(&random_graph(tasks, MCR_MFLOPS, 7), DELTA);
        group.bench_with_input(BenchmarkId::new("contraction", tasks), &weights, |bencher, weights| {
            bencher.iter(|| cluster(black_box(weights), usize::MAX));
        });
        group.bench_with_input(BenchmarkId::new("linear_program", tasks), &weights, |bencher, weights| {
            bencher.iter(|| round(weights, &relax(black_box(weights)).expect("it has an optimum")));
        });
    }
    group.finish();
}

fn mapping(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mapping");
    let grid = random_grid(512, 8, 7);
    for tasks in SIZES {
        let graph = random_graph(tasks, MCR_MFLOPS, 7);
        let clusters = cluster(&Weights::of(&graph, DELTA), usize::MAX);
        let free = || Availability::of(&grid);
        group.bench_with_input(BenchmarkId::new("wase", tasks), &graph, |bencher, graph| {
            let map = |mut free| wase::map(graph, &grid, &clusters, &Options::default(), &mut free);
            bencher.iter_batched(free, map, BatchSize::LargeInput);
        });
        group.bench_with_input(BenchmarkId::new("best_fit", tasks), &graph, |bencher, graph| {
            bencher.iter_batched(
                free,
                |mut free| best_fit::map(graph, &grid, &mut free),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, clustering, mapping);
criterion_main!(benches);
