//! Jobs that wait for something else than their turn: who holds them, for how long there is no plan, and which limits hold
//! for others.

use super::*;

#[test]
fn who_holds_a_job_back_says_when_it_starts_and_a_limit_holds_for_those_that_come() {
    let mut bench = Bench::queued(false);
    let waits = |state, waits_for| ListedJob { waits_for, ..listed("41", Some(7), state) };
    let mut check = |job: ListedJob, kept: &[JobId], limited: bool| {
        bench.list(vec![job.clone()]);
        let now = bench.now;
        let plan = bench.external.plan(now, JOB);
        assert_eq!(plan.is_some(), job.state == State::Pending && job.waits_for.is_none(), "{job:?}");
        assert_eq!(bench.external.held_jobs(), kept.iter().copied().collect(), "{job:?}");
        assert_eq!(bench.external.limited().is_some(), limited, "{job:?}");
    };
    use listing::WaitReason::{Limit, Other};
    check(waits(State::Pending, None), &[], false);
    check(waits(State::Held, Some(Other("JobHeldAdmin".to_owned()))), &[JOB], false);
    check(waits(State::Pending, Some(Other("PartitionDown".to_owned()))), &[], false);
    check(waits(State::Pending, Some(Limit("AssocMaxJobsLimit".to_owned()))), &[], true);
    check(waits(State::Pending, Some(Limit("AssocMaxWallDurationPerJobLimit".to_owned()))), &[], false);
    // Somebody else's limit is none of ours.
    let limit = Some(Limit("AssocMaxJobsLimit".to_owned()));
    bench.list(vec![
        waits(State::Pending, None),
        ListedJob { waits_for: limit, ..listed("42", None, State::Pending) },
    ]);
    assert_eq!(bench.external.limited(), None);
}

/// A reason may be that of a moment: a job is given away only when it has had no plan for a while.
#[test]
fn a_job_is_stuck_when_it_has_had_no_plan_for_a_while() {
    let mut bench = Bench::queued(false);
    let down = || Some(listing::WaitReason::Other("PartitionDown".to_owned()));
    let mut stuck = |waits_for, at: i64| {
        bench.now = Time(at - 1);
        bench.list(vec![ListedJob { waits_for, ..listed("41", Some(7), State::Pending) }]);
        let now = bench.now;
        bench.external.is_stuck(now, JOB)
    };
    assert!(!stuck(down(), 1_000));
    assert!(!stuck(down(), 1_030), "two of its passes are a minute");
    assert!(stuck(down(), 1_060));
    assert!(!stuck(None, 1_061));
    assert!(!stuck(down(), 1_062), "that was long ago");
    assert!(!stuck(down(), 1_100));
    assert!(stuck(down(), 1_200));
}

/// A hold that comes when a released job was seen to be free is that of somebody else, unless a controller may have gone back.
#[test]
fn a_hold_of_others_on_a_job_that_came_from_elsewhere_is_left() {
    let mut bench = Bench::queued(true);
    let held = || listed("41", Some(7), State::Held);
    bench.list(vec![held()]);
    bench.act(|external, now, effects| external.release(now, JOB, effects));
    bench.tell(Event::Released { job: JOB });
    let asked = |bench: &mut Bench, job| {
        let (commands, _) = bench.list(vec![job]);
        let asked = commands.iter().any(|command| matches!(command, Command::Release { .. }));
        if asked {
            bench.tell(Event::Released { job: JOB });
        }
        asked
    };
    assert!(asked(&mut bench, held()), "it was told to be released, and is held");
    assert!(!asked(&mut bench, listed("41", Some(7), State::Pending)));
    assert!(asked(&mut bench, held()), "a controller has forgotten it");
    assert!(!asked(&mut bench, listed("41", Some(7), State::Pending)));
    bench.now = Time(5_000);
    assert!(asked(&mut bench, held()), "a controller was down for an hour, and has forgotten it");
    bench.now = Time(10_000);
    assert!(!asked(&mut bench, listed("41", Some(7), State::Pending)));
    bench.now = Time(15_000);
    assert!(!asked(&mut bench, listed("41", Some(7), State::Pending)));
    assert!(asked(&mut bench, held()), "a clock has jumped, and a controller has forgotten it");
    for minute in 0..7 {
        bench.now = Time(20_000 + 60 * minute);
        assert!(!asked(&mut bench, listed("41", Some(7), State::Pending)));
    }
    assert!(!asked(&mut bench, held()), "it was free for long");
}
