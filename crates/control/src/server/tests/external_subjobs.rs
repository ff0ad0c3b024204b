//! A subjob of a launch in an external batch system that reports late which processes have started there.

use super::external_siblings::{Slurm, as_41};
use super::*;
use crate::batch::external::{self, Queue};
use crate::coallocation::{Addresses, LaunchId, Part, PartId, PlacedTask, Standing, Verdict};
use crate::listing::State;
use crate::names::Key;
use crate::names::Token;
use crate::payload::Payload;

fn id() -> PartId {
    PartId { launch: LaunchId { agent: "agent".parse().unwrap(), key: Key([1; 16]) }, number: 0 }
}

impl Slurm {
    /// How the part stands when something more is told of it.
    fn part(&mut self, event: PartEvent) -> Standing {
        self.bench.now += Span(1);
        self.bench.tell(Event::Part(event));
        self.bench.server.part_standing(&id())
    }

    fn ended(&mut self, task: &str, code: i32) -> Standing {
        self.part(PartEvent::TaskEnded { id: id(), task: task.to_owned(), exit: Exit::Code(code) })
    }

    /// A part that is to run, of which nobody has said that it does.
    fn with_committed_part() -> Slurm {
        let mut slurm = Slurm::idle();
        let task = |name: &str| PlacedTask {
            name: name.to_owned(),
            machine: "n1".to_owned(),
            neighbours: Vec::new(),
            payload: Payload::default(),
        };
        let part = Part {
            id: id(),
            coordinator: Peer { name: id().launch.agent, address: String::new() },
            owner: user("alice"),
            name: "row".to_owned(),
            tasks: vec![task("one"), task("two")],
            procs: Procs(1),
            walltime: Span(60),
            timeout: Span(120),
        };
        assert_eq!(
            slurm.part(PartEvent::Prepare { reply: Token(1), part: Box::new(part) }),
            Standing::Queued
        );
        let walltime = Span(60 + 120) + external::DECIDED_WITHIN;
        let [external::Command::Queue(Queue { job: JobId(1), tentative: true, walltime: found, .. })] =
            slurm.asked()[..]
        else {
            panic!("{:?}", slurm.bench.commands)
        };
        assert_eq!(found, walltime, "it may be held for the launch's timeout");
        slurm.said(external::Event::Queued { job: JobId(1), ids: vec!["41".to_owned()] });
        slurm.list(vec![as_41(State::Running)]);
        let locate = Command::Part(PartCommand::Locate { id: id() });
        assert!(slurm.bench.commands.contains(&locate), "{:?}", slurm.bench.commands);
        let address = |task: &str| (task.to_owned(), format!("n1:{task}"));
        let addresses: Addresses = ["one", "two"].map(address).into();
        slurm.part(PartEvent::Located { id: id(), addresses: Ok(addresses.clone()) });
        slurm.again();
        assert_eq!(slurm.bench.server.part_listens(1), Some(&addresses));
        let verdict = Verdict::Commit { peers: addresses.clone() };
        let decided = PartEvent::Decided { reply: None, id: id(), verdict, heard: false };
        assert_eq!(slurm.part(decided), Standing::Committed);
        assert_eq!(slurm.bench.server.part_listens(1), Some(&addresses), "they start with these");
        slurm
    }
}

#[test]
fn a_task_that_has_ended_has_run_whatever_the_batch_system_says() {
    let mut slurm = Slurm::with_committed_part();
    let ends = |ends: &[(&str, i32)]| -> Standing {
        let end = |(task, code): &(&str, i32)| ((*task).to_owned(), Exit::Code(*code));
        Standing::Runs { ended: ends.iter().map(end).collect() }
    };
    assert_eq!(slurm.ended("one", 3), ends(&[("one", 3)]));
    slurm.said(external::Event::Released { job: JobId(1) });
    slurm.list(vec![as_41(State::Running)]);
    assert_eq!(slurm.bench.server.part_standing(&id()), ends(&[("one", 3)]), "that is not forgotten");
    // Told twice is told once, and nobody is told of it again.
    assert_eq!(slurm.ended("one", 3), ends(&[("one", 3)]));
    let ended = external::Event::Ended {
        job: JobId(1),
        exit: Exit::Code(1),
        started: Some(Time(150)),
        elapsed_ms: None,
    };
    assert_eq!(slurm.ended("two", 0), ends(&[("one", 3), ("two", 0)]));
    slurm.said(ended);
    let ended = [("one".to_owned(), Exit::Code(3)), ("two".to_owned(), Exit::Code(0))].into();
    assert_eq!(slurm.bench.server.part_standing(&id()), Standing::Over { ended, exit: Exit::Code(1) });
    assert_eq!(slurm.ended("two", 9), slurm.bench.server.part_standing(&id()), "it is over");
}
