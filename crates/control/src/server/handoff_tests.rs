//! Handoffs between servers, step by step: see [`crate::handoff`].

use crate::payload::Payload;
use pliant_model::{Estimate, Span, Speedup, Time};

use super::handoff_bench::{Bench, PendingCall, config, handle, name, proposal_outcome};
use super::*;
use crate::handoff::{Call, HandoffDecision, MoveOutcome, Reply, StayReason};
use crate::job::Work;
use crate::replay::Machine;

const UNDECIDED: HandoffDecision = HandoffDecision::Undecided;
const COMMIT: HandoffDecision = HandoffDecision::Commit { cancelled: false, attempts: 1 };

#[test]
fn a_waiting_job_moves_in_three_steps() {
    let mut bench = Bench::new();
    assert_eq!(bench.propose_move("lyon.2", "lyon", "nancy"), []);
    assert_eq!(bench.decision("lyon", 1), UNDECIDED);
    let prepare = bench.pending_call();
    assert!(matches!(&prepare.call, Call::Prepare(handoff) if handoff.from.name == name("lyon")));
    let promised = bench.servers[&name("lyon")].job(2).unwrap().expected;
    let prepared = bench.make(prepare.clone());
    assert_eq!((bench.prepared("nancy"), bench.record("nancy", "lyon.2")), (1, None));
    bench.at(101);
    assert_eq!(bench.servers[&name("nancy")].usage().running, 0, "a prepared job does not start");
    assert_eq!(bench.answered(&prepare, prepared), []);
    assert_eq!(bench.decision("lyon", 1), COMMIT);
    let commit = bench.pending_call();
    assert_eq!(commit.call, Call::Commit { cancelled: false, attempts: 1 });
    let done = bench.make(commit.clone());
    assert_eq!((done.clone(), bench.prepared("nancy")), (Reply::Done, 0));
    assert_eq!(bench.record("nancy", "lyon.2"), Some((JobState::Queued, "nancy")));
    let answers = bench.answered(&commit, done);
    assert!(matches!(proposal_outcome(&answers), MoveOutcome::Moved(hop) if hop.to == name("nancy")));
    assert_eq!(bench.record("lyon", "lyon.2"), Some((JobState::Queued, "nancy")));
    let number = bench.servers[&name("nancy")].number_of(&handle("lyon.2")).unwrap();
    let moved = bench.servers[&name("nancy")].job(number).unwrap().clone();
    let carried: Vec<_> = moved.estimates.iter().map(|change| (change.at, change.plan)).collect();
    assert_eq!(carried, [(moved.submitted, promised)], "the page of a moved job shows the first promise");
    bench.at(102);
    assert_eq!(bench.record("nancy", "lyon.2"), Some((JobState::Active, "nancy")));
    bench.at(5000);
    assert_eq!(bench.calls, [], "no calls are left");
}

/// Every message arrives twice; the second one changes nothing.
#[test]
fn each_step_is_idempotent() {
    let mut bench = Bench::new();
    bench.propose_move("lyon.2", "lyon", "nancy");
    let answers = bench.propose_move("lyon.2", "lyon", "oslo");
    assert_eq!(proposal_outcome(&answers), &MoveOutcome::Stays(StayReason::AlreadyMoving));
    let prepare = bench.pending_call();
    let prepared = bench.make(prepare.clone());
    assert_eq!((bench.make(prepare.clone()), bench.prepared("nancy")), (prepared.clone(), 1));
    bench.answered(&prepare, prepared.clone());
    assert_eq!(bench.answered(&prepare, prepared), []);
    bench.answered(&prepare, Reply::Refused("late".to_owned()));
    let commit = bench.pending_call();
    for _ in 0..2 {
        assert_eq!(bench.make(commit.clone()), Reply::Done);
        let nancy = &bench.servers[&name("nancy")];
        assert_eq!((nancy.jobs().count(), nancy.waiting_of(&"alice".parse().unwrap())), (1, 1));
    }
    assert_eq!(bench.answered(&commit, Reply::Done).len(), 1);
    assert_eq!(bench.answered(&commit, Reply::Done), []);
    assert!(
        matches!(bench.make(prepare), Reply::Refused(_)),
        "a job that was taken over is not prepared again"
    );
    assert_eq!((bench.prepared("nancy"), bench.calls.len()), (0, 0));
}

