//! Invariants of every simulation.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::collections::BTreeMap;

use pliant_model::{
    Cluster, ClusterId, Job, JobOutcome, MapReason, Platform, Procs, Reason, RefusalCause, Request, Run,
    Span, Speed, Speedup, Time, runtime_at,
};
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_policy::tuning::Tuner;
use pliant_sim::{NoObserver, Policies, SimError, SimJob, Ties, simulate};
use proptest::prelude::*;
use proptest::sample::select;

use crate::common::{job, platform, speedups};

/// Batch policies that may start a job in another shape than requested.
const FOLDING: [&str; 5] = ["h1", "h1-completion", "h2", "h3", "h3-head"];

fn run(platform: &Platform, jobs: &[SimJob], policies: &Policies) -> Run {
    simulate(platform, jobs, policies, &mut NoObserver).unwrap()
}

fn platforms() -> impl Strategy<Value = Platform> {
    common::platforms(1..=24_u32, 0.5..2.0, 4)
}

/// Workloads with many jobs at one instant, many that run their full walltime, and some too large for every cluster.
fn workloads() -> impl Strategy<Value = Vec<SimJob>> {
    let gap = prop_oneof![2 => Just(0_i64), 3 => 1..20_i64, 1 => 20..400_i64];
    let percent = prop_oneof![1 => Just(100_i64), 3 => 1..100_i64];
    let origin = prop::option::weighted(0.9, 0..4_u32);
    let one = (gap, 1..28_u32, 1..300_i64, percent, speedups(), prop::bool::weighted(0.7), origin);
    prop::collection::vec(one, 1..90).prop_map(|drawn| {
        let mut submit = 0;
        type Drawn = (i64, u32, i64, i64, Speedup, bool, Option<u32>);
        let sim_job = |(index, drawn): (usize, Drawn)| {
            let (gap, procs, walltime, percent, speedup, managed, origin) = drawn;
            submit += gap;
            let runtime = (walltime * percent / 100).max(1);
            let mut one = job(1000 + index as u64, submit, procs, walltime, runtime);
            one.job.origin = origin.map(ClusterId);
            SimJob { speedup, managed, ..one }
        };
        drawn.into_iter().enumerate().map(sim_job).collect()
    })
}

fn reallocations() -> impl Strategy<Value = Reallocation> {
    (select(Algorithm::ALL), select(Heuristic::ALL), 1..200_i64, 0..60_i64, 1..8_usize).prop_map(
        |(algorithm, heuristic, period, threshold, window)| Reallocation {
            algorithm,
            heuristic,
            period: Span(period),
            threshold: Span(threshold),
            window,
        },
    )
}

fn policies() -> impl Strategy<Value = Policies> {
    let ties = prop_oneof![Just(Ties::FinishFirst), Just(Ties::SubmitFirst)];
    let moves = prop::option::weighted(0.8, reallocations());
    (select(Tuner::ALL), select(Mapping::ALL), moves, ties, any::<u64>()).prop_map(
        |(tuner, mapping, reallocation, ties, seed)| Policies {
            tuner,
            mapping,
            reallocation,
            ties,
            seed,
            ..Policies::default()
        },
    )
}

/// Drops origins that are not clusters of the platform.
fn without_unknown_origins(platform: &Platform, mut jobs: Vec<SimJob>) -> Vec<SimJob> {
    for one in &mut jobs {
        one.job.origin = one.job.origin.map(|id| ClusterId(id.0 % platform.clusters().len() as u32));
    }
    jobs
}

/// The only cluster that a job may use, if there is one.
fn bound(platform: &Platform, one: &SimJob, policies: &Policies) -> Option<Option<ClusterId>> {
    let only = (platform.clusters().len() == 1).then_some(ClusterId(0));
    (!one.managed || policies.mapping == Mapping::Given).then(|| one.job.origin.or(only))
}

