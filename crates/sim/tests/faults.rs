//! Fault schedules: crashes, partitions, jumping clocks and a bad network over the machines of `pliant-control`, checked
//! after every event. `cargo xtask soak` runs as many more as one likes.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use pliant_sim::faults::{Batch, Bug, Summary, run, trace};

/// How much of a failing schedule is shown.
const LINES: usize = 200;

fn check(seed: u64, batch: Batch) -> Summary {
    run(seed, batch, None).unwrap_or_else(|violation| {
        let lines = trace(seed, batch, None);
        let end = lines[lines.len().saturating_sub(LINES)..].join("\n");
        panic!("seed {seed}, {batch:?}, fails: {violation}\n{end}")
    })
}

#[test]
fn schedules_end_well() {
    let total =
        (0..400).map(|seed| check(seed, Batch::Embedded)).fold(Summary::default(), |total, one| total + one);
    // Seeds that do nothing would prove nothing.
    let Summary { events, jobs, moves, copies, cancelled, crashes, .. } = total;
    assert!(
        events > 1_000_000 && jobs > 8_000 && moves > 1_000 && cancelled > 1_000 && crashes > 2_000,
        "{total}"
    );
    assert!(copies > 200 && moves - copies > 1_000, "{total}");
}

/// With batch systems that are not Pliant's at some servers.
#[test]
fn schedules_with_external_batch_systems_end_well() {
    let total =
        (0..400).map(|seed| check(seed, Batch::Mixed)).fold(Summary::default(), |total, one| total + one);
    let Summary { events, jobs, moves, copies, cancelled, crashes, .. } = total;
    assert!(
        events > 1_000_000 && jobs > 8_000 && moves > 800 && cancelled > 1_000 && crashes > 2_000,
        "{total}"
    );
    assert!(copies > 150, "{total}");
}

/// With applications that are launched on several clusters at once.
#[test]
fn schedules_with_launches_end_well() {
    let total =
        (0..300).map(|seed| check(seed, Batch::Launching)).fold(Summary::default(), |total, one| total + one);
    let Summary { launches, ran, completed, crashes, .. } = total;
    assert!(launches > 1_500 && ran > 500 && completed > 200 && crashes > 1_000, "{total}");
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    for (seed, batch) in
        (0..5).flat_map(|seed| [(seed, Batch::Embedded), (seed, Batch::Mixed), (seed, Batch::Launching)])
    {
        assert_eq!(trace(seed, batch, None), trace(seed, batch, None), "seed {seed}, {batch:?}");
        assert_eq!(run(seed, batch, None), run(seed, batch, None), "seed {seed}, {batch:?}");
    }
}

/// Seeds that failed once, and what was wrong.
#[test]
fn what_failed_once_ends_well() {
    use Batch::{Embedded, Launching, Mixed};
    for (seed, batch, _what) in [
        (0, Embedded, "a restarted agent had forgotten since when jobs wait"),
        (3, Embedded, "a local agent kept a job as waiting for ever that had gone to another agent's server"),
        (4, Embedded, "whether a round was under way changed when the next one was due"),
        (10, Embedded, "a restarted agent had forgotten that a cluster had become free early"),
        (365, Embedded, "the departure of a job that had come back replaced its end in the archive"),
        (628, Embedded, "a job that had come back left an entry that repeated its commit for ever"),
        (991, Embedded, "a cancellation was promised on the way, and lost"),
        (1104, Embedded, "what came late of a job that had gone on brought it back to a local agent"),
        (6, Mixed, "a job that was being withdrawn was listed as cancelled, and ended so"),
        (8, Mixed, "what was being removed from a queue when the server went down stayed there"),
        (14, Mixed, "a job that was cancelled while it was withdrawn went on, and ran"),
        (16, Mixed, "a job that was cancelled before it began had failed"),
        (99, Mixed, "of a job that was there twice one copy ran and ended, and the other kept it open"),
        (150, Mixed, "a job whose submission was not answered ran after it was cancelled"),
        (281, Mixed, "a submission was judged by a plan that no journal makes again"),
        (21_287, Mixed, "a killed controller went on with the hold of a withdrawal that had come too late"),
        (
            102_803,
            Mixed,
            "a job that had started, and was withdrawn before it had begun, was active for ever",
        ),
        (
            50_018_657,
            Mixed,
            "a copy of a job that started while the job was withdrawn ended the job as cancelled",
        ),
        (
            62_000_286,
            Mixed,
            "the time in which a controller was down counted as time for which a job was free",
        ),
        (7_008_816, Mixed, "a clock jumped before a controller forgot a release, and the job stayed held"),
        (30_001_018, Mixed, "what a withdrawal had put away was started, and the withdrawal tried again"),
        (7_008_064, Embedded, "a clock jumped, and a server forgot the key of a submission on its way"),
        (30_003_703, Launching, "a part of which nothing was heard had completed"),
        (7_000_131, Mixed, "a release that was tried again after its job was withdrawn started it"),
        (7_003_802, Launching, "a cancelled launch was unknown where only the archive had it"),
        (20_000_105, Launching, "a cancelled launch was unknown where only the archive had it"),
    ] {
        check(seed, batch);
    }
}

