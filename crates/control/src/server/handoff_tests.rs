//! Handoffs between servers, step by step: see [`crate::handoff`].

use crate::payload::Payload;
use pliant_model::{Estimate, Span, Speedup, Time};

use super::handoff_bench::{Bench, Wanted, config, handle, name, order_answer};
use super::*;
use crate::handoff::{Call, HandoffDecision, MoveOutcome, Reply, StayReason};
use crate::job::Work;
use crate::replay::Machine;

const UNDECIDED: HandoffDecision = HandoffDecision::Undecided;
const COMMIT: HandoffDecision = HandoffDecision::Commit { cancelled: false, attempts: 1 };

#[test]
fn a_waiting_job_goes_in_three_steps() {
    let mut bench = Bench::new();
    assert_eq!(bench.order("lyon.2", "lyon", "nancy"), []);
    assert_eq!(bench.decision("lyon", 1), UNDECIDED);
    let prepare = bench.wanted();
    assert!(matches!(&prepare.call, Call::Prepare(handoff) if handoff.from.name == name("lyon")));
    let prepared = bench.make(prepare.clone());
    assert_eq!((bench.holds("nancy"), bench.has("nancy", "lyon.2")), (1, None));
    bench.at(101);
    assert_eq!(bench.servers[&name("nancy")].usage().running, 0, "what is held does not start");
    assert_eq!(bench.answered(&prepare, prepared), []);
    assert_eq!(bench.decision("lyon", 1), COMMIT);
    let commit = bench.wanted();
    assert_eq!(commit.call, Call::Commit { cancelled: false, attempts: 1 });
    let done = bench.make(commit.clone());
    assert_eq!((done.clone(), bench.holds("nancy")), (Reply::Done, 0));
    assert_eq!(bench.has("nancy", "lyon.2"), Some((JobState::Queued, "nancy")));
    let answers = bench.answered(&commit, done);
    assert!(matches!(order_answer(&answers), MoveOutcome::Moved(hop) if hop.to == name("nancy")));
    assert_eq!(bench.has("lyon", "lyon.2"), Some((JobState::Queued, "nancy")));
    bench.at(102);
    assert_eq!(bench.has("nancy", "lyon.2"), Some((JobState::Active, "nancy")));
    bench.at(5000);
    assert_eq!(bench.calls, [], "nobody has anything left to say");
}

/// Every message comes twice, and the second one changes nothing.
#[test]
fn each_step_is_the_same_however_often_it_is_told() {
    let mut bench = Bench::new();
    bench.order("lyon.2", "lyon", "nancy");
    let answers = bench.order("lyon.2", "lyon", "oslo");
    assert_eq!(order_answer(&answers), &MoveOutcome::Stays(StayReason::AlreadyMoving));
    let prepare = bench.wanted();
    let prepared = bench.make(prepare.clone());
    assert_eq!((bench.make(prepare.clone()), bench.holds("nancy")), (prepared.clone(), 1));
    bench.answered(&prepare, prepared.clone());
    assert_eq!(bench.answered(&prepare, prepared), []);
    bench.answered(&prepare, Reply::Refused("late".to_owned()));
    let commit = bench.wanted();
    for _ in 0..2 {
        assert_eq!(bench.make(commit.clone()), Reply::Done);
        let nancy = &bench.servers[&name("nancy")];
        assert_eq!((nancy.jobs().count(), nancy.waiting_of(&"alice".parse().unwrap())), (1, 1));
    }
    assert_eq!(bench.answered(&commit, Reply::Done).len(), 1);
    assert_eq!(bench.answered(&commit, Reply::Done), []);
    assert!(matches!(bench.make(prepare), Reply::Refused(_)), "what was taken is not held again");
    assert_eq!((bench.holds("nancy"), bench.calls.len()), (0, 0));
}

#[test]
fn a_job_that_starts_while_it_is_prepared_stays() {
    let mut bench = Bench::new();
    bench.order("lyon.2", "lyon", "nancy");
    let prepare = bench.wanted();
    let prepared = bench.make(prepare.clone());
    let ended = batch::Event::Ended { job: JobId(1), exit: Exit::Code(0), elapsed_ms: None };
    bench.tell("lyon", |_| Event::Batch(ended));
    let answers = bench.tell("lyon", |_| Event::Due);
    assert_eq!(order_answer(&answers), &MoveOutcome::Stays(StayReason::NotWaiting));
    assert_eq!(bench.has("lyon", "lyon.2"), Some((JobState::Active, "lyon")));
    let abort = bench.wanted();
    assert_eq!((abort.call.clone(), bench.decision("lyon", 1)), (Call::Abort, HandoffDecision::Abort));
    assert_eq!(bench.answered(&prepare, prepared), []);
    assert_eq!((bench.make(abort.clone()), bench.make(abort)), (Reply::Done, Reply::Done));
    assert_eq!((bench.holds("nancy"), bench.calls.len()), (0, 0));
}

