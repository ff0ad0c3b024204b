//! Multi-jobs among background jobs: small cases by hand, the engine against the frozen scenario, and the golden figures of
//! paper 002 that need random draws.

use std::num::NonZeroUsize;
use std::sync::Arc;

use pliant_model::{Span, Time};
use pliant_policy::allocation::{Strategy, baseline, levels};
use pliant_policy::runtimes::{Categories, Estimator, Level, Settings};
use pliant_testing::claims::figure;
use pliant_trace::generate::{GridLog, JobLaw, grid_log};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert_eq, proptest};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;

const SETTINGS: Settings =
    Settings { window: NonZeroUsize::new(100).expect("not 0"), least: NonZeroUsize::new(1).expect("not 0") };

fn user(user: i32) -> Categories<i32> {
    Categories { executable: None, user: Some(user), group: Some(1) }
}

/// Jobs of (submission, cluster, runtime, user).
fn background_of(clusters: usize, jobs: &[(i64, usize, i64, i32)]) -> Background {
    let job = |(submit, cluster, runtime, of): &(i64, usize, i64, i32)| BackgroundJob {
        submit: Time(*submit),
        cluster: *cluster,
        runtime: Span(*runtime),
        categories: user(*of),
    };
    let mut jobs: Vec<BackgroundJob> = jobs.iter().map(job).collect();
    jobs.sort_by_key(|job| job.submit);
    Background { clusters, jobs, span: Span(1000), categories: [0; 3] }
}

fn statistics(background: &Background) -> RuntimeStatistics {
    RuntimeStatistics {
        whole: Arc::new(background.whole(SETTINGS)),
        finished: Arc::new(background.ended_by(SETTINGS, Time::ZERO)),
    }
}

fn broker(strategy: Strategy, knowledge: RuntimeKnowledge) -> Broker {
    let (level, estimator) = (Level::User, Estimator::Mean);
    let running = RunningJobs::AsSubmitted;
    Broker { strategy, knowledge, level, estimator, running, deviations: 0.0, poll: None, copies: 1 }
}

fn instances(count: usize, runtime: i64) -> MultiJob {
    let runtimes = vec![Span(runtime); count];
    MultiJob { replicas: runtimes.clone(), runtimes, categories: user(9) }
}

fn run(background: &Background, processors: &[u32], delay: i64, job: &MultiJob, broker: &Broker) -> Outcome {
    let mut session = Session::new(background, processors, Time::ZERO, statistics(background));
    session.run_for(Span(delay));
    let view = session.view(&job.categories, job.runtimes.last().copied(), broker);
    let rng = ChaCha8Rng::seed_from_u64(1);
    let settled =
        broker.never_moves().then(|| settle(job, broker, &view, &session.truth(), &mut rng.clone()).unwrap());
    let outcome = session.run(job, broker, &view, &mut rng.clone()).unwrap();
    settled.iter().for_each(|settled| assert_eq!(settled, &outcome));
    outcome
}

#[test]
fn instances_wait_behind_earlier_jobs() {
    // One cluster is busy until 100, the other until 30; then more background jobs are submitted.
    let background = background_of(2, &[(0, 0, 100, 1), (0, 1, 30, 2), (20, 1, 500, 3)]);
    let exact = broker(Strategy::Statistics, RuntimeKnowledge::Exact);
    let outcome = run(&background, &[1, 1], 10, &instances(4, 10), &exact);
    // All four on the second cluster, at 40, 50, 60 and 70.
    assert_eq!((outcome.expected, outcome.makespan), (Span(60), Span(60)));
    assert!((outcome.mean_response_s - 45.0).abs() < 1e-9);
    // After 20, the long job precedes them.
    let outcome = run(&background, &[1, 1], 20, &instances(4, 10), &exact);
    assert_eq!((outcome.expected, outcome.makespan), (Span(120), Span(120)));
    // Two processors: the long job takes one of them only.
    let outcome = run(&background, &[1, 2], 20, &instances(4, 10), &exact);
    assert_eq!(outcome.makespan, Span(50));
}

