//! Tests of the state at the start of a window and of the load of local users.

use pliant_control::job::{Exit, JobState, Work};
use pliant_control::names::Key;
use pliant_model::{ClusterId, Estimate, Procs, Resources, Span, Speed, Speedup};
use pliant_policy::nodes::{Node, Rules};
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};

use super::*;

const SINCE: Time = Time(1_000);

fn cluster(name: &str, procs: u32) -> WhatIfCluster {
    let info = ServerInfo {
        name: name.parse().unwrap(),
        address: String::new(),
        rank: 0,
        procs: Procs(procs),
        speed: Speed::REFERENCE,
        policy: "cbf".to_owned(),
        services: Vec::new(),
        scripts: true,
        optional_cores: 0,
        optional_per_core: 0,
    };
    WhatIfCluster { info, tuner: Tuner::Exact, nodes: None, locals: Vec::new() }
}

/// A cluster with Slurm and nodes of four cores.
fn slurm(name: &str, nodes: usize, locals: Vec<LocalJob>) -> WhatIfCluster {
    let node = |number| Node::of(&format!("n{number}"), Procs(4));
    let snapshot = ClusterSnapshot {
        nodes: (0..nodes).map(node).collect(),
        rules: Rules::slurm(Span(30)),
        ..ClusterSnapshot::default()
    };
    WhatIfCluster { nodes: Some(snapshot), locals, ..cluster(name, nodes as u32 * 4) }
}

/// The record of a rigid job.
fn record(
    handle: &str,
    submitted: i64,
    started: Option<i64>,
    ended: Option<i64>,
    procs: u32,
    walltime: i64,
) -> JobRecord {
    let (procs, walltime) = (Procs(procs), Span(walltime));
    JobRecord {
        handle: handle.parse().unwrap(),
        key: Key([0; 16]),
        owner: "alice".parse().unwrap(),
        name: "test".to_owned(),
        work: Work::new(procs, walltime, Speedup::Rigid),
        state: if ended.is_some() { JobState::Completed } else { JobState::Active },
        submitted: Time(submitted),
        expected: Estimate { procs, walltime, start: Time(submitted) },
        procs,
        walltime,
        started: started.map(Time),
        ended: ended.map(Time),
        exit: ended.map(|_| Exit::Code(0)),
        requeues: 0,
        compared: Vec::new(),
        discovery: pliant_control::reason::DiscoverySummary::default(),
        pinned: false,
        hops: Vec::new(),
        unit_runtime: None,
        runtime: None,
        size_choice: None,
        gpus: None,
        estimates: Vec::new(),
        claim: None,
    }
}

fn local(shape: Shape, walltime: Option<i64>, times: (i64, Option<i64>, Option<i64>)) -> LocalJob {
    let (submitted, started, ended) = times;
    LocalJob {
        shape,
        walltime: walltime.map(Span),
        partition: "main".to_owned(),
        submitted: Time(submitted),
        started: started.map(Time),
        ended: ended.map(Time),
    }
}

/// Starts and ends of the compared jobs in a replay, from the beginning of the window.
fn times(replay: &WhatIfReplay, policies: &Policies) -> Vec<(u32, i64, i64)> {
    let replayed = replay.replay(policies).unwrap();
    replayed.jobs.iter().map(|job| job.map(|job| (job.cluster.0, job.start.0, job.end.0)).unwrap()).collect()
}

