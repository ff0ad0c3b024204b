//! What a workload is changed into for an experiment: months, loads, ranges of sizes, wrong beliefs about speedups.

mod support;

use std::collections::BTreeMap;

use pliant_model::{Procs, Speedup, Time};
use pliant_trace::generate::federation;
use pliant_trace::moldable::{MISJUDGEMENTS, MoldableShare, PerceivedSpeedups, TYPES, within_twice};
use pliant_trace::{Workload, offered_load};
use support::{CLEAN, read};

/// A log that starts on 1996-09-30 at 00:00 UTC, with a job of 10 s at each time.
fn log(at: &[i64]) -> Workload {
    let mut text = String::from("; UnixStartTime: 844041600\n; MaxProcs: 4\n");
    for (index, at) in at.iter().enumerate() {
        text.push_str(&format!("{} {at} -1 10 1 -1 -1 1 10 -1 1 1 1 -1 -1 -1 -1 -1\n", index + 1));
    }
    read("log.swf", text.as_bytes(), CLEAN).expect("a log")
}

#[test]
fn a_month_is_cut_out_by_the_calendar() {
    let day = 86_400;
    let whole = log(&[100, day - 1, day, 2 * day, 32 * day - 1, 32 * day]);
    let check = |month: &str, expected: Result<&[(u64, i64)], &str>| {
        let mut cut = whole.clone();
        let outcome = cut.keep_month(month.parse().unwrap());
        support::invariants::schedulable(&cut);
        let jobs: Vec<(u64, i64)> = cut.jobs.iter().map(|job| (job.log_id, job.submit.0)).collect();
        let partitions = cut.partitions.len();
        let found = outcome.as_ref().map(|()| jobs.as_slice()).map_err(String::as_str);
        assert_eq!((found, partitions), (expected, cut.jobs.len()), "{month}");
    };
    check("1996-09", Ok(&[(1, 0), (2, day - 101)]));
    check("1996-10", Ok(&[(3, 0), (4, day), (5, 31 * day - 1)]));
    check("1996-11", Ok(&[(6, 0)]));
    check("1996-12", Err("expected jobs in 1996-12, found them from 1996-09-30 to 1996-11-01 only"));
    let mut cut = whole.clone();
    cut.keep_month("1996-10".parse().unwrap()).unwrap();
    assert_eq!((cut.unix_start, cut.report.kept), (Some(844_041_600 + day), 3), "cut again, it is the same");
    let mut unplaced = Workload { unix_start: None, ..whole };
    let problem = unplaced.keep_month("1996-10".parse().unwrap()).unwrap_err();
    assert_eq!(problem, "expected a log with UnixStartTime to cut months out of, found none");
}

#[test]
fn submissions_move_and_runtimes_stay() {
    let platform = pliant_trace::platform::built_in("grid5000").unwrap();
    let natural = federation(&platform, 2_000, 7.0, 0.5, 3);
    for load in [0.1, 0.5, 1.7] {
        let mut moved = natural.clone();
        moved.offer(platform.capacity(), load);
        support::invariants::schedulable(&moved);
        let found = offered_load(&moved.jobs, platform.capacity(), moved.last_submit() - Time::ZERO);
        assert!((found / load - 1.0).abs() < 1e-5, "{load}: {found}");
        let shape = |workload: &Workload| {
            let jobs = workload.jobs.iter().map(|job| (job.log_id, job.procs, job.walltime, job.runtime));
            jobs.collect::<Vec<_>>()
        };
        assert_eq!(shape(&moved), shape(&natural));
    }
}

#[test]
fn a_third_of_the_jobs_is_moldable() {
    let mut share = MoldableShare::new(1.0 / 3.0, 7);
    let drawn: Vec<bool> = (0..30_000).map(|_| share.draw()).collect();
    let moldable = drawn.iter().filter(|one| **one).count();
    assert!((9_700..10_300).contains(&moldable), "{moldable}");
}

#[test]
fn sizes_within_twice_the_request_keep_their_times() {
    let speedup = Speedup::Amdahl { parallel: 0.8, limit: Procs(32) };
    let check = |requested: u32, cluster: u32, expected: Option<(u32, u32)>| {
        let narrow = within_twice(&speedup, Procs(requested));
        assert_eq!(narrow.validate(), Ok(()));
        let sizes = narrow.sizes(Procs(requested), Procs(cluster));
        assert_eq!(sizes.map(|(least, most)| (least.0, most.0)), expected, "{requested} of {cluster}");
        for procs in sizes.into_iter().flat_map(|(least, most)| least.0..=most.0).map(Procs) {
            let times = [&narrow, &speedup].map(|one| one.relative_time(procs, Procs(requested)));
            assert_eq!(times[0], times[1]);
        }
    };
    check(2, 100, Some((1, 4)));
    check(9, 100, Some((5, 18)));
    check(9, 10, Some((5, 10)));
    check(20, 100, Some((10, 32)));
    // More than the model's limit was asked for: never more, possibly less.
    check(40, 100, Some((20, 40)));
    check(70, 100, Some((35, 70)));
    check(70, 34, None);
    assert_eq!(within_twice(&Speedup::Rigid, Procs(7)), Speedup::Rigid);
}

#[test]
fn sequential_fractions_are_misjudged_by_each_factor_equally_often() {
    let mut beliefs = PerceivedSpeedups::new(3);
    let mut factors: BTreeMap<u64, u32> = BTreeMap::new();
    for (parallel, limit, _) in TYPES.iter().cycle().take(4_000) {
        let real = Speedup::Amdahl { parallel: *parallel, limit: Procs(*limit) };
        let Speedup::Amdahl { parallel: believed, limit: same } = beliefs.draw(&real) else {
            panic!("expected Amdahl's law")
        };
        assert_eq!((same.0, (0.0..=1.0).contains(&believed)), (*limit, true));
        let factor = (1.0 - believed) / (1.0 - parallel);
        *factors.entry((factor * 100.0).round() as u64).or_default() += 1;
    }
    assert_eq!(
        factors.keys().copied().collect::<Vec<_>>(),
        MISJUDGEMENTS.map(|factor| (factor * 100.0) as u64)
    );
    assert!(factors.values().all(|count| (900..1_100).contains(count)), "{factors:?}");
    assert_eq!(beliefs.draw(&Speedup::Rigid), Speedup::Rigid);
}
