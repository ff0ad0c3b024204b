//! Siblings of waiting jobs, step by step (see [`crate::handoff`]): the first that asks starts, even if others are slow.

use pliant_model::{MoveReason, Time};

use super::handoff_bench::{Bench, PendingCall, config, handle, name, proposal_outcome};
use super::*;
use crate::access::Caller;
use crate::handoff::{Call, HandoffDecision, MoveOutcome, Reply, StayReason};
use crate::replay::Machine;

const TARGETS: [&str; 2] = ["nancy", "oslo"];

impl Bench {
    /// `lyon.2` waits at `lyon`, with siblings at the two others, which are busy until 500 and 300.
    fn with_siblings() -> Bench {
        let mut bench = Bench::new();
        for (key, at, walltime) in [(3, "nancy", 400), (4, "oslo", 200)] {
            bench.submit(at, key, walltime);
        }
        bench.at(100);
        for to in TARGETS {
            assert_eq!(bench.propose("lyon.2", "lyon", to, true), []);
            let answers = bench.step();
            assert!(matches!(proposal_outcome(&answers), MoveOutcome::SiblingQueued(_)), "{answers:?}");
        }
        bench.at(101);
        bench
    }

    fn ended(&mut self, at: &str, job: u32) {
        let ended = batch::Event::Ended { job: JobId(job), exit: Exit::Code(0), elapsed_ms: None };
        self.deliver(at, |_| Event::Batch(ended));
        self.deliver(at, |_| Event::Due);
    }

    /// Makes the call of a sibling that is ready.
    fn ask(&mut self, call: &PendingCall) -> HandoffDecision {
        assert_eq!((call.to.as_str(), &call.call), ("lyon", &Call::Ready));
        let id = call.id.clone();
        match &self.deliver("lyon", |reply| Event::Ready { reply, id })[..] {
            [(_, Answer::Decision(decision))] => *decision,
            other => panic!("expected a decision, found {other:?}"),
        }
    }

    fn decided(&mut self, at: &str, call: &PendingCall, decision: HandoffDecision) {
        let id = call.id.clone();
        self.deliver(at, |_| Event::Decided { id, decision });
    }

    fn siblings(&self) -> usize {
        self.servers[&name("lyon")].siblings().count()
    }

    fn running(&self, at: &str) -> u32 {
        self.servers[&name(at)].jobs().filter(|job| job.state == JobState::Active).count() as u32
    }

    /// Takes all pending calls, with their receivers, without making them.
    fn take_calls(&mut self) -> Vec<(String, Call)> {
        self.calls.drain(..).map(|one| (one.to.to_string(), one.call)).collect()
    }
}

const COMMIT: HandoffDecision = HandoffDecision::Commit { cancelled: false, attempts: 2 };

#[test]
fn the_first_ready_sibling_runs_and_the_others_are_aborted() {
    let mut bench = Bench::with_siblings();
    let wait = bench.servers.get_mut(&name("lyon")).unwrap().explain(
        Time(101),
        2,
        &Caller { user: "alice".parse().unwrap(), operator: false },
    );
    assert_eq!(wait.unwrap().waits.unwrap().siblings, TARGETS.map(name));
    assert_eq!(bench.servers[&name("oslo")].usage().waiting, 1, "the sibling waits in the queue");
    assert_eq!(bench.calls, []);
    bench.ended("oslo", 1);
    let ready = bench.pending_call();
    assert_eq!(bench.running("oslo"), 0, "nothing starts before the source commits");
    assert_eq!(bench.ask(&ready), COMMIT);
    let mut calls = std::mem::take(&mut bench.calls);
    let abort = calls.pop().unwrap();
    let commit = calls.pop().unwrap();
    assert_eq!((abort.to.as_str(), &abort.call), ("nancy", &Call::Abort));
    assert_eq!(commit.call, Call::Commit { cancelled: false, attempts: 2 });
    bench.decided("oslo", &ready, COMMIT);
    assert_eq!(bench.record("oslo", "lyon.2"), Some((JobState::Active, "oslo")));
    assert_eq!(bench.make(commit.clone()), Reply::Done);
    bench.answered(&commit, Reply::Done);
    let lyon = bench.servers[&name("lyon")].job(2).unwrap();
    assert_eq!(lyon.hops.last().unwrap().reason, MoveReason::FirstStart);
    assert_eq!(bench.make(abort), Reply::Done);
    assert_eq!((bench.prepared("nancy"), bench.prepared("oslo"), bench.siblings()), (0, 0, 0));
    assert_eq!(bench.servers[&name("nancy")].usage().waiting, 0);
    bench.ended("lyon", 1);
    assert_eq!((bench.running("lyon"), bench.calls.len()), (0, 0), "it runs at oslo");
}

