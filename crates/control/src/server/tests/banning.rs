//! Banned users.

use super::*;
use crate::coallocation::{LaunchId, Subjob, SubjobId, SubjobState};
use crate::handoff::{Call, HandoffDecision, MoveOutcome, MoveProposal, StayReason};
use crate::reason::Cause;
use crate::replay::Machine;

impl Bench {
    fn ban(&mut self, name: &str) -> Option<Ban> {
        let (reply, by, why) = (Token(0), user("root"), "stolen key".to_owned());
        self.banned_by(Event::Ban { reply, user: user(name), by, why })
    }

    fn unban(&mut self, name: &str) {
        let (reply, by, why) = (Token(0), user("root"), "new key".to_owned());
        assert_eq!(self.banned_by(Event::Unban { reply, user: user(name), by, why }), None);
    }

    fn banned_by(&mut self, act: Event) -> Option<Ban> {
        let answer = self.deliver(act);
        assert!(!Server::is_without_effect(&self.commands), "an act is journaled");
        match answer {
            Some(Answer::Banned(state)) => state,
            other => panic!("expected the state, found {other:?}"),
        }
    }

    fn restart(&mut self) {
        let text = serde_json::to_string(&self.server.dump(self.now)).unwrap();
        let state: ServerState = serde_json::from_str(&text).unwrap();
        self.server = Server::from_state(self.server.config().clone(), state).unwrap();
    }
}

fn of(owner: &str, submit: Submit) -> Submit {
    Submit { owner: user(owner), ..submit }
}

const WHY: &str = "root has banned the user since 1970-01-01 00:01:40Z: stolen key";

#[test]
fn nothing_of_a_banned_user_is_accepted() {
    let mut bench = Bench::new("cbf", 2);
    let known = bench.accepted(rigid(1, 1, 10)).handle;
    assert_eq!(bench.ban("alice").unwrap().to_string(), WHY);
    bench.restart();

    let refused = |answer: Answer| match answer {
        Answer::Refused(why) => (why.cause(), why.to_string()),
        other => panic!("expected a refusal, found {other:?}"),
    };
    assert_eq!(refused(bench.submit(rigid(2, 1, 10))), (Cause::Banned, WHY.to_owned()));
    assert_eq!(bench.accepted(rigid(1, 1, 10)).handle, known, "what was accepted before is still accepted");
    bench.accepted(of("bob", rigid(3, 1, 10)));

    let found = |bench: &mut Bench, who: &str| {
        let info = crate::server_info::ServerInfo {
            name: "lyon".parse().unwrap(),
            address: String::new(),
            rank: 0,
            procs: Procs(2),
            speed: Speed::REFERENCE,
            policy: "cbf".to_owned(),
            services: Vec::new(),
            scripts: true,
            optional_cores: 0,
            optional_per_core: 0,
        };
        let work = rigid(1, 1, 10).work;
        let now = bench.now;
        bench.server.answer(now, &info, &user(who), &work)
    };
    assert_eq!(found(&mut bench, "alice").refusals[0].1.cause, Cause::Banned);
    assert_eq!(found(&mut bench, "bob").vectors.len(), 1);

    let handoff = Box::new(handoff_from_paris(1, 1));
    assert_eq!(handoff.owner, user("alice"));
    let reply = bench.deliver(Event::Prepare { reply: Token(1), handoff });
    assert_eq!(reply, Some(Answer::NotPrepared(WHY.to_owned())));

    bench.unban("alice");
    bench.accepted(rigid(2, 1, 10));
}

#[test]
fn waiting_jobs_of_a_banned_user_start_after_the_ban_only() {
    for policy in &pliant_policy::batch::local_names() {
        let mut bench = Bench::new(policy, 1);
        for key in 1..=3 {
            bench.accepted(rigid(key, 1, 10));
        }
        bench.accepted(of("bob", rigid(4, 1, 10)));
        bench.at(100);
        bench.hold(3);
        bench.ban("alice");
        bench.restart();
        assert_eq!(bench.is_unplanned(2).as_deref(), Some(WHY), "{policy}");
        assert_eq!(bench.state(1), JobState::Active, "what runs goes on");

        bench.now = Time(105);
        bench.ended(1, Exit::Code(0));
        bench.at(120);
        assert_eq!((bench.state(2), bench.state(4)), (JobState::Queued, JobState::Active), "{policy}");
        bench.now = Time(125);
        bench.ended(4, Exit::Code(0));
        bench.at(200);
        assert_eq!(bench.state(2), JobState::Queued, "{policy}");

        bench.unban("alice");
        bench.at(200);
        assert_eq!((bench.state(2), bench.state(3)), (JobState::Active, JobState::Queued), "3 is held");
        bench.now = Time(205);
        bench.ended(2, Exit::Code(0));
        bench.at(205);
        assert_eq!(bench.state(3), JobState::Queued);
        bench.release(3);
        bench.at(205);
        assert_eq!(bench.state(3), JobState::Active);
    }
}

#[test]
fn a_release_during_the_ban_takes_effect_after_it() {
    let mut bench = Bench::new("cbf", 1);
    bench.accepted(rigid(1, 1, 10));
    bench.ban("alice");
    assert!(matches!(bench.hold(1), Answer::Job(_)));
    assert!(matches!(bench.release(1), Answer::Job(_)));
    bench.at(110);
    assert_eq!(bench.state(1), JobState::Queued);
    bench.unban("alice");
    bench.at(110);
    assert_eq!(bench.state(1), JobState::Active);
}

