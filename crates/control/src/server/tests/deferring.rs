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

const WHY: &str = "its owner lets it start from 1970-01-01 00:02:40Z on";

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
    let proposal = MoveProposal {
        job: Handle { server: "lyon".parse().unwrap(), number: 1 },
        to: "paris".parse().unwrap(),
        address: String::new(),
        expected: Estimate { procs: Procs(1), walltime: Span(10), start: Time(100) },
        gain: None,
        reason: pliant_model::MoveReason::EarlierCompletion,
        timeout: Span(10),
        sibling: false,
    };
    let answer = bench.deliver(Event::ProposeMove { reply: Token(9), proposal: Box::new(proposal) });
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
    assert!(slurm.bench.is_unplanned(1).unwrap().starts_with("its owner lets it start from"));
    slurm.restore();
    slurm.bench.at(begin - 1);
    assert_eq!(slurm.commands(), []);
    slurm.bench.now = Time(begin);
    slurm.bench.deliver(Event::Due);
    let [external::Command::Release { .. }] = &slurm.commands()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
}
