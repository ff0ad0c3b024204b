//! The exact tuner against trying every size, on random profiles.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;

use pliant_model::{Estimate, JobId, Procs, Request, Span, Speed, Speedup, Time, Walltimes};
use pliant_policy::profile::{Profile, StartBounds};
use pliant_policy::tuning::{self, ClassTimes, OtherJobs, Present, Thousandths, Tuner, tune};
use pliant_testing::claims;
use proptest::prelude::*;

fn speedup() -> impl Strategy<Value = Speedup> {
    prop_oneof![
        Just(Speedup::Rigid),
        Just(Speedup::Folding),
        (0.0..=1.0_f64, 1..80_u32)
            .prop_map(|(parallel, limit)| Speedup::Amdahl { parallel, limit: Procs(limit) }),
        (1.0..60.0_f64, 0.0..3.0_f64)
            .prop_map(|(average_parallelism, sigma)| Speedup::Downey { average_parallelism, sigma }),
        prop::collection::btree_map(1..70_u32, 1.0..500.0_f64, 1..8).prop_map(|table| {
            let entries: Vec<(Procs, f64)> = table.into_iter().map(|(n, time)| (Procs(n), time)).collect();
            Speedup::Table(Arc::from(entries))
        }),
    ]
}

fn profile(capacity: u32, jobs: &[(u32, i64, i64)]) -> Profile {
    let mut profile = Profile::new(Procs(capacity), Time::ZERO);
    for (procs, walltime, not_before) in jobs {
        let procs = Procs(1 + procs % capacity);
        let start = profile.earliest_fit(Time(*not_before), procs, Span(*walltime)).unwrap();
        profile.reserve(start, start + Span(*walltime), procs);
    }
    profile
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn exact_equals_exhaustive(
        capacity in 1..64_u32,
        jobs in prop::collection::vec((0..64_u32, 1..400_i64, 0..3000_i64), 0..90),
        requests in prop::collection::vec((speedup(), 1..64_u32, 1..2000_i64, 5..20_u32), 1..8),
    ) {
        let profile = profile(capacity, &jobs);
        let mut bounds = StartBounds::new(Procs(capacity));
        for (speedup, procs, walltime, tenths) in requests {
            prop_assert_eq!(speedup.validate(), Ok(()));
            let request = Request::new(JobId(0), Time::ZERO, Procs(procs), Span(walltime), speedup);
            let request = Request { fixed_time: walltime % 2 == 0, ..request };
            let speed = Speed::new(f64::from(tenths) / 10.0).unwrap();
            let Some(walltimes) = request.on(Procs(capacity), speed) else { continue };
            let expected = tune(Tuner::Exhaustive, &profile, None, Time::ZERO, &Present::alone(Time::ZERO), &walltimes);
            prop_assert_eq!(tune(Tuner::Exact, &profile, None, Time::ZERO, &Present::alone(Time::ZERO), &walltimes), expected);
            let times = ClassTimes::new(&request.on(Procs(64), Speed::REFERENCE).unwrap());
            for _ in 0..2 {
                let bound = times.completion_bound(Some(&bounds), Time::ZERO, speed, Procs(capacity));
                prop_assert!(bound <= expected.unwrap().completion(), "{:?} > {:?}", bound, expected);
                prop_assert_eq!(tune(Tuner::Exact, &profile, Some(&mut bounds), Time::ZERO, &Present::alone(Time::ZERO), &walltimes), expected);
            }
            let binary = tune(Tuner::Binary, &profile, None, Time::ZERO, &Present::alone(Time::ZERO), &walltimes).unwrap();
            prop_assert!(binary.completion() >= expected.unwrap().completion());
        }
    }
}

