//! What results cost: the summary, the six files and the page of a run of 200,000 jobs.
#![allow(missing_docs, clippy::unwrap_used, reason = "criterion's macros; a panic is how a bench fails")]

#[path = "../tests/support/mod.rs"]
mod support;

use criterion::{Criterion, criterion_group, criterion_main};
use pliant_report::html::{NamedRun, render_runs};
use pliant_report::{read_folder, summarize, write_folder};

fn results(criterion: &mut Criterion) {
    let run = support::drawn_run(support::grid5000(), 200_000, 1, 2);
    let summary = summarize(&run);
    let folder = tempfile::tempdir().unwrap();
    let mut group = criterion.benchmark_group("200,000 jobs");
    group.sample_size(10);
    group.bench_function("summarize", |bencher| bencher.iter(|| summarize(&run)));
    group.bench_function("write_folder", |bencher| {
        bencher.iter(|| write_folder(folder.path(), &run, &summary).unwrap());
    });
    group.bench_function("read_folder", |bencher| bencher.iter(|| read_folder(folder.path()).unwrap()));
    let named = [NamedRun { name: "run", run: &run, summary: &summary }];
    group.bench_function("render_runs", |bencher| bencher.iter(|| render_runs("title", "", &named).unwrap()));
    group.finish();
}

criterion_group!(benches, results);
criterion_main!(benches);
