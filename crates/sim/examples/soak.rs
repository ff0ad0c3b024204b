//! Runs fault schedules ([`pliant_sim::faults`]) by the thousand: `cargo xtask soak [--seeds N] [--from S]`, or
//! `cargo run --profile test -p pliant-sim --example soak -- SEEDS FROM`.
//!
//! Each seed is run three times: with Pliant's own batch systems everywhere, with foreign ones among them, and with launches
//! beside the jobs.
//!
//! Says which seeds fail, by which checker, and shows the end of the first such schedule; all of it goes to standard
//! output. The exit code is 1 if one fails.
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program of its own, that uses every core and prints"
)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pliant_sim::faults::{Batch, Summary, run, trace};

/// How much of a failing schedule is shown.
const LINES: usize = 300;
/// How many failing seeds are named.
const NAMED: usize = 20;

fn main() -> ExitCode {
    let numbers: Option<Vec<u64>> = std::env::args().skip(1).map(|text| text.parse().ok()).collect();
    let Some([seeds, from]) = numbers.as_deref() else {
        eprintln!("usage: soak SEEDS FROM");
        return ExitCode::from(2);
    };
    let (begun, next) = (Instant::now(), AtomicU64::new(*from));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut total, mut failed) = (Summary::default(), Vec::new());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(&next, from + seeds))).collect();
        for worker in workers {
            let (part, seeds) = worker.join().expect("a schedule that panics is caught");
            total = total + part;
            failed.extend(seeds);
        }
    });
    failed.sort_by_key(|(seed, ..)| *seed);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{} schedules from seed {from} in {seconds:.0} s: {total}", 3 * seeds);
    for (seed, batch, why) in failed.iter().take(NAMED) {
        println!("seed {seed}, {batch:?}, fails: {why}");
    }
    let Some((seed, batch, _)) = failed.first() else { return ExitCode::SUCCESS };
    println!("{} fail; the end of seed {seed}, {batch:?}:", failed.len());
    let lines = catch_unwind(|| trace(*seed, *batch, None)).unwrap_or_default();
    lines.iter().skip(lines.len().saturating_sub(LINES)).for_each(|line| println!("{line}"));
    ExitCode::FAILURE
}

/// Runs schedules until there are no more; returns what they were like, and which failed and why.
fn work(next: &AtomicU64, end: u64) -> (Summary, Vec<(u64, Batch, String)>) {
    let (mut total, mut failed) = (Summary::default(), Vec::new());
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return (total, failed);
        }
        for batch in [Batch::Embedded, Batch::Mixed, Batch::Launching] {
            match catch_unwind(AssertUnwindSafe(|| run(seed, batch, None))) {
                Ok(Ok(summary)) => total = total + summary,
                Ok(Err(violation)) => failed.push((seed, batch, violation.to_string())),
                Err(_) => failed.push((seed, batch, "[panic] as said above".to_owned())),
            }
        }
    }
}
