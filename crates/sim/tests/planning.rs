//! Invariants of plans by predictions instead of requested walltimes.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;

use std::num::NonZeroUsize;

use pliant_model::{ClusterId, JobId, Procs, Request, Run, Span, Speedup, Time, runtime_at};
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};
use pliant_policy::runtimes::Choice;
use pliant_policy::runtimes::predicted::Prediction;
use pliant_policy::runtimes::{Estimator, Level, Settings};
use pliant_sim::{NoObserver, PlanBy, Policies, SimJob, simulate};
use proptest::prelude::*;
use proptest::sample::select;

use crate::common::{job, platform, speedups};

fn run(clusters: &[(u32, f64, &'static str)], jobs: &[SimJob], policies: &Policies) -> Run {
    simulate(&platform(clusters.iter().copied()), jobs, policies, &mut NoObserver).unwrap()
}

fn by(level: Level, estimator: Estimator, last: usize) -> PlanBy {
    let settings = Settings { window: NonZeroUsize::new(last).unwrap(), least: NonZeroUsize::MIN };
    PlanBy::Predictions(Prediction { level, estimator, settings, ..Prediction::default() })
}

fn predictions() -> impl Strategy<Value = PlanBy> {
    let quantile =
        (0.1..1.0_f64).prop_map(|quantile| Estimator::Quantile(Choice::new(quantile, 1.0).unwrap()));
    let estimator = prop_oneof![Just(Estimator::Mean), Just(Estimator::RecentMean), quantile];
    (select(Level::ALL), estimator, 1..10_usize)
        .prop_map(|(level, estimator, last)| by(level, estimator, last))
}

fn policies() -> impl Strategy<Value = Policies> {
    let moves = (select(Algorithm::ALL), select(Heuristic::ALL), 1..200_i64, 1..8_usize);
    let moves = moves.prop_map(|(algorithm, heuristic, period, window)| Reallocation {
        period: Span(period),
        window,
        ..Reallocation::new(algorithm, heuristic)
    });
    (select(Mapping::ALL), prop::option::of(moves), predictions(), any::<u64>()).prop_map(
        |(mapping, reallocation, plan_by, seed)| Policies {
            mapping,
            reallocation,
            plan_by,
            seed,
            ..Policies::default()
        },
    )
}

fn clusters() -> impl Strategy<Value = Vec<(u32, f64, &'static str)>> {
    prop::collection::vec(
        (8..24_u32, 0.5..2.0, select(vec!["cbf", "easy", "easy-sjbf", "fcfs", "backfill"])),
        1..4,
    )
}

/// The same speedup with another parallel fraction, if it follows Amdahl's law.
fn misjudged(speedup: &Speedup, parallel: Option<f64>) -> Option<Speedup> {
    match (speedup, parallel) {
        (Speedup::Amdahl { limit, .. }, Some(parallel)) => Some(Speedup::Amdahl { parallel, limit: *limit }),
        _ => None,
    }
}

/// Jobs of a few users with inaccurate walltimes, some with a wrong assumed speedup. All fit on every cluster.
fn workloads() -> impl Strategy<Value = Vec<SimJob>> {
    let real = prop::option::of(0.5..=1.0);
    let scales = (speedups(), real).prop_map(|(speedup, real)| (misjudged(&speedup, real), speedup));
    let one = (0..30_i64, 1..=8_u32, 1..400_i64, 1..=100_i64, scales, prop::bool::weighted(0.8), 0..4_i32);
    prop::collection::vec(one, 1..80).prop_map(|drawn| {
        let mut submit = 0;
        let jobs = drawn.into_iter().enumerate().map(|(index, one)| {
            let (gap, procs, walltime, percent, (true_speedup, speedup), managed, user) = one;
            submit += gap;
            let mut one = job(index as u64, submit, procs, walltime, (walltime * percent / 100).max(1));
            (one.job.user, one.job.origin) = (user, Some(ClusterId(0)));
            SimJob { speedup, true_speedup, managed, ..one }
        });
        jobs.collect()
    })
}

/// Checks that each job has the time limit and the end of its user's walltime in the shape that it got.
fn check_limits(run: &Run, jobs: &[SimJob]) {
    assert_eq!(run.jobs.len(), jobs.len(), "every job runs once");
    for (ran, one) in run.jobs.iter().zip(jobs) {
        let SimJob { job, speedup, true_speedup, managed } = one;
        let speedup = true_speedup.as_ref().unwrap_or(speedup);
        let (id, submit, walltime) = (JobId(0), job.submit, job.walltime);
        let asked = Request::new(id, submit, job.procs, walltime, speedup.clone());
        let there = run.platform.cluster(ran.cluster);
        let limit =
            if *managed { asked.on(there.procs, there.speed).unwrap().at(ran.procs) } else { walltime };
        assert_eq!((ran.walltime, ran.runtime()), (limit, runtime_at(job, limit)), "{ran:?}");
    }
}

fn check_capacity(run: &Run) {
    for id in run.platform.ids() {
        let on = || run.jobs.iter().filter(|ran| ran.cluster == id);
        for at in on().map(|ran| ran.start) {
            let taken: u32 = on().filter(|ran| ran.start <= at && at < ran.end).map(|ran| ran.procs.0).sum();
            assert!(Procs(taken) <= run.platform.cluster(id).procs, "{taken} processors taken at {at}");
        }
    }
}

/// The starts before `until`: job, cluster, time and size.
fn decided(run: &Run, until: Time) -> Vec<(u64, ClusterId, Time, Procs)> {
    let before = run.jobs.iter().filter(|ran| ran.start < until);
    before.map(|ran| (ran.log_id, ran.cluster, ran.start, ran.procs)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Wrong predictions kill no job and overbook no cluster, and the same seed gives the same run.
    #[test]
    fn predictions_change_only_plans(clusters in clusters(), jobs in workloads(), policies in policies()) {
        let first = run(&clusters, &jobs, &policies);
        check_limits(&first, &jobs);
        check_capacity(&first);
        prop_assert_eq!(first, run(&clusters, &jobs, &policies));
    }

    /// The same holds for wrong speedups with plans by walltimes.
    #[test]
    fn assumed_speedups_change_only_plans(clusters in clusters(), jobs in workloads(), policies in policies()) {
        let policies = Policies { plan_by: PlanBy::Walltimes, ..policies };
        let first = run(&clusters, &jobs, &policies);
        check_limits(&first, &jobs);
        check_capacity(&first);
        prop_assert_eq!(first, run(&clusters, &jobs, &policies));
    }

    /// No decision depends on the runtime of a job that has not ended.
    #[test]
    fn the_future_is_out_of_reach(
        clusters in clusters(), jobs in workloads(), policies in policies(), which: prop::sample::Index, percent in 1..=100_i64,
    ) {
        let first = run(&clusters, &jobs, &policies);
        let mut other = jobs.clone();
        let changed = which.index(jobs.len());
        let job = &mut other[changed].job;
        job.runtime = Span((job.walltime.0 * percent / 100).max(1));
        let second = run(&clusters, &other, &policies);
        let until = first.jobs[changed].end.min(second.jobs[changed].end);
        prop_assert_eq!(decided(&first, until), decided(&second, until));
    }

    /// If walltimes equal runtimes, plans by runtimes give the same run.
    #[test]
    fn exact_walltimes_plan_as_runtimes(clusters in clusters(), jobs in workloads(), policies in policies()) {
        let mut jobs = jobs;
        for one in &mut jobs {
            (one.job.walltime, one.true_speedup) = (one.job.runtime, None);
        }
        let by = |plan_by| run(&clusters, &jobs, &Policies { plan_by, ..policies.clone() });
        prop_assert_eq!(by(PlanBy::Walltimes), by(PlanBy::Runtimes));
    }
}

/// One cluster of 4 processors. Jobs of user 1 request 1000 s and take 10; the last one takes 500. After it wait a job for all
/// processors and a small one that may start earlier only if it is predicted to be short.
#[test]
fn jobs_predicted_to_be_short_fill_gaps_and_exceeded_plans_are_extended() {
    let mut jobs = vec![
        job(1, 0, 1, 1000, 10),
        job(2, 100, 3, 1000, 500),
        job(3, 101, 4, 1000, 10),
        job(4, 102, 1, 1000, 10),
    ];
    for (one, user) in jobs.iter_mut().zip([1, 1, 2, 1]) {
        one.job.user = user;
    }
    let starts = |batch, plan_by| {
        let policies = Policies { plan_by, ..Policies::default() };
        let ran = run(&[(4, 1.0, batch)], &jobs, &policies);
        ran.jobs.iter().map(|ran| (ran.start.0, ran.walltime.0)).collect::<Vec<_>>()
    };
    let last = by(Level::User, Estimator::RecentMean, 1);
    for batch in ["cbf", "easy"] {
        // 3 is to start at 1100; 4 would end at 1102.
        assert_eq!(
            starts(batch, PlanBy::Walltimes),
            [(0, 1000), (100, 1000), (600, 1000), (610, 1000)],
            "{batch}"
        );
        // 2 is planned until 110, 3 from there; 4 until 112. At 110 the plan of 2 is exceeded and extended by a minute, so 4 fits
        // before 3.
        assert_eq!(starts(batch, last), [(0, 1000), (100, 1000), (600, 1000), (110, 1000)], "{batch}");
        assert_eq!(
            starts(batch, PlanBy::Runtimes),
            [(0, 1000), (100, 1000), (600, 1000), (102, 1000)],
            "{batch}"
        );
    }
}

#[test]
fn policies_that_fold_plan_by_walltimes() {
    let jobs = [SimJob { speedup: Speedup::Rigid, ..job(1, 0, 1, 10, 10) }];
    for batch in ["h1", "h1-completion", "h2", "h3", "h3-head"] {
        let policies = Policies { plan_by: PlanBy::Runtimes, ..Policies::default() };
        let error = simulate(&platform([(4, 1.0, batch)]), &jobs, &policies, &mut NoObserver).unwrap_err();
        let expected =
            format!("expected a batch policy that does not fold jobs to plan by runtimes, found `{batch}`");
        assert_eq!(error.to_string(), expected);
    }
}

/// A request for 4 processors and 400 s, which it uses fully, gets all 16 processors of an idle cluster. After it waits a job
/// for all processors.
#[test]
fn the_assumed_speedup_plans_and_the_true_one_decides_the_end() {
    let amdahl = |parallel| Speedup::Amdahl { parallel, limit: Procs(16) };
    let check = |believed: f64, real: f64, batch: &'static str, expected: [(i64, i64, i64); 2]| {
        let first =
            SimJob { speedup: amdahl(believed), true_speedup: Some(amdahl(real)), ..job(1, 0, 4, 400, 400) };
        let ran = run(&[(16, 1.0, batch)], &[first, job(2, 10, 16, 100, 100)], &Policies::default());
        let found = ran.jobs.iter().map(|ran| (ran.start.0, ran.end.0, ran.walltime.0));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{believed} instead of {real} under {batch}");
    };
    for batch in ["cbf", "easy"] {
        // Planned for 250 s, it takes 400 (1/2 + 1/32) / (1/2 + 1/8) = 340.
        check(0.8, 0.5, batch, [(0, 340, 340), (340, 440, 100)]);
        // Planned for 340 s, it takes 400 (1/5 + 4/80) / (1/5 + 4/20) = 250.
        check(0.5, 0.8, batch, [(0, 250, 250), (250, 350, 100)]);
    }
}

#[test]
fn policies_that_fold_refuse_jobs_with_a_wrong_speedup() {
    let amdahl = |parallel| Speedup::Amdahl { parallel, limit: Procs(4) };
    let one = SimJob { speedup: amdahl(0.5), true_speedup: Some(amdahl(0.8)), ..job(1, 0, 2, 10, 10) };
    let error =
        simulate(&platform([(4, 1.0, "h1")]), &[one], &Policies::default(), &mut NoObserver).unwrap_err();
    let expected =
        "expected a batch policy that does not fold jobs for jobs whose speedup is misjudged, found `h1`";
    assert_eq!(error.to_string(), expected);
}
