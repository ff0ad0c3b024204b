//! The bytes of what waits: their bounds, their count, and what is given back.

use std::sync::Arc;

use super::super::ServerJob;
use super::changes::{Steps, restored};
use super::*;
use crate::handoff::MoveProposal;
use crate::reason::Cause;
use crate::replay::Machine;

/// A job of that user whose script has so many bytes.
fn large(key: u8, owner: &str, script_bytes: usize) -> Submit {
    let payload = Payload::of(&"x".repeat(script_bytes));
    Submit { owner: user(owner), payload, ..rigid(key, 4, 10) }
}

/// A busy cluster with these bounds of bytes: of a user, and of all.
fn bench_with(bytes_per_user: u64, bytes: u64) -> Bench {
    let mut bench = Bench::new("cbf", 4);
    bench.deliver(Event::WaitingLimits(WaitingLimits { jobs_per_user: 1_000, bytes_per_user, bytes }));
    bench.accepted(Submit { owner: user("root"), ..rigid(255, 4, 100_000) });
    bench.at(100);
    assert_eq!(bench.server.waiting_bytes(), 0, "a running job does not count");
    bench
}

#[test]
fn a_user_fills_the_own_part_of_the_queue_and_no_more() {
    let mut bench = bench_with(10_000, 15_000);
    let accepted =
        (1..=100).filter(|key| matches!(bench.submit(large(*key, "alice", 994)), Answer::Accepted(_)));
    assert_eq!(accepted.count(), 10, "a name of 4 bytes, a script of 994 and its quotes");
    let Answer::Refused(refused) = bench.submit(large(101, "alice", 994)) else { panic!("it was accepted") };
    assert_eq!(refused, AdmissionRefusal::TooManyBytes { needed: 11_000, limit: 10_000 });
    assert_eq!(refused.cause(), Cause::TooMany);
    assert!(Server::is_without_effect(&bench.commands), "a refusal is not in the journal");
    // Another user still has a part of the queue.
    bench.accepted(large(102, "bob", 3_994));
    let full = AdmissionRefusal::QueueFull { needed: 15_002, limit: 15_000 };
    assert_eq!(bench.submit(large(103, "bob", 996)), Answer::Refused(full.clone()));
    assert_eq!(full.cause(), Cause::Busy);
    bench.accepted(large(104, "bob", 994));
    let (bytes, state) = (bench.server.waiting_bytes(), bench.server.dump(bench.now));
    assert_eq!(bytes, 15_000);
    let text = serde_json::to_string(&state).unwrap();
    assert!(text.len() < 40_000, "{} bytes of a snapshot", text.len());
}

#[test]
fn a_handoff_is_refused_where_it_exceeds_the_bounds() {
    for (limits, why) in [((1_000, 100_000), "of this user"), ((100_000, 1_000), "of all users")] {
        let mut bench = bench_with(limits.0, limits.1);
        let payload = Payload::of(&"x".repeat(1_000));
        let handoff = Box::new(Handoff { payload, ..handoff_from_paris(5, 1) });
        let reply = bench.deliver(Event::Prepare { reply: Token(51), handoff });
        let Some(Answer::NotPrepared(text)) = reply else { panic!("{reply:?}") };
        assert!(text.contains(why), "{text}");
        assert_eq!((bench.server.prepared().count(), bench.server.waiting_bytes()), (0, 0));
    }
}

#[test]
fn a_further_attempt_of_a_handoff_takes_the_place_of_the_earlier_one() {
    let mut bench = bench_with(1_500, 100_000);
    for attempt in [1, 2] {
        let payload = Payload::of(&"x".repeat(1_000));
        let handoff = Box::new(Handoff { payload, ..handoff_from_paris(5, attempt) });
        let reply = bench.deliver(Event::Prepare { reply: Token(50 + u64::from(attempt)), handoff });
        assert!(matches!(reply, Some(Answer::Handoff(Reply::Prepared(_)))), "attempt {attempt}: {reply:?}");
    }
    assert_eq!(bench.server.prepared().count(), 1);
}

