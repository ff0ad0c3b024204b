//! Copies of waiting jobs, step by step: see [`crate::handoff`]. The first that asks starts, whoever is slow, silent or
//! late.

use pliant_model::{MoveReason, Time};

use super::handoff_bench::{Bench, Wanted, config, handle, name, order_answer};
use super::*;
use crate::handoff::{Call, HandoffDecision, MoveOutcome, Reply, StayReason};
use crate::replay::Machine;

const HELD: [&str; 2] = ["nancy", "oslo"];

impl Bench {
    /// `lyon.2` waits at `lyon`, and siblings of it at the two others, which are busy until 500 and 300.
    fn with_siblings() -> Bench {
        let mut bench = Bench::new();
        for (key, at, walltime) in [(3, "nancy", 400), (4, "oslo", 200)] {
            bench.submit(at, key, walltime);
        }
        bench.at(100);
        for to in HELD {
            assert_eq!(bench.propose("lyon.2", "lyon", to, true), []);
            let answers = bench.step();
            assert!(matches!(order_answer(&answers), MoveOutcome::SiblingQueued(_)), "{answers:?}");
        }
        bench.at(101);
        bench
    }

    fn ended(&mut self, at: &str, job: u32) {
        let ended = batch::Event::Ended { job: JobId(job), exit: Exit::Code(0), elapsed_ms: None };
        self.tell(at, |_| Event::Batch(ended));
        self.tell(at, |_| Event::Due);
    }

    /// Makes the call of a sibling whose turn has come.
    fn ask(&mut self, call: &Wanted) -> HandoffDecision {
        assert_eq!((call.to.as_str(), &call.call), ("lyon", &Call::Ready));
        let id = call.id.clone();
        match &self.tell("lyon", |reply| Event::Ready { reply, id })[..] {
            [(_, Answer::Decision(decision))] => *decision,
            other => panic!("expected a decision, found {other:?}"),
        }
    }

    fn decided(&mut self, at: &str, call: &Wanted, decision: HandoffDecision) {
        let id = call.id.clone();
        self.tell(at, |_| Event::Decided { id, decision });
    }

    fn siblings(&self) -> usize {
        self.servers[&name("lyon")].siblings().count()
    }

    fn running(&self, at: &str) -> u32 {
        self.servers[&name(at)].jobs().filter(|job| job.state == JobState::Active).count() as u32
    }

    /// The calls that are wanted, by whom and what; none of them is made.
    fn wants(&mut self) -> Vec<(String, Call)> {
        self.calls.drain(..).map(|one| (one.to.to_string(), one.call)).collect()
    }
}

const COMMIT: HandoffDecision = HandoffDecision::Commit { cancelled: false, attempts: 2 };

#[test]
fn the_first_copy_that_is_ready_runs_and_the_others_are_gone() {
    let mut bench = Bench::with_siblings();
    let wait = bench.servers.get_mut(&name("lyon")).unwrap().explain(
        Time(101),
        2,
        &Caller { user: "alice".parse().unwrap(), operator: false },
    );
    assert_eq!(wait.unwrap().waits.unwrap().siblings, HELD.map(name));
    assert_eq!(bench.servers[&name("oslo")].usage().waiting, 1, "it waits in its place");
    assert_eq!(bench.calls, []);
    bench.ended("oslo", 1);
    let ready = bench.wanted();
    assert_eq!(bench.running("oslo"), 0, "nothing starts before the source has let it go");
    assert_eq!(bench.ask(&ready), COMMIT);
    let mut calls = std::mem::take(&mut bench.calls);
    let abort = calls.pop().unwrap();
    let commit = calls.pop().unwrap();
    assert_eq!((abort.to.as_str(), &abort.call), ("nancy", &Call::Abort));
    assert_eq!(commit.call, Call::Commit { cancelled: false, attempts: 2 });
    bench.decided("oslo", &ready, COMMIT);
    assert_eq!(bench.has("oslo", "lyon.2"), Some((JobState::Active, "oslo")));
    assert_eq!(bench.make(commit.clone()), Reply::Done);
    bench.answered(&commit, Reply::Done);
    let lyon = bench.servers[&name("lyon")].job(2).unwrap();
    assert_eq!(lyon.hops.last().unwrap().reason, MoveReason::FirstStart);
    assert_eq!(bench.make(abort), Reply::Done);
    assert_eq!((bench.holds("nancy"), bench.holds("oslo"), bench.siblings()), (0, 0, 0));
    assert_eq!(bench.servers[&name("nancy")].usage().waiting, 0);
    bench.ended("lyon", 1);
    assert_eq!((bench.running("lyon"), bench.calls.len()), (0, 0), "it runs elsewhere");
}

