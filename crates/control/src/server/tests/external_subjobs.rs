//! A subjob of a launch in an external batch system that reports late which processes have started.

use super::external_siblings::{Slurm, job_41};
use super::*;
use crate::batch::external::{self, Queue};
use crate::coallocation::{Addresses, LaunchId, PlacedTask, Subjob, SubjobDecision, SubjobId, SubjobState};
use crate::listing::State;
use crate::names::Key;
use crate::names::Token;
use crate::payload::Payload;

fn id() -> SubjobId {
    SubjobId { launch: LaunchId { agent: "agent".parse().unwrap(), key: Key([1; 16]) }, number: 0 }
}

impl Slurm {
    /// Applies an event of the subjob; returns its state.
    fn subjob(&mut self, event: SubjobEvent) -> SubjobState {
        self.bench.now += Span(1);
        self.bench.deliver(Event::Subjob(event));
        self.bench.server.subjob_state(&id())
    }

    fn ended(&mut self, task: &str, code: i32) -> SubjobState {
        self.subjob(SubjobEvent::TaskEnded { id: id(), task: task.to_owned(), exit: Exit::Code(code) })
    }

    /// A subjob that was committed, and that the batch system has not reported as running.
    fn with_committed_subjob() -> Slurm {
        let mut slurm = Slurm::idle();
        let task = |name: &str| PlacedTask {
            name: name.to_owned(),
            machine: "n1".to_owned(),
            neighbours: Vec::new(),
            payload: Payload::default(),
        };
        let subjob = Subjob {
            id: id(),
            coordinator: Peer { name: id().launch.agent, address: String::new() },
            owner: user("alice"),
            name: "row".to_owned(),
            tasks: vec![task("one"), task("two")],
            procs: Procs(1),
            walltime: Span(60),
            timeout: Span(120),
            signed: Payload::default(),
        };
        assert_eq!(
            slurm.subjob(SubjobEvent::Prepare { reply: Token(1), subjob: Box::new(subjob) }),
            SubjobState::Queued
        );
        let walltime = Span(60 + 120) + external::RELEASE_TIMEOUT;
        let [external::Command::Queue(Queue { job: JobId(1), tentative: true, walltime: found, .. })] =
            slurm.commands()[..]
        else {
            panic!("{:?}", slurm.bench.commands)
        };
        assert_eq!(found, walltime, "it may be prepared for the launch's timeout");
        slurm.event(external::Event::Queued { job: JobId(1), ids: vec!["41".to_owned()] });
        slurm.list(vec![job_41(State::Running)]);
        let locate = Command::Subjob(SubjobCommand::Locate { id: id() });
        assert!(slurm.bench.commands.contains(&locate), "{:?}", slurm.bench.commands);
        let address = |task: &str| (task.to_owned(), format!("n1:{task}"));
        let addresses: Addresses = ["one", "two"].map(address).into();
        slurm.subjob(SubjobEvent::Located { id: id(), addresses: Ok(addresses.clone()) });
        slurm.restore();
        assert_eq!(slurm.bench.server.subjob_task_addresses(1), Some(&addresses));
        let decision = SubjobDecision::Commit { peers: addresses.clone() };
        let decided = SubjobEvent::Decided { reply: None, id: id(), decision, end_acknowledged: false };
        assert_eq!(slurm.subjob(decided), SubjobState::Committed);
        assert_eq!(slurm.bench.server.subjob_task_addresses(1), Some(&addresses), "they start with these");
        slurm
    }
}

#[test]
fn a_subjob_with_an_ended_task_runs_whatever_the_batch_system_reports() {
    let mut slurm = Slurm::with_committed_subjob();
    let ends = |ends: &[(&str, i32)]| -> SubjobState {
        let end = |(task, code): &(&str, i32)| ((*task).to_owned(), Exit::Code(*code));
        SubjobState::Runs { ended: ends.iter().map(end).collect() }
    };
    assert_eq!(slurm.ended("one", 3), ends(&[("one", 3)]));
    slurm.event(external::Event::Released { job: JobId(1) });
    slurm.list(vec![job_41(State::Running)]);
    assert_eq!(
        slurm.bench.server.subjob_state(&id()),
        ends(&[("one", 3)]),
        "the ended task is still recorded"
    );
    // A job can report what it likes.
    assert_eq!(slurm.ended("three", 0), ends(&[("one", 3)]), "not one of its tasks");
    // A repeated report counts once.
    assert_eq!(slurm.ended("one", 3), ends(&[("one", 3)]));
    let ended = external::Event::Ended {
        job: JobId(1),
        exit: Exit::Code(1),
        started: Some(Time(150)),
        elapsed_ms: None,
    };
    assert_eq!(slurm.ended("two", 0), ends(&[("one", 3), ("two", 0)]));
    slurm.event(ended);
    let ended = [("one".to_owned(), Exit::Code(3)), ("two".to_owned(), Exit::Code(0))].into();
    assert_eq!(slurm.bench.server.subjob_state(&id()), SubjobState::Over { ended, exit: Exit::Code(1) });
    assert_eq!(slurm.ended("two", 9), slurm.bench.server.subjob_state(&id()), "the subjob has ended");
}
