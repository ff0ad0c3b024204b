//! Bounded-slack sizing by hand, the comparison rules on a small cluster, and the text form of tuners.

use pliant_model::{JobId, Procs, Request, Span, Speed, Speedup, Time};

use super::*;

/// A cluster on which `held` are (from, until, processors), under plan by a profile.
fn profile(capacity: u32, held: &[(i64, i64, u32)]) -> Profile {
    let mut profile = Profile::new(Procs(capacity), Time::ZERO);
    for (from, until, procs) in held {
        profile.reserve(Time(*from), Time(*until), Procs(*procs));
    }
    profile
}

fn request(procs: u32, walltime: i64, speedup: Speedup) -> Request {
    let (procs, walltime) = (Procs(procs), Span(walltime));
    Request::new(JobId(0), Time::ZERO, procs, walltime, speedup)
}

/// The size that a tuner chooses with other jobs of these shapes, as (processors, start, completion).
fn chosen(tuner: Tuner, profile: &Profile, others: &[(u32, i64)], request: &Request) -> (u32, i64, i64) {
    let walltimes = request.on(profile.capacity(), Speed::REFERENCE).expect("it fits");
    let shapes = |each: &mut dyn FnMut(Procs, Span)| {
        others.iter().for_each(|(procs, walltime)| each(Procs(*procs), Span(*walltime)));
    };
    let others = OtherJobs { count: others.len(), shapes: &shapes };
    let estimate = tune(tuner, profile, None, Time::ZERO, &Present { now: Time::ZERO, others }, &walltimes);
    let estimate = estimate.expect("it fits");
    (estimate.procs.0, estimate.start.0, estimate.completion().0)
}

#[test]
fn bounded_slack_by_hand() {
    let request = request(4, 400, Speedup::Amdahl { parallel: 0.8, limit: Procs(16) });
    let walltimes = request.on(Procs(16), Speed::REFERENCE).expect("it fits");
    assert_eq!([1, 2, 3, 4, 8, 16].map(|n| walltimes.at(Procs(n)).0), [1000, 600, 467, 400, 300, 250]);
    let check = |held: &[(i64, i64, u32)], greedy: (u32, i64, i64), slack: (u32, i64, i64)| {
        let profile = profile(16, held);
        let others: Vec<(u32, i64)> =
            held.iter().map(|(from, until, procs)| (*procs, until - from)).collect();
        assert_eq!(chosen(Tuner::Exact, &profile, &others, &request), greedy, "{held:?}");
        assert_eq!(chosen(Tuner::default(), &profile, &others, &request), slack, "{held:?}");
    };
    check(&[], (16, 0, 250), (16, 0, 250));
    check(&[(0, 1000, 6), (0, 1000, 2)], (8, 0, 300), (4, 0, 400));
    check(&[(0, 1000, 16), (1000, 1400, 16)], (16, 1400, 1650), (3, 1400, 1867));
    check(&[(0, 500, 14)], (2, 0, 600), (2, 0, 600));
}

#[test]
fn the_least_share_of_a_cluster() {
    let check = |share: u32, capacity: u32, jobs: usize, expected: u32| {
        assert_eq!(slack::least_procs(Thousandths(share), Procs(capacity), jobs), Procs(expected));
    };
    check(500, 16, 0, 16);
    check(500, 16, 1, 5);
    check(500, 16, 2, 3);
    check(1_000, 16, 1, 8);
    check(333, 100, 1, 24);
    check(500, u32::MAX, usize::MAX, 0);
}

#[test]
fn slack_is_rounded_down_and_parameters_are_exact() {
    let latest =
        |slack: u32, earliest: i64| slack::latest(Thousandths(slack), Time(10), Time(10 + earliest)).0;
    assert_eq!([0, 1, 2, 3, 101].map(|earliest| latest(500, earliest)), [10, 11, 13, 14, 161]);
    assert_eq!(latest(0, 77), 87);
    assert_eq!(latest(700, 10), 27);
}