#[test]
fn of_two_ready_siblings_the_first_to_ask_runs() {
    let mut bench = Bench::with_siblings();
    bench.ended("nancy", 1);
    let nancy = bench.pending_call();
    bench.ended("oslo", 1);
    let oslo = bench.pending_call();
    assert_eq!(bench.ask(&oslo), COMMIT);
    assert_eq!(bench.ask(&nancy), HandoffDecision::Abort);
    assert_eq!(bench.ask(&oslo), COMMIT, "asking again gives the same decision");
    bench.decided("nancy", &nancy, HandoffDecision::Abort);
    bench.decided("oslo", &oslo, COMMIT);
    assert_eq!((bench.running("nancy"), bench.running("oslo")), (0, 1));
    assert_eq!(bench.servers[&name("nancy")].usage().free, Procs(4), "its processors are free again");
}

#[test]
fn a_job_that_starts_or_is_cancelled_or_whose_owner_is_banned_at_its_source_aborts_its_siblings() {
    for act in ["start", "cancel", "ban"] {
        let mut bench = Bench::with_siblings();
        match act {
            "start" => bench.ended("lyon", 1),
            "cancel" => drop(bench.cancel("lyon.2", "lyon")),
            _ => {
                let (by, why) = ("root".parse().unwrap(), "stolen key".to_owned());
                let user = "alice".parse().unwrap();
                bench.deliver("lyon", |reply| Event::Ban { reply, user, by, why });
            }
        }
        let aborts = TARGETS.map(|at| (at.to_owned(), Call::Abort));
        assert_eq!((bench.take_calls(), bench.siblings()), (aborts.to_vec(), 0));
        // Both aborts are lost: a sibling learns of the decision when it is ready,
        bench.ended("oslo", 1);
        let ready = bench.pending_call();
        assert_eq!(bench.ask(&ready), HandoffDecision::Abort);
        bench.decided("oslo", &ready, HandoffDecision::Abort);
        assert_eq!((bench.prepared("oslo"), bench.running("oslo")), (0, 0));
        // or when it has waited for long.
        bench.now = Time(700);
        bench.deliver("nancy", |_| Event::Due);
        assert_eq!(bench.take_calls(), [("lyon".to_owned(), Call::Inquire)]);
    }
}

/// The source is down: the sibling keeps its processors for a while only, and never runs without a commit.
#[test]
fn a_ready_sibling_without_a_decision_yields_and_is_queued_again() {
    let mut bench = Bench::with_siblings();
    bench.ended("oslo", 1);
    let ready = bench.pending_call();
    bench.submit("oslo", 5, 50);
    for now in 102..131 {
        bench.now = Time(now);
        bench.deliver("oslo", |_| Event::Due);
        assert_eq!(bench.servers[&name("oslo")].usage().free, Procs(0), "at {now}");
    }
    assert!(bench.calls.iter().all(|call| *call == ready));
    bench.calls.clear();
    bench.now = Time(131);
    bench.deliver("oslo", |_| Event::Due);
    assert_eq!(bench.pending_call().call, Call::Inquire);
    bench.deliver("oslo", |_| Event::Due);
    assert_eq!((bench.prepared("oslo"), bench.running("oslo")), (1, 1), "the next job runs");
    bench.decided("oslo", &ready, HandoffDecision::Undecided);
    bench.ended("oslo", 3);
    assert_eq!(bench.pending_call(), ready, "it is ready again");
    assert_eq!(bench.ask(&ready), COMMIT);
    bench.decided("oslo", &ready, COMMIT);
    assert_eq!(bench.record("oslo", "lyon.2"), Some((JobState::Active, "oslo")));
}