#[test]
fn a_job_that_is_cancelled_before_it_is_withdrawn_ends_where_it_is() {
    let mut bench = Bench::new();
    bench.order("lyon.2", "lyon", "nancy");
    let prepare = bench.wanted();
    bench.make(prepare.clone());
    let answers = bench.cancel("lyon.2", "lyon");
    assert_eq!(answers.len(), 2, "its owner and the agent are answered");
    assert_eq!(bench.has("lyon", "lyon.2"), Some((JobState::Canceled, "lyon")));
    let abort = bench.wanted();
    bench.make(abort);
    assert_eq!((bench.holds("nancy"), bench.has_outgoing("lyon")), (0, false));
}

/// That it was cancelled may be told to the target too late, or be lost: its owner asks there as well.
#[test]
fn who_cancels_a_job_that_was_withdrawn_is_sent_where_it_arrives() {
    for told in [true, false] {
        let mut bench = Bench::new();
        bench.order("lyon.2", "lyon", "nancy");
        bench.step();
        let commit = bench.wanted();
        assert_eq!(bench.cancel("lyon.2", "lyon"), [], "not yet");
        let and_cancel = bench.wanted();
        assert_eq!(and_cancel.call, Call::Commit { cancelled: true, attempts: 1 });
        assert_eq!(bench.decision("lyon", 1), HandoffDecision::Commit { cancelled: true, attempts: 1 });
        assert_eq!(bench.make(if told { and_cancel } else { commit.clone() }), Reply::Done);
        let answers = bench.answered(&commit, Reply::Done);
        assert!(
            matches!(&answers[..], [(_, Answer::Elsewhere(record)), (_, Answer::Order(_))] if *record.server() == name("nancy")),
            "{answers:?}"
        );
        let state = if told { JobState::Canceled } else { JobState::Queued };
        assert_eq!(bench.has("nancy", "lyon.2"), Some((state, "nancy")));
        let answers = bench.cancel("lyon.2", "nancy");
        assert!(matches!(&answers[..], [(_, Answer::Cancelling(_))]), "{answers:?}");
        assert_eq!(bench.has("nancy", "lyon.2"), Some((JobState::Canceled, "nancy")));
    }
}

#[test]
fn a_target_that_hears_nothing_asks() {
    // What the source says, and whether the job is held and taken then.
    for (decision, held, taken) in [
        (UNDECIDED, 1, None),
        (HandoffDecision::Abort, 0, None),
        (COMMIT, 0, Some(JobState::Queued)),
        (HandoffDecision::Commit { cancelled: true, attempts: 1 }, 0, Some(JobState::Canceled)),
    ] {
        let mut bench = Bench::new();
        bench.order("lyon.2", "lyon", "nancy");
        let prepare = bench.wanted();
        bench.make(prepare.clone());
        bench.now = Time(160);
        bench.tell("nancy", |_| Event::Due);
        let inquiry = bench.wanted();
        assert_eq!((inquiry.to.as_str(), &inquiry.call), ("lyon", &Call::Inquire));
        for _ in 0..2 {
            let id = prepare.id.clone();
            bench.tell("nancy", |_| Event::Decided { id, decision });
        }
        assert_eq!(
            (bench.holds("nancy"), bench.has("nancy", "lyon.2").map(|(state, _)| state)),
            (held, taken)
        );
        bench.now = Time(230);
        bench.tell("nancy", |_| Event::Due);
        assert_eq!(bench.calls.len(), held, "{decision:?}: it asks again while it holds");
    }
}

#[test]
fn a_target_that_is_silent_is_given_up_and_a_late_answer_changes_nothing() {
    let mut bench = Bench::new();
    bench.order("lyon.2", "lyon", "nancy");
    let prepare = bench.wanted();
    let mut made = Vec::new();
    for now in 101..160 {
        bench.at(now);
        made.extend(bench.calls.drain(..).map(|call| (now, call == prepare)));
    }
    assert_eq!(made, [(102, true), (104, true), (108, true), (116, true), (132, true)]);
    bench.now = Time(160);
    let answers = bench.tell("lyon", |_| Event::Due);
    assert_eq!(order_answer(&answers), &MoveOutcome::Stays(StayReason::Silent));
    assert_eq!(bench.wanted().call, Call::Abort);
    // It had only been slow; the abort was lost.
    let prepared = bench.make(prepare.clone());
    assert!(matches!(prepared, Reply::Prepared(_)));
    assert_eq!(bench.answered(&prepare, prepared), []);
    assert_eq!(
        (bench.decision("lyon", 1), bench.has("lyon", "lyon.2")),
        (HandoffDecision::Abort, Some((JobState::Queued, "lyon")))
    );
}

