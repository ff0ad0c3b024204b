//! tmp
#![allow(clippy::unwrap_used, missing_docs, clippy::disallowed_methods, clippy::disallowed_types)]
use pliant_model::{Cluster, Platform, Procs, Speed};
use pliant_policy::reallocation::Algorithm;
use pliant_policy::tuning::Tuner;
use pliant_sim::campaign::Moldable;
use pliant_sim::{NoObserver, RunOptions, simulate};
use std::path::Path;
use std::time::Instant;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let n: u32 = words[2].parse().unwrap();
    let hetero = words.iter().any(|w| w == "hetero");
    let cluster = |i: u32| Cluster {
        name: format!("c{}", i + 1),
        procs: Procs(if hetero { 100 + i * 37 % 300 } else { 240 }),
        speed: if hetero {
            Speed::new(0.8 + f64::from(i * 13 % 10) / 10.0).unwrap()
        } else {
            Speed::REFERENCE
        },
        batch: "cbf".to_owned(),
        nodes: None,
    };
    let platform = Platform::new((0..n).map(cluster).collect()).unwrap();
    let has = |w: &str| words.iter().any(|x| x == w);
    let options = RunOptions {
        moldable: if has("rigid") { Moldable::None } else { Moldable::Paper },
        tuner: if has("rigid") || has("slack") { None } else { Some(Tuner::Exact) },
        realloc: if has("regular") {
            Some(Algorithm::Regular)
        } else if has("all") {
            Some(Algorithm::AllCancellation)
        } else {
            None
        },
        keep_moves: false,
        ..RunOptions::default()
    };
    let policies = options.policies(false).unwrap();
    let mut drawn = options.jobs();
    let stream = pliant_trace::stream(Path::new(&words[1]), Default::default(), &platform).unwrap().unwrap();
    let begun = Instant::now();
    let run =
        simulate(&platform, stream.map(|job| drawn.take(job.unwrap())), &policies, &mut NoObserver).unwrap();
    let s = begun.elapsed().as_secs_f64();
    let mut h = 0xcbf29ce484222325_u64;
    for j in &run.jobs {
        for v in [j.log_id, j.cluster.0 as u64, j.start.0 as u64, j.end.0 as u64, j.procs.0 as u64] {
            h = (h ^ v).wrapping_mul(0x100000001b3);
        }
    }
    let wait: i64 = run.jobs.iter().map(|j| (j.start - j.submit).0).sum();
    println!(
        "{} jobs {} moves {:.1} s {:.2} us/job hash {h:x} wait {}",
        run.jobs.len(),
        run.reallocations,
        s,
        s * 1e6 / run.jobs.len() as f64,
        wait / run.jobs.len() as i64
    );
}
