//! The processes of jobs. They outlive the server that started them; after a restart the server reads their outcomes.

use pliant_control::batch::{self, Run};
use pliant_control::job::Exit;
use pliant_control::names::Handle;
use pliant_control::server;
use pliant_model::{JobId, Resources};
use rand::Rng;

use super::Bug;
use super::requeues::NODE_FAILED;
use super::resources::ProcessResources;
use super::world::{World, WorldEvent};
use crate::kernel::Peer;

/// A process, with the outcome that its supervisor records. Times in milliseconds.
pub(super) struct Process {
    pub(super) handle: Handle,
    pub(super) cores: Vec<u32>,
    started_at: u64,
    ends: u64,
    exit: Exit,
    /// What it has besides processors.
    pub(super) resources: ProcessResources,
    pub(super) over: bool,
    /// It went with its host: nothing is recorded of its end.
    pub(super) is_lost: bool,
}

impl Process {
    /// When the process ends or has ended.
    pub(super) fn until(&self) -> u64 {
        self.ends
    }
}

impl World {
    /// Starts the process of a job, unless its server has crashed or terminated the job meanwhile.
    pub(super) fn start_process(&mut self, index: usize, incarnation: u32, run: &Run) {
        if !self.is_up(Peer::Server(index)) || self.incarnation(Peer::Server(index)) != incarnation {
            return;
        }
        if self.servers[index].stopped.contains(&run.job) {
            return self.deliver_job_end(index, run.job, Exit::Cancelled, None);
        }
        if self.servers[index].daemon.node.machine.subjob(run.job.0).is_some() {
            return self.start_subjob(index, run);
        }
        let Some(record) = self.servers[index].daemon.node.machine.job(run.job.0).cloned() else {
            return self.report_violation(
                "once",
                format!("c{index} runs its job {}, of which it has no record", run.job),
            );
        };
        let planned = self.plan.jobs.iter().find(|planned| planned.key == record.key);
        let (percent, code) = planned.map_or((50, 0), |planned| (planned.percent, planned.code));
        let needed = planned.and_then(|planned| planned.work.resources.clone());
        let walltime = run.walltime.0.max(0) as u64 * 1000;
        let (length, exit) = match percent {
            101.. => (walltime, Exit::OverWalltime),
            _ => ((walltime * percent / 100).max(10), Exit::Code(code)),
        };
        self.checks.check_banned(index, &record);
        self.check_begin(index, &record);
        self.check_deadline(index, &record);
        self.check_limits(index, &record);
        self.check_run(index, &record, 0);
        self.add_process(index, run, record.handle, needed.as_deref(), (length, exit));
    }

    /// Starts a process that runs for that many milliseconds and has that outcome unless it is ended before.
    pub(super) fn add_process(
        &mut self,
        index: usize,
        run: &Run,
        handle: Handle,
        needed: Option<&Resources>,
        (length, exit): (u64, Exit),
    ) {
        self.log(|_| format!("c{index} starts {handle} on {:?}", run.cores));
        let busy = self.servers[index].processes.values().filter(|process| !process.over);
        let shared_core =
            busy.flat_map(|process| &process.cores).find(|core| run.cores.contains(core)).copied();
        if let Some(core) = shared_core {
            self.report_violation("cores", format!("core {core} of c{index} has two jobs, one is {handle}"));
        }
        let resources = self.check_resources(index, run, &handle, needed);
        let (cores, ends) = (run.cores.clone(), self.queue.now() + length);
        let started_at = self.queue.now();
        let process =
            Process { handle, cores, started_at, ends, exit, resources, over: false, is_lost: false };
        self.servers[index].processes.insert(run.job, process);
        self.after(length, WorldEvent::ProcessEnd(index, run.job));
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
                self.after(grace, WorldEvent::ProcessEnd(index, job));
            }
        }
    }

    /// Ends a process whose time has come, whether its server is up or down.
    pub(super) fn end_process(&mut self, index: usize, job: JobId) {
        let now = self.queue.now();
        let Some(process) = self.servers[index].processes.get_mut(&job) else { return };
        if process.over || process.ends > now {
            return;
        }
        process.over = true;
        let (exit, elapsed) = (process.exit.clone(), now - process.started_at);
        let handle = process.handle.clone();
        self.log(|_| format!("{handle} at c{index} ends: {exit}"));
        self.deliver_job_end(index, job, exit, Some(elapsed));
    }

    fn deliver_job_end(&mut self, index: usize, job: JobId, exit: Exit, elapsed_ms: Option<u64>) {
        self.deliver_to_server(index, server::Event::Batch(batch::Event::Ended { job, exit, elapsed_ms }));
    }

    /// Makes a restarted server find the processes that it had started, and their outcomes.
    pub(super) fn resume(&mut self, index: usize) {
        self.resume_tasks(index);
        let machine = &self.servers[index].daemon.node.machine;
        let jobs = machine.running().map(|(_, run, cancelling)| (run.clone(), cancelling));
        let parts = machine.running_subjobs().map(|(_, run, cancelling)| (run.clone(), cancelling));
        let running: Vec<(Run, bool)> = jobs.chain(parts).collect();
        for (run, cancelling) in running {
            let incarnation = self.incarnation(Peer::Server(index));
            let found = self.servers[index].processes.get(&run.job);
            if self.bug == Some(Bug::RunsAgain) {
                self.after(10, WorldEvent::ProcessStart(index, incarnation, run));
                continue;
            }
            if found.is_some_and(|process| process.is_lost) {
                let (job, exit) = (run.job, Exit::Lost(NODE_FAILED.to_owned()));
                self.deliver_to_server(index, server::Event::Batch(batch::Event::NodeFailed { job, exit }));
                continue;
            }
            match found.map(|process| (process.over, process.exit.clone(), process.ends - process.started_at))
            {
                None if cancelling => self.deliver_job_end(index, run.job, Exit::Cancelled, None),
                None => self.after(10, WorldEvent::ProcessStart(index, incarnation, run)),
                Some((true, exit, elapsed)) => self.deliver_job_end(index, run.job, exit, Some(elapsed)),
                Some((false, ..)) if cancelling => self.terminate(index, run.job),
                Some((false, ..)) => {}
            }
        }
    }
}
