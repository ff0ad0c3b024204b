//! Fault schedules: crashes, partitions, jumping clocks and a bad network over the machines of `pliant-control`, checked
//! after every event. `cargo xtask soak` runs as many more as one likes.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use pliant_sim::faults::{Bug, Summary, run, trace};

/// How much of a failing schedule is shown.
const LINES: usize = 200;

fn check(seed: u64) -> Summary {
    run(seed, None).unwrap_or_else(|violation| {
        let lines = trace(seed, None);
        let end = lines[lines.len().saturating_sub(LINES)..].join("\n");
        panic!("seed {seed} fails: {violation}\n{end}")
    })
}

#[test]
fn schedules_end_well() {
    let total = (0..400).map(check).fold(Summary::default(), |total, one| total + one);
    // Seeds that do nothing would prove nothing.
    let Summary { events, jobs, moves, copies, cancelled, crashes } = total;
    assert!(
        events > 1_000_000 && jobs > 8_000 && moves > 1_000 && cancelled > 1_000 && crashes > 2_000,
        "{total}"
    );
    assert!(copies > 200 && moves - copies > 1_000, "{total}");
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    for seed in 0..5 {
        assert_eq!(trace(seed, None), trace(seed, None), "seed {seed}");
        assert_eq!(run(seed, None), run(seed, None), "seed {seed}");
    }
}

/// Seeds that failed once, and what was wrong.
#[test]
fn what_failed_once_ends_well() {
    for (seed, _what) in [
        (0, "a restarted agent had forgotten since when jobs wait"),
        (3, "a local agent kept a job as waiting for ever that had gone to another agent's server"),
        (4, "whether a round was under way changed when the next one was due"),
        (10, "a restarted agent had forgotten that a cluster had become free early"),
        (365, "the departure of a job that had come back replaced its end in the archive"),
        (628, "a job that had come back left an entry that repeated its commit for ever"),
        (991, "a cancellation was promised on the way, and lost"),
        (1104, "what came late of a job that had gone on brought it back to a local agent"),
    ] {
        check(seed);
    }
}

/// Mistakes that are put in on purpose are found among those seeds, by one of these checkers.
#[test]
fn the_checkers_find_bugs() {
    for (bug, seeds, checkers) in [
        (Bug::ForgetsAnswers, 0..20, &["two servers", "once"][..]),
        (Bug::ActsEarly, 0..5, &["bound"]),
        (Bug::ForgetsHolds, 0..40, &["bound"]),
        (Bug::StartsHeld, 0..5, &["two servers"]),
        (Bug::CommitsEarly, 0..5, &["two servers"]),
        (Bug::SilenceIsYes, 0..20, &["bound"]),
        (Bug::RunsAgain, 0..10, &["once", "cores"]),
        // Rare: the target has to ask, and the source to crash, between its decision and a commit that takes long.
        (Bug::JudgesEarly, 1315..1325, &["two servers"]),
        (Bug::StartsUnasked, 0..10, &["two servers"]),
        (Bug::ConsentsUnlocked, 0..20, &["two servers"]),
        (Bug::ForgetsNews, 0..5, &["settled"]),
    ] {
        let found = seeds.filter_map(|seed| run(seed, Some(bug)).err());
        let found: Vec<_> = found.map(|violation| violation.checker).collect();
        assert!(found.iter().any(|checker| checkers.contains(checker)), "{bug:?}: {found:?}");
    }
}