#[test]
fn the_owner_cancels_a_job_during_the_ban() {
    let mut bench = Bench::new("cbf", 1);
    bench.accepted(rigid(1, 1, 10));
    bench.ban("alice");
    bench.cancel(1, "alice");
    assert_eq!(bench.state(1), JobState::Canceled);
    bench.unban("alice");
    assert!(bench.at(110).is_empty());
}

#[test]
fn a_ban_keeps_its_time_when_it_is_repeated() {
    let mut bench = Bench::new("cbf", 1);
    bench.ban("alice");
    bench.now = Time(200);
    assert_eq!(bench.ban("alice").unwrap().at, Time(100), "the answer was lost");
    bench.unban("alice");
    bench.unban("alice");
    assert_eq!(bench.ban("alice").unwrap().at, Time(200));
}

#[test]
fn a_job_that_was_prepared_before_the_ban_waits_until_its_end() {
    for sibling in [false, true] {
        let mut bench = Bench::new("cbf", 1);
        let handoff = Box::new(Handoff { sibling, ..handoff_from_paris(5, 1) });
        let id = handoff.id.clone();
        bench.deliver(Event::Prepare { reply: Token(1), handoff });
        bench.ban("alice");
        bench.at(101);
        bench.deliver(Event::Commit { reply: Token(2), id: id.clone(), cancelled: false, attempts: 1 });
        assert!(bench.at(110).is_empty(), "sibling: {sibling}");
        bench.restart();
        bench.unban("alice");
        assert_eq!(bench.at(110).len(), 1, "sibling: {sibling}");
    }
}

#[test]
fn a_sibling_of_a_banned_user_gives_its_processors_back() {
    let mut bench = Bench::new("cbf", 1);
    bench.ban("alice");
    bench.unban("alice");
    let handoff = Box::new(Handoff { sibling: true, ..handoff_from_paris(5, 1) });
    let id = handoff.id.clone();
    bench.deliver(Event::Prepare { reply: Token(1), handoff });
    bench.ban("alice");
    bench.at(100);
    bench.accepted(of("bob", rigid(3, 1, 10)));
    assert_eq!(bench.at(100).len(), 1, "the sibling has yielded");
    bench.deliver(Event::Decided { id: id.clone(), decision: HandoffDecision::Undecided });
    assert_eq!(bench.server.usage().waiting, 0, "it is queued again after the ban only");
    bench.unban("alice");
    bench.deliver(Event::Decided { id, decision: HandoffDecision::Undecided });
    assert_eq!(bench.server.usage().waiting, 1);
}

#[test]
fn a_handoff_is_given_up_and_none_is_begun_during_the_ban() {
    let mut bench = Bench::new("cbf", 1);
    bench.accepted(of("bob", rigid(1, 1, 1_000)));
    let job = bench.accepted(rigid(2, 1, 10)).handle;
    bench.at(100);
    let propose = |bench: &mut Bench| {
        let proposal = Box::new(MoveProposal {
            job: job.clone(),
            to: "paris".parse().unwrap(),
            address: "paris:1".to_owned(),
            expected: Estimate { procs: Procs(1), walltime: Span(10), start: Time(110) },
            gain: None,
            reason: pliant_model::MoveReason::EarlierCompletion,
            timeout: Span(30),
            sibling: false,
        });
        bench.deliver(Event::ProposeMove { reply: Token(9), proposal })
    };
    assert_eq!(propose(&mut bench), None);
    let (by, why) = (user("root"), "stolen key".to_owned());
    bench.deliver(Event::Ban { reply: Token(0), user: user("alice"), by, why });
    let is_abort = |command: &Command| matches!(command, Command::Call { call: Call::Abort, .. });
    assert!(bench.commands.iter().any(is_abort), "{:?}", bench.commands);
    assert_eq!(propose(&mut bench), Some(Answer::MoveOutcome(MoveOutcome::Stays(StayReason::Held))));
}

#[test]
fn subjobs_of_a_banned_user_end_unless_they_are_prepared() {
    let mut bench = Bench::new("cbf", 1);
    bench.accepted(of("bob", rigid(1, 1, 50)));
    bench.at(100);
    let id = |number| {
        let launch = LaunchId { agent: "agent".parse().unwrap(), key: Key([1; 16]) };
        SubjobId { launch, number }
    };
    let prepare = |bench: &mut Bench, number| {
        let subjob = Box::new(Subjob {
            id: id(number),
            coordinator: Peer { name: "agent".parse().unwrap(), address: String::new() },
            owner: user("alice"),
            name: "row".to_owned(),
            tasks: Vec::new(),
            procs: Procs(1),
            walltime: Span(60),
            timeout: Span(120),
            signed: Payload::default(),
        });
        bench.deliver(Event::Subjob(SubjobEvent::Prepare { reply: Token(1), subjob }));
        bench.server.subjob_state(&id(number))
    };
    let is_over = |state: &SubjobState| match state {
        SubjobState::Over { exit: Exit::NotStarted(why), .. } => why == WHY,
        _ => false,
    };
    assert_eq!(prepare(&mut bench, 0), SubjobState::Queued);
    bench.ban("alice");
    let ended = bench.server.subjob_state(&id(0));
    assert!(is_over(&ended), "{ended:?}");
    let refused = prepare(&mut bench, 1);
    assert!(is_over(&refused), "{refused:?}");
}
