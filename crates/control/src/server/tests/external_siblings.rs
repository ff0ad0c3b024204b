//! A sibling of another server's job in an external batch system, from its turn to its start, and when it is let go too late.

use super::*;
use crate::batch::external::{self, Queue};
use crate::handoff::{Call, HandoffDecision};
use crate::listing::{Changes, CoreLayout, ListedJob, Listing, Node, NodeAllocation, Phase, State};
use crate::names::Token;

/// A cluster of Slurm's with two cores, in front of which a server holds a sibling.
pub(super) struct Slurm {
    pub(super) bench: Bench,
    listing: Listing,
}

impl Slurm {
    /// One without jobs.
    pub(super) fn idle() -> Slurm {
        let mut slurm = Slurm { bench: Bench::new(external::SLURM, 0), listing: Listing::default() };
        slurm.list(vec![]);
        slurm
    }

    fn with_sibling() -> (Slurm, HandoffId) {
        let mut slurm = Slurm::idle();
        let handoff = Box::new(Handoff { sibling: true, ..handed(5, 1) });
        let id = handoff.id.clone();
        assert_eq!(slurm.bench.tell(Event::Prepare { reply: Token(51), handoff }), None);
        let [external::Command::Queue(Queue { job: JobId(1), tentative: true, .. })] = &slurm.asked()[..]
        else {
            panic!("{:?}", slurm.bench.commands)
        };
        let held = slurm.said(external::Event::Queued { job: JobId(1), ids: vec!["41".to_owned()] });
        assert!(matches!(held, Some(Answer::Handoff(Reply::Prepared(_)))), "{held:?}");
        (slurm, id)
    }

    pub(super) fn said(&mut self, event: external::Event) -> Option<Answer> {
        self.bench.now += Span(1);
        self.bench.tell(Event::Batch(batch::Event::External(event)))
    }

    pub(super) fn list(&mut self, jobs: Vec<ListedJob>) {
        let node = Node { name: "n1".to_owned(), cores: 2, ..Node::default() };
        let next = Listing::new(self.bench.now + Span(1), vec![node], jobs);
        let changes: Changes = next.changes(&self.listing);
        self.listing = next;
        self.said(external::Event::Listed(changes));
    }

    /// What is wanted of Slurm since something was told last.
    pub(super) fn asked(&self) -> Vec<external::Command> {
        let external = |command: &Command| match command {
            Command::Batch(batch::Command::External(command)) => Some(command.clone()),
            _ => None,
        };
        self.bench.commands.iter().filter_map(external).collect()
    }

    fn calls(&self) -> Vec<Call> {
        let call = |command: &Command| match command {
            Command::Call { call, .. } => Some(call.clone()),
            _ => None,
        };
        self.bench.commands.iter().filter_map(call).collect()
    }

    /// Made again from its state.
    pub(super) fn again(&mut self) {
        let Bench { server, now, .. } = &mut self.bench;
        let text = serde_json::to_string(&crate::replay::Machine::dump(server, *now)).unwrap();
        *server = Server::from_state(server.config().clone(), serde_json::from_str(&text).unwrap()).unwrap();
    }
}

pub(super) fn as_41(state: State) -> ListedJob {
    let runs = state.phase() == Some(Phase::Runs);
    ListedJob {
        id: "41".to_owned(),
        ours: Some(1),
        shape: CoreLayout { cores: 1, ..CoreLayout::default() },
        places: runs.then(|| NodeAllocation { node: "n1".to_owned(), cores: Some(1) }).into_iter().collect(),
        walltime: Some(Span(180)),
        started: runs.then_some(Time(150)),
        state,
        ..ListedJob::default()
    }
}

const COMMIT: HandoffDecision = HandoffDecision::Commit { cancelled: false, attempts: 1 };

#[test]
fn its_source_is_asked_when_its_turn_has_come_and_then_it_is_let_go() {
    let (mut slurm, id) = Slurm::with_sibling();
    slurm.list(vec![as_41(State::Pending)]);
    assert_eq!((slurm.calls(), slurm.asked()), (vec![], vec![]));
    slurm.list(vec![as_41(State::Running)]);
    assert_eq!((slurm.calls(), slurm.asked()), (vec![Call::Ready], vec![]));
    slurm.bench.tell(Event::Decided { id: id.clone(), decision: COMMIT });
    let [external::Command::Release { job: JobId(1), tentative: true, .. }] = &slurm.asked()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
    slurm.said(external::Event::Released { job: JobId(1) });
    assert_eq!(slurm.bench.state(1), JobState::Queued, "no listing has shown it since");
    slurm.list(vec![as_41(State::Running)]);
    assert_eq!(slurm.bench.state(1), JobState::Active);
}

#[test]
fn one_that_another_has_outrun_is_ended_there() {
    let (mut slurm, id) = Slurm::with_sibling();
    slurm.list(vec![as_41(State::Running)]);
    slurm.bench.tell(Event::Decided { id, decision: HandoffDecision::Abort });
    let [external::Command::Terminate { job: JobId(1), .. }] = &slurm.asked()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
    assert_eq!(slurm.bench.server.prepared().count(), 0);
}

/// It is ours since the decision: it waits under another number, keeps its handle, its key and what hangs on them.
#[test]
fn one_that_is_let_go_too_late_is_queued_anew() {
    let (mut slurm, id) = Slurm::with_sibling();
    slurm.list(vec![as_41(State::Running)]);
    slurm.bench.tell(Event::Decided { id: id.clone(), decision: COMMIT });
    slurm.again();
    slurm.said(external::Event::ReleasedTooLate { job: JobId(1) });
    let [external::Command::Queue(queue)] = &slurm.asked()[..] else { panic!("{:?}", slurm.bench.commands) };
    assert_eq!((queue.job, queue.tentative, queue.held, queue.resubmitted), (JobId(2), false, false, false));
    slurm.again();
    assert_eq!((slurm.bench.server.number_of(&id.job), slurm.bench.state(2)), (Some(2), JobState::Queued));
    assert!(slurm.bench.server.job(1).is_none() && slurm.bench.server.needs_files_of(&Key([7; 16])));
    let again = Event::Commit { reply: Token(52), id, cancelled: false, attempts: 1 };
    assert_eq!(slurm.bench.tell(again), Some(Answer::Handoff(Reply::Done)), "once is enough");
    slurm.bench.cancel(2, "alice");
    let [external::Command::Terminate { job: JobId(2), .. }] = &slurm.asked()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
}

/// Nobody has begun it and nobody has it but its source: it comes back when that has said so.
#[test]
fn one_that_has_lost_its_turn_asks_and_waits_anew() {
    let (mut slurm, id) = Slurm::with_sibling();
    slurm.list(vec![as_41(State::Running)]);
    slurm.list(vec![ListedJob { places: as_41(State::Running).places, ..as_41(State::Completed) }]);
    slurm.bench.tell(Event::Due);
    assert_eq!((slurm.calls(), slurm.bench.server.prepared().count()), (vec![Call::Inquire], 1));
    slurm.bench.tell(Event::Decided { id, decision: HandoffDecision::Undecided });
    let [external::Command::Queue(Queue { job: JobId(2), tentative: true, .. })] = &slurm.asked()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
}