#[test]
fn a_job_that_starts_while_it_is_prepared_stays() {
    let mut bench = Bench::new();
    bench.propose_move("lyon.2", "lyon", "nancy");
    let prepare = bench.pending_call();
    let prepared = bench.make(prepare.clone());
    let ended = batch::Event::Ended { job: JobId(1), exit: Exit::Code(0), elapsed_ms: None };
    bench.deliver("lyon", |_| Event::Batch(ended));
    let answers = bench.deliver("lyon", |_| Event::Due);
    assert_eq!(proposal_outcome(&answers), &MoveOutcome::Stays(StayReason::NotWaiting));
    assert_eq!(bench.record("lyon", "lyon.2"), Some((JobState::Active, "lyon")));
    let abort = bench.pending_call();
    assert_eq!((abort.call.clone(), bench.decision("lyon", 1)), (Call::Abort, HandoffDecision::Abort));
    assert_eq!(bench.answered(&prepare, prepared), []);
    assert_eq!((bench.make(abort.clone()), bench.make(abort)), (Reply::Done, Reply::Done));
    assert_eq!((bench.prepared("nancy"), bench.calls.len()), (0, 0));
}

#[test]
fn a_job_cancelled_before_its_withdrawal_ends_at_its_source() {
    let mut bench = Bench::new();
    bench.propose_move("lyon.2", "lyon", "nancy");
    let prepare = bench.pending_call();
    bench.make(prepare.clone());
    let answers = bench.cancel("lyon.2", "lyon");
    assert_eq!(answers.len(), 2, "its owner and the agent are answered");
    assert_eq!(bench.record("lyon", "lyon.2"), Some((JobState::Canceled, "lyon")));
    let abort = bench.pending_call();
    bench.make(abort);
    assert_eq!((bench.prepared("nancy"), bench.has_outgoing("lyon")), (0, false));
}

/// The target may learn of the cancellation too late or never, so the owner cancels there as well.
#[test]
fn a_cancellation_after_the_withdrawal_is_answered_with_the_target() {
    for notified in [true, false] {
        let mut bench = Bench::new();
        bench.propose_move("lyon.2", "lyon", "nancy");
        bench.step();
        let commit = bench.pending_call();
        assert_eq!(bench.cancel("lyon.2", "lyon"), [], "not yet");
        let and_cancel = bench.pending_call();
        assert_eq!(and_cancel.call, Call::Commit { cancelled: true, attempts: 1 });
        assert_eq!(bench.decision("lyon", 1), HandoffDecision::Commit { cancelled: true, attempts: 1 });
        assert_eq!(bench.make(if notified { and_cancel } else { commit.clone() }), Reply::Done);
        let answers = bench.answered(&commit, Reply::Done);
        assert!(
            matches!(&answers[..], [(_, Answer::Elsewhere(record)), (_, Answer::MoveOutcome(_))] if *record.server() == name("nancy")),
            "{answers:?}"
        );
        let state = if notified { JobState::Canceled } else { JobState::Queued };
        assert_eq!(bench.record("nancy", "lyon.2"), Some((state, "nancy")));
        let answers = bench.cancel("lyon.2", "nancy");
        assert!(matches!(&answers[..], [(_, Answer::Cancelling(_))]), "{answers:?}");
        assert_eq!(bench.record("nancy", "lyon.2"), Some((JobState::Canceled, "nancy")));
    }
}

