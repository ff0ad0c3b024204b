//! Waiting jobs without a plan: holds, limits, and for how long there is no plan.

use super::*;

#[test]
fn held_jobs_have_no_plan_and_limits_close_the_server() {
    let mut bench = Bench::queued(false);
    let waits = |state, wait_reason| ListedJob { wait_reason, ..listed("41", Some(7), state) };
    let mut check = |job: ListedJob, held: &[JobId], limited: bool| {
        bench.list(vec![job.clone()]);
        let now = bench.now;
        let plan = bench.external.plan(now, JOB);
        assert_eq!(plan.is_some(), job.state == State::Pending && job.wait_reason.is_none(), "{job:?}");
        assert_eq!(bench.external.held_jobs(), held.iter().copied().collect(), "{job:?}");
        assert_eq!(bench.external.limited().is_some(), limited, "{job:?}");
    };
    use listing::WaitReason::{Limit, Other};
    check(waits(State::Pending, None), &[], false);
    check(waits(State::Held, Some(Other("JobHeldAdmin".to_owned()))), &[JOB], false);
    check(waits(State::Pending, Some(Other("PartitionDown".to_owned()))), &[], false);
    check(waits(State::Pending, Some(Limit("AssocMaxJobsLimit".to_owned()))), &[], true);
    check(waits(State::Pending, Some(Limit("AssocMaxWallDurationPerJobLimit".to_owned()))), &[], false);
    // Limits on other jobs do not count.
    let limit = Some(Limit("AssocMaxJobsLimit".to_owned()));
    bench.list(vec![
        waits(State::Pending, None),
        ListedJob { wait_reason: limit, ..listed("42", None, State::Pending) },
    ]);
    assert_eq!(bench.external.limited(), None);
}

/// A reason may last a moment only: a job moves only after a while without a plan.
#[test]
fn a_job_is_stuck_after_a_while_without_a_plan() {
    let mut bench = Bench::queued(false);
    let down = || Some(listing::WaitReason::Other("PartitionDown".to_owned()));
    let mut stuck = |wait_reason, at: i64| {
        bench.now = Time(at - 1);
        bench.list(vec![ListedJob { wait_reason, ..listed("41", Some(7), State::Pending) }]);
        let now = bench.now;
        bench.external.is_stuck(now, JOB)
    };
    assert!(!stuck(down(), 1_000));
    assert!(!stuck(down(), 1_030), "two planning passes take a minute");
    assert!(stuck(down(), 1_060));
    assert!(!stuck(None, 1_061));
    assert!(!stuck(down(), 1_062), "it had a plan since");
    assert!(!stuck(down(), 1_100));
    assert!(stuck(down(), 1_200));
}

/// A released job that was seen as free is held by a user or an administrator, unless a killed controller has gone back.
#[test]
fn a_hold_by_a_user_is_not_released() {
    let mut bench = Bench::queued(true);
    let held = || listed("41", Some(7), State::Held);
    bench.list(vec![held()]);
    bench.act(|external, now, effects| external.release(now, JOB, effects));
    bench.deliver(Event::Released { job: JOB });
    let is_released_again = |bench: &mut Bench, job| {
        let (commands, _) = bench.list(vec![job]);
        let released = commands.iter().any(|command| matches!(command, Command::Release { .. }));
        if released {
            bench.deliver(Event::Released { job: JOB });
        }
        released
    };
    assert!(is_released_again(&mut bench, held()), "it was released, and is held");
    assert!(!is_released_again(&mut bench, listed("41", Some(7), State::Pending)));
    assert!(is_released_again(&mut bench, held()), "a controller has forgotten it");
    assert!(!is_released_again(&mut bench, listed("41", Some(7), State::Pending)));
    bench.now = Time(5_000);
    assert!(is_released_again(&mut bench, held()), "a controller was down for an hour, and has forgotten it");
    bench.now = Time(10_000);
    assert!(!is_released_again(&mut bench, listed("41", Some(7), State::Pending)));
    bench.now = Time(15_000);
    assert!(!is_released_again(&mut bench, listed("41", Some(7), State::Pending)));
    assert!(is_released_again(&mut bench, held()), "a clock has jumped, and a controller has forgotten it");
    for minute in 0..7 {
        bench.now = Time(20_000 + 60 * minute);
        assert!(!is_released_again(&mut bench, listed("41", Some(7), State::Pending)));
    }
    assert!(!is_released_again(&mut bench, held()), "it was free for long, so a user holds it");
}
