//! A sibling of another server's job in an external batch system: it becomes ready, starts, or is released too late.

use super::*;
use crate::batch::external::{self, Queue};
use crate::handoff::{Call, HandoffDecision, MoveProposal};
use crate::listing::{Changes, CoreLayout, ListedJob, Listing, Node, NodeAllocation, Phase, State};
use crate::names::Token;
use crate::replay::Machine;

/// A Slurm cluster with two cores, and a server that has prepared a sibling.
pub(super) struct Slurm {
    pub(super) bench: Bench,
    listing: Listing,
}

impl Slurm {
    /// A cluster without jobs.
    pub(super) fn idle() -> Slurm {
        let mut slurm = Slurm { bench: Bench::new(external::SLURM, 0), listing: Listing::default() };
        slurm.list(vec![]);
        slurm
    }

    fn with_sibling() -> (Slurm, HandoffId) {
        let mut slurm = Slurm::idle();
        let handoff = Box::new(Handoff { sibling: true, ..handoff_from_paris(5, 1) });
        let id = handoff.id.clone();
        assert_eq!(slurm.bench.deliver(Event::Prepare { reply: Token(51), handoff }), None);
        let [external::Command::Queue(Queue { job: JobId(1), tentative: true, .. })] = &slurm.commands()[..]
        else {
            panic!("{:?}", slurm.bench.commands)
        };
        let reply = slurm.event(external::Event::Queued { job: JobId(1), ids: vec!["41".to_owned()] });
        assert!(matches!(reply, Some(Answer::Handoff(Reply::Prepared(_)))), "{reply:?}");
        (slurm, id)
    }

    pub(super) fn event(&mut self, event: external::Event) -> Option<Answer> {
        self.bench.now += Span(1);
        self.bench.deliver(Event::Batch(batch::Event::External(event)))
    }

    pub(super) fn list(&mut self, jobs: Vec<ListedJob>) {
        let node = Node { name: "n1".to_owned(), cores: 2, ..Node::default() };
        let next = Listing::new(self.bench.now + Span(1), vec![node], jobs);
        let changes: Changes = next.changes(&self.listing);
        self.listing = next;
        self.event(external::Event::Listed(changes));
    }