#[test]
fn statistics_use_the_whole_log_or_the_ended_jobs() {
    // User 1 had short jobs and submits a long one; each cluster has one long job, of user 1 or 2.
    let jobs = [(0, 0, 10, 1), (0, 1, 10, 2), (20, 0, 400, 1), (20, 1, 100, 2)];
    let background = background_of(2, &jobs);
    let job = instances(6, 20);
    let check = |knowledge, expected| {
        let outcome = run(&background, &[1, 1], 20, &job, &broker(Strategy::Statistics, knowledge));
        assert_eq!(outcome.expected, Span(expected), "{knowledge:?}");
    };
    // 400 and 100 remain: all instances go to the second cluster.
    check(RuntimeKnowledge::Exact, 220);
    // Means of 205 and 55.
    check(RuntimeKnowledge::WholeLog, 175);
    // Means of 10 each.
    check(RuntimeKnowledge::Finished, 70);
}

/// Ended jobs of user 1 ran for 10, 20 and 60 s (mean 30), one of user 2 for 35 s. Since 100 one job of user 1 runs for 300 s
/// and one of user 2 for 40 s.
#[test]
fn a_job_beyond_its_prediction_is_expected_to_end_at_once_or_as_live_servers_predict() {
    let ended = [(0, 0, 10, 1), (10, 0, 20, 1), (30, 0, 60, 1), (0, 1, 35, 2)];
    let running = [(100, 0, 300, 1), (100, 1, 40, 2)];
    let background = background_of(2, &[ended.as_slice(), &running].concat());
    let submitted = broker(Strategy::Statistics, RuntimeKnowledge::Finished);
    let elapsed = Broker { running: RunningJobs::ByElapsed, ..submitted.clone() };
    let free = |broker: &Broker, delay: i64| {
        let mut session = Session::new(&background, &[1, 1], Time::ZERO, statistics(&background));
        session.run_for(Span(delay));
        let states = session.view(&user(9), Some(Span(10)), broker).states;
        [0, 1].map(|cluster: usize| states[cluster].offer.free[0].at.0)
    };
    // The first has outlasted the short jobs, so the long one predicts it.
    assert_eq!((free(&submitted, 120), free(&elapsed, 120)), ([10, 15], [40, 15]));
    // At 137 both have outlasted their means: the job of 60 s predicts the first, none the second.
    assert_eq!((free(&submitted, 137), free(&elapsed, 137)), ([0, 0], [23, 37]));
    // At 170 no ended job ran as long as the first one.
    assert_eq!((free(&submitted, 170)[0], free(&elapsed, 170)[0]), (0, 70));
    // Of two instances submitted then, one or none waits for its real end at 400.
    let makespan = |broker: &Broker| run(&background, &[1, 1], 170, &instances(2, 10), broker).makespan;
    assert_eq!((makespan(&submitted), makespan(&elapsed)), (Span(240), Span(20)));
}

#[test]
fn waiting_instances_move_when_that_is_faster() {
    // The first cluster looks as busy as the second but is free soon.
    let jobs = [(0, 0, 5, 1), (0, 1, 5, 1), (6, 0, 2, 1), (6, 1, 300, 1)];
    let background = background_of(2, &jobs);
    let still = broker(Strategy::Statistics, RuntimeKnowledge::WholeLog);
    let moving = Broker { poll: Some(Span(50)), ..still.clone() };
    let job = instances(20, 10);
    let (before, after) =
        (run(&background, &[1, 1], 6, &job, &still), run(&background, &[1, 1], 6, &job, &moving));
    assert_eq!((before.makespan, before.moves), (Span(400), 0));
    assert!(after.makespan < Span(320) && after.moves > 0, "{after:?}");
}

