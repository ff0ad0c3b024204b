//! The subjobs at servers: the addresses of their tasks, and their processes, which outlive their server.

use pliant_control::batch::Run;
use pliant_control::coallocation::{Addresses, Call, SubjobId};
use pliant_control::job::Exit;
use pliant_control::names::Handle;
use pliant_control::names::Token;
use pliant_control::server::{Event, SubjobCommand, SubjobEvent};
use pliant_model::{JobId, Span};
use rand::Rng;

use super::agent::AGENT;
use super::{LaunchCaller, LaunchEvent, LaunchRequest};
use crate::faults::Bug;
use crate::faults::world::{World, WorldEvent};
use crate::kernel::Peer;

impl World {
    /// Executes a command of a server for a subjob.
    pub(in crate::faults) fn subjob_command(&mut self, index: usize, command: SubjobCommand) {
        let incarnation = self.incarnation(Peer::Server(index));
        match command {
            SubjobCommand::Locate { id } => {
                if self.bug == Some(Bug::StartsWithoutPermit) {
                    self.start_without_decision(index, incarnation, &id);
                }
                let pause = self.rng.random_range(1..2_000);
                self.after(pause, WorldEvent::Launch(LaunchEvent::Located(index, incarnation, id)));
            }
            SubjobCommand::Report { id, state, .. } => {
                let name = self.servers[index].name.clone();
                let by = LaunchCaller::Server(incarnation, id.clone());
                self.send_launch_request(
                    Peer::Server(index),
                    AGENT,
                    by,
                    LaunchRequest::Report(name, id, state),
                );
            }
        }
    }

    /// Starts a subjob as soon as its server has its processors ([`Bug::StartsWithoutPermit`]).
    fn start_without_decision(&mut self, index: usize, incarnation: u32, id: &SubjobId) {
        let found = self.servers[index].daemon.node.machine.subjobs().find(|(subjob, ..)| subjob.id == *id);
        if let Some((subjob, number, _)) = found {
            let run = Run {
                job: JobId(number),
                procs: subjob.procs,
                cores: Vec::new(),
                walltime: Span(1),
                held: None,
            };
            self.after(1, WorldEvent::ProcessStart(index, incarnation, run));
        }
    }

    pub(super) fn receive_subjob_call(&mut self, index: usize, reply: Token, id: SubjobId, call: Call) {
        let event = match call {
            Call::Prepare(subjob) => SubjobEvent::Prepare { reply, subjob },
            Call::Decide(decision) => {
                SubjobEvent::Decided { reply: Some(reply), id, decision, end_acknowledged: false }
            }
        };
        self.deliver_to_server(index, Event::Subjob(event));
    }

    pub(super) fn located(&mut self, index: usize, incarnation: u32, id: SubjobId) {
        if self.incarnation(Peer::Server(index)) != incarnation {
            return;
        }
        let found = self.servers[index].daemon.node.machine.subjobs().find(|(subjob, ..)| subjob.id == id);
        let Some((subjob, number, _)) = found else { return };
        let address = |(at, task): (usize, &pliant_control::coallocation::PlacedTask)| {
            (task.name.clone(), format!("c{index}:{}", number * 100 + at as u32))
        };
        let addresses: Addresses = subjob.tasks.iter().enumerate().map(address).collect();
        let addresses = match self.rng.random_ratio(1, 50) {
            true => Err("no port is free".to_owned()),
            false => Ok(addresses),
        };
        self.deliver_to_server(index, Event::Subjob(SubjobEvent::Located { id, addresses }));
    }

    /// Starts the process of a subjob.
    pub(in crate::faults) fn start_subjob(&mut self, index: usize, run: &Run) {
        let Some((subjob, _)) = self.servers[index].daemon.node.machine.subjob(run.job.0) else { return };
        let subjob = subjob.clone();
        self.check_start(index, &subjob);
        let planned = self.plan.launches.iter().find(|planned| planned.spec.key == subjob.id.launch.key);
        let planned = planned.expect("every launch is planned");
        let walltime = subjob.walltime.0.max(0) as u64 * 1000;
        let mut tasks = Vec::new();
        for task in &subjob.tasks {
            let wished =
                planned.spec.application.tasks.iter().position(|task_spec| task_spec.name == task.name);
            let (length, code) = planned.tasks[wished.unwrap_or(planned.tasks.len() - 1)];
            tasks.push((task.name.clone(), self.queue.now() + length, code));
        }
        let last = tasks.iter().map(|(_, ends, _)| *ends).max().unwrap_or(self.queue.now());
        let code = tasks.iter().map(|(.., code)| *code).find(|code| *code != 0).unwrap_or(0);
        let (length, exit) = match last - self.queue.now() {
            length if length > walltime => (walltime, Exit::OverWalltime),
            length => (length, Exit::Code(code)),
        };
        for (number, (_, ends, _)) in tasks.iter().enumerate() {
            self.after(
                *ends - self.queue.now(),
                WorldEvent::Launch(LaunchEvent::TaskEnds(index, run.job, number)),
            );
        }
        self.launches.tasks.insert((index, run.job), tasks);
        // Subjobs and jobs of a server share their numbers, so no job has this handle.
        let handle = Handle { server: self.servers[index].name.clone(), number: run.job.0 };
        self.add_process(index, run, handle, None, (length, exit));
    }

    /// Ends a task whose process still runs.
    pub(super) fn end_task(&mut self, index: usize, job: JobId, number: usize) {
        let is_left = self.servers[index].processes.get(&job).is_some_and(|process| !process.over);
        if is_left {
            self.deliver_task_end(index, job, number);
        }
    }

    fn deliver_task_end(&mut self, index: usize, job: JobId, number: usize) {
        let Some((task, _, code)) = self.launches.tasks.get(&(index, job)).map(|tasks| tasks[number].clone())
        else {
            return;
        };
        let subjob = self.servers[index].daemon.node.machine.subjob(job.0);
        let Some(id) = subjob.map(|(subjob, _)| subjob.id.clone()) else { return };
        let exit = Exit::Code(code);
        self.deliver_to_server(index, Event::Subjob(SubjobEvent::TaskEnded { id, task, exit }));
    }

    /// Makes a restarted server find the tasks of its subjobs that have ended meanwhile.
    pub(in crate::faults) fn resume_tasks(&mut self, index: usize) {
        let running = self.servers[index].daemon.node.machine.running_subjobs();
        let running: Vec<JobId> = running.map(|(_, run, _)| run.job).collect();
        for job in running {
            let until = self.servers[index].processes.get(&job).map_or(0, |process| process.until());
            let tasks = self.launches.tasks.get(&(index, job)).into_iter().flatten();
            let ends: Vec<u64> = tasks.map(|(_, ends, _)| *ends).collect();
            for (number, ends) in ends.into_iter().enumerate() {
                if ends <= until.min(self.queue.now()) {
                    self.deliver_task_end(index, job, number);
                }
            }
        }
    }
}
