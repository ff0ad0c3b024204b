//! Deferred jobs.

use super::external_siblings::{Slurm, job_41};
use super::*;
use crate::batch::external::{self, Queue};
use crate::handoff::{MoveOutcome, MoveProposal, StayReason};
use crate::listing::State;

/// A job that may start from an instant on.
fn from(begin: i64, submit: Submit) -> Submit {
    Submit { work: Work { begin: Some(Time(begin)), ..submit.work }, ..submit }
}

/// The proposal to move the first job.
fn to_paris() -> MoveProposal {
    MoveProposal {
        job: Handle { server: "lyon".parse().unwrap(), number: 1 },
        to: "paris".parse().unwrap(),
        address: String::new(),
        expected: Estimate { procs: Procs(1), walltime: Span(10), start: Time(100) },
        gain: None,
        reason: pliant_model::MoveReason::EarlierCompletion,
        timeout: Span(10),
        sibling: false,
    }
}

const WHY: &str = "it does not start before 1970-01-01 00:02:40Z (--begin)";

#[test]
fn a_deferred_job_starts_at_its_instant_only_and_is_in_no_plan() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 1);
        let record = bench.accepted(from(160, rigid(1, 1, 10)));
        assert_eq!((record.expected.start, record.submitted), (Time(160), Time(100)), "{policy}");
        assert_eq!(bench.is_unplanned(1).as_deref(), Some(WHY), "{policy}");
        bench.restarted();
        // Another job passes it.
        assert_eq!(bench.accepted(rigid(2, 1, 10)).expected.start, Time(100), "{policy}");
        assert_eq!(cores(&bench.at(159)), [(2, vec![0])], "{policy}");
        bench.ended(2, Exit::Code(0));
        bench.at(159);
        assert_eq!(bench.server.next_due(), Some(Time(160)), "{policy}");
        assert_eq!(cores(&bench.at(160)), [(1, vec![0])], "{policy}");
        assert_eq!(bench.server.job(1).unwrap().started, Some(Time(160)), "{policy}");
    }
}

#[test]
fn an_instant_in_the_past_changes_nothing() {
    let mut bench = Bench::new("cbf", 1);
    assert_eq!(bench.accepted(from(99, rigid(1, 1, 10))).expected.start, Time(100));
    assert_eq!(bench.at(100).len(), 1);
}

#[test]
fn what_else_keeps_a_job_back_and_its_instant_count_both() {
    type Act = fn(&mut Bench);
    let acts: [(&str, Act, Act); 3] = [
        ("held", |bench| _ = bench.hold(1), |bench| _ = bench.release(1)),
        (
            "banned",
            |bench| {
                let (reply, user, by, why) = (Token(0), user("alice"), user("root"), String::new());
                bench.deliver(Event::Ban { reply, user, by, why });
            },
            |bench| {
                let (reply, user, by, why) = (Token(0), user("alice"), user("root"), String::new());
                bench.deliver(Event::Unban { reply, user, by, why });
            },
        ),
        (
            "limited",
            |bench| _ = bench.limit("alice", &[(LimitKey::Processors, Some(0))]),
            |bench| _ = bench.limit("alice", &[(LimitKey::Processors, Some(1))]),
        ),
    ];
    for (name, keep, free) in acts {
        for is_freed_first in [true, false] {
            let mut bench = Bench::new("cbf", 1);
            bench.accepted(from(160, rigid(1, 1, 10)));
            keep(&mut bench);
            if is_freed_first {
                free(&mut bench);
            }
            bench.restarted();
            assert!(bench.at(159).is_empty(), "{name}");
            assert_eq!(bench.at(160).len(), usize::from(is_freed_first), "{name}");
            bench.restarted();
            free(&mut bench);
            assert_eq!(bench.at(200).len(), usize::from(!is_freed_first), "{name}");
        }
    }
}

#[test]
fn a_deferred_job_counts_as_none_that_a_limit_bounds() {
    let mut bench = Bench::new("cbf", 2);
    bench.limit("alice", &[(LimitKey::RunningJobs, Some(1))]);
    bench.accepted(from(160, rigid(1, 1, 100)));
    assert_eq!(bench.accepted(rigid(2, 1, 100)).expected.start, Time(100));
    assert_eq!(cores(&bench.at(170)), [(2, vec![0])]);
    bench.ended(2, Exit::Code(0));
    assert_eq!(cores(&bench.at(170)), [(1, vec![0])]);
}