#[test]
fn idle_processors_take_waiting_instances_and_replicate_running_ones() {
    let background = background_of(2, &[(0, 0, 100, 1)]);
    let still = broker(Strategy::FewestFailures, RuntimeKnowledge::Finished);
    let pulling = Broker { copies: 2, ..still.clone() };
    let mut job = instances(4, 10);
    let (before, after) =
        (run(&background, &[1, 1], 1, &job, &still), run(&background, &[1, 1], 1, &job, &pulling));
    assert_eq!((before.makespan, before.moves), (Span(119), 0));
    assert_eq!((after.makespan, after.moves, after.replicas), (Span(40), 2, 0));
    // One instance runs long, its replica does not.
    job.runtimes = vec![Span(500), Span(10)];
    job.replicas = vec![Span(10); 2];
    let idle = background_of(2, &[]);
    let after = run(&idle, &[1, 1], 0, &job, &pulling);
    assert_eq!((after.makespan, after.moves, after.replicas), (Span(20), 0, 1));
}

#[test]
fn a_log_is_divided_into_clusters_by_partition_and_period() {
    let what = GridLog {
        sites: 3,
        jobs: 600,
        days: 4.0,
        groups: 2,
        users: 2,
        executables: 2,
        mean_s: 100.0,
        spread: 0.1,
        skew: 1.0,
    };
    let log = grid_log(&what, 1);
    let divided = background(&log, Division { stretches: 4, skipped: 2, clusters: 10 }).unwrap();
    let mut work = [0; 10];
    divided.jobs.iter().for_each(|job| work[job.cluster] += job.runtime.0);
    assert!(work.is_sorted_by(|a, b| a >= b) && work[9] > 0, "{work:?}");
    assert!(divided.jobs.iter().all(|job| job.submit < Time::ZERO + divided.span));
    assert!(divided.span <= Span(86_401), "{}", divided.span);
    assert_eq!(divided.categories, [8, 4, 2]);
    let found = background(&log, Division { stretches: 4, skipped: 3, clusters: 10 });
    assert_eq!(found, Err(TooFewClusters { expected: 13, found: 12 }));
    let (of, runtimes) = divided.category(Level::User, 1).unwrap();
    let alike = divided.jobs.iter().filter(|job| job.categories.user == of.user).count();
    assert_eq!((of.executable, runtimes.len()), (None, alike));
    assert_eq!(divided.category(Level::User, 5), None);
}

#[test]
fn predictions_are_compared_with_real_runtimes() {
    let background = background_of(1, &[(0, 0, 10, 1), (5, 0, 10, 1), (20, 0, 30, 1), (30, 0, 30, 2)]);
    let asked = [(Level::User, Estimator::Mean), (Level::All, Estimator::Mean)];
    let found = errors(&background, SETTINGS, &asked);
    // The first two predict the third, and also the fourth as jobs of its group.
    assert_eq!((found[0].all().jobs, found[0].all().absolute), (2, 40));
    let levels: Vec<Level> = found[0].levels().map(|(level, _)| level).collect();
    assert_eq!(levels, [Level::User, Level::Group]);
    assert_eq!(found[1].levels().count(), 1);
}

