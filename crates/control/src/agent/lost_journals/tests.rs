use super::super::tests::{Bench, name, record};
use super::super::{AgentState, Event};
use super::*;
use crate::job::JobState;
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