#[test]
fn a_target_without_a_decision_asks_its_source() {
    // The decision of the source, whether the job is still prepared then, and the state in which it was taken over.
    for (decision, prepared, taken_over) in [
        (UNDECIDED, 1, None),
        (HandoffDecision::Abort, 0, None),
        (COMMIT, 0, Some(JobState::Queued)),
        (HandoffDecision::Commit { cancelled: true, attempts: 1 }, 0, Some(JobState::Canceled)),
    ] {
        let mut bench = Bench::new();
        bench.propose_move("lyon.2", "lyon", "nancy");
        let prepare = bench.pending_call();
        bench.make(prepare.clone());
        bench.now = Time(160);
        bench.deliver("nancy", |_| Event::Due);
        let inquiry = bench.pending_call();
        assert_eq!((inquiry.to.as_str(), &inquiry.call), ("lyon", &Call::Inquire));
        for _ in 0..2 {
            let id = prepare.id.clone();
            bench.deliver("nancy", |_| Event::Decided { id, decision });
        }
        assert_eq!(
            (bench.prepared("nancy"), bench.record("nancy", "lyon.2").map(|(state, _)| state)),
            (prepared, taken_over)
        );
        bench.now = Time(230);
        bench.deliver("nancy", |_| Event::Due);
        assert_eq!(bench.calls.len(), prepared, "{decision:?}: it asks restore while the job is prepared");
    }
}

#[test]
fn a_target_that_does_not_answer_is_given_up_and_its_late_reply_changes_nothing() {
    let mut bench = Bench::new();
    bench.propose_move("lyon.2", "lyon", "nancy");
    let prepare = bench.pending_call();
    let mut made = Vec::new();
    for now in 101..160 {
        bench.at(now);
        made.extend(bench.calls.drain(..).map(|call| (now, call == prepare)));
    }
    assert_eq!(made, [(102, true), (104, true), (108, true), (116, true), (132, true)]);
    bench.now = Time(160);
    let answers = bench.deliver("lyon", |_| Event::Due);
    assert_eq!(proposal_outcome(&answers), &MoveOutcome::Stays(StayReason::NoAnswer));
    assert_eq!(bench.pending_call().call, Call::Abort);
    // The target was only slow, and the abort was lost.
    let prepared = bench.make(prepare.clone());
    assert!(matches!(prepared, Reply::Prepared(_)));
    assert_eq!(bench.answered(&prepare, prepared), []);
    assert_eq!(
        (bench.decision("lyon", 1), bench.record("lyon", "lyon.2")),
        (HandoffDecision::Abort, Some((JobState::Queued, "lyon")))
    );
}

#[test]
fn a_commit_is_repeated_until_it_is_acknowledged() {
    let mut bench = Bench::new();
    bench.propose_move("lyon.2", "lyon", "nancy");
    bench.step();
    let commit = bench.pending_call();
    for now in 101..4000 {
        bench.now = Time(now);
        bench.deliver("lyon", |_| Event::Due);
    }
    assert!(bench.calls.len() > 100 && bench.calls.iter().all(|call| *call == commit));
    bench.calls.clear();
    assert_eq!(bench.make(commit.clone()), Reply::Done);
    assert_eq!(bench.answered(&commit, Reply::Done).len(), 1);
}