#[test]
fn of_two_that_are_ready_the_first_to_ask_runs() {
    let mut bench = Bench::with_siblings();
    bench.ended("nancy", 1);
    let nancy = bench.wanted();
    bench.ended("oslo", 1);
    let oslo = bench.wanted();
    assert_eq!(bench.ask(&oslo), COMMIT);
    assert_eq!(bench.ask(&nancy), HandoffDecision::Abort);
    assert_eq!(bench.ask(&oslo), COMMIT, "however often it asks");
    bench.decided("nancy", &nancy, HandoffDecision::Abort);
    bench.decided("oslo", &oslo, COMMIT);
    assert_eq!((bench.running("nancy"), bench.running("oslo")), (0, 1));
    assert_eq!(bench.servers[&name("nancy")].usage().free, Procs(4), "what it had taken is free again");
}

#[test]
fn a_job_that_starts_where_it_is_or_is_cancelled_there_aborts_its_copies() {
    for cancelled in [false, true] {
        let mut bench = Bench::with_siblings();
        match cancelled {
            true => drop(bench.cancel("lyon.2", "lyon")),
            false => bench.ended("lyon", 1),
        }
        let aborts = HELD.map(|at| (at.to_owned(), Call::Abort));
        assert_eq!((bench.wants(), bench.siblings()), (aborts.to_vec(), 0));
        // Both are lost: the siblings find out when their turn has come.
        bench.ended("oslo", 1);
        let ready = bench.wanted();
        assert_eq!(bench.ask(&ready), HandoffDecision::Abort);
        bench.decided("oslo", &ready, HandoffDecision::Abort);
        assert_eq!((bench.holds("oslo"), bench.running("oslo")), (0, 0));
        // Or when they have waited for long.
        bench.now = Time(700);
        bench.tell("nancy", |_| Event::Due);
        assert_eq!(bench.wants(), [("lyon".to_owned(), Call::Inquire)]);
    }
}

/// The source is away: processors are not kept for a sibling for ever, and it never runs without a commit.
#[test]
fn a_copy_that_hears_nothing_steps_back_and_queues_again() {
    let mut bench = Bench::with_siblings();
    bench.ended("oslo", 1);
    let ready = bench.wanted();
    bench.submit("oslo", 5, 50);
    for now in 102..131 {
        bench.now = Time(now);
        bench.tell("oslo", |_| Event::Due);
        assert_eq!(bench.servers[&name("oslo")].usage().free, Procs(0), "at {now}");
    }
    assert!(bench.calls.iter().all(|call| *call == ready));
    bench.calls.clear();
    bench.now = Time(131);
    bench.tell("oslo", |_| Event::Due);
    assert_eq!(bench.wanted().call, Call::Inquire);
    bench.tell("oslo", |_| Event::Due);
    assert_eq!((bench.holds("oslo"), bench.running("oslo")), (1, 1), "the next one runs");
    bench.decided("oslo", &ready, HandoffDecision::Undecided);
    bench.ended("oslo", 3);
    assert_eq!(bench.wanted(), ready, "its turn has come again");
    assert_eq!(bench.ask(&ready), COMMIT);
    bench.decided("oslo", &ready, COMMIT);
    assert_eq!(bench.has("oslo", "lyon.2"), Some((JobState::Active, "oslo")));
}

