//! Runs to test with: small ones made by hand, large ones drawn from a seed.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of this module")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pliant_model::{
    Cluster, ClusterId, JobOutcome, MapReason, MoveReason, MoveRecord, Platform, Procs, Reason, Run, Span,
    Speed, Time,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A platform of clusters by (name, processors, speed).
pub fn platform(clusters: &[(&str, u32, f64)]) -> Platform {
    let cluster = |(name, procs, speed): &(&str, u32, f64)| Cluster {
        name: (*name).to_owned(),
        procs: Procs(*procs),
        speed: Speed::new(*speed).unwrap(),
        batch: "cbf".to_owned(),
        nodes: None,
    };
    Platform::new(clusters.iter().map(cluster).collect()).unwrap()
}

/// The three clusters of paper 000.
pub fn grid5000() -> Platform {
    platform(&[("bordeaux", 640, 1.0), ("lyon", 270, 1.2), ("toulouse", 434, 1.4)])
}

/// A job on cluster 0 that came through the federation, by (number, submit, start, end, processors).
pub fn job(log_id: u64, submit: i64, start: i64, end: i64, procs: u32) -> JobOutcome {
    JobOutcome {
        log_id,
        cluster: ClusterId(0),
        submit: Time(submit),
        start: Time(start),
        end: Time(end),
        procs: Procs(procs),
        walltime: Span(end - start),
        moves: 0,
        managed: true,
        reason: Reason::Mapped(MapReason::EarliestCompletion),
    }
}

/// A run of some jobs without moves or refusals.
pub fn run_of(platform: Platform, jobs: Vec<JobOutcome>) -> Run {
    Run { platform, jobs, refused: Vec::new(), moves: Vec::new(), reallocations: 0 }
}

/// A valid first-come-first-served schedule of `count` drawn jobs at a load near 0.8: no cluster ever
/// runs more processors than it has, and every moved job has its moves recorded. Runs of the same
/// `workload` seed have the same jobs; `policy` changes where they go.
pub fn drawn_run(platform: Platform, count: usize, workload: u64, policy: u64) -> Run {
    let mut drawn = ChaCha8Rng::seed_from_u64(workload);
    let mut choice = ChaCha8Rng::seed_from_u64(policy);
    let mut clusters: Vec<Machine> =
        platform.clusters().iter().map(|cluster| Machine::new(cluster.procs.0)).collect();
    let mut run = run_of(platform, Vec::with_capacity(count));
    // Mean runtime times mean processors over what the federation does in a second, at a load of 0.7.
    let gap = 2.0 * 2830.0 * 10.5 / (1.15 * 0.7 * run.platform.total_procs() as f64);
    let mut now = 0.0;
    for number in 0..count {
        // Days are busier than nights.
        let hour = (now / 3600.0) % 24.0;
        now += drawn.random::<f64>() * gap * if (8.0..20.0).contains(&hour) { 0.6 } else { 1.7 };
        let procs = 1_u32 << drawn.random_range(0..6);
        let runtime = (drawn.random::<f64>().powi(4) * 14_000.0) as i64 + 30;
        let walltime = runtime + drawn.random_range(0..3 * 3600);
        let local = drawn.random_bool(0.2);
        let submit = Time(now as i64);
        let first = weighted(&run.platform, &mut choice);
        let target =
            if !local && choice.random_bool(0.4) { weighted(&run.platform, &mut choice) } else { first };
        let start = clusters[target].start(submit.0, procs, runtime);
        let moved = target != first && start > submit.0;
        let reason = match (local, moved) {
            (true, _) => Reason::Mapped(MapReason::Local),
            (false, true) => Reason::Moved(MoveReason::EarlierCompletion),
            (false, false) => Reason::Mapped(MapReason::EarliestCompletion),
        };
        let id = number as u64 + 1;
        run.jobs.push(JobOutcome {
            log_id: id,
            cluster: ClusterId(target as u32),
            submit,
            start: Time(start),
            end: Time(start + runtime),
            procs: Procs(procs),
            walltime: Span(walltime),
            moves: u32::from(moved),
            managed: !local,
            reason,
        });
        if moved {
            let (from, to) = (ClusterId(first as u32), ClusterId(target as u32));
            let (at, after) = (Time((submit.0 + start) / 2), Time(start + walltime));
            let before = Time(after.0 + choice.random_range(60..9000));
            run.moves.push(MoveRecord { at, log_id: id, from, to, before, after, procs: Procs(procs) });
        }
    }
    run.moves.sort_by_key(|record| record.at);
    run.reallocations = run.moves.len() as u64;
    run
}

/// A cluster drawn by its processors.
fn weighted(platform: &Platform, choice: &mut ChaCha8Rng) -> usize {
    let mut drawn = choice.random_range(0..platform.total_procs());
    for (index, cluster) in platform.clusters().iter().enumerate() {
        let procs = u64::from(cluster.procs.0);
        if drawn < procs {
            return index;
        }
        drawn -= procs;
    }
    unreachable!("the draw is below the sum")
}

/// First-come first-served on one cluster.
struct Machine {
    free: u32,
    last_start: i64,
    running: BinaryHeap<Reverse<(i64, u32)>>,
}

impl Machine {
    fn new(procs: u32) -> Machine {
        Machine { free: procs, last_start: 0, running: BinaryHeap::new() }
    }

    fn start(&mut self, submit: i64, procs: u32, runtime: i64) -> i64 {
        let mut now = submit.max(self.last_start);
        while let Some(Reverse((end, size))) = self.running.peek().copied() {
            if end > now && self.free >= procs {
                break;
            }
            now = now.max(end);
            self.free += size;
            self.running.pop();
        }
        self.free -= procs;
        self.last_start = now;
        self.running.push(Reverse((now + runtime, procs)));
        now
    }
}