#[test]
fn messages_of_an_earlier_attempt_are_rejected() {
    let mut bench = Bench::new();
    bench.propose_move("lyon.2", "lyon", "nancy");
    let first = bench.pending_call();
    bench.answered(&first, Reply::Refused("busy".to_owned()));
    bench.propose_move("lyon.2", "lyon", "nancy");
    let second = bench.pending_call();
    assert_eq!((first.id.attempt, second.id.attempt), (1, 2));
    bench.make(first.clone());
    assert!(matches!(bench.make(second.clone()), Reply::Prepared(_)), "it replaces the earlier attempt");
    assert!(matches!(bench.make(first.clone()), Reply::Refused(_)));
    assert_eq!(bench.make(PendingCall { call: Call::Abort, ..first.clone() }), Reply::Done);
    assert_eq!(bench.prepared("nancy"), 1, "an abort of the first attempt does not abort the second");
    let commit = PendingCall { call: Call::Commit { cancelled: false, attempts: 1 }, ..first.clone() };
    assert_eq!(bench.make(commit), Reply::Unknown);
    let estimate = Estimate { procs: Procs(4), walltime: Span(50), start: Time(100) };
    bench.answered(&first, Reply::Prepared(estimate));
    assert_eq!((bench.decision("lyon", 1), bench.decision("lyon", 2)), (HandoffDecision::Abort, UNDECIDED));
}

/// The server that hands a job over says how many attempts there were.
#[test]
fn a_job_after_the_highest_number_of_attempts_stays() {
    let mut bench = Bench::new();
    bench.propose_move("lyon.2", "lyon", "nancy");
    let prepare = bench.pending_call();
    bench.make(prepare.clone());
    let commit = PendingCall { call: Call::Commit { cancelled: false, attempts: u32::MAX }, ..prepare };
    assert_eq!(bench.make(commit), Reply::Done);
    bench.propose_move("lyon.2", "nancy", "lyon");
    assert_eq!(bench.calls, []);
}

#[test]
fn a_job_is_lost_and_not_run_twice_if_its_target_loses_its_state() {
    let mut bench = Bench::new();
    bench.propose_move("lyon.2", "lyon", "nancy");
    bench.step();
    let commit = bench.pending_call();
    bench.cancel("lyon.2", "lyon");
    bench.calls.clear();
    let answers = bench.answered(&commit, Reply::Unknown);
    assert!(matches!(&answers[..], [(_, Answer::Cancelling(_))]), "{answers:?}");
    assert_eq!(bench.record("lyon", "lyon.2"), Some((JobState::Failed, "lyon")));
    assert!(!bench.has_outgoing("lyon"));
}

/// An administrator of the target's cluster cancels the job before the source has decided.
#[test]
fn a_prepared_job_that_ends_at_its_target_is_not_lost() {
    let mut bench = Bench::new();
    bench.propose_move("lyon.2", "lyon", "nancy");
    let prepare = bench.pending_call();
    let prepared = bench.make(prepare.clone());
    assert!(matches!(prepared, Reply::Prepared(_)));
    let nancy = bench.servers.get_mut(&name("nancy")).unwrap();
    nancy.preparation_ended(Time(7), 1, &Exit::Cancelled, &mut Vec::new());
    bench.answered(&prepare, prepared);
    bench.step();
    assert_eq!(bench.record("nancy", "lyon.2"), Some((JobState::Canceled, "nancy")));
    assert_eq!(bench.record("lyon", "lyon.2").map(|(_, at)| at), Some("nancy"));
    assert_eq!((bench.prepared("nancy"), bench.has_outgoing("lyon")), (0, false));
}

#[test]
/// The acknowledgement of the first handoff is lost; the second handoff shows that the job had arrived.
fn a_job_may_come_back_before_its_arrival_is_known() {
    let mut bench = Bench::new();
    bench.submit("nancy", 3, 9000);
    bench.at(100);
    bench.propose_move("lyon.2", "lyon", "nancy");
    bench.step();
    let commit = bench.pending_call();
    bench.make(commit.clone());
    assert!(bench.has_outgoing("lyon"));
    bench.propose_move("lyon.2", "nancy", "lyon");
    let prepare = bench.pending_call();
    assert_eq!(prepare.id.attempt, 2);
    let prepared = bench.make(prepare.clone());
    assert!(
        matches!(bench.commands[..], [Command::Audit(_), Command::Report(_), ..]),
        "it is known to have gone: {:?}",
        bench.commands
    );
    assert!(!bench.has_outgoing("lyon"));
    assert_eq!(bench.record("lyon", "lyon.2"), Some((JobState::Queued, "nancy")));
    bench.answered(&prepare, prepared);
    bench.step();
    assert_eq!(bench.record("lyon", "lyon.2"), Some((JobState::Queued, "lyon")));
    assert_eq!(bench.answered(&commit, Reply::Done), [], "a late reply");
    assert_eq!(bench.record("nancy", "lyon.2"), Some((JobState::Queued, "lyon")));
    let hops = bench.servers[&name("lyon")].jobs().last().unwrap().hops.clone();
    let way: Vec<(&str, &str, u32)> =
        hops.iter().map(|hop| (hop.from.as_str(), hop.to.as_str(), hop.attempt)).collect();
    assert_eq!(way, [("lyon", "nancy", 1), ("nancy", "lyon", 2)]);
}