/// The commit arrives after the sibling has yielded: from then on it is an ordinary job, which may be moved. Its attempts
/// are numbered after those that the source made for other siblings.
#[test]
fn a_late_commit_takes_over_a_sibling_that_has_yielded() {
    let mut bench = Bench::new();
    for (key, at) in [(3, "nancy"), (4, "oslo")] {
        bench.submit(at, key, 400);
    }
    bench.at(100);
    for to in TARGETS {
        bench.propose("lyon.2", "lyon", to, true);
        bench.step();
    }
    bench.ended("nancy", 1);
    let ready = bench.pending_call();
    bench.submit("nancy", 5, 600);
    bench.now = Time(130);
    bench.deliver("nancy", |_| Event::Due);
    bench.deliver("nancy", |_| Event::Due);
    bench.calls.clear();
    assert_eq!(bench.ask(&ready), COMMIT);
    bench.calls.clear();
    bench.decided("nancy", &ready, COMMIT);
    assert_eq!(bench.record("nancy", "lyon.2"), Some((JobState::Queued, "nancy")));
    bench.propose("lyon.2", "nancy", "oslo", false);
    assert_eq!(bench.pending_call().id.attempt, 3, "the second attempt was for the sibling at oslo");
}

/// The policy was changed: a move replaces the sibling at its target, and the other siblings are aborted.
#[test]
fn a_job_with_siblings_may_be_moved() {
    let mut bench = Bench::with_siblings();
    bench.propose("lyon.2", "lyon", "nancy", false);
    let calls = std::mem::take(&mut bench.calls);
    let [prepare, abort] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((abort.call.clone(), abort.id.attempt, prepare.id.attempt), (Call::Abort, 1, 3));
    // In the order in which they are sent: the abort is for the earlier attempt.
    let prepared = bench.make(prepare.clone());
    assert_eq!((bench.make(abort.clone()), bench.prepared("nancy")), (Reply::Done, 1));
    bench.answered(prepare, prepared);
    let ends = [("nancy", Call::Commit { cancelled: false, attempts: 3 }), ("oslo", Call::Abort)];
    assert_eq!(bench.take_calls(), ends.map(|(to, call)| (to.to_owned(), call)));
    assert_eq!(bench.siblings(), 0);
}

#[test]
fn a_sibling_whose_reply_was_lost_asks_again_and_a_refused_one_is_dropped() {
    let mut bench = Bench::new();
    bench.propose("lyon.2", "lyon", "oslo", true);
    let prepare = bench.pending_call();
    let prepared = bench.make(prepare.clone());
    bench.at(100);
    let ready = bench.pending_call();
    assert_eq!(bench.ask(&ready), HandoffDecision::Undecided, "the source has not received the estimate");
    let twice = bench.propose("lyon.2", "lyon", "oslo", true);
    assert_eq!(proposal_outcome(&twice), &MoveOutcome::Stays(StayReason::AlreadyMoving));
    bench.answered(&prepare, prepared);
    assert_eq!(bench.ask(&ready), HandoffDecision::Commit { cancelled: false, attempts: 1 });
    bench.calls.clear();
    let mut bench = Bench::new();
    bench.propose("lyon.2", "lyon", "oslo", true);
    let prepare = bench.pending_call();
    let answers = bench.answered(&prepare, Reply::Refused("full".to_owned()));
    assert!(matches!(proposal_outcome(&answers), MoveOutcome::Stays(StayReason::Refused(_))));
    assert_eq!(bench.siblings(), 0);
}

/// In any phase, a server restored from its state behaves as one that was not restarted.
#[test]
fn a_server_with_siblings_can_be_restored_between_any_two_steps() {
    let restore = |bench: &mut Bench| {
        for (name, server) in &mut bench.servers {
            let text = serde_json::to_string(&server.dump(bench.now)).unwrap();
            *server = Server::from_state(config(name), serde_json::from_str(&text).unwrap()).unwrap();
        }
    };
    let run = |restore_after: Option<usize>| {
        let mut bench = Bench::with_siblings();
        let mut commands = Vec::new();
        for step in 0..5 {
            match step {
                0 => bench.ended("oslo", 1),
                1 => bench.at(102),
                2 => {
                    let ready = bench.calls.pop().unwrap();
                    bench.calls.clear();
                    let decision = bench.ask(&ready);
                    bench.decided("oslo", &ready, decision);
                }
                3 => bench.at(140),
                _ => bench.at(900),
            }
            commands.push(bench.commands.clone());
            if restore_after == Some(step) {
                restore(&mut bench);
            }
        }
        assert_eq!(bench.servers[&name("oslo")].number_of(&handle("lyon.2")), Some(2));
        let states = bench.servers.iter_mut().map(|(_, server)| server.dump(Time(900)));
        let states: Vec<String> = states.map(|state| serde_json::to_string(&state).unwrap()).collect();
        (commands, states)
    };
    let expected = run(None);
    for step in 0..5 {
        assert_eq!(run(Some(step)), expected, "restored after step {step}");
    }
}