#[test]
fn a_cancelled_job_gives_its_script_back() {
    let mut bench = bench_with(u64::MAX, u64::MAX);
    for key in 1..=20 {
        bench.accepted(large(key, "alice", 10_000));
    }
    assert!(serde_json::to_string(&bench.server.dump(bench.now)).unwrap().len() > 200_000);
    for number in 2..=21 {
        bench.cancel(number, "alice");
    }
    assert_eq!((bench.server.waiting_bytes(), bench.server.waiting_of(&user("alice"))), (0, 0));
    let length = serde_json::to_string(&bench.server.dump(bench.now)).unwrap().len();
    assert!(length < 30_000, "{length} bytes of a snapshot, before the jobs are forgotten");
}

#[test]
fn what_was_submitted_is_kept_if_a_job_ends_without_a_start() {
    let mut bench = bench_with(u64::MAX, u64::MAX);
    bench.accepted(large(1, "alice", 100));
    bench.accepted(large(2, "alice", 100));
    bench.cancel(3, "alice");
    let kept = bench.commands.iter().find_map(|command| match command {
        Command::KeepSubmitted { record, payload } => Some((record.handle.number, payload.clone())),
        _ => None,
    });
    assert_eq!(kept, Some((3, Payload::of(&"x".repeat(100)))));
}

#[test]
fn a_replay_has_the_bounds_of_the_journal() {
    let submit = |key| Event::Submit { reply: Token(0), submit: Box::new(large(key, "alice", 994)) };
    let mut bench = bench_with(2_000, u64::MAX);
    assert!(matches!(bench.deliver(submit(1)), Some(Answer::Accepted(_))));
    assert!(matches!(bench.deliver(submit(2)), Some(Answer::Accepted(_))));
    let state = bench.server.dump(bench.now);
    // The file says something else by now.
    let limits = WaitingLimits { jobs_per_user: 0, bytes_per_user: 0, bytes: 0 };
    let config = ServerConfig { waiting: limits, ..bench.server.config().clone() };
    bench.server = Server::from_state(config, state).unwrap();
    assert_eq!(bench.server.waiting_limits().bytes_per_user, 2_000);
    assert_eq!(bench.server.waiting_bytes_of(&user("alice")), 2_000);
    bench.deliver(Event::WaitingLimits(limits));
    assert!(matches!(bench.deliver(submit(3)), Some(Answer::Refused(_))));
    assert_eq!(bench.server.waiting_of(&user("alice")), 2, "what waits goes on waiting");
}

/// An event by a seed; most of them change what waits.
fn step(bench: &mut Bench, steps: &mut Steps, key: &mut u8, running: &mut Vec<Run>) {
    let number = 1 + steps.below(40) as u32;
    let attempt = 1 + steps.below(3) as u32;
    let id = HandoffId { job: Handle { server: "paris".parse().unwrap(), number: number % 4 }, attempt };
    let sibling = steps.below(3) == 0;
    match steps.below(9) {
        0 | 1 if *key < 200 => {
            *key += 1;
            let owner = ["alice", "bob"][steps.below(2) as usize];
            let work = rigid(0, 1 + steps.below(4) as u32, 1 + steps.below(60) as i64).work;
            bench.submit(Submit { work, ..large(*key, owner, steps.below(3_000) as usize) });
        }
        2 => drop(bench.cancel(number, "root")),
        3 if !running.is_empty() => {
            let Run { job, .. } = running.swap_remove(steps.below(running.len() as u64) as usize);
            bench.ended(job.0, Exit::Code(0));
        }
        4 => {
            let payload = Payload::of(&"x".repeat(steps.below(3_000) as usize));
            let key = Key([200 + id.job.number as u8; 16]);
            let handoff = handoff_from_paris(id.job.number, attempt);
            let handoff = Box::new(Handoff { payload, key, sibling, ..handoff });
            bench.deliver(Event::Prepare { reply: Token(51), handoff });
        }
        5 => drop(bench.deliver(Event::Abort { reply: Token(52), id })),
        6 => {
            let cancelled = steps.below(4) == 0;
            bench.deliver(Event::Commit { reply: Token(53), id, cancelled, attempts: attempt });
        }
        7 => leave(bench, steps, number, sibling),
        _ => drop(bench.deliver(Event::Due)),
    }
}