#[test]
fn a_window_starts_with_the_jobs_that_ran_and_waited() {
    let records = [
        // Ended before the window, running at its start, waiting then, submitted within, running and waiting now.
        record("lyon.1", 500, Some(500), Some(900), 2, 600),
        record("lyon.2", 600, Some(900), Some(1100), 2, 600),
        record("lyon.3", 700, Some(1100), Some(1150), 2, 60),
        record("lyon.4", 1010, Some(1150), Some(1160), 2, 60),
        record("lyon.5", 1020, Some(1160), None, 2, 60),
        record("lyon.6", 1030, None, None, 2, 60),
        // Cancelled while it waited, and one of an unknown server.
        record("lyon.7", 1040, None, Some(1050), 2, 60),
        record("gone.1", 1040, Some(1041), Some(1050), 2, 60),
        record("lyon.8", 1050, Some(1300), Some(1310), 2, 60),
    ];
    let replay = WhatIfReplay::new(vec![cluster("lyon", 2)], &records, SINCE).unwrap();
    let expected =
        Counts { compared: 2, before: 2, unfinished: 2, never_ran: 1, elsewhere: 1, ..Counts::default() };
    assert_eq!(*replay.counts(), expected);
    let live: Vec<(i64, i64)> = replay.measured().iter().map(|job| (job.start.0, job.end.0)).collect();
    assert_eq!(live, [(150, 160), (300, 310)]);
    // As live; the last one follows two that are assumed to run to their time limits.
    assert_eq!(times(&replay, &Policies::default()), [(0, 150, 160), (0, 280, 290)]);
}

#[test]
fn jobs_of_local_users_keep_their_shapes_and_times() {
    let whole = Shape { exclusive: true, ..Shape::of(Procs(1)) };
    let locals = vec![
        // Ended before the window, running at its start, exceeding its limit within, without an end.
        local(Shape::of(Procs(8)), Some(900), (0, Some(0), Some(1000))),
        local(whole, Some(600), (800, Some(900), Some(1200))),
        local(Shape::of(Procs(4)), Some(60), (1001, Some(1002), Some(1100))),
        local(Shape::of(Procs(8)), None, (1500, None, None)),
    ];
    let records = [
        record("lyon.1", 1010, Some(1200), Some(1250), 2, 60),
        // Queued after the job without a limit.
        record("lyon.2", 1600, Some(1700), Some(1710), 2, 60),
    ];
    let replay = WhatIfReplay::new(vec![slurm("lyon", 2, locals)], &records, SINCE).unwrap();
    assert_eq!(replay.counts().locals, 3);
    let [first, second] = times(&replay, &Policies::default())[..] else { panic!("two are compared") };
    // The exclusive node keeps three cores unusable; those of the other node are free at 1099.
    assert_eq!(first, (0, 99, 149));
    assert_eq!(second.1, 500 + DEFAULT_RUNTIME_S, "after a day");
}

const DEFAULT_RUNTIME_S: i64 = 86_400;

#[test]
fn other_policies_may_move_waiting_jobs_except_pinned_ones() {
    let mut pinned = record("lyon.3", 1002, Some(1610), Some(1620), 2, 60);
    pinned.pinned = true;
    // By walltimes Paris is free first, but its job runs to its limit and that in Lyon ends early.
    let records = [
        record("lyon.1", 900, Some(900), Some(1100), 2, 900),
        record("paris.1", 900, Some(900), Some(1600), 2, 700),
        record("paris.2", 1001, Some(1600), Some(1610), 2, 60),
        pinned,
    ];
    let replay = WhatIfReplay::new(vec![cluster("paris", 2), cluster("lyon", 2)], &records, SINCE).unwrap();
    let names: Vec<&str> = replay.platform().clusters().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["lyon", "paris"]);
    assert_eq!(times(&replay, &Policies::default()), [(1, 600, 610), (0, 100, 110)]);
    let policy = Reallocation { period: Span(60), ..Reallocation::new(Algorithm::Regular, Heuristic::Mct) };
    let moving = Policies { reallocation: Some(policy), ..Policies::default() };
    let replayed = replay.replay(&moving).unwrap();
    assert_eq!(replayed.moves, 1);
    let moved = replayed.jobs[0].unwrap();
    assert_eq!((moved.cluster, moved.moves), (ClusterId(0), 1));
    assert!(moved.start < Time(600), "{moved:?}");
    assert_eq!(times(&replay.with_batch("fcfs"), &Policies::default()), times(&replay, &Policies::default()));
}