#[test]
fn a_deferred_job_can_be_cancelled_and_withdrawn() {
    for is_withdrawn in [false, true] {
        let mut bench = Bench::new("cbf", 1);
        bench.accepted(from(160, rigid(1, 1, 10)));
        if is_withdrawn {
            let caller = Caller { user: user("alice"), operator: false };
            bench.deliver(Event::Withdraw { reply: Token(0), number: 1, caller });
        } else {
            bench.cancel(1, "alice");
        }
        assert_eq!(bench.state(1), JobState::Canceled);
        bench.restarted();
        assert!(bench.at(300).is_empty());
    }
}

#[test]
fn a_deferred_job_does_not_move_and_no_server_takes_one_over() {
    let mut bench = Bench::new("cbf", 1);
    bench.accepted(from(160, rigid(1, 1, 10)));
    let info = super::orders::info("cbf");
    assert_eq!(bench.server.snapshot(bench.now, &info).movable, []);
    let answer = bench.deliver(Event::ProposeMove { reply: Token(9), proposal: Box::new(to_paris()) });
    assert_eq!(answer, Some(Answer::MoveOutcome(MoveOutcome::Stays(StayReason::Held))));

    // The clock of the source is ahead.
    let handoff = handoff_from_paris(5, 1);
    let work = Work { begin: Some(Time(101)), ..handoff.work.clone() };
    let handoff = Box::new(Handoff { work, ..handoff });
    let prepare = |reply| Event::Prepare { reply: Token(reply), handoff: handoff.clone() };
    let why = "it may not start before 1970-01-01 00:01:41Z".to_owned();
    assert_eq!(bench.deliver(prepare(1)), Some(Answer::NotPrepared(why)));
    bench.now = Time(101);
    assert!(matches!(bench.deliver(prepare(2)), Some(Answer::Handoff(Reply::Prepared(_)))));
}

#[test]
fn an_external_batch_system_holds_a_deferred_job_until_its_instant() {
    let mut slurm = Slurm::idle();
    let begin = slurm.bench.now.0 + 60;
    let record = slurm.bench.accepted(from(begin, rigid(1, 1, 180)));
    assert_eq!(record.expected.start, Time(begin));
    let [external::Command::Queue(Queue { job: JobId(1), held: true, .. })] = &slurm.commands()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
    slurm.event(external::Event::Queued { job: JobId(1), ids: vec!["41".to_owned()] });
    slurm.list(vec![job_41(State::Held)]);
    assert!(slurm.bench.is_unplanned(1).unwrap().starts_with("it does not start before"));
    slurm.restore();
    slurm.bench.at(begin - 1);
    assert_eq!(slurm.commands(), []);
    slurm.bench.now = Time(begin);
    slurm.bench.deliver(Event::Due);
    let [external::Command::Release { .. }] = &slurm.commands()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
}

/// A job that completes by an instant.
fn by(deadline: i64, submit: Submit) -> Submit {
    Submit { work: Work { deadline: Some(Time(deadline)), ..submit.work }, ..submit }
}

const TOO_LATE: &str = "its deadline could not be kept: 1970-01-01 00:02:40Z";

#[test]
fn a_job_that_would_complete_after_its_deadline_is_refused() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 1);
        bench.accepted(rigid(1, 1, 50));
        bench.at(100);
        let info = super::orders::info(policy);
        let work = by(160, rigid(2, 1, 11)).work;
        let found = bench.server.answer(bench.now, &info, &user("alice"), &work);
        let Answer::Refused(refused) = bench.submit(by(160, rigid(2, 1, 11))) else { panic!("{policy}") };
        assert_eq!(found.refusals, [(info.name, refused.reason())], "{policy}");
        assert_eq!(refused.cause(), crate::reason::Cause::Deadline, "{policy}");
        let why = "would complete at 1970-01-01 00:02:41Z, after its deadline 1970-01-01 00:02:40Z";
        assert_eq!(refused.to_string(), why, "{policy}");
        assert_eq!(bench.accepted(by(160, rigid(2, 1, 10))).expected.completion(), Time(160), "{policy}");
    }
    // It may not start before an instant either.
    let mut bench = Bench::new("cbf", 1);
    let late = by(160, from(151, rigid(1, 1, 10)));
    assert!(matches!(bench.submit(late), Answer::Refused(_)));
}