/// A job goes to paris, or may go there.
fn leave(bench: &mut Bench, steps: &mut Steps, number: u32, sibling: bool) {
    let Some(job) = bench.server.job(number).map(|record| record.handle.clone()) else { return };
    let expected = Estimate { procs: Procs(1), walltime: Span(10), start: bench.now };
    let proposal = MoveProposal {
        job: job.clone(),
        to: "paris".parse().unwrap(),
        address: "paris:1".to_owned(),
        expected,
        gain: None,
        reason: pliant_model::MoveReason::EarlierCompletion,
        timeout: Span(60),
        sibling,
    };
    bench.deliver(Event::ProposeMove { reply: Token(60), proposal: Box::new(proposal) });
    let reply = match steps.below(3) {
        0 => Reply::Refused("no".to_owned()),
        _ => Reply::Prepared(expected),
    };
    for attempt in 1..=3 {
        let id = HandoffId { job: job.clone(), attempt };
        bench.deliver(Event::Answered { id: id.clone(), reply: reply.clone() });
        let last = if steps.below(8) == 0 { Reply::Unknown } else { Reply::Done };
        bench.deliver(Event::Answered { id, reply: last });
    }
}

#[test]
fn the_count_equals_the_sum_over_what_waits() {
    let (mut refused, mut most) = (0, 0);
    for seed in 0..300 {
        let (mut steps, mut key, mut running) = (Steps(seed), 0, Vec::new());
        let mut bench = Bench::new("cbf", 4);
        let limits = WaitingLimits { jobs_per_user: 15, bytes_per_user: 12_000, bytes: 16_000 };
        bench.deliver(Event::WaitingLimits(limits));
        for number in 0..150 {
            step(&mut bench, &mut steps, &mut key, &mut running);
            let answers = bench.commands.iter().filter(|command| {
                let Command::Reply { answer: Answer::Refused(refused), .. } = command else { return false };
                matches!(refused, AdmissionRefusal::TooManyBytes { .. } | AdmissionRefusal::QueueFull { .. })
            });
            refused += answers.count();
            running.extend(bench.commands.iter().filter_map(|command| match command {
                Command::Batch(batch::Command::Run(run)) => Some(run.clone()),
                _ => None,
            }));
            assert_eq!(bench.server.waiting, bench.server.counted_waiting(), "seed {seed}, event {number}");
            assert!(bench.server.waiting_bytes() <= limits.bytes, "seed {seed}, event {number}");
            most = most.max(bench.server.waiting_bytes());
            if steps.below(8) == 0 {
                restored(&mut bench);
                assert_eq!(bench.server.waiting, bench.server.counted_waiting(), "seed {seed}, restored");
            }
            bench.now += Span(steps.below(9) as i64);
        }
    }
    assert!(refused > 100 && most > 12_000, "{refused} refused, {most} bytes at most");
}

#[test]
fn a_snapshot_shares_the_jobs_that_do_not_change() {
    let mut bench = Bench::new("fcfs", 1);
    let [first, second] = [1, 2].map(|key| bench.accepted(rigid(key, 1, 10)).handle.number);
    let jobs = &mut bench.server.jobs;
    let taken = jobs.shared();
    jobs.get_mut(&second).unwrap().attempts += 1;
    let later = jobs.shared();
    let of = |taken: &[Arc<ServerJob>], number: u32| taken[number as usize - 1].clone();
    assert!(Arc::ptr_eq(&of(&taken, first), &of(&later, first)));
    assert_eq!([of(&taken, second).attempts, of(&later, second).attempts], [0, 1]);
}

#[test]
fn a_withdrawal_or_cancellation_that_changes_nothing_is_not_journaled() {
    let mut bench = Bench::new("fcfs", 1);
    let number = bench.accepted(rigid(1, 1, 10)).handle.number;
    let caller = Caller { user: user("alice"), operator: false };
    bench.at(100);
    assert_eq!(bench.state(number), JobState::Active);
    bench.deliver(Event::Withdraw { reply: Token(0), number, caller });
    assert!(Server::is_without_effect(&bench.commands), "{:?}", bench.commands);
    bench.cancel(number, "alice");
    assert!(!Server::is_without_effect(&bench.commands), "{:?}", bench.commands);
    bench.cancel(number, "alice");
    assert!(Server::is_without_effect(&bench.commands), "{:?}", bench.commands);
}
