//! The parts at servers: where their tasks listen, and their processes, which outlive their server.

use pliant_control::batch::Run;
use pliant_control::coallocation::{Addresses, Call, PartId};
use pliant_control::job::Exit;
use pliant_control::names::Handle;
use pliant_control::names::Token;
use pliant_control::server::{Event, PartCommand, PartEvent};
use pliant_model::{JobId, Span};
use rand::Rng;

use super::agent::AGENT;
use super::{Asked, Moment, Party};
use crate::faults::Bug;
use crate::faults::world::{World, WorldEvent};
use crate::kernel::Peer;

impl World {
    /// Does what a server wants for a part.
    pub(in crate::faults) fn part_wants(&mut self, index: usize, command: PartCommand) {
        let life = self.life(Peer::Server(index));
        match command {
            PartCommand::Locate { id } => {
                if self.bug == Some(Bug::StartsUnasked) {
                    self.starts_unasked(index, life, &id);
                }
                let pause = self.rng.random_range(1..2_000);
                self.after(pause, WorldEvent::Launches(Moment::Located(index, life, id)));
            }
            PartCommand::Tell { id, standing, .. } => {
                let name = self.servers[index].name.clone();
                let by = Party::Server(life, id.clone());
                self.ask_launch(Peer::Server(index), AGENT, by, Asked::Stands(name, id, standing));
            }
        }
    }

    /// A server starts a part as soon as it has its processors.
    fn starts_unasked(&mut self, index: usize, life: u32, id: &PartId) {
        let found = self.servers[index].daemon.node.machine.parts().find(|(part, ..)| part.id == *id);
        if let Some((part, number, _)) = found {
            let run = Run { job: JobId(number), procs: part.procs, cores: Vec::new(), walltime: Span(1) };
            self.after(1, WorldEvent::Begins(index, life, run));
        }
    }

    pub(super) fn part_asked(&mut self, index: usize, reply: Token, id: PartId, call: Call) {
        let event = match call {
            Call::Prepare(part) => PartEvent::Prepare { reply, part },
            Call::Decide(verdict) => PartEvent::Decided { reply: Some(reply), id, verdict, heard: false },
        };
        self.tell_server(index, Event::Part(event));
    }

    pub(super) fn located(&mut self, index: usize, life: u32, id: PartId) {
        if self.life(Peer::Server(index)) != life {
            return;
        }
        let found = self.servers[index].daemon.node.machine.parts().find(|(part, ..)| part.id == id);
        let Some((part, number, _)) = found else { return };
        let address = |(at, task): (usize, &pliant_control::coallocation::PlacedTask)| {
            (task.name.clone(), format!("c{index}:{}", number * 100 + at as u32))
        };
        let addresses: Addresses = part.tasks.iter().enumerate().map(address).collect();
        let addresses = match self.rng.random_ratio(1, 50) {
            true => Err("no port is free".to_owned()),
            false => Ok(addresses),
        };
        self.tell_server(index, Event::Part(PartEvent::Located { id, addresses }));
    }

    /// A server begins the process of a part.
    pub(in crate::faults) fn part_begins(&mut self, index: usize, run: &Run) {
        let Some((part, _)) = self.servers[index].daemon.node.machine.part(run.job.0) else { return };
        let part = part.clone();
        self.check_begin(index, &part);
        let planned = self.plan.launches.iter().find(|planned| planned.wanted.key == part.id.launch.key);
        let planned = planned.expect("every launch is planned");
        let walltime = part.walltime.0.max(0) as u64 * 1000;
        let mut tasks = Vec::new();
        for task in &part.tasks {
            let wished = planned.wanted.application.tasks.iter().position(|wish| wish.name == task.name);
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
            self.after(*ends - self.queue.now(), WorldEvent::Launches(Moment::Task(index, run.job, number)));
        }
        self.launches.tasks.insert((index, run.job), tasks);
        // A name for its process that no job has: a part has a number of its own.
        let handle = Handle { server: self.servers[index].name.clone(), number: run.job.0 };
        self.process_begins(index, run, handle, length, exit);
    }

    /// A task has ended, if its process has not before.
    pub(super) fn task_ends(&mut self, index: usize, job: JobId, number: usize) {
        let is_left = self.servers[index].processes.get(&job).is_some_and(|process| !process.over);
        if is_left {
            self.tell_task(index, job, number);
        }
    }

    fn tell_task(&mut self, index: usize, job: JobId, number: usize) {
        let Some((task, _, code)) = self.launches.tasks.get(&(index, job)).map(|tasks| tasks[number].clone())
        else {
            return;
        };
        let part = self.servers[index].daemon.node.machine.part(job.0);
        let Some(id) = part.map(|(part, _)| part.id.clone()) else { return };
        let exit = Exit::Code(code);
        self.tell_server(index, Event::Part(PartEvent::TaskEnded { id, task, exit }));
    }

    /// A server that is there again finds out which tasks of its parts have ended meanwhile.
    pub(in crate::faults) fn resume_tasks(&mut self, index: usize) {
        let running = self.servers[index].daemon.node.machine.running_parts();
        let running: Vec<JobId> = running.map(|(_, run, _)| run.job).collect();
        for job in running {
            let until = self.servers[index].processes.get(&job).map_or(0, |process| process.until());
            let tasks = self.launches.tasks.get(&(index, job)).into_iter().flatten();
            let ends: Vec<u64> = tasks.map(|(_, ends, _)| *ends).collect();
            for (number, ends) in ends.into_iter().enumerate() {
                if ends <= until.min(self.queue.now()) {
                    self.tell_task(index, job, number);
                }
            }
        }
    }
}
