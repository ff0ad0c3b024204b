use super::super::tests::{Bench, hop, info, name, record};
use super::super::{AgentState, Event};
use super::*;
use crate::job::JobState;
use crate::names::Token;
use crate::replay::Machine;

impl Bench {
    fn again(&mut self, record: Box<JobRecord>) -> Vec<Command> {
        self.handle(Event::StatusAgain { child: name("a"), record })
    }

    fn state(&self, number: u32) -> Option<JobState> {
        self.agent.job(&record(number, JobState::New).handle).map(|job| job.state)
    }

    fn restart(&mut self) {
        let text = serde_json::to_string(&self.agent.dump(self.now)).unwrap();
        let state: AgentState = serde_json::from_str(&text).unwrap();
        self.agent = Agent::from_state(self.agent.config().clone(), state);
    }

    fn due(&mut self, now: i64) -> Vec<Command> {
        self.now = Time(now);
        self.handle(Event::Due)
    }
}

#[test]
fn jobs_that_are_reported_again_are_kept_and_passed_on_once() {
    let mut bench = Bench::new(false);
    bench.attach("a");
    let (runs, ended) = (record(1, JobState::Active), record(2, JobState::Completed));
    assert_eq!(bench.again(runs.clone()), [Command::ReportStatus(runs.clone())]);
    assert_eq!(bench.again(runs.clone()), []);
    let archived = [Command::ReportStatus(ended.clone()), Command::Archive(ended.clone())];
    assert_eq!(bench.again(ended), archived);
    assert_eq!((bench.state(1), bench.state(2)), (Some(JobState::Active), None), "the archive has it");
    // What is older than what is known changes nothing, and its sequence number stays.
    assert_eq!(bench.again(record(1, JobState::Queued)), []);
    let ended = record(1, JobState::Completed);
    let archived = [Command::ReportStatus(ended.clone()), Command::Archive(ended.clone())];
    assert_eq!(bench.again(ended), archived);
    let acknowledged = |sequence| Command::Acknowledge { child: name("a"), sequence };
    let complete = Event::StatusRefused { child: name("a"), sequence: 40 };
    assert_eq!(bench.handle(complete), [acknowledged(40)]);
    assert_eq!(bench.attach("a")[0], acknowledged(40));
    // Another user's, under the same ID.
    let other = Box::new(JobRecord { owner: "bob".parse().unwrap(), ..*record(1, JobState::Completed) });
    assert!(matches!(bench.again(other)[..], [Command::RefuseStatus { why: Contradiction::Owner, .. }]));
}

#[test]
fn jobs_of_a_server_that_comes_back_with_another_journal_are_lost_after_a_while() {
    let mut bench = Bench::new(false);
    bench.attach("a");
    bench.report(1, record(1, JobState::Active));
    bench.report(2, record(2, JobState::Queued));
    bench.report(3, record(3, JobState::Queued));
    bench.report(4, record(4, JobState::Completed));
    bench.now = Time(100);
    bench.attach_with("a", 2);
    // A restored server may still have it.
    bench.report(1, record(3, JobState::Queued));
    bench.report(2, record(5, JobState::Queued));
    bench.due(200);
    bench.restart();
    assert_eq!(bench.agent.next_due(), Some(Time(700)));
    assert_eq!(bench.due(699), []);
    let commands = bench.due(700);
    let archived = commands.iter().filter(|command| matches!(command, Command::Archive(_)));
    assert_eq!((archived.count(), commands.len()), (2, 4), "{commands:?}");
    let states = [1, 2, 3, 5].map(|number| bench.state(number).unwrap());
    assert_eq!(states, [JobState::Failed, JobState::Failed, JobState::Queued, JobState::Queued]);
    let lost = bench.agent.job(&record(2, JobState::New).handle).unwrap();
    let why = "the server a has lost its journal; it has another one since 1970-01-01 00:01:40Z";
    assert_eq!((lost.ended, lost.exit.clone()), (Some(Time(700)), Some(Exit::Lost(why.to_owned()))));
}

#[test]
fn an_earlier_journal_that_comes_back_in_time_has_its_jobs_still() {
    let mut bench = Bench::new(true);
    bench.attach("a");
    bench.report(7, record(1, JobState::Queued));
    for (at, journal, sequence) in [(100, 2, 0), (200, 3, 0), (300, 1, 7)] {
        bench.now = Time(at);
        let acknowledged = Command::Acknowledge { child: name("a"), sequence };
        assert_eq!(bench.attach_with("a", journal)[0], acknowledged, "journal {journal}");
    }
    assert_eq!(bench.due(10_000), []);
    assert_eq!(bench.state(1), Some(JobState::Queued));
}

#[test]
fn nothing_is_lost_while_the_server_is_away() {
    let mut bench = Bench::new(true);
    bench.attach("a");
    bench.report(1, record(1, JobState::Queued));
    bench.attach_with("a", 2);
    bench.handle(Event::Detached { child: name("a") });
    assert_eq!(bench.due(10_000), []);
    bench.attach_with("a", 2);
    assert_eq!(bench.agent.next_due(), Some(Time(10_600)), "that time begins again");
}