#[test]
fn a_moldable_job_gets_another_size_if_the_preferred_one_is_too_late() {
    let moldable = |key| {
        let speedup = Speedup::Amdahl { parallel: 0.9, limit: Procs(16) };
        Submit { work: Work::new(Procs(1), Span(1000), speedup), ..rigid(key, 1, 1000) }
    };
    let mut bench = Bench::new("cbf", 16);
    let config = ServerConfig { tuner: Tuner::default(), ..bench.server.config().clone() };
    bench.server = Server::new(config, Time(100)).unwrap();
    bench.accepted(rigid(1, 16, 1000));
    let chosen = bench.accepted(moldable(2)).expected;
    bench.cancel(2, "alice");
    let largest = 100 + 1000 + 157;
    assert!(chosen.completion() > Time(largest), "the tuner spares processors: {chosen:?}");
    assert_eq!(bench.accepted(by(largest, moldable(3))).procs, Procs(16));
    assert!(matches!(bench.submit(by(largest - 1, moldable(4))), Answer::Refused(_)));
}

#[test]
fn a_waiting_job_fails_once_it_is_too_late_for_its_deadline() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 1);
        bench.accepted(rigid(1, 1, 50));
        bench.accepted(by(160, rigid(2, 1, 10)));
        bench.accepted(by(400, rigid(3, 1, 10)));
        bench.at(100);
        // The first one outlives its walltime.
        bench.at(150);
        bench.restarted();
        assert_eq!(bench.state(2), JobState::Queued, "{policy}");
        bench.at(151);
        let record = bench.server.job(2).unwrap();
        let exit = Some(Exit::NotStarted(TOO_LATE.to_owned()));
        assert_eq!((record.state, &record.exit, record.started), (JobState::Failed, &exit, None), "{policy}");
        bench.ended(1, Exit::OverWalltime);
        assert_eq!(cores(&bench.at(152)), [(3, vec![0])], "{policy}");
        bench.ended(3, Exit::Code(0));
        bench.at(500);
    }
}

#[test]
fn a_job_that_starts_in_time_keeps_running() {
    let mut bench = Bench::new("cbf", 1);
    bench.accepted(by(160, rigid(1, 1, 60)));
    assert_eq!(bench.at(100).len(), 1);
    bench.at(159);
    assert_eq!(bench.state(1), JobState::Active);
}

#[test]
fn a_held_job_with_a_deadline_fails_as_well() {
    let mut bench = Bench::new("cbf", 1);
    bench.accepted(by(160, rigid(1, 1, 10)));
    bench.hold(1);
    bench.restarted();
    bench.at(151);
    assert_eq!(bench.state(1), JobState::Failed);
}

#[test]
fn a_job_that_is_taken_over_too_late_for_its_deadline_does_not_start() {
    for sibling in [false, true] {
        let mut bench = Bench::new("cbf", 1);
        let handoff = handoff_from_paris(5, 1);
        let work = Work { deadline: Some(Time(250)), ..handoff.work.clone() };
        let handoff = Box::new(Handoff { work, sibling, ..handoff });
        let id = handoff.id.clone();
        let reply = bench.deliver(Event::Prepare { reply: Token(1), handoff });
        assert!(matches!(reply, Some(Answer::Handoff(Reply::Prepared(_)))), "{reply:?}");
        bench.at(110);
        bench.now = Time(151);
        bench.deliver(Event::Commit { reply: Token(2), id: id.clone(), cancelled: false, attempts: 1 });
        assert!(bench.at(151).is_empty());
        let record = bench.server.job(bench.server.number_of(&id.job).unwrap()).unwrap();
        assert!(matches!(&record.exit, Some(Exit::NotStarted(why)) if why.starts_with("its deadline")));
    }
}

#[test]
fn an_external_batch_system_gives_a_job_back_that_is_too_late() {
    let mut slurm = Slurm::idle();
    let begin = slurm.bench.now.0;
    slurm.bench.accepted(by(begin + 300, rigid(1, 1, 180)));
    slurm.event(external::Event::Queued { job: JobId(1), ids: vec!["41".to_owned()] });
    slurm.bench.at(begin + 120);
    assert_eq!(slurm.commands(), []);
    slurm.bench.now = Time(begin + 121);
    slurm.bench.deliver(Event::Due);
    let [external::Command::Withdraw { job: JobId(1), .. }] = &slurm.commands()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
    slurm.restore();
    // It goes nowhere else meanwhile.
    let answer = slurm.bench.deliver(Event::ProposeMove { reply: Token(9), proposal: Box::new(to_paris()) });
    assert_eq!(answer, Some(Answer::MoveOutcome(MoveOutcome::Stays(StayReason::NotWaiting))));
    let outcome = external::WithdrawalOutcome::Withdrawn;
    slurm.event(external::Event::Withdrawal { job: JobId(1), outcome });
    let record = slurm.bench.server.job(1).unwrap();
    assert!(matches!(&record.exit, Some(Exit::NotStarted(why)) if why.starts_with("its deadline")));
}