/// Reference implementation of bounded-slack sizing: tries every size.
fn reference_slack(
    tuner: Tuner,
    profile: &Profile,
    now: Time,
    jobs: usize,
    walltimes: &Walltimes<'_>,
) -> Option<Estimate> {
    let Tuner::Slack { slack, share } = tuner else { panic!("{tuner} has no slack") };
    let estimate = |n: u32| {
        let (procs, walltime) = (Procs(n), walltimes.at(Procs(n)));
        Some(Estimate { procs, walltime, start: profile.earliest_fit(now, procs, walltime)? })
    };
    let (least, most) = (walltimes.least().0, walltimes.most().min(profile.capacity()).0);
    let greedy = (least..=most).filter_map(estimate).min_by_key(|one| (one.completion(), one.procs))?;
    let response = i128::from((greedy.completion() - now).0);
    let latest = i128::from(now.0) + response + response * i128::from(slack.0) / 1000;
    let part =
        u64::from(share.0) * u64::from(profile.capacity().0) / (u64::from(share.0) + 1000 * jobs as u64);
    let floor = least.max(greedy.procs.0.min(part as u32));
    let fits = |one: &Estimate| i128::from(one.completion().0) <= latest;
    (floor..=greedy.procs.0).filter_map(estimate).find(fits)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    /// The size equals the reference, its promise at most `1 + slack` times the earliest, and never below the share.
    #[test]
    fn bounded_slack_equals_trying_every_size(
        capacity in 1..64_u32,
        jobs in prop::collection::vec((0..64_u32, 1..400_i64, 0..3000_i64), 0..90),
        requests in prop::collection::vec((speedup(), 1..64_u32, 1..2000_i64, 0..12_usize), 1..8),
        (slack, share) in prop_oneof![3 => Just((500, 500)), 2 => (0..3000_u32, 1..=1000_u32)],
        now in 0..500_i64,
    ) {
        let tuner = Tuner::Slack { slack: Thousandths(slack), share: Thousandths(share) };
        let mut profile = profile(capacity, &jobs);
        let now = Time(now);
        profile.advance(now);
        let mut bounds = StartBounds::new(Procs(capacity));
        for (speedup, procs, walltime, count) in requests {
            let request = Request::new(JobId(0), Time::ZERO, Procs(procs), Span(walltime), speedup);
            let Some(walltimes) = request.on(Procs(capacity), Speed::REFERENCE) else { continue };
            let present = Present { now, others: OtherJobs { count, shapes: &|_| {} } };
            let expected = reference_slack(tuner, &profile, now, count, &walltimes);
            prop_assert_eq!(tune(tuner, &profile, None, now, &present, &walltimes), expected);
            prop_assert_eq!(tune(tuner, &profile, Some(&mut bounds), now, &present, &walltimes), expected);
            prop_assert_eq!(tune(tuner, &profile, Some(&mut bounds), now, &present, &walltimes), expected);
            let earliest = tune(Tuner::Exact, &profile, None, now, &present, &walltimes).unwrap();
            let (chosen, response) = (expected.unwrap(), earliest.completion() - now);
            prop_assert!((chosen.completion() - now).0 * 1000 <= response.0 * i64::from(1000 + slack));
            prop_assert!(chosen.completion() >= earliest.completion(), "a bound on the earliest holds");
            prop_assert!(chosen.procs <= earliest.procs);
        }
    }
}

/// The paper's job types (section 4.2.1): parallel fraction and limit.
const TYPES: [(f64, u32); 4] = [(0.8, 32), (0.9, 96), (0.99, 256), (0.999, 650)];

/// What happens to a profile between two requests.
#[derive(Clone, Debug)]
enum Change {
    Reserve {
        procs: u32,
        walltime: i64,
    },
    /// The which-th reservation is given back from that share of its length on.
    Release {
        which: usize,
        percent: i64,
    },
    Advance {
        by: i64,
    },
    Request {
        kind: usize,
        procs: u32,
        walltime: i64,
        tenths: u32,
    },
}