/// The key is kept for a while after the job was handed over; by then the job may be back.
#[test]
fn the_key_of_a_job_that_came_back_leads_to_it() {
    let mut bench = Bench::new();
    bench.submit("nancy", 3, 9000);
    bench.at(100);
    bench.hand_over("lyon.2", "lyon", "nancy");
    bench.hand_over("lyon.2", "nancy", "lyon");
    let key = Key([2; 16]);
    let known =
        |bench: &Bench| bench.servers[&name("lyon")].job_of_key(&key).map(|record| record.handle.clone());
    // The job waits behind a process that outlives its walltime.
    for now in [100, 170, 3701, 5000] {
        bench.at(now);
        assert_eq!(known(&bench), Some(handle("lyon.2")), "at {now}");
    }
    for job in [1, 3] {
        let ended = batch::Event::Ended { job: JobId(job), exit: Exit::Code(0), elapsed_ms: None };
        bench.deliver("lyon", |_| Event::Batch(ended));
        bench.at(5001 + i64::from(job));
    }
    bench.at(5100);
    let submit = |reply| {
        let work = Work::new(Procs(4), Span(50), Speedup::Rigid);
        let (owner, name, payload) = ("alice".parse().unwrap(), "test".to_owned(), Payload::default());
        let (own_time, pinned, latest, compared) = (false, false, None, Vec::new());
        let (discovery, sample, claim) = (crate::reason::DiscoverySummary::default(), None, None);
        let submit = Submit {
            key,
            owner,
            name,
            work,
            own_time,
            pinned,
            latest,
            compared,
            discovery,
            payload,
            sample,
            claim,
        };
        Event::Submit { reply, submit: Box::new(submit) }
    };
    let answers = bench.deliver("lyon", submit);
    assert!(matches!(&answers[..], [(_, Answer::Known(job))] if *job == handle("lyon.2")), "{answers:?}");
}

/// In any phase, a server restored from its state behaves as one that was not restarted.
#[test]
fn a_server_can_be_restored_between_any_two_steps() {
    let restore = |bench: &mut Bench| {
        for (name, server) in &mut bench.servers {
            let text = serde_json::to_string(&server.dump(bench.now)).unwrap();
            *server = Server::from_state(config(name), serde_json::from_str(&text).unwrap()).unwrap();
        }
    };
    let run = |restore_after: Option<usize>| {
        let mut bench = Bench::new();
        bench.submit("nancy", 3, 9000);
        bench.at(100);
        let mut commands = Vec::new();
        for step in 0..8 {
            match step {
                0 => drop(bench.propose_move("lyon.2", "lyon", "nancy")),
                1 | 2 | 5 | 6 => drop(bench.step()),
                3 => bench.at(101),
                4 => drop(bench.propose_move("lyon.2", "nancy", "oslo")),
                _ => bench.at(200),
            }
            commands.push(bench.commands.clone());
            if restore_after == Some(step) {
                restore(&mut bench);
            }
        }
        let states = bench.servers.iter_mut().map(|(_, server)| server.dump(Time(200)));
        let states: Vec<String> = states.map(|state| serde_json::to_string(&state).unwrap()).collect();
        (commands, states)
    };
    let expected = run(None);
    for step in 0..8 {
        assert_eq!(run(Some(step)), expected, "restored after step {step}");
    }
}