    /// The commands for Slurm that followed the last event.
    pub(super) fn commands(&self) -> Vec<external::Command> {
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

    /// Restores the server from its state.
    pub(super) fn restore(&mut self) {
        let Bench { server, now, .. } = &mut self.bench;
        let text = serde_json::to_string(&crate::replay::Machine::dump(server, *now)).unwrap();
        *server = Server::from_state(server.config().clone(), serde_json::from_str(&text).unwrap()).unwrap();
    }
}

pub(super) fn job_41(state: State) -> ListedJob {
    let runs = state.phase() == Phase::Running;
    ListedJob {
        id: "41".to_owned(),
        job_number: Some(1),
        shape: CoreLayout { cores: 1, ..CoreLayout::default() },
        allocations: runs.then(|| NodeAllocation::new("n1", Some(1))).into_iter().collect(),
        walltime: Some(Span(180)),
        started: runs.then_some(Time(150)),
        state,
        ..ListedJob::default()
    }
}

const COMMIT: HandoffDecision = HandoffDecision::Commit { cancelled: false, attempts: 1 };

#[test]
fn a_ready_sibling_asks_its_source_and_is_released() {
    let (mut slurm, id) = Slurm::with_sibling();
    slurm.list(vec![job_41(State::Pending)]);
    assert_eq!((slurm.calls(), slurm.commands()), (vec![], vec![]));
    slurm.list(vec![job_41(State::Running)]);
    assert_eq!((slurm.calls(), slurm.commands()), (vec![Call::Ready], vec![]));
    slurm.bench.deliver(Event::Decided { id: id.clone(), decision: COMMIT });
    let [external::Command::Release { job: JobId(1), tentative: true, .. }] = &slurm.commands()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
    slurm.event(external::Event::Released { job: JobId(1) });
    assert_eq!(slurm.bench.state(1), JobState::Queued, "no listing has shown it since the release");
    slurm.list(vec![job_41(State::Running)]);
    assert_eq!(slurm.bench.state(1), JobState::Active);
}

#[test]
fn a_sibling_that_is_aborted_is_terminated() {
    let (mut slurm, id) = Slurm::with_sibling();
    slurm.list(vec![job_41(State::Running)]);
    slurm.bench.deliver(Event::Decided { id, decision: HandoffDecision::Abort });
    let [external::Command::Terminate { job: JobId(1), .. }] = &slurm.commands()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
    assert_eq!(slurm.bench.server.prepared().count(), 0);
}

/// The job is ours since the decision: it waits under another number, and keeps its handle, its key and its files.
#[test]
fn a_sibling_that_is_released_too_late_is_queued_again() {
    let (mut slurm, id) = Slurm::with_sibling();
    slurm.list(vec![job_41(State::Running)]);
    slurm.bench.deliver(Event::Decided { id: id.clone(), decision: COMMIT });
    slurm.restore();
    slurm.event(external::Event::ReleasedTooLate { job: JobId(1) });
    let [external::Command::Queue(queue)] = &slurm.commands()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
    assert_eq!((queue.job, queue.tentative, queue.held, queue.resubmitted), (JobId(2), false, false, false));
    slurm.restore();
    assert_eq!((slurm.bench.server.number_of(&id.job), slurm.bench.state(2)), (Some(2), JobState::Queued));
    assert!(slurm.bench.server.job(1).is_none() && slurm.bench.server.needs_files_of(&Key([7; 16])));
    let again = Event::Commit { reply: Token(52), id, cancelled: false, attempts: 1 };
    assert_eq!(
        slurm.bench.deliver(again),
        Some(Answer::Handoff(Reply::Done)),
        "a repeated commit is acknowledged"
    );
    slurm.bench.cancel(2, "alice");
    let [external::Command::Terminate { job: JobId(2), .. }] = &slurm.commands()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
}

/// The job has not started, and only its source has it: it is queued again once the source answers.
#[test]
fn a_sibling_that_has_lost_its_processors_asks_and_is_queued_again() {
    let (mut slurm, id) = Slurm::with_sibling();
    slurm.list(vec![job_41(State::Running)]);
    slurm.list(vec![ListedJob {
        allocations: job_41(State::Running).allocations,
        ..job_41(State::Completed)
    }]);
    slurm.bench.deliver(Event::Due);
    assert_eq!((slurm.calls(), slurm.bench.server.prepared().count()), (vec![Call::Inquire], 1));
    slurm.bench.deliver(Event::Decided { id, decision: HandoffDecision::Undecided });
    let [external::Command::Queue(Queue { job: JobId(2), tentative: true, .. })] = &slurm.commands()[..]
    else {
        panic!("{:?}", slurm.bench.commands)
    };
}

/// The target of a move is declared lost while Slurm has not answered whether the job is withdrawn.
#[test]
fn a_job_that_is_withdrawn_for_a_lost_server_is_queued_again() {
    let mut slurm = Slurm::idle();
    let record = slurm.bench.accepted(rigid(7, 1, 100));
    slurm.event(external::Event::Queued { job: JobId(1), ids: vec!["41".to_owned()] });
    slurm.list(vec![job_41(State::Pending)]);
    let paris: crate::names::Name = "paris".parse().unwrap();
    let proposal = MoveProposal {
        job: record.handle.clone(),
        to: paris.clone(),
        address: "paris:1".to_owned(),
        expected: Estimate { procs: Procs(1), walltime: Span(100), start: Time(1_000_000) },
        gain: None,
        reason: pliant_model::MoveReason::EarlierCompletion,
        timeout: Span(60),
        sibling: false,
    };
    slurm.bench.deliver(Event::ProposeMove { reply: Token(51), proposal: Box::new(proposal) });
    let id = HandoffId { job: record.handle.clone(), attempt: 1 };
    let prepared = Reply::Prepared(Estimate { procs: Procs(1), walltime: Span(100), start: Time(500) });
    slurm.bench.deliver(Event::Answered { id, reply: prepared });
    let [external::Command::Withdraw { job: JobId(1), .. }] = &slurm.commands()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
    let forget = |server: &crate::names::Name| {
        let (reply, by, why) = (Token(52), user("root"), "its disk is broken".to_owned());
        Event::Forget { reply, server: server.clone(), by, why }
    };
    assert_eq!(slurm.bench.deliver(forget(&paris)), Some(Answer::Forgotten(1)));
    assert_eq!(slurm.bench.deliver(forget(&paris)), Some(Answer::Forgotten(0)));
    slurm.restore();
    let outcome = external::WithdrawalOutcome::Withdrawn;
    slurm.event(external::Event::Withdrawal { job: JobId(1), outcome });
    let [external::Command::Queue(queue)] = &slurm.commands()[..] else {
        panic!("{:?}", slurm.bench.commands)
    };
    assert_eq!(queue.job, JobId(2));
    assert_eq!((slurm.bench.state(2), slurm.bench.server.outgoing().count()), (JobState::Queued, 0));
    assert_eq!(slurm.bench.server.number_of(&record.handle), Some(2));
}

/// The batch system may take long to answer, and its user repeats the cancellation meanwhile.
#[test]
fn a_repeated_cancellation_of_a_job_in_slurm_is_not_journaled() {
    let mut slurm = Slurm::idle();
    slurm.bench.accepted(rigid(7, 1, 100));
    slurm.event(external::Event::Queued { job: JobId(1), ids: vec!["41".to_owned()] });
    slurm.list(vec![job_41(State::Pending)]);
    slurm.bench.cancel(1, "alice");
    assert_eq!(slurm.commands().len(), 1);
    slurm.bench.cancel(1, "alice");
    assert!(Server::is_without_effect(&slurm.bench.commands), "{:?}", slurm.bench.commands);
}