/// By how many percent the distributions of Table 3 end later than equal jobs, with nothing pending on ten clusters
/// (paper 002, section 5.1.3; means of many draws).
#[test]
fn g002_4_the_distributions_of_table_3() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let mut later = |law, count, draws| {
        let counts = levels::fill(&[Span::ZERO; 10], Span(1000), count).instances;
        let law = RuntimeLaw { law, mean: Span(1000) };
        let sum: i64 = (0..draws).map(|_| run_frozen(&[Span::ZERO; 10], &counts, &law, &mut rng).0).sum();
        let equal = (count / 10 * 1000) as f64;
        100.0 * (sum as f64 / f64::from(draws) / equal - 1.0)
    };
    // By how much Gaussian jobs are later than equal ones, within how much of that, and Pareto jobs than Gaussian ones.
    for (count, draws, (gaussian, least), pareto) in [
        (10, 4000, (15.4, 1.0), 2.9..=4.1),
        (100, 2000, (4.9, 0.3), 0.4..=0.8),
        (1000, 500, (1.54, 0.2), 0.0..=0.25),
        (10_000, 100, (0.49, 0.1), -0.1..=0.15),
    ] {
        let found = [JobLaw::Gaussian, JobLaw::Pareto].map(|law| later(law, count, draws));
        let what = format!("% later with Gaussian than with equal jobs, {count} jobs, no pre-load");
        figure("C002-6", &what, found[0], gaussian - least..=gaussian + least);
        let what = format!("% later with Pareto than with Gaussian jobs, {count} jobs, no pre-load");
        let percent = 100.0 * ((100.0 + found[1]) / (100.0 + found[0]) - 1.0);
        figure("C002-5", &what, percent, pareto);
    }
    // The printed Pareto distribution ends far later, the intended one hardly later than the Gaussian one.
    let (printed, meant) = (later(JobLaw::ParetoPrinted, 10, 4000), later(JobLaw::Pareto, 10, 4000));
    // The largest of ten runtimes of the printed distribution is 2,837 s on average (184 % later).
    figure(
        "C002-5",
        "% later with the printed Pareto law than with equal jobs, 10 jobs",
        printed,
        150.0..=220.0,
    );
    assert!((15.0..25.0).contains(&meant), "{meant} %");
    let (printed, meant) = (later(JobLaw::ParetoPrinted, 10_000, 60), later(JobLaw::Pareto, 10_000, 60));
    assert!((4.0..14.0).contains(&printed) && (0.3..0.7).contains(&meant), "{printed} and {meant} %");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// With single processors, equal jobs and a broker with the real runtimes, the engine and the frozen scenario end when
    /// Algorithm 1 expects.
    #[test]
    fn both_scenarios_agree_without_later_submissions(
        jobs in prop::collection::vec((0..100_i64, 0..5_usize, 1..80_i64, 1..3_i32), 0..40),
        count in 0..60_usize,
        time in 1..40_i64,
    ) {
        let background = background_of(5, &jobs);
        let pending = freeze(&background, Time::ZERO, Span(100), None);
        let best = levels::fill(&pending, Span(time), count as u64);
        let job = instances(count, time);
        let outcome = run(&background, &[1; 5], 100, &job, &broker(Strategy::Statistics, RuntimeKnowledge::Exact));
        prop_assert_eq!(outcome.expected, best.makespan);
        prop_assert_eq!(outcome.makespan, best.makespan);
        let law = RuntimeLaw { law: JobLaw::Deterministic, mean: Span(time) };
        let rng = &mut ChaCha8Rng::seed_from_u64(1);
        prop_assert_eq!(run_frozen(&pending, &best.instances, &law, rng), best.makespan);
    }

    /// On clusters of several processors with later submissions; [`run`] compares.
    #[test]
    fn multi_jobs_without_moves_can_be_settled_at_once(
        jobs in prop::collection::vec((0..200_i64, 0..4_usize, 1..80_i64, 1..3_i32), 0..60),
        processors in prop::collection::vec(1..4_u32, 4),
        times in prop::collection::vec(1..40_i64, 1..40),
        strategy in 0..Strategy::ALL.len(),
    ) {
        let background = background_of(4, &jobs);
        let runtimes: Vec<Span> = times.into_iter().map(Span).collect();
        let job = MultiJob { replicas: runtimes.clone(), runtimes, categories: user(1) };
        run(&background, &processors, 100, &job, &broker(Strategy::ALL[strategy], RuntimeKnowledge::Finished));
    }

    /// Claim C002-3 with simulated jobs: no draw ends before Algorithm 1.
    #[test]
    fn c002_3_no_draw_ends_before_algorithm_1(
        pending in prop::collection::vec(0..5000_i64, 1..12),
        count in 1..100_u64,
        seed in any::<u64>(),
    ) {
        let pending: Vec<Span> = pending.into_iter().map(Span).collect();
        let law = RuntimeLaw { law: JobLaw::Deterministic, mean: Span(100) };
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let drawn = baseline::random(pending.len(), count, rng);
        let best = levels::fill(&pending, law.mean, count);
        prop_assert_eq!(run_frozen(&pending, &drawn, &law, rng).max(best.makespan),
            run_frozen(&pending, &drawn, &law, rng));
    }
}
