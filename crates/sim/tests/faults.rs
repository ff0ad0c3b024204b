//! Fault schedules over the machines of `pliant-control`: crashes, partitions, clock jumps and an unreliable network, checked
//! after every event. `cargo xtask soak` runs more of them.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use pliant_sim::faults::{Bug, FederationKind, Summary, run, trace};

/// How many lines of a failing schedule are shown.
const LINES: usize = 200;

fn check(seed: u64, kind: FederationKind) -> Summary {
    run(seed, kind, None).unwrap_or_else(|violation| {
        let lines = trace(seed, kind, None);
        let end = lines[lines.len().saturating_sub(LINES)..].join("\n");
        panic!("seed {seed}, {kind:?}, fails: {violation}\n{end}")
    })
}

#[test]
fn schedules_have_no_violations() {
    let total = (0..400)
        .map(|seed| check(seed, FederationKind::Embedded))
        .fold(Summary::default(), |total, one| total + one);
    // The seeds must contain enough events to test anything.
    let Summary { events, jobs, moves, sibling_moves, cancelled, crashes, .. } = total;
    assert!(
        events > 1_000_000 && jobs > 8_000 && moves > 1_000 && cancelled > 1_000 && crashes > 2_000,
        "{total}"
    );
    assert!(sibling_moves > 200 && moves - sibling_moves > 1_000, "{total}");
}

/// Some servers have external batch systems.
#[test]
fn schedules_with_external_batch_systems_have_no_violations() {
    let total = (0..400)
        .map(|seed| check(seed, FederationKind::Mixed))
        .fold(Summary::default(), |total, one| total + one);
    let Summary { events, jobs, moves, sibling_moves, cancelled, crashes, .. } = total;
    assert!(
        events > 1_000_000 && jobs > 8_000 && moves > 800 && cancelled > 1_000 && crashes > 2_000,
        "{total}"
    );
    assert!(sibling_moves > 150, "{total}");
}

/// Applications are launched on several clusters at once.
#[test]
fn schedules_with_launches_have_no_violations() {
    let total = (0..300)
        .map(|seed| check(seed, FederationKind::Launching))
        .fold(Summary::default(), |total, one| total + one);
    let Summary { launches, ran, completed, crashes, .. } = total;
    assert!(launches > 1_500 && ran > 500 && completed > 200 && crashes > 1_000, "{total}");
}

#[test]
fn the_same_seed_gives_the_same_schedule() {
    for (seed, kind) in (0..5).flat_map(|seed| {
        [(seed, FederationKind::Embedded), (seed, FederationKind::Mixed), (seed, FederationKind::Launching)]
    }) {
        assert_eq!(trace(seed, kind, None), trace(seed, kind, None), "seed {seed}, {kind:?}");
        assert_eq!(run(seed, kind, None), run(seed, kind, None), "seed {seed}, {kind:?}");
    }
}

/// Seeds that failed once, each with the bug that it found.
#[test]
fn seeds_that_failed_once_have_no_violations() {
    use FederationKind::{Embedded, Launching, Mixed};
    for (seed, kind, _bug) in [
        (0, Embedded, "a restarted agent had lost the times since which jobs wait"),
        (3, Embedded, "a local agent kept a job as waiting that had moved to a server of another agent"),
        (4, Embedded, "the due time of the next reallocation cycle changed whether one was in progress"),
        (10, Embedded, "a restarted agent had lost that a cluster became free early"),
        (365, Embedded, "the departure of a job that had returned replaced its end in the archive"),
        (628, Embedded, "a job that had returned left an entry that repeated its commit without end"),
        (991, Embedded, "a cancellation was accepted during a handoff and lost"),
        (1104, Embedded, "a late update of a job that had moved on restored it at a local agent"),
        (6, Mixed, "a job under withdrawal was listed as cancelled, and ended as cancelled"),
        (8, Mixed, "a removal from a queue was lost when the server went down"),
        (14, Mixed, "a job cancelled during its withdrawal moved on and ran"),
        (16, Mixed, "a job cancelled before its start was recorded as failed"),
        (99, Mixed, "one of two duplicates of a job ran and ended, the other kept the job open"),
        (150, Mixed, "a job whose submission was not answered ran after its cancellation"),
        (281, Mixed, "a submission was decided by a plan that a replay does not rebuild"),
        (21_287, Mixed, "a restarted controller kept the hold of a withdrawal that had come too late"),
        (102_803, Mixed, "a job that was withdrawn between its start and its process stayed active"),
        (
            50_018_657,
            Mixed,
            "a duplicate that started during the withdrawal of its job ended the job as cancelled",
        ),
        (
            62_000_286,
            Mixed,
            "the time in which a controller was down counted as time in which a job was free to start",
        ),
        (7_008_816, Mixed, "a clock jumped before a controller forgot a release, and the job stayed held"),
        (30_001_018, Mixed, "a withdrawn job was started and then withdrawn again"),
        (7_008_064, Embedded, "a clock jumped, and a server lost the key of a submission in transit"),
        (30_003_703, Launching, "an unreachable subjob had completed"),
        (7_000_131, Mixed, "a release that was repeated after the withdrawal of its job started the job"),
        (7_003_802, Launching, "a cancelled launch was unknown where only the archive had it"),
        (20_000_105, Launching, "a cancelled launch was unknown where only the archive had it"),
        (
            291_000_741,
            Launching,
            "a job that was held between its start and its process came back with its former shape",
        ),
        (
            371_001_642,
            Mixed,
            "a restarted controller killed a supervisor that waited under the ID of another job",
        ),
        (99_301_663, Launching, "a late update of an earlier server restored a job that had departed"),
        (
            441_001_000,
            Mixed,
            "a job that was withdrawn too late for its deadline was lost with its node, not given up",
        ),
        (
            491_004_443,
            Mixed,
            "a simulated controller wanted a GPU for each core of a whole node, and not for each that was asked for",
        ),
        (
            711_000_913,
            Mixed,
            "a master dropped all estimates of a local agent, whose servers it did not know yet, and refused the job",
        ),
    ] {
        check(seed, kind);
    }
}