impl Bench {
    /// An operator declares a server lost at another one; returns how many handoffs that gives up.
    fn forget(&mut self, lost: &str, at: &str) -> u32 {
        let (server, by, why) = (name(lost), "root".parse().unwrap(), "its disk is broken".to_owned());
        match &self.deliver(at, |reply| Event::Forget { reply, server, by, why })[..] {
            [.., (_, Answer::Forgotten(given_up))] => *given_up,
            other => panic!("expected how many are given up, found {other:?}"),
        }
    }

    fn waiting(&self, at: &str) -> u32 {
        self.servers[&name(at)].usage().waiting
    }
}

/// After each step of a handoff one of its two servers is lost with its state.
#[test]
fn nothing_waits_for_a_lost_server() {
    for (lost, steps) in [("nancy", 1), ("nancy", 2), ("lyon", 1), ("lyon", 2)] {
        let mut bench = Bench::new();
        let left = if lost == "lyon" { "nancy" } else { "lyon" };
        bench.propose_move("lyon.2", "lyon", "nancy");
        let call = bench.pending_call();
        let prepared = bench.make(call.clone());
        if steps == 2 {
            bench.answered(&call, prepared);
        }
        bench.calls.clear();
        assert_eq!(bench.forget(lost, left), 1, "{lost}, {steps}");
        assert_eq!(bench.forget(lost, left), 0, "{lost}, {steps}: again");
        assert!(!Server::is_without_effect(&bench.commands), "an act is journaled");
        assert_eq!((bench.prepared(left), bench.has_outgoing(left)), (0, false), "{lost}, {steps}");
        let expected = match (lost, steps) {
            ("nancy", 1) => (Some((JobState::Queued, "lyon")), 1),
            // It was withdrawn for `nancy`, which may have run it.
            ("nancy", _) => (Some((JobState::Failed, "lyon")), 0),
            _ => (None, 0),
        };
        assert_eq!((bench.record(left, "lyon.2"), bench.waiting(left)), expected, "{lost}, {steps}");
        bench.at(5_000);
        assert!(!bench.calls.iter().any(|call| call.to == name(lost)), "{lost}, {steps}: {:?}", bench.calls);
    }
}

#[test]
fn a_sibling_at_a_lost_server_is_given_up_and_other_handoffs_are_kept() {
    for sibling in [true, false] {
        let mut bench = Bench::new();
        for (key, at) in [(3, "nancy"), (4, "oslo")] {
            bench.submit(at, key, 900);
        }
        bench.at(100);
        bench.propose("lyon.2", "lyon", "nancy", sibling);
        assert_eq!(bench.forget("oslo", "lyon"), 0);
        let prepare = bench.pending_call();
        let prepared = bench.make(prepare.clone());
        assert_eq!((bench.forget("oslo", "nancy"), bench.prepared("nancy")), (0, 1));
        if sibling {
            bench.answered(&prepare, prepared);
            assert_eq!((bench.forget("nancy", "lyon"), bench.forget("lyon", "nancy")), (1, 1));
            assert_eq!(bench.servers[&name("lyon")].siblings().count(), 0);
            assert_eq!(bench.record("lyon", "lyon.2"), Some((JobState::Queued, "lyon")));
        }
    }
    let mut bench = Bench::new();
    let (server, by, why) = (name("lyon"), "root".parse().unwrap(), "a typing error".to_owned());
    let answers = bench.deliver("lyon", |reply| Event::Forget { reply, server, by, why });
    assert!(matches!(&answers[..], [(_, Answer::Unsuited(_))]), "{answers:?}");
}
