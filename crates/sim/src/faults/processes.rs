//! The processes of jobs: they survive the server that started them, which finds out afterwards what became of them.

use pliant_control::batch::{self, Run};
use pliant_control::job::Exit;
use pliant_control::names::Handle;
use pliant_control::server;
use pliant_model::JobId;
use rand::Rng;

use super::Bug;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

/// A process, with what its supervisor has written down. Times in milliseconds.
pub(super) struct Process {
    pub(super) handle: Handle,
    pub(super) cores: Vec<u32>,
    began: u64,
    ends: u64,
    exit: Exit,
    pub(super) over: bool,
}

impl Process {
    /// When it is over, or was.
    pub(super) fn until(&self) -> u64 {
        self.ends
    }
}

impl World {
    /// A server begins a process, unless it has gone down meanwhile or was asked to end the job.
    pub(super) fn begins(&mut self, index: usize, life: u32, run: &Run) {
        if !self.is_up(Peer::Server(index)) || self.life(Peer::Server(index)) != life {
            return;
        }
        if self.servers[index].stopped.contains(&run.job) {
            return self.job_ended(index, run.job, Exit::Cancelled, None);
        }
        if self.servers[index].daemon.node.machine.subjob(run.job.0).is_some() {
            return self.subjob_begins(index, run);
        }
        let Some(record) = self.servers[index].daemon.node.machine.job(run.job.0).cloned() else {
            return self.wrong("once", format!("c{index} runs its job {}, which it does not know", run.job));
        };
        let planned = self.plan.jobs.iter().find(|planned| planned.key == record.key);
        let (percent, code) = planned.map_or((50, 0), |planned| (planned.percent, planned.code));
        let walltime = run.walltime.0.max(0) as u64 * 1000;
        let (length, exit) = match percent {
            101.. => (walltime, Exit::OverWalltime),
            _ => ((walltime * percent / 100).max(10), Exit::Code(code)),
        };
        self.checks.started(index, &record);
        self.process_begins(index, run, record.handle, length, exit);
    }

    /// A process begins that takes so many milliseconds unless it is ended before.
    pub(super) fn process_begins(
        &mut self,
        index: usize,
        run: &Run,
        handle: Handle,
        length: u64,
        exit: Exit,
    ) {
        self.note(|_| format!("c{index} starts {handle} on {:?}", run.cores));
        let busy = self.servers[index].processes.values().filter(|process| !process.over);
        let twice = busy.flat_map(|process| &process.cores).find(|core| run.cores.contains(core)).copied();
        if let Some(core) = twice {
            self.wrong("cores", format!("core {core} of c{index} has two jobs, {handle} is one"));
        }
        let (cores, ends) = (run.cores.clone(), self.queue.now() + length);
        let process = Process { handle, cores, began: self.queue.now(), ends, exit, over: false };
        self.servers[index].processes.insert(run.job, process);
        self.after(length, WorldEvent::Ends(index, run.job));
    }

    pub(super) fn terminate(&mut self, index: usize, job: JobId) {
        let grace = self.rng.random_range(0..2_000);
        let now = self.queue.now();
        match self.servers[index].processes.get_mut(&job) {
            None => self.servers[index].stopped.push(job),
            Some(process) if process.over || process.ends <= now + grace => {}
            Some(process) => {
                process.ends = now + grace;
                process.exit = Exit::Cancelled;
                self.after(grace, WorldEvent::Ends(index, job));
            }
        }
    }

    /// A process is over, whether its server is there or not.
    pub(super) fn ends(&mut self, index: usize, job: JobId) {
        let now = self.queue.now();
        let Some(process) = self.servers[index].processes.get_mut(&job) else { return };
        if process.over || process.ends > now {
            return;
        }
        process.over = true;
        let (exit, elapsed) = (process.exit.clone(), now - process.began);
        let handle = process.handle.clone();
        self.note(|_| format!("{handle} at c{index} is over: {exit}"));
        self.job_ended(index, job, exit, Some(elapsed));
    }

    fn job_ended(&mut self, index: usize, job: JobId, exit: Exit, elapsed_ms: Option<u64>) {
        self.tell_server(index, server::Event::Batch(batch::Event::Ended { job, exit, elapsed_ms }));
    }

    /// A server that is there again finds out what became of the jobs that it had started.
    pub(super) fn resume(&mut self, index: usize) {
        self.resume_tasks(index);
        let machine = &self.servers[index].daemon.node.machine;
        let jobs = machine.running().map(|(_, run, cancelling)| (run.clone(), cancelling));
        let parts = machine.running_subjobs().map(|(_, run, cancelling)| (run.clone(), cancelling));
        let running: Vec<(Run, bool)> = jobs.chain(parts).collect();
        for (run, cancelling) in running {
            let life = self.life(Peer::Server(index));
            let found = self.servers[index].processes.get(&run.job);
            if self.bug == Some(Bug::RunsAgain) {
                self.after(10, WorldEvent::Begins(index, life, run));
                continue;
            }
            match found.map(|process| (process.over, process.exit.clone(), process.ends - process.began)) {
                None if cancelling => self.job_ended(index, run.job, Exit::Cancelled, None),
                None => self.after(10, WorldEvent::Begins(index, life, run)),
                Some((true, exit, elapsed)) => self.job_ended(index, run.job, exit, Some(elapsed)),
                Some((false, ..)) if cancelling => self.terminate(index, run.job),
                Some((false, ..)) => {}
            }
        }
    }
}