/// Checks forty seeds, and that many jobs move.
fn check_forty(first: u64) {
    check_forty_with_moves(first, 100);
}

/// Checks forty seeds in federations of embedded and of external batch systems, and that more than so many moves and much else happens in
/// them.
fn check_forty_with_moves(first: u64, moves: u64) {
    let seeds = || first..first + 40;
    let embedded = seeds().map(|seed| check(seed, FederationKind::Embedded));
    let total = embedded
        .chain(seeds().map(|seed| check(seed, FederationKind::Mixed)))
        .fold(Summary::default(), |total, one| total + one);
    assert!(total.jobs > 1_000 && total.moves > moves && total.crashes > 200, "{total}");
}

/// Seeds from a million on use every tuner and queue order.
#[test]
fn schedules_with_every_tuner_and_order_have_no_violations() {
    check_forty(9_100_000);
}

/// In schedules from seed 200 million on operators drain servers.
#[test]
fn schedules_with_drained_servers_have_no_violations() {
    check_forty(200_000_000);
}

/// In schedules from seed 611 million on agents have summaries of servers, which may be late, lost and wrong. In the first one a server
/// said that it had no processors, and the bound of its completions failed.
#[test]
fn schedules_with_wrong_summaries_have_no_violations() {
    // A summary that is wrong hides gains.
    check_forty_with_moves(611_000_000, 60);
}

/// In schedules from seed 210 million on operators hold jobs too.
#[test]
fn schedules_with_held_jobs_have_no_violations() {
    check_forty(210_000_000);
}

/// In schedules from seed 235 million on few bytes may wait at a server.
#[test]
fn schedules_with_few_waiting_bytes_have_no_violations() {
    check_forty(235_000_000);
}

/// In schedules from seed 230 million on operators ban users too.
#[test]
fn schedules_with_banned_users_have_no_violations() {
    check_forty(230_000_000);
}

/// In schedules from seed 260 million on operators limit users and give priorities to jobs too.
#[test]
fn schedules_with_limits_and_priorities_have_no_violations() {
    check_forty(260_000_000);
}

/// In schedules from seed 320 million on operators change the reallocation of agents until that is confirmed, and limit waiting bytes.
#[test]
fn schedules_with_changed_reallocation_have_no_violations() {
    check_forty(320_000_000);
}

/// In schedules from seed 410 million on servers count memory, GPUs, local disk space and licences, and jobs need some.
#[test]
fn schedules_with_resources_have_no_violations() {
    // Fewer places suit each job.
    check_forty_with_moves(410_000_000, 50);
}

/// In schedules from seed 491 million on the nodes of external clusters count them, too.
#[test]
fn schedules_with_resources_of_external_clusters_have_no_violations() {
    let mixed = (491_000_000..491_000_040).map(|seed| check(seed, FederationKind::Mixed));
    let moves: u64 = mixed.map(|summary| summary.moves).sum();
    assert!(moves > 20, "{moves} moves");
}

/// In schedules from seed 711 million on some jobs have tasks of several processors, which no two nodes share.
#[test]
fn schedules_with_tasks_have_no_violations() {
    check_forty_with_moves(711_000_000, 30);
}

/// In schedules from seed 421 million on some jobs may start from an instant on only, and some have deadlines.
#[test]
fn schedules_with_deferred_jobs_and_deadlines_have_no_violations() {
    check_forty_with_moves(421_000_000, 50);
}

/// In schedules from seed 440 million on nodes fail under jobs, which may run again.
#[test]
fn schedules_with_failing_nodes_have_no_violations() {
    for kind in [FederationKind::Embedded, FederationKind::Mixed] {
        let seeds = (440_000_000..440_000_040).map(|seed| check(seed, kind));
        let total = seeds.fold(Summary::default(), |total, one| total + one);
        assert!(total.requeues > 15 && total.crashes > 100 && total.moves > 5, "{kind:?}: {total}");
    }
}