#[test]
fn savings_of_a_size() {
    let estimate = |procs, walltime, start| Estimate {
        procs: Procs(procs),
        walltime: Span(walltime),
        start: Time(start),
    };
    let saving = slack::saving(&estimate(4, 400, 0), &estimate(8, 300, 0));
    assert_eq!(saving, slack::Saving { later: Span(100), processor_s: 800 });
}

/// Sixteen processors, of which others hold six for 1,000 s and two for 500 s; areas of 1, 2, 4, 8 and 16 processors are
/// 1,000, 1,200, 1,600, 2,400 and 4,000.
#[test]
fn the_comparison_rules_by_hand() {
    let profile = profile(16, &[(0, 1000, 6), (0, 500, 2)]);
    let others = [(6, 1000), (2, 500)];
    let request = request(4, 400, Speedup::Amdahl { parallel: 0.8, limit: Procs(16) });
    let check =
        |tuner: Tuner, procs: u32| assert_eq!(chosen(tuner, &profile, &others, &request).0, procs, "{tuner}");
    check(Tuner::Exact, 8);
    check(Tuner::EqualShare, 5);
    // Of three jobs the one of 6,000 is larger, that of 1,000 is not: 16 (2 * 2 - 1) / 9.
    check(Tuner::HeSrpt, 5);
    // 1,000 of 8,000.
    check(Tuner::FairShare, 2);
    // n w(n)^2 is 720,000 with two processors, 654,267 with three, 640,000 with four and 648,000 with five (w = 360).
    check(Tuner::Knee, 4);
    // An area of at most 2,000: 5 x 360 and 6 x 334 is 2,004.
    check(Tuner::Efficiency { least: Thousandths(500) }, 5);
    // At most 2.318 x 250 s and 5 processors (0.271 x 16): 467 s on three have the least area.
    check(Tuner::Lpa, 3);
    // A wait of two others costs an eighth of the area: 1000 + 125, 600 + 150, 467 + 175, 400 + 200, 360 + 225, 334 + 250.5, 315 + 275.6, ...
    check(Tuner::Price { weight: Thousandths(1_000) }, 6);
    check(Tuner::Price { weight: Thousandths(0) }, 8);
}

/// Its end is known late over a slow network: by then it has less than nothing left, here as much as the request needs.
#[test]
fn a_job_past_its_end_takes_no_fair_share() {
    let request = request(4, 400, Speedup::Amdahl { parallel: 0.8, limit: Procs(16) });
    for late in [-1000, -500] {
        let chosen = chosen(Tuner::FairShare, &profile(16, &[(0, 1000, 8)]), &[(1, late)], &request);
        assert_eq!(chosen.0, 8, "all that is free at once");
    }
}

#[test]
fn tuners_are_written_and_read() {
    for tuner in Tuner::ALL {
        assert_eq!(tuner.to_string(), tuner.name());
        assert_eq!(tuner.name().parse(), Ok(*tuner));
    }
    let changed =
        Tuner::default().with("slack", 0.35).and_then(|tuner| tuner.with("share", 1.0)).expect("valid");
    assert_eq!(changed, Tuner::Slack { slack: Thousandths(350), share: Thousandths(1_000) });
    assert_eq!(changed.to_string(), "slack(slack=0.35,share=1)");
    assert_eq!(changed.to_string().parse(), Ok(changed));
    assert_eq!("slack(share=0.25)".parse(), Tuner::default().with("share", 0.25));
    let check = |text: &str, expected: &str| {
        let error = text.parse::<Tuner>().expect_err("it is no tuner");
        assert!(error.to_string().starts_with(expected), "{error}");
    };
    check("greedy", "expected a tuner (slack, exact, binary, exhaustive,");
    check("exact(slack=1)", "expected no parameters for the tuner `exact`, found `slack`");
    check("slack(price=1)", "expected a parameter of the tuner `slack` (slack, share), found `price`");
    check("slack(slack=-0.1)", "expected `slack` from 0 to 1000, found -0.1");
    check("slack(share=0)", "expected `share` from 0.001 to 1, found 0");
    check("slack(slack)", "expected a tuner such as `slack` or");
    check("slack(slack=0.1", "expected a tuner such as `slack` or");
}