/// With every tuner and queue order, which seeds draw from a million on.
#[test]
fn schedules_with_every_tuner_and_order_end_well() {
    let seeds = || 9_100_000..9_100_040;
    let embedded = seeds().map(|seed| check(seed, Batch::Embedded));
    let total = embedded
        .chain(seeds().map(|seed| check(seed, Batch::Mixed)))
        .fold(Summary::default(), |total, one| total + one);
    assert!(total.jobs > 1_000 && total.moves > 100 && total.crashes > 200, "{total}");
}

/// Mistakes that are put in on purpose are found among those seeds, by one of these checkers.
#[test]
fn the_checkers_find_bugs() {
    use Batch::{Embedded, Launching, Mixed};
    for (bug, batch, seeds, checkers) in [
        (Bug::ForgetsAnswers, Embedded, 0..20, &["two servers", "once"][..]),
        (Bug::ActsEarly, Embedded, 0..5, &["bound"]),
        (Bug::ForgetsHolds, Embedded, 0..40, &["bound"]),
        (Bug::StartsHeld, Embedded, 0..5, &["two servers"]),
        (Bug::CommitsEarly, Embedded, 0..5, &["two servers"]),
        (Bug::SilenceIsYes, Embedded, 0..20, &["bound"]),
        (Bug::RunsAgain, Embedded, 0..10, &["once", "cores"]),
        // Rare: the target has to ask, and the source to crash, between its decision and a commit that takes long.
        (Bug::JudgesEarly, Embedded, 1315..1325, &["two servers"]),
        (Bug::StartsUnasked, Embedded, 0..10, &["two servers"]),
        (Bug::ConsentsUnlocked, Embedded, 0..20, &["two servers"]),
        (Bug::ForgetsNews, Embedded, 0..5, &["settled"]),
        (Bug::IgnoresClaims, Mixed, 0..40, &["once"]),
        (Bug::WaitsForNobody, Mixed, 0..10, &["once", "two servers"]),
        (Bug::LeavesFolders, Mixed, 0..400, &["once", "two servers"]),
        (Bug::TrustsIds, Mixed, 140..175, &["strangers"]),
        (Bug::ForgottenIsOver, Mixed, 20..40, &["cancelled"]),
        // Rare: what is left has to be held, or it starts, finds nothing to run and is gone.
        (Bug::LeavesCopies, Mixed, 100..110, &["settled"]),
        (Bug::StartsUnasked, Launching, 0..10, &["alone"]),
        (Bug::QueuedIsHeld, Launching, 0..10, &["alone"]),
        (Bug::ActsEarly, Launching, 0..60, &["alone"]),
        (Bug::SilenceIsOver, Launching, 0..40, &["over"]),
        (Bug::ForgetsSubjobs, Launching, 0..20, &["settled", "once", "alone"]),
        (Bug::RunsAgain, Launching, 0..20, &["once", "cores"]),
    ] {
        let found = seeds.filter_map(|seed| run(seed, batch, Some(bug)).err());
        let found: Vec<_> = found.map(|violation| violation.checker).collect();
        assert!(found.iter().any(|checker| checkers.contains(checker)), "{bug:?}: {found:?}");
    }
}
