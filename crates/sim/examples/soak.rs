//! Runs many fault schedules ([`pliant_sim::faults`]): `cargo xtask soak [--seeds N] [--from S]`, or
//! `cargo run --profile test -p pliant-sim --example soak -- SEEDS FROM`.
//!
//! Each seed is run four times: with Pliant's own batch systems everywhere, with external ones among them, with launches, and
//! as a schedule of explorations ([`pliant_sim::optional::Schedule`]).
//!
//! Prints the failing seeds with their violations and the end of the first failing schedule to standard output. The exit code
//! is 1 if a seed fails.
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

use pliant_report::summarize_exploration;
use pliant_sim::faults::{FederationKind, Summary, run, trace};
use pliant_sim::optional::{Schedule, ScheduleCounts};

/// How many lines of a failing schedule are printed.
const LINES_MAX: usize = 300;
/// How many failing seeds are printed.
const FAILURES_MAX: usize = 20;

/// The counts of all schedules, and the failing seeds with their kind and violation.
#[derive(Default)]
struct Results {
    federations: Summary,
    explorations: ScheduleCounts,
    failed: Vec<(u64, Kind, String)>,
}

/// The kind of a schedule.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Federation(FederationKind),
    Explorations,
}

fn main() -> ExitCode {
    let numbers: Option<Vec<u64>> = std::env::args().skip(1).map(|text| text.parse().ok()).collect();
    let Some([seeds, from]) = numbers.as_deref() else {
        eprintln!("usage: soak SEEDS FROM");
        return ExitCode::from(2);
    };
    let (begun, next) = (Instant::now(), AtomicU64::new(*from));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut results = Results::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(&next, from + seeds))).collect();
        for worker in workers {
            let part = worker.join().expect("a schedule that panics is caught");
            results.federations = results.federations + part.federations;
            results.explorations = results.explorations + part.explorations;
            results.failed.extend(part.failed);
        }
    });
    let Results { federations, explorations, mut failed } = results;
    failed.sort_by_key(|(seed, ..)| *seed);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{} schedules from seed {from} in {seconds:.0} s: {federations}", 3 * seeds);
    println!("{} schedules of explorations: {explorations}", explorations.schedules);
    for (seed, kind, why) in failed.iter().take(FAILURES_MAX) {
        println!("seed {seed}, {kind:?}, fails: {why}");
    }
    let Some((seed, kind, _)) = failed.first() else { return ExitCode::SUCCESS };
    match kind {
        Kind::Explorations => println!("{} fail; seed {seed} is {:?}", failed.len(), Schedule::draw(*seed)),
        Kind::Federation(kind) => {
            println!("{} fail; the end of seed {seed}, {kind:?}:", failed.len());
            let lines = catch_unwind(|| trace(*seed, *kind, None)).unwrap_or_default();
            lines.iter().skip(lines.len().saturating_sub(LINES_MAX)).for_each(|line| println!("{line}"));
        }
    }
    ExitCode::FAILURE
}

/// Runs schedules until there are no more.
fn work(next: &AtomicU64, end: u64) -> Results {
    let mut results = Results::default();
    let panicked = || "[panic] see the message above".to_owned();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return results;
        }
        for federation in [FederationKind::Embedded, FederationKind::Mixed, FederationKind::Launching] {
            let kind = Kind::Federation(federation);
            match catch_unwind(AssertUnwindSafe(|| run(seed, federation, None))) {
                Ok(Ok(summary)) => results.federations = results.federations + summary,
                Ok(Err(violation)) => results.failed.push((seed, kind, violation.to_string())),
                Err(_) => results.failed.push((seed, kind, panicked())),
            }
        }
        let unfairness = |run: &_| summarize_exploration(run).unfairness;
        match catch_unwind(|| Schedule::draw(seed).run(None, unfairness)) {
            Ok((tried, violations)) => {
                results.explorations = results.explorations + tried;
                results.failed.extend(violations.into_iter().map(|why| (seed, Kind::Explorations, why)));
            }
            Err(_) => results.failed.push((seed, Kind::Explorations, panicked())),
        }
    }
}