#[test]
fn a_commit_is_repeated_for_as_long_as_it_takes() {
    let mut bench = Bench::new();
    bench.order("lyon.2", "lyon", "nancy");
    bench.step();
    let commit = bench.wanted();
    for now in 101..4000 {
        bench.now = Time(now);
        bench.tell("lyon", |_| Event::Due);
    }
    assert!(bench.calls.len() > 100 && bench.calls.iter().all(|call| *call == commit));
    bench.calls.clear();
    assert_eq!(bench.make(commit.clone()), Reply::Done);
    assert_eq!(bench.answered(&commit, Reply::Done).len(), 1);
}

#[test]
fn what_an_earlier_attempt_says_is_late() {
    let mut bench = Bench::new();
    bench.order("lyon.2", "lyon", "nancy");
    let first = bench.wanted();
    bench.answered(&first, Reply::Refused("busy".to_owned()));
    bench.order("lyon.2", "lyon", "nancy");
    let second = bench.wanted();
    assert_eq!((first.id.attempt, second.id.attempt), (1, 2));
    bench.make(first.clone());
    assert!(matches!(bench.make(second.clone()), Reply::Prepared(_)), "in place of the earlier one");
    assert!(matches!(bench.make(first.clone()), Reply::Refused(_)));
    assert_eq!(bench.make(Wanted { call: Call::Abort, ..first.clone() }), Reply::Done);
    assert_eq!(bench.holds("nancy"), 1, "an abort of the first is none of the second");
    let commit = Wanted { call: Call::Commit { cancelled: false, attempts: 1 }, ..first.clone() };
    assert_eq!(bench.make(commit), Reply::Unknown);
    let estimate = Estimate { procs: Procs(4), walltime: Span(50), start: Time(100) };
    bench.answered(&first, Reply::Prepared(estimate));
    assert_eq!((bench.decision("lyon", 1), bench.decision("lyon", 2)), (HandoffDecision::Abort, UNDECIDED));
}

#[test]
fn a_target_that_has_lost_its_state_makes_the_job_lost_and_never_run_twice() {
    let mut bench = Bench::new();
    bench.order("lyon.2", "lyon", "nancy");
    bench.step();
    let commit = bench.wanted();
    bench.cancel("lyon.2", "lyon");
    bench.calls.clear();
    let answers = bench.answered(&commit, Reply::Unknown);
    assert!(matches!(&answers[..], [(_, Answer::Cancelling(_))]), "{answers:?}");
    assert_eq!(bench.has("lyon", "lyon.2"), Some((JobState::Failed, "lyon")));
    assert!(!bench.has_outgoing("lyon"));
}

/// The acknowledgement of the first handoff is lost; the second one shows that it had arrived.
/// An administrator of the target's cluster does that, before the source says whose the job is.
#[test]
fn a_held_job_that_ends_at_its_target_is_not_lost() {
    let mut bench = Bench::new();
    bench.order("lyon.2", "lyon", "nancy");
    let prepare = bench.wanted();
    let prepared = bench.make(prepare.clone());
    assert!(matches!(prepared, Reply::Prepared(_)));
    let nancy = bench.servers.get_mut(&name("nancy")).unwrap();
    nancy.preparation_ended(Time(7), 1, &Exit::Cancelled, &mut Vec::new());
    bench.answered(&prepare, prepared);
    bench.step();
    assert_eq!(bench.has("nancy", "lyon.2"), Some((JobState::Canceled, "nancy")));
    assert_eq!(bench.has("lyon", "lyon.2").map(|(_, at)| at), Some("nancy"));
    assert_eq!((bench.holds("nancy"), bench.has_outgoing("lyon")), (0, false));
}