fn check_refusal(platform: &Platform, one: &SimJob, policies: &Policies, cause: RefusalCause) {
    assert!(
        !one.managed || one.speedup == Speedup::Rigid || cause == RefusalCause::NoOrigin,
        "{one:?}: {cause}"
    );
    let procs = one.job.procs;
    let expected = match bound(platform, one, policies) {
        None => {
            let available = platform.clusters().iter().map(|cluster| cluster.procs).max().unwrap();
            RefusalCause::LargerThanAll { requested: procs, available }
        }
        Some(None) => RefusalCause::NoOrigin,
        Some(Some(cluster)) => {
            let available = platform.cluster(cluster).procs;
            RefusalCause::LargerThanCluster { cluster, requested: procs, available }
        }
    };
    assert_eq!(cause, expected);
    if let RefusalCause::LargerThanAll { requested, available }
    | RefusalCause::LargerThanCluster { requested, available, .. } = cause
    {
        assert!(requested > available, "{cause}");
    }
}

fn check_outcome(platform: &Platform, one: &SimJob, policies: &Policies, ran: &JobOutcome) {
    assert_eq!((ran.submit, ran.managed), (one.job.submit, one.managed));
    assert!(ran.start >= ran.submit && ran.procs >= Procs::ONE);
    assert!(Span(1) <= ran.runtime() && ran.runtime() <= ran.walltime, "{ran:?}");
    assert_eq!(ran.runtime(), runtime_at(&one.job, ran.walltime), "the log's share of the walltime");
    if let Some(home) = bound(platform, one, policies)
        && ran.moves == 0
    {
        assert_eq!(Some(ran.cluster), home);
    }
    if !one.managed {
        assert_eq!((ran.moves, ran.reason), (0, Reason::Mapped(MapReason::Local)));
    }
    let cluster = platform.cluster(ran.cluster);
    if !FOLDING.contains(&cluster.batch.as_str()) {
        let Job { submit, procs, walltime, origin, .. } = one.job;
        let id = pliant_model::JobId(0);
        let request = Request { origin, ..Request::new(id, submit, procs, walltime, one.speedup.clone()) };
        if one.managed {
            let walltimes = request.on(cluster.procs, cluster.speed).unwrap();
            assert!(walltimes.least() <= ran.procs && ran.procs <= walltimes.most());
            assert_eq!(ran.walltime, walltimes.at(ran.procs));
        } else {
            assert_eq!((ran.procs, ran.walltime, ran.runtime()), (procs, walltime, one.job.runtime));
        }
    }
}

/// Checks that each cluster never runs more than its processors.
fn check_capacity(run: &Run) {
    for id in run.platform.ids() {
        let mut changes: Vec<(Time, i64)> = Vec::new();
        for ran in run.jobs.iter().filter(|ran| ran.cluster == id) {
            changes.push((ran.start, i64::from(ran.procs.0)));
            changes.push((ran.end, -i64::from(ran.procs.0)));
        }
        // Within one instant ends come before starts.
        changes.sort_unstable();
        let mut taken = 0;
        for (at, change) in changes {
            taken += change;
            let procs = run.platform.cluster(id).procs;
            assert!(
                taken <= i64::from(procs.0),
                "{taken} of {procs} processors of cluster {id} taken at {at}"
            );
        }
    }
}

