//! Runs fault schedules ([`pliant_sim::faults`]) by the thousand: `cargo xtask soak [--seeds N] [--from S]`, or
//! `cargo run --profile test -p pliant-sim --example soak -- SEEDS FROM`.
//!
//! Each seed is run four times: with Pliant's own batch systems everywhere, with external ones among them, with launches
//! beside the jobs, and as a schedule of explorations ([`pliant_sim::optional::Schedule`]).
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

use pliant_report::summarize_exploration;
use pliant_sim::faults::{FederationKind, Summary, run, trace};
use pliant_sim::optional::{Schedule, Tried};

/// How much of a failing schedule is shown.
const LINES: usize = 300;
/// How many failing seeds are named.
const NAMED: usize = 20;

/// What was run, and which seeds failed, as what and why.
#[derive(Default)]
struct Found {
    federations: Summary,
    explorations: Tried,
    failed: Vec<(u64, Kind, String)>,
}

/// What a schedule is of.
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
    let mut found = Found::default();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| work(&next, from + seeds))).collect();
        for worker in workers {
            let part = worker.join().expect("a schedule that panics is caught");
            found.federations = found.federations + part.federations;
            found.explorations = found.explorations + part.explorations;
            found.failed.extend(part.failed);
        }
    });
    let Found { federations, explorations, mut failed } = found;
    failed.sort_by_key(|(seed, ..)| *seed);
    let seconds = begun.elapsed().as_secs_f64();
    println!("{} schedules from seed {from} in {seconds:.0} s: {federations}", 3 * seeds);
    println!("{} schedules of explorations: {explorations}", explorations.schedules);
    for (seed, kind, why) in failed.iter().take(NAMED) {
        println!("seed {seed}, {kind:?}, fails: {why}");
    }
    let Some((seed, kind, _)) = failed.first() else { return ExitCode::SUCCESS };
    match kind {
        Kind::Explorations => println!("{} fail; seed {seed} is {:?}", failed.len(), Schedule::draw(*seed)),
        Kind::Federation(batch) => {
            println!("{} fail; the end of seed {seed}, {batch:?}:", failed.len());
            let lines = catch_unwind(|| trace(*seed, *batch, None)).unwrap_or_default();
            lines.iter().skip(lines.len().saturating_sub(LINES)).for_each(|line| println!("{line}"));
        }
    }
    ExitCode::FAILURE
}

/// Runs schedules until there are no more.
fn work(next: &AtomicU64, end: u64) -> Found {
    let mut found = Found::default();
    let panicked = || "[panic] as said above".to_owned();
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return found;
        }
        for batch in [FederationKind::Embedded, FederationKind::Mixed, FederationKind::Launching] {
            let kind = Kind::Federation(batch);
            match catch_unwind(AssertUnwindSafe(|| run(seed, batch, None))) {
                Ok(Ok(summary)) => found.federations = found.federations + summary,
                Ok(Err(violation)) => found.failed.push((seed, kind, violation.to_string())),
                Err(_) => found.failed.push((seed, kind, panicked())),
            }
        }
        let unfairness = |run: &_| summarize_exploration(run).unfairness;
        match catch_unwind(|| Schedule::draw(seed).run(None, unfairness)) {
            Ok((tried, violations)) => {
                found.explorations = found.explorations + tried;
                found.failed.extend(violations.into_iter().map(|why| (seed, Kind::Explorations, why)));
            }
            Err(_) => found.failed.push((seed, Kind::Explorations, panicked())),
        }
    }
}