#[test]
fn a_job_may_come_back_before_it_is_known_to_have_arrived() {
    let mut bench = Bench::new();
    bench.submit("nancy", 3, 9000);
    bench.at(100);
    bench.order("lyon.2", "lyon", "nancy");
    bench.step();
    let commit = bench.wanted();
    bench.make(commit.clone());
    assert!(bench.has_outgoing("lyon"));
    bench.order("lyon.2", "nancy", "lyon");
    let prepare = bench.wanted();
    assert_eq!(prepare.id.attempt, 2);
    let prepared = bench.make(prepare.clone());
    assert!(matches!(bench.commands[0], Command::Report(_)), "{:?}", bench.commands);
    assert!(!bench.has_outgoing("lyon"));
    assert_eq!(bench.has("lyon", "lyon.2"), Some((JobState::Queued, "nancy")));
    bench.answered(&prepare, prepared);
    bench.step();
    assert_eq!(bench.has("lyon", "lyon.2"), Some((JobState::Queued, "lyon")));
    assert_eq!(bench.answered(&commit, Reply::Done), [], "late");
    assert_eq!(bench.has("nancy", "lyon.2"), Some((JobState::Queued, "lyon")));
    let hops = bench.servers[&name("lyon")].jobs().last().unwrap().hops.clone();
    let way: Vec<(&str, &str, u32)> =
        hops.iter().map(|hop| (hop.from.as_str(), hop.to.as_str(), hop.attempt)).collect();
    assert_eq!(way, [("lyon", "nancy", 1), ("nancy", "lyon", 2)]);
}

/// The key of a job is remembered from when it left; when that is over it may be here again.
#[test]
fn the_key_of_a_job_that_came_back_leads_to_it() {
    let mut bench = Bench::new();
    bench.submit("nancy", 3, 9000);
    bench.at(100);
    bench.handed_over("lyon.2", "lyon", "nancy");
    bench.handed_over("lyon.2", "nancy", "lyon");
    let key = Key([2; 16]);
    let known =
        |bench: &Bench| bench.servers[&name("lyon")].job_of_key(&key).map(|record| record.handle.clone());
    // It waits on, behind a process that outlives its walltime.
    for now in [100, 170, 3701, 5000] {
        bench.at(now);
        assert_eq!(known(&bench), Some(handle("lyon.2")), "at {now}");
    }
    for job in [1, 3] {
        let ended = batch::Event::Ended { job: JobId(job), exit: Exit::Code(0), elapsed_ms: None };
        bench.tell("lyon", |_| Event::Batch(ended));
        bench.at(5001 + i64::from(job));
    }
    bench.at(5100);
    let submit = |reply| {
        let work = Work { procs: Procs(4), walltime: Span(50), speedup: Speedup::Rigid };
        let (owner, name, payload) = ("alice".parse().unwrap(), "test".to_owned(), Payload::default());
        let (own_time, pinned, latest, compared, sample) = (false, false, None, Vec::new(), None);
        let survey = crate::reason::DiscoverySummary::default();
        let submit =
            Submit { key, owner, name, work, own_time, pinned, latest, compared, survey, payload, sample };
        Event::Submit { reply, submit: Box::new(submit) }
    };
    let answers = bench.tell("lyon", submit);
    assert!(matches!(&answers[..], [(_, Answer::Known(job))] if *job == handle("lyon.2")), "{answers:?}");
}

/// A server made again from its state in any phase says and does the same as one that goes on.
#[test]
fn a_server_may_be_made_again_between_any_two_steps() {
    let again = |bench: &mut Bench| {
        for (name, server) in &mut bench.servers {
            let text = serde_json::to_string(&server.dump(bench.now)).unwrap();
            *server = Server::from_state(config(name), serde_json::from_str(&text).unwrap()).unwrap();
        }
    };
    let run = |again_after: Option<usize>| {
        let mut bench = Bench::new();
        bench.submit("nancy", 3, 9000);
        bench.at(100);
        let mut commands = Vec::new();
        for step in 0..8 {
            match step {
                0 => drop(bench.order("lyon.2", "lyon", "nancy")),
                1 | 2 | 5 | 6 => drop(bench.step()),
                3 => bench.at(101),
                4 => drop(bench.order("lyon.2", "nancy", "oslo")),
                _ => bench.at(200),
            }
            commands.push(bench.commands.clone());
            if again_after == Some(step) {
                again(&mut bench);
            }
        }
        let states = bench.servers.iter_mut().map(|(_, server)| server.dump(Time(200)));
        let states: Vec<String> = states.map(|state| serde_json::to_string(&state).unwrap()).collect();
        (commands, states)
    };
    let expected = run(None);
    for step in 0..8 {
        assert_eq!(run(Some(step)), expected, "made again after step {step}");
    }
}