/// Some of the seeds find each injected bug by one of these checkers.
#[test]
fn the_checkers_find_injected_bugs() {
    use FederationKind::{Embedded, Launching, Mixed};
    for (bug, kind, seeds, checkers) in [
        (Bug::ForgetsAnswers, Embedded, 0..20, &["two servers", "once"][..]),
        (Bug::ActsEarly, Embedded, 0..5, &["bound"]),
        (Bug::ForgetsPrepared, Embedded, 0..40, &["bound"]),
        (Bug::StartsPrepared, Embedded, 0..5, &["two servers"]),
        (Bug::CommitsEarly, Embedded, 0..5, &["two servers"]),
        (Bug::SilenceIsSuccess, Embedded, 0..20, &["bound"]),
        (Bug::RunsAgain, Embedded, 0..10, &["once", "cores"]),
        // Rare: the target has to inquire and the source to crash between its decision and a slow commit.
        (Bug::DecidesEarly, Embedded, 1315..1325, &["two servers"]),
        (Bug::StartsWithoutPermit, Embedded, 0..10, &["two servers"]),
        (Bug::PermitsWithoutWithdrawal, Embedded, 0..20, &["two servers"]),
        (Bug::ForgetsUpdates, Embedded, 0..5, &["settled"]),
        (Bug::IgnoresClaims, Mixed, 0..40, &["once"]),
        (Bug::SkipsStartGate, Mixed, 0..10, &["once", "two servers"]),
        (Bug::LeavesFolders, Mixed, 0..400, &["once", "two servers"]),
        (Bug::TrustsIds, Mixed, 470..478, &["local jobs"]),
        (Bug::ForgottenIsCancelled, Mixed, 20..40, &["cancelled"]),
        // Rare: the job that is left must be held, otherwise it starts, finds nothing to run and ends.
        (Bug::LeavesQueuedJobs, Mixed, 310..350, &["settled"]),
        (Bug::StartsWithoutPermit, Launching, 0..10, &["alone"]),
        (Bug::QueuedIsPrepared, Launching, 0..10, &["alone"]),
        (Bug::ActsEarly, Launching, 0..60, &["alone"]),
        (Bug::SilenceIsEnd, Launching, 0..40, &["over"]),
        (Bug::ForgetsSubjobs, Launching, 0..20, &["settled", "once", "alone"]),
        (Bug::RunsAgain, Launching, 0..20, &["once", "cores"]),
        (Bug::DrainedAccepts, Embedded, 200_000_000..200_000_020, &["drained"]),
        (Bug::HeldStarts, Embedded, 210_000_000..210_000_020, &["held"]),
        (Bug::BannedAccepts, Embedded, 230_000_000..230_000_020, &["banned"]),
        (Bug::BannedStarts, Embedded, 230_000_000..230_000_020, &["banned"]),
        (Bug::ForgetsLimits, Embedded, 260_000_000..260_000_020, &["limited"]),
        (Bug::IgnoresLimits, Embedded, 260_000_000..260_000_020, &["limited"]),
        (Bug::IgnoresLimits, Embedded, 320_000_000..320_000_020, &["waiting"]),
        (Bug::IgnoresLimits, Mixed, 320_000_000..320_000_020, &["waiting"]),
        (Bug::ForgetsWaitingBytes, Embedded, 260_000_000..260_000_020, &["waiting"]),
        (Bug::DrainedPrepares, Embedded, 260_000_020..260_000_070, &["drained"]),
        (Bug::DrainedAccepts, Launching, 200_000_000..200_000_020, &["drained"]),
        (Bug::ForgetsPriorities, Embedded, 260_000_000..260_000_020, &["prioritised"]),
        (Bug::ForgetsReallocation, Embedded, 320_000_000..320_000_020, &["configured"]),
        (Bug::ForgetsHeldResources, Embedded, 410_000_000..410_000_020, &["resources"]),
        (Bug::OverCommits, Mixed, 491_000_000..491_000_010, &["resources"]),
        (Bug::SplitsTasks, Mixed, 711_000_000..711_000_040, &["resources"]),
        (Bug::LosesRequestedResources, Mixed, 491_000_000..491_000_040, &["resources"]),
        (Bug::IgnoresBegin, Embedded, 421_000_000..421_000_010, &["deferred"]),
        (Bug::IgnoresBegin, Mixed, 421_000_000..421_000_010, &["deferred"]),
        (Bug::ForgetsRequeues, Embedded, 440_000_000..440_000_040, &["once"]),
    ] {
        let found = seeds.filter_map(|seed| run(seed, kind, Some(bug)).err());
        let found: Vec<_> = found.map(|violation| violation.checker).collect();
        assert!(found.iter().any(|checker| checkers.contains(checker)), "{bug:?}: {found:?}");
    }
}