/// The commit comes when the sibling has stepped back: it is an ordinary job from then on, which may be moved, and attempts
/// that the source had made for other siblings are behind it.
#[test]
fn a_copy_that_has_stepped_back_is_taken_by_a_late_commit() {
    let mut bench = Bench::new();
    for (key, at) in [(3, "nancy"), (4, "oslo")] {
        bench.submit(at, key, 400);
    }
    bench.at(100);
    for to in HELD {
        bench.propose("lyon.2", "lyon", to, true);
        bench.step();
    }
    bench.ended("nancy", 1);
    let ready = bench.wanted();
    bench.submit("nancy", 5, 600);
    bench.now = Time(130);
    bench.tell("nancy", |_| Event::Due);
    bench.tell("nancy", |_| Event::Due);
    bench.calls.clear();
    assert_eq!(bench.ask(&ready), COMMIT);
    bench.calls.clear();
    bench.decided("nancy", &ready, COMMIT);
    assert_eq!(bench.has("nancy", "lyon.2"), Some((JobState::Queued, "nancy")));
    bench.propose("lyon.2", "nancy", "oslo", false);
    assert_eq!(bench.wanted().id.attempt, 3, "the second one was that of the sibling there");
}

/// Somebody has changed the policy: the move takes the place of the sibling that waits where it goes, and the others go.
#[test]
fn a_job_with_copies_may_be_moved() {
    let mut bench = Bench::with_siblings();
    bench.propose("lyon.2", "lyon", "nancy", false);
    let calls = std::mem::take(&mut bench.calls);
    let [prepare, abort] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((abort.call.clone(), abort.id.attempt, prepare.id.attempt), (Call::Abort, 1, 3));
    // In the order in which they are sent: the abort is of the earlier attempt.
    let prepared = bench.make(prepare.clone());
    assert_eq!((bench.make(abort.clone()), bench.holds("nancy")), (Reply::Done, 1));
    bench.answered(prepare, prepared);
    let ends = [("nancy", Call::Commit { cancelled: false, attempts: 3 }), ("oslo", Call::Abort)];
    assert_eq!(bench.wants(), ends.map(|(to, call)| (to.to_owned(), call)));
    assert_eq!(bench.siblings(), 0);
}

#[test]
fn a_copy_whose_answer_was_lost_asks_again_and_one_that_is_refused_is_none() {
    let mut bench = Bench::new();
    bench.propose("lyon.2", "lyon", "oslo", true);
    let prepare = bench.wanted();
    let prepared = bench.make(prepare.clone());
    bench.at(100);
    let ready = bench.wanted();
    assert_eq!(bench.ask(&ready), HandoffDecision::Undecided, "what it would get is not known");
    let twice = bench.propose("lyon.2", "lyon", "oslo", true);
    assert_eq!(order_answer(&twice), &MoveOutcome::Stays(StayReason::AlreadyMoving));
    bench.answered(&prepare, prepared);
    assert_eq!(bench.ask(&ready), HandoffDecision::Commit { cancelled: false, attempts: 1 });
    bench.calls.clear();
    let mut bench = Bench::new();
    bench.propose("lyon.2", "lyon", "oslo", true);
    let prepare = bench.wanted();
    let answers = bench.answered(&prepare, Reply::Refused("full".to_owned()));
    assert!(matches!(order_answer(&answers), MoveOutcome::Stays(StayReason::Refused(_))));
    assert_eq!(bench.siblings(), 0);
}

/// A server made again from its state in any phase says and does the same as one that goes on.
#[test]
fn a_server_with_copies_may_be_made_again_between_any_two_steps() {
    let again = |bench: &mut Bench| {
        for (name, server) in &mut bench.servers {
            let text = serde_json::to_string(&server.dump(bench.now)).unwrap();
            *server = Server::from_state(config(name), serde_json::from_str(&text).unwrap()).unwrap();
        }
    };
    let run = |again_after: Option<usize>| {
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
            if again_after == Some(step) {
                again(&mut bench);
            }
        }
        assert_eq!(bench.servers[&name("oslo")].number_of(&handle("lyon.2")), Some(2));
        let states = bench.servers.iter_mut().map(|(_, server)| server.dump(Time(900)));
        let states: Vec<String> = states.map(|state| serde_json::to_string(&state).unwrap()).collect();
        (commands, states)
    };
    let expected = run(None);
    for step in 0..5 {
        assert_eq!(run(Some(step)), expected, "made again after step {step}");
    }
}
