//! The number of plans, runtimes learned from ended jobs, and snapshots.

use super::*;
use crate::listing::Node;

fn submit(external: &mut External, now: Time, number: u32) {
    let submission = Submission::new(JobId(number), Procs(4), Span(600));
    external.submit(now, submission, &mut Effects::default());
}

#[test]
fn a_burst_of_jobs_costs_one_plan() {
    let mut bench = Bench::new();
    let (external, now) = (&mut bench.external, bench.now);
    let first = external.planned;
    for number in 1..=100 {
        // An admission does the same.
        assert!(external.current_plan(now, None).is_some());
        submit(external, now, number);
        let queued = Event::Queued { job: JobId(number), ids: vec![number.to_string()] };
        external.on(now, batch::Event::External(queued), &mut Effects::default());
    }
    assert_eq!(external.planned - first, 1);
    // Two nodes of four cores, ten minutes each: two jobs at a time.
    let start = |external: &mut External, number| external.plan(now, JobId(number)).unwrap().start;
    assert_eq!(start(external, 1), now);
    assert_eq!(start(external, 100), now + Span(49 * 600));
    let later = now + Span(1);
    assert!(external.plan(later, JobId(100)).is_some() && external.plan(later, JobId(1)).is_some());
    assert_eq!(external.planned - first, 2, "time has passed");
    external.on(later, batch::Event::External(Event::Listed(Changes::default())), &mut Effects::default());
    assert!(external.plan(later, JobId(100)).is_some());
    assert_eq!(external.planned - first, 3, "a listing came");
}

/// A mirror with jobs of one user, of a minute each with a limit of ten; the last one still runs.
fn with_ended_jobs(expect: Expect, listed_end: bool) -> Bench {
    let mut bench = Bench::new();
    bench.deliver(Event::configured(Span(30), Some("main".to_owned()), expect));
    for number in 0..8 {
        let start = bench.now;
        let job = |state| ListedJob {
            owner: "1000".to_owned(),
            shape: CoreLayout { cores: 8, ..CoreLayout::default() },
            allocations: ["n1", "n2"].map(|node| NodeAllocation::new(node, Some(4))).to_vec(),
            started: Some(start),
            ..listed(&format!("{}", 100 + number), None, state)
        };
        bench.list(vec![job(State::Running)]);
        if number == 7 {
            break;
        }
        bench.now = start + Span(55);
        bench.list(vec![job(State::Running)]);
        bench.now = start + Span(63);
        let over = ListedJob { ended: Some(start + Span(60)), ..job(State::Completed) };
        bench.list(if listed_end { vec![over] } else { vec![] });
    }
    bench
}

#[test]
fn jobs_are_expected_to_end_like_earlier_ones() {
    // If the end is only known from two listings eight seconds apart, the middle is taken.
    for (expect, listed_end, within) in [
        (Expect::Limits, true, 590..=600),
        (Expect::History, true, 58..=60),
        (Expect::History, false, 56..=62),
    ] {
        let mut bench = with_ended_jobs(expect, listed_end);
        let began = bench.listing.jobs[0].started.unwrap();
        bench.act(|external, now, effects| external.submit(now, submission(), effects));
        let Estimate { start, .. } = bench.external.plan(bench.now, JOB).unwrap();
        assert!(within.contains(&(start - began).0), "{expect} {listed_end}: {} s", (start - began).0);
    }
}

#[test]
fn nothing_is_learned_from_listings_that_are_far_apart() {
    let mut bench = with_ended_jobs(Expect::History, false);
    let before = bench.external.limit_usage.dump();
    bench.now += Span(200);
    bench.list(vec![]);
    assert_eq!(bench.external.limit_usage.dump(), before);
}

#[test]
fn a_malformed_dump_is_refused() {
    let mut bench = with_ended_jobs(Expect::History, true);
    let text = serde_json::to_string(&bench.external.dump(bench.now)).unwrap();
    assert!(serde_json::from_str::<batch::Dump>(&text).is_ok());
    for (broken, with) in [("\"mirror\"", "\"miror\""), ("\"start\"", "\"never\""), ("\"running\"", "[]")] {
        let broken_text = text.replacen(broken, with, 1);
        assert_ne!(broken_text, text, "{broken}");
        assert!(serde_json::from_str::<batch::Dump>(&broken_text).is_err(), "{broken}");
    }
}

#[test]
fn a_listing_without_nodes_has_no_processors() {
    let mut external = External::new();
    let empty = Listing::new(Time(5), Vec::<Node>::new(), vec![]);
    let changes = empty.changes(&Listing::default());
    external.on(Time(5), batch::Event::External(Event::Listed(changes)), &mut Effects::default());
    assert_eq!((external.capacity(), external.closed()), (Some(Procs(0)), None));
}

#[test]
fn a_job_that_is_listed_before_its_submission_is_answered_counts_once() {
    for (state, waiting) in [(State::Pending, 1), (State::Running, 0)] {
        let mut bench = Bench::new();
        bench.act(|external, now, effects| external.submit(now, submission(), effects));
        bench.list(vec![listed("41", Some(7), state.clone())]);
        assert_eq!(bench.external.usage().waiting, waiting, "{state:?}");
        assert!(bench.external.current_plan(bench.now, None).is_some(), "{state:?}");
        assert_eq!(bench.external.waiting(bench.now).len(), waiting as usize, "{state:?}");
    }
}
