//! How long reading a log takes, from the compressed file to repaired jobs in order of submission.
//!
//! The logs are looked for in `PLIANT_TRACES`, else beside the workspace; without them nothing is measured.
#![allow(missing_docs, reason = "the macro makes a public function")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use pliant_testing::log;
use pliant_trace::{LoadOptions, load};

const LOGS: [&str; 3] = ["KTH-SP2-1996-2.1-cln", "HPC2N-2002-2.2-cln", "CEA-Curie-2011-2.1-cln"];

fn read(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("load");
    group.sample_size(10);
    for name in LOGS {
        let Some(path) = log(&format!("{name}.swf.gz")) else { continue };
        let options = LoadOptions::default();
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(load(&path, &options).expect("a readable log")));
        });
    }
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);