#[test]
fn a_job_with_a_begin_time_starts_from_then_on() {
    let begins = |handle, begin, started, ended| {
        let mut record = record(handle, 900, Some(started), Some(ended), 2, 60);
        record.work.begin = Some(Time(begin));
        record
    };
    let records = [
        begins("lyon.1", 1200, 1200, 1240),
        // Both begin before: it was released by a user of the external batch system, and it waited at the start of the window.
        begins("lyon.2", 1500, 1020, 1030),
        begins("lyon.3", 950, 1030, 1050),
        record("lyon.4", 1190, Some(1240), Some(1260), 2, 60),
    ];
    let replay = WhatIfReplay::new(vec![cluster("lyon", 2)], &records, SINCE).unwrap();
    assert_eq!((replay.counts().compared, replay.counts().before), (3, 1));
    let submitted: Vec<i64> = replay.measured().iter().map(|job| job.submit.0).collect();
    assert_eq!(submitted, [20, 190, 200], "responses count from then on");
    // No job waits for one that may not start yet: the one that was submitted later goes first, as it could have live.
    assert_eq!(times(&replay, &Policies::default()), [(0, 20, 30), (0, 190, 210), (0, 210, 250)]);
}

#[test]
fn a_job_that_would_start_too_late_for_its_deadline_would_not_have_run() {
    let by = |deadline: i64, record: JobRecord| {
        let work = Work { deadline: Some(Time(deadline)), ..record.work.clone() };
        JobRecord { work, ..record }
    };
    let records = [
        record("lyon.1", 1_000, Some(1_000), Some(1_100), 2, 100),
        // Live the first one had moved away, and both kept their deadlines.
        by(1_130, record("lyon.2", 1_010, Some(1_020), Some(1_030), 2, 40)),
        by(1_150, record("lyon.3", 1_020, Some(1_030), Some(1_040), 2, 40)),
        record("lyon.4", 1_030, Some(1_040), Some(1_050), 2, 40),
    ];
    let replay = WhatIfReplay::new(vec![cluster("lyon", 2)], &records, SINCE).unwrap();
    assert_eq!(replay.counts().with_deadline, 2);
    let outcome = replay.replay(&Policies::default()).unwrap();
    // After the first one, at 1100, 40 s end at 1140: too late for the second one, which takes 10 s all the same.
    let starts: Vec<Option<i64>> = outcome.jobs.iter().map(|job| job.map(|job| job.start.0)).collect();
    assert_eq!((starts, outcome.too_late), (vec![Some(0), None, Some(110), Some(120)], 1));
}

#[test]
fn what_the_replay_does_not_know_of_jobs_is_counted() {
    let resources = Resources { nodes: Some(1), ..Resources::default() };
    let one = |handle, ended| record(handle, 1_010, Some(1_020), ended, 2, 60);
    let asks = |work: &Work| Work { resources: Some(resources.clone().into()), ..work.clone() };
    let plain = one("lyon.1", Some(1_030));
    let records = [
        JobRecord { work: asks(&plain.work), ..one("lyon.2", Some(1_030)) },
        JobRecord { work: Work { nice: 3, ..asks(&plain.work) }, ..one("lyon.3", None) },
        JobRecord { requeues: 2, ..one("lyon.4", Some(1_030)) },
        // It is not in the replay.
        JobRecord { requeues: 2, started: None, ..one("lyon.5", Some(1_030)) },
        plain,
    ];
    let replay = WhatIfReplay::new(vec![cluster("lyon", 2)], &records, SINCE).unwrap();
    let Counts { with_resources, with_nice, requeued, with_deadline, .. } = *replay.counts();
    assert_eq!((with_resources, with_nice, requeued, with_deadline), (2, 1, 1, 0));
}