fn change() -> impl Strategy<Value = Change> {
    let width = || prop_oneof![3 => 1..33_u32, 1 => 1..=640_u32];
    prop_oneof![
        8 => (width(), 1..20_000_i64).prop_map(|(procs, walltime)| Change::Reserve { procs, walltime }),
        2 => (0..1000_usize, 0..100_i64).prop_map(|(which, percent)| Change::Release { which, percent }),
        1 => (0..4000_i64).prop_map(|by| Change::Advance { by }),
        4 => (0..4_usize, width(), 1..100_000_i64, 10..15_u32)
            .prop_map(|(kind, procs, walltime, tenths)| Change::Request { kind, procs, walltime, tenths }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Bounds are notified of releases only, as by a cluster, and outlive hundreds of changes.
    #[test]
    fn exact_equals_exhaustive_on_the_papers_clusters_while_the_plan_changes(
        capacity in prop::sample::select(vec![270_u32, 434, 640]),
        changes in prop::collection::vec(change(), 50..300),
    ) {
        let mut profile = Profile::new(Procs(capacity), Time::ZERO);
        let mut bounds = StartBounds::new(Procs(capacity));
        let mut held: Vec<(Time, Time, Procs)> = Vec::new();
        let mut now = Time::ZERO;
        for change in changes {
            match change {
                Change::Reserve { procs, walltime } => {
                    let (procs, walltime) = (Procs(procs.min(capacity)), Span(walltime));
                    let start = profile.earliest_fit(now, procs, walltime).unwrap();
                    profile.reserve(start, start + walltime, procs);
                    held.push((start, start + walltime, procs));
                }
                Change::Release { which, percent } if !held.is_empty() => {
                    let (start, end, procs) = held.swap_remove(which % held.len());
                    let from = (start + Span((end - start).0 * percent / 100)).max(now);
                    let freed = profile.release(from, end, procs);
                    bounds.freed(&profile, now, freed);
                }
                Change::Advance { by } => {
                    now += Span(by);
                    profile.advance(now);
                }
                Change::Request { kind, procs, walltime, tenths } => {
                    let (parallel, limit) = TYPES[kind];
                    let speedup = Speedup::Amdahl { parallel, limit: Procs(limit) };
                    let (procs, walltime) = (Procs(procs), Span(walltime));
                    let request = Request::new(JobId(0), now, procs, walltime, speedup);
                    let speed = Speed::new(f64::from(tenths) / 10.0).unwrap();
                    let walltimes = request.on(Procs(capacity), speed).unwrap();
                    let expected = tune(Tuner::Exhaustive, &profile, None, now, &Present::alone(now), &walltimes);
                    let times = ClassTimes::new(&request.on(Procs(640), Speed::REFERENCE).unwrap());
                    let bound = times.completion_bound(Some(&bounds), now, speed, Procs(capacity));
                    prop_assert!(bound <= expected.unwrap().completion(), "{:?} > {:?}", bound, expected);
                    prop_assert_eq!(tune(Tuner::Exact, &profile, None, now, &Present::alone(now), &walltimes), expected);
                    prop_assert_eq!(tune(Tuner::Exact, &profile, Some(&mut bounds), now, &Present::alone(now), &walltimes), expected);
                    let present = Present { now, others: OtherJobs { count: kind, shapes: &|_| {} } };
                    let slack = tune(Tuner::default(), &profile, Some(&mut bounds), now, &present, &walltimes);
                    prop_assert_eq!(slack, reference_slack(Tuner::default(), &profile, now, kind, &walltimes));
                }
                Change::Release { .. } => {}
            }
        }
        prop_assert_eq!(profile.check(), Ok(()));
    }
}

/// Five sizes of which the smallest and the largest complete at the same time: the binary search then goes
/// on among the smaller ones (paper 000, Figure 2), and misses the best.
#[test]
fn binary_search_prefers_the_smaller_half_when_both_ends_complete_together() {
    let mut profile = Profile::new(Procs(5), Time::ZERO);
    profile.reserve(Time(0), Time(20), Procs(1));
    profile.reserve(Time(20), Time(90), Procs(3));
    let times = [(1, 100.0), (2, 80.0), (3, 70.0), (4, 20.0), (5, 10.0)];
    let speedup = Speedup::Table(times.map(|(n, time)| (Procs(n), time)).into());
    let (procs, walltime) = (Procs(1), Span(100));
    let request = Request::new(JobId(0), Time::ZERO, procs, walltime, speedup);
    let walltimes = request.on(Procs(5), Speed::REFERENCE).unwrap();
    let completion = |n| {
        let span = walltimes.at(Procs(n));
        (profile.earliest_fit(Time::ZERO, Procs(n), span).unwrap() + span).0
    };
    assert_eq!([1, 2, 3, 4, 5].map(completion), [100, 80, 160, 20, 100]);
    let choice = |tuner| {
        tune(tuner, &profile, None, Time::ZERO, &Present::alone(Time::ZERO), &walltimes)
            .map(|best| best.procs.0)
    };
    assert_eq!([Tuner::Exhaustive, Tuner::Binary, Tuner::Exact].map(choice), [Some(4), Some(2), Some(4)]);
}

type Estimation<'a> = &'a mut dyn FnMut(Procs) -> Option<Estimate>;

/// The sizes that a search among 650 asks for when `completion` says when each would be done.
fn asked(
    search: fn(Procs, Procs, Estimation<'_>) -> Option<Estimate>,
    completion: impl Fn(i64) -> i64,
) -> Vec<u32> {
    let mut sizes = Vec::new();
    search(Procs::ONE, Procs(650), &mut |procs| {
        sizes.push(procs.0);
        Some(Estimate { procs, walltime: Span(1), start: Time(completion(i64::from(procs.0))) })
    });
    sizes
}

#[test]
fn c000_2_estimations_of_650_sizes() {
    let exhaustive = asked(|least, most, estimate| tuning::exhaustive(least, most, estimate), |_| 0);
    assert!(exhaustive.into_iter().eq(1..=650));
    let binary = |completion: &dyn Fn(i64) -> i64| {
        asked(|least, most, estimate| tuning::binary(least, most, estimate), completion)
    };
    // An idle cluster: the more processors, the earlier. 2 end points and 10 bisections.
    let idle = [1, 650, 325, 487, 568, 609, 629, 639, 644, 647, 648, 649];
    assert_eq!((binary(&|n| -n), idle.len()), (idle.to_vec(), 12));
    // A long queue: the fewer, the earlier. Halves are rounded down, which saves one.
    assert_eq!(binary(&|n| n), [1, 650, 325, 163, 82, 41, 21, 11, 6, 3, 2]);
    let lengths = (1..=650).map(|best| binary(&|n| (n - best).abs()).len());
    assert!(lengths.into_iter().all(|length| length == 11 || length == 12));
    claims::figure("C000-2", "estimations of 650 sizes, binary search", idle.len() as f64, 12.0..=12.0);
}

/// What the tuner asks a cluster for is what the search asks for: an idle one of 650 processors.
#[test]
fn the_binary_tuner_is_the_counted_search() {
    let profile = Profile::new(Procs(650), Time::ZERO);
    let speedup = Speedup::Amdahl { parallel: 0.999, limit: Procs(650) };
    let (procs, walltime) = (Procs(10), Span(1_000_000));
    let request = Request::new(JobId(0), Time::ZERO, procs, walltime, speedup);
    let walltimes = request.on(Procs(650), Speed::REFERENCE).unwrap();
    let mut count = 0;
    let found = tuning::binary(walltimes.least(), walltimes.most(), |n| {
        count += 1;
        let start = profile.earliest_fit(Time::ZERO, n, walltimes.at(n))?;
        Some(Estimate { procs: n, walltime: walltimes.at(n), start })
    });
    assert_eq!((count, found.map(|one| one.procs)), (12, Some(Procs(650))));
    assert_eq!(
        found,
        tune(Tuner::Binary, &profile, None, Time::ZERO, &Present::alone(Time::ZERO), &walltimes)
    );
}
