//! The commands of a server's machines as executions.

use std::time::Duration;

use pliant_control::batch::Run;
use pliant_control::optional::server::Process;
use pliant_control::server::Server;
use pliant_model::{JobId, Procs, Span};

use super::program::RequestWork;
use super::{Allocation, Execution, ExecutionId, Host, Request, Work};
use crate::server::subjobs::SubjobRun;

impl Execution {
    /// The job or subjob of a number, with the processors that it was accepted for; none if the machine knows neither, or not
    /// any more.
    pub(in crate::server) fn of_number(host: &Host, machine: &Server, number: JobId) -> Option<Execution> {
        let JobId(of) = number;
        let id = ExecutionId::Job(number);
        if let Some(run) = SubjobRun::of(machine, of) {
            let (dir, subjob) = (host.subjob_dir(&run.subjob.id), &run.subjob);
            let allocation = Allocation::of(host, subjob.procs, 0..subjob.procs.0, subjob.walltime);
            return Some(Execution {
                id,
                work: Work::Subjob(Box::new(run)),
                dir,
                allocation,
                had_started: machine.had_started(of),
            });
        }
        let (record, program) = machine.job(of).zip(machine.payload(of))?;
        let allocation = Allocation::of(host, record.procs, 0..record.procs.0, record.walltime);
        let dir = host.dir(&record.handle, record.requeues);
        let work = Work::Job(Box::new(record.clone()), program.clone());
        Some(Execution { id, work, dir, allocation, had_started: machine.had_started(of) })
    }

    /// What the embedded batch system starts.
    pub(in crate::server) fn of_run(host: &Host, machine: &Server, run: &Run) -> Option<Execution> {
        let execution = Execution::of_number(host, machine, run.job)?;
        let mut execution = execution.with(host, run.procs, run.cores.iter().copied(), run.walltime);
        execution.allocation.held.clone_from(&run.held);
        Some(execution)
    }

    /// The same with other processors. A subjob was submitted for the time that it may wait as well, and runs for its walltime.
    pub(in crate::server) fn with(
        self,
        host: &Host,
        procs: Procs,
        cores: impl Iterator<Item = u32>,
        walltime: Span,
    ) -> Execution {
        let walltime = self.subjob().map_or(walltime, |run| run.subjob.walltime);
        Execution { allocation: Allocation::of(host, procs, cores, walltime), ..self }
    }

    /// A request of an exploration, pinned to its core from that one of this host on; not pinned if there is none.
    ///
    /// # Errors
    ///
    /// What was journaled of it makes no sense.
    pub(in crate::server) fn of_request(
        host: &Host,
        process: &Process,
        first_core: Option<u32>,
    ) -> Result<Execution, serde_json::Error> {
        let (work, walltime) = match process.payload.read()? {
            RequestWork::Pause(span) => {
                let until = Duration::from_millis((process.since + span).0.max(0).unsigned_abs());
                (Work::Pause(until), Span::ZERO)
            }
            RequestWork::Program { program, walltime, owner } => {
                let request = Request { key: process.key, owner, program: *program };
                (Work::Request(Box::new(request)), walltime)
            }
        };
        let pinned = first_core.map(|first| vec![first + process.core]);
        let allocation = Allocation { procs: Procs::ONE, cores: 1, pinned, walltime, held: None };
        let dir = host.request_dir(process.key);
        let id = ExecutionId::Request(process.request);
        Ok(Execution { id, work, dir, allocation, had_started: false })
    }
}

impl Allocation {
    /// Processors of the cluster by number, for so long.
    pub(in crate::server) fn of(
        host: &Host,
        procs: Procs,
        cores: impl Iterator<Item = u32>,
        walltime: Span,
    ) -> Allocation {
        let pinned: Vec<u32> = cores.map(|core| core + host.cluster.first_core).collect();
        let cores = pinned.len() as u32;
        let pinned = host.cluster.pin.then_some(pinned);
        Allocation { procs, cores, pinned, walltime, held: None }
    }
}
