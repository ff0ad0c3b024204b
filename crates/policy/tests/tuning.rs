//! The exact tuner against trying every size, on random profiles.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::sync::Arc;

use pliant_model::{JobId, Procs, Request, Span, Speed, Speedup, Time};
use pliant_policy::profile::{Profile, StartBounds};
use pliant_policy::tuning::{ClassTimes, Tuner, tune};
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
            let request = Request {
                id: JobId(0), submit: Time::ZERO, procs: Procs(procs), walltime: Span(walltime), speedup, origin: None,
            };
            let speed = Speed::new(f64::from(tenths) / 10.0).unwrap();
            let Some(walltimes) = request.on(Procs(capacity), speed) else { continue };
            let expected = tune(Tuner::Exhaustive, &profile, None, Time::ZERO, &walltimes);
            prop_assert_eq!(tune(Tuner::Exact, &profile, None, Time::ZERO, &walltimes), expected);
            let times = ClassTimes::new(&request.on(Procs(64), Speed::REFERENCE).unwrap());
            for _ in 0..2 {
                let bound = times.completion_bound(Some(&bounds), Time::ZERO, speed, Procs(capacity));
                prop_assert!(bound <= expected.unwrap().completion(), "{:?} > {:?}", bound, expected);
                prop_assert_eq!(tune(Tuner::Exact, &profile, Some(&mut bounds), Time::ZERO, &walltimes), expected);
            }
            let binary = tune(Tuner::Binary, &profile, None, Time::ZERO, &walltimes).unwrap();
            prop_assert!(binary.completion() >= expected.unwrap().completion());
        }
    }
}