fn check_moves(run: &Run, policies: &Policies) {
    assert_eq!(run.reallocations, run.moves.len() as u64);
    assert_eq!(run.reallocations, run.jobs.iter().map(|ran| u64::from(ran.moves)).sum::<u64>());
    let mut cluster: BTreeMap<u64, ClusterId> = BTreeMap::new();
    for one in &run.moves {
        let policy = policies.reallocation.unwrap();
        let is_event = one.at.0 > 0 && one.at.0 % policy.period.0 == 0;
        assert!(is_event || policy.algorithm == Algorithm::Siblings, "an event at {}", one.at);
        assert_ne!(one.from, one.to);
        let before = cluster.insert(one.log_id, one.to).unwrap_or(one.from);
        assert_eq!(before, one.from, "job {} moves from where it is not", one.log_id);
        match policy.algorithm {
            Algorithm::Regular => assert!(one.after <= one.before - policy.threshold, "{one:?}"),
            Algorithm::NoWorse => assert!(one.after <= one.before, "{one:?}"),
            Algorithm::AllCancellation | Algorithm::Siblings => {}
        }
    }
    for ran in &run.jobs {
        assert_eq!(cluster.get(&ran.log_id).copied().unwrap_or(ran.cluster), ran.cluster);
        assert_eq!(matches!(ran.reason, Reason::Moved(_)), ran.moves > 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_job_runs_once_within_limits_or_is_refused_with_the_reason(
        platform in platforms(), jobs in workloads(), policies in policies(),
    ) {
        let jobs = without_unknown_origins(&platform, jobs);
        let run = run(&platform, &jobs, &policies);
        let mut ran = run.jobs.iter();
        let mut refused = run.refused.iter();
        for one in &jobs {
            // Both lists are in the order of the workload.
            if refused.as_slice().first().is_some_and(|(log_id, _)| *log_id == one.job.log_id) {
                check_refusal(&platform, one, &policies, refused.next().unwrap().1);
            } else {
                let outcome = ran.next().unwrap();
                prop_assert_eq!(outcome.log_id, one.job.log_id);
                check_outcome(&platform, one, &policies, outcome);
            }
        }
        prop_assert!(ran.next().is_none() && refused.next().is_none());
        check_capacity(&run);
        check_moves(&run, &policies);
    }

    #[test]
    fn the_same_seed_gives_the_same_run(platform in platforms(), jobs in workloads(), policies in policies()) {
        let jobs = without_unknown_origins(&platform, jobs);
        let first = run(&platform, &jobs, &policies);
        prop_assert_eq!(&first, &run(&platform, &jobs, &policies));
        // Recording moves does not change the run.
        let quiet = run(&platform, &jobs, &Policies { keep_moves: false, ..policies });
        prop_assert!(quiet.moves.is_empty());
        prop_assert_eq!((quiet.jobs, quiet.reallocations), (first.jobs, first.reallocations));
    }

    #[test]
    fn reallocation_without_a_queue_changes_nothing(
        jobs in workloads(), policies in policies(), reallocation in reallocations(),
    ) {
        // All jobs fit at once.
        let platform = platform([(4000, 1.0, "cbf"), (4000, 1.3, "cbf")]);
        let jobs = without_unknown_origins(&platform, jobs);
        let without = run(&platform, &jobs, &Policies { reallocation: None, ..policies.clone() });
        prop_assert!(without.jobs.iter().all(|ran| ran.wait() == Span::ZERO));
        let with = run(&platform, &jobs, &Policies { reallocation: Some(reallocation), ..policies });
        prop_assert_eq!(with, without);
    }

    #[test]
    fn regular_reallocation_has_nowhere_to_go_from_a_single_cluster(
        jobs in workloads(), policies in policies(), procs in 1..24_u32, reallocation in reallocations(),
    ) {
        let platform = platform([(procs, 1.2, "cbf")]);
        let jobs = without_unknown_origins(&platform, jobs);
        let regular = Reallocation { algorithm: Algorithm::Regular, ..reallocation };
        let without = run(&platform, &jobs, &Policies { reallocation: None, ..policies.clone() });
        let with = run(&platform, &jobs, &Policies { reallocation: Some(regular), ..policies });
        prop_assert_eq!(with, without);
    }

    /// At reference speed a rigid job runs equally whether its user or the federation submits it to the cluster.
    #[test]
    fn local_jobs_run_like_rigid_jobs_given_to_the_same_cluster(platform_of in platforms(), jobs in workloads()) {
        let clusters = platform_of.clusters().iter().map(|one| Cluster { speed: Speed::REFERENCE, ..one.clone() });
        let platform = Platform::new(clusters.collect()).unwrap();
        let as_if = |managed| {
            let jobs = without_unknown_origins(&platform, jobs.clone()).into_iter();
            let jobs: Vec<SimJob> = jobs.map(|one| SimJob { managed, speedup: Speedup::Rigid, ..one }).collect();
            let run = run(&platform, &jobs, &Policies { mapping: Mapping::Given, ..Policies::default() });
            let shapes = run.jobs.iter().map(|ran| (ran.log_id, ran.cluster, ran.start, ran.end, ran.procs));
            (shapes.collect::<Vec<_>>(), run.refused)
        };
        prop_assert_eq!(as_if(true), as_if(false));
    }
}

/// Jobs of local users keep their cluster while the federation's own leave it.
#[test]
fn only_jobs_of_the_federation_are_moved() {
    let platform = platform([(4, 1.0, "cbf"), (4, 1.0, "cbf")]);
    let mut jobs = vec![job(1, 0, 4, 2000, 2000), job(2, 0, 4, 1000, 90)];
    jobs.extend((3..=6).map(|id| job(id, 1, 4, 500, 500)));
    for one in &mut jobs {
        // The second cluster is empty from 90 on; all other jobs are mapped to the first.
        one.job.origin = Some(ClusterId(u32::from(one.job.log_id == 2)));
        one.managed = one.job.log_id % 2 == 0;
    }
    for algorithm in Algorithm::ALL.iter().filter(|one| **one != Algorithm::Siblings) {
        let period = Span(100);
        let reallocation = Some(Reallocation { period, ..Reallocation::new(*algorithm, Heuristic::Mct) });
        let policies = Policies { mapping: Mapping::Given, reallocation, ..Policies::default() };
        let ran = run(&platform, &jobs, &policies);
        let starts: Vec<(u64, u32, i64)> =
            ran.jobs.iter().map(|ran| (ran.log_id, ran.cluster.0, ran.start.0)).collect();
        // 4 and 6 move to the second cluster at 100; 5 moves forward after 3.
        let expected = [(1, 0, 0), (2, 1, 0), (3, 0, 2000), (4, 1, 100), (5, 0, 2500), (6, 1, 600)];
        assert_eq!(starts, expected, "{algorithm}");
        assert_eq!(ran.reallocations, 2, "{algorithm}");
    }
}

/// The first sibling that can start runs. Ties go to the first cluster, and a job that starts where it was mapped has not
/// moved.
#[test]
fn the_first_sibling_to_start_runs() {
    let platform = platform([(4, 1.0, "cbf"), (4, 2.0, "cbf"), (2, 1.0, "cbf")]);
    let mut jobs = vec![job(1, 0, 4, 2000, 300), job(2, 0, 4, 1000, 90), job(3, 0, 2, 100, 100)];
    jobs.extend([
        job(4, 1, 4, 500, 500),
        job(5, 1, 2, 500, 50),
        job(6, 2, 4, 100, 100),
        job(7, 2, 4, 10, 10),
    ]);
    for (one, origin) in jobs.iter_mut().zip([0, 1, 2, 0, 1, 0, 0]) {
        one.job.origin = Some(ClusterId(origin));
    }
    let siblings = Some(Reallocation::new(Algorithm::Siblings, Heuristic::Mct));
    let policies = Policies { mapping: Mapping::Given, reallocation: siblings, ..Policies::default() };
    let ran = run(&platform, &jobs, &policies);
    let starts: Vec<(u64, u32, i64, u32)> =
        ran.jobs.iter().map(|ran| (ran.log_id, ran.cluster.0, ran.start.0, ran.moves)).collect();
    // The second cluster is twice as fast and free at 45. 5 was mapped there before the sibling of 4; the third is busy until
    // 100. At 300 the first runs 6, which would fit on the second at 320, where 7 runs then.
    let expected = [
        (1, 0, 0, 0),
        (2, 1, 0, 0),
        (3, 2, 0, 0),
        (4, 1, 70, 1),
        (5, 1, 45, 0),
        (6, 0, 300, 0),
        (7, 1, 320, 1),
    ];
    assert_eq!(starts, expected);
    assert_eq!(ran.reallocations, 2);
    let won = ran.moves.iter().map(|one| (one.log_id, one.from.0, one.to.0, one.at.0));
    assert_eq!(won.collect::<Vec<_>>(), [(4, 0, 1, 70), (7, 0, 1, 320)]);
}

/// Reallocation events come at multiples of the period, also after a time without waiting jobs, and include submissions of
/// their own instant.
#[test]
fn reallocation_events_come_at_multiples_of_the_period() {
    let platform = platform([(4, 1.0, "cbf"), (4, 1.0, "cbf")]);
    for (submit, start) in [(15, 100), (99, 100), (100, 100), (101, 200), (200, 200), (250, 300)] {
        let mut jobs = [job(1, 0, 4, 1000, 1000), job(2, 0, 4, 800, 10), job(3, submit, 4, 50, 50)];
        for one in &mut jobs {
            one.job.origin = Some(ClusterId(u32::from(one.job.log_id == 2)));
        }
        let period = Span(100);
        let reallocation =
            Some(Reallocation { period, ..Reallocation::new(Algorithm::Regular, Heuristic::Mct) });
        let policies = Policies { mapping: Mapping::Given, reallocation, ..Policies::default() };
        let ran = run(&platform, &jobs, &policies);
        assert_eq!(ran.jobs[2].start, Time(start), "submitted at {submit}");
        assert_eq!(ran.moves.len(), 1);
        let one = ran.moves[0];
        assert_eq!((one.at, one.before, one.after), (Time(start), Time(1050), Time(start + 50)));
    }
}

/// EASY decides differently when a job is submitted at the instant at which another ends early.
#[test]
fn events_of_one_instant_come_in_the_configured_order() {
    let platform = Platform::single(Procs(3), "easy").unwrap();
    let jobs = [job(1, 0, 1, 20, 10), job(2, 0, 1, 12, 12), job(3, 1, 3, 5, 5), job(4, 10, 1, 10, 10)];
    let starts = |ties| -> Vec<i64> {
        let run = run(&platform, &jobs, &Policies { ties, ..Policies::default() });
        run.jobs.iter().map(|ran| ran.start.0).collect()
    };
    // The wide third job is expected to start at 20 until the first one ends; the fourth fits before it only until then.
    assert_eq!(starts(Ties::FinishFirst), [0, 0, 12, 17]);
    assert_eq!(starts(Ties::SubmitFirst), [0, 0, 20, 10]);
}

#[test]
fn random_mapping_follows_the_seed() {
    let platform = platform([(8, 1.0, "cbf"), (8, 1.0, "cbf"), (8, 1.0, "cbf")]);
    let jobs: Vec<SimJob> = (0..60).map(|id| job(id, id as i64, 2, 10, 10)).collect();
    let clusters = |seed| -> Vec<ClusterId> {
        let policies = Policies { mapping: Mapping::Random, seed, ..Policies::default() };
        run(&platform, &jobs, &policies).jobs.iter().map(|ran| ran.cluster).collect()
    };
    assert_ne!(clusters(1), clusters(2));
    for id in platform.ids() {
        assert!(clusters(1).contains(&id), "nothing was drawn for cluster {id}");
    }
}

#[test]
fn unsupported_runs_are_refused() {
    let jobs = [job(1, 5, 1, 10, 10), job(2, 4, 1, 10, 10)];
    let single = Platform::single(Procs(4), "cbf").unwrap();
    let unsorted = simulate(&single, &jobs, &Policies::default(), &mut NoObserver);
    assert_eq!(unsorted, Err(SimError::Unsorted(1)));
    let unknown = Platform::single(Procs(4), "lottery").unwrap();
    let Err(SimError::Batch(error)) = simulate(&unknown, &jobs[..1], &Policies::default(), &mut NoObserver)
    else {
        panic!("an unknown batch policy was accepted");
    };
    assert_eq!(error.found, "lottery");
    assert!(error.to_string().contains("cbf"), "{error}");
}