#[test]
fn jobs_of_a_server_that_never_comes_back_end_when_an_operator_says_so() {
    let mut bench = Bench::new(false);
    bench.attach("a");
    bench.report(1, record(1, JobState::Active));
    bench.report(2, record(2, JobState::Queued));
    bench.report(3, record(3, JobState::Completed));
    let forget = |bench: &mut Bench, server: &str| {
        let (reply, by, why) = (Token(7), "root".parse().unwrap(), "its disk is broken".to_owned());
        let mut commands = bench.handle(Event::Forget { reply, server: name(server), by, why });
        match commands.pop() {
            Some(Command::Forgotten { to: Token(7), ended }) => (ended, commands),
            other => panic!("expected the answer, found {other:?}"),
        }
    };
    let refused = |why: &str| (Err(why.to_owned()), Vec::new());
    assert_eq!(forget(&mut bench, "a"), refused("the server a is connected"));
    assert_eq!(forget(&mut bench, "b"), refused("no server b is below this agent"));

    bench.handle(Event::Detached { child: name("a") });
    bench.now = Time(5_000);
    let (ended, commands) = forget(&mut bench, "a");
    assert_eq!(ended, Ok(2));
    let Some(Command::Audit(audited)) = commands.first() else { panic!("expected a record: {commands:?}") };
    assert_eq!((audited.act, audited.why.as_str()), (AuditAct::Forget, "a: its disk is broken"));
    let reported = commands.iter().filter(|command| matches!(command, Command::ReportStatus(_))).count();
    assert_eq!((reported, commands.last()), (2, Some(&Command::Announce)));
    bench.restart();
    assert_eq!([1, 2].map(|number| bench.state(number)), [Some(JobState::Failed); 2]);
    let lost = bench.agent.job(&record(2, JobState::New).handle).unwrap();
    let why = "root has declared that the server a is lost: its disk is broken";
    assert_eq!((&lost.exit, lost.ended), (&Some(Exit::Lost(why.to_owned())), Some(Time(5_000))));
    assert_eq!(bench.agent.servers().count(), 0);

    // It comes back nevertheless: what it reports of the jobs does not revive them, and new jobs are known.
    bench.attach("a");
    bench.report(4, record(2, JobState::Active));
    let refused = bench.report(5, record(2, JobState::Completed));
    let is_refusal =
        |command: &Command| matches!(command, Command::RefuseStatus { why: Contradiction::Ended, .. });
    assert!(refused.iter().any(is_refusal), "{refused:?}");
    bench.report(6, record(5, JobState::Queued));
    assert_eq!([2, 5].map(|number| bench.state(number).unwrap()), [JobState::Failed, JobState::Queued]);
}

#[test]
fn a_server_below_another_agent_is_forgotten_there_alone() {
    let mut bench = Bench::new(true);
    let (kind, servers) = (ChildKind::Agent, vec![info("a")]);
    bench.handle(Event::Attached { child: name("north"), kind, journal: 1, servers });
    let refusal = |bench: &mut Bench| {
        let (reply, by, why) = (Token(7), "root".parse().unwrap(), "gone".to_owned());
        match bench.handle(Event::Forget { reply, server: name("a"), by, why }).pop() {
            Some(Command::Forgotten { ended: Err(why), .. }) => why,
            other => panic!("expected a refusal, found {other:?}"),
        }
    };
    assert_eq!(refusal(&mut bench), "the server a is below the agent north: ask that agent");
    bench.handle(Event::Detached { child: name("north") });
    assert!(refusal(&mut bench).contains("the server may be up"));
}

/// The server that took the job over was down, too.
#[test]
fn a_job_that_was_taken_over_before_its_server_was_lost_is_not_lost() {
    let mut bench = Bench::new(true);
    bench.attach("a");
    bench.attach("b");
    bench.report(1, record(1, JobState::Queued));
    for server in ["a", "b"] {
        bench.handle(Event::Detached { child: name(server) });
    }
    let (reply, by, why) = (Token(7), "root".parse().unwrap(), "gone".to_owned());
    bench.handle(Event::Forget { reply, server: name("a"), by, why });
    assert_eq!(bench.state(1), Some(JobState::Failed));

    bench.attach("b");
    let moved = |state| Box::new(JobRecord { hops: vec![hop("a", "b", 1)], ..*record(1, state) });
    let from_b = |bench: &mut Bench, sequence, state| {
        bench.handle(Event::StatusUpdate { child: name("b"), sequence, record: moved(state) })
    };
    from_b(&mut bench, 1, JobState::Active);
    assert_eq!(bench.state(1), Some(JobState::Active));
    bench.due(10_000);
    assert_eq!(bench.state(1), Some(JobState::Active), "only what is over is forgotten");
    from_b(&mut bench, 2, JobState::Completed);
    assert_eq!(bench.state(1), Some(JobState::Completed));
    let refused = from_b(&mut bench, 3, JobState::Failed);
    assert!(refused.iter().any(|command| matches!(command, Command::RefuseStatus { .. })), "{refused:?}");
}
