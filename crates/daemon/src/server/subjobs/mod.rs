//! Subjobs of launches (`pliant_control::coallocation`) outside the machine: what agents call ([`service`]), the input files of
//! tasks ([`inputs`]) and where they are to listen ([`task_ports`]), what coordinators are notified of ([`coordinators`]), what people see ([`reservations`]), what tasks left ([`files`]), and how a subjob is run, which is here.

mod coordinators;
mod files;
mod inputs;
mod reservations;
mod service;
mod task_ports;

use std::collections::BTreeMap;
use std::path::Path;

use pliant_control::batch::external::RELEASE_TIMEOUT;
use pliant_control::coallocation::{Addresses, PlacedTask, Subjob};
use pliant_control::server::{Server, SubjobCommand};
use pliant_model::{Procs, Span};
use pliant_site::processes::{
    ADDRESS_VARIABLE, Reservation, RunSpec, SubjobSpec, TaskInput, TaskList, TaskRun,
};
use pliant_site::{JobFiles, JobFolder};
use pliant_staging::{FileSpec, SHARED, TASKS, put_tasks};
use pliant_wire::TaskProgram;

use super::execution::{Allocation, Failure, Host, Program, located, of_account};

pub(super) use coordinators::Coordinators;
pub(super) use task_ports::TaskPorts;

/// How much earlier a supervisor that waits on a node gives up than its batch job ends.
const GIVEN_UP_EARLIER: Span = Span(5);

/// A subjob that is to run.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SubjobRun {
    /// Its number in the batch system.
    pub(super) number: u32,
    pub(super) subjob: Subjob,
    /// Where its tasks listen.
    listens: Addresses,
    /// The addresses of the tasks that they communicate with.
    peers: Addresses,
}

impl SubjobRun {
    /// The subjob of that number, if it is one.
    pub(super) fn of(machine: &Server, number: u32) -> Option<SubjobRun> {
        let (subjob, peers) = machine.subjob(number)?;
        let listens = machine.subjob_task_addresses(number).cloned().unwrap_or_default();
        Some(SubjobRun { number, subjob: subjob.clone(), listens, peers: peers.clone() })
    }

    /// The node where its tasks are to be: in front of a batch system they are all on one.
    pub(super) fn node(&self) -> Option<&str> {
        self.subjob.tasks.first().map(|task| task.machine.as_str())
    }

    /// What its supervisor reserves on that node while it waits there. The batch system gives it time for that
    /// ([`RELEASE_TIMEOUT`] beyond what it is submitted for, which has its timeout in it already); the supervisor gives up a
    /// little earlier.
    pub(super) fn reservation(&self) -> Reservation {
        let timeout = self.subjob.timeout + RELEASE_TIMEOUT - GIVEN_UP_EARLIER;
        Reservation {
            timeout_s: timeout.0.max(1) as u64,
            tasks: self.subjob.tasks.iter().map(|task| task.name.clone()).collect(),
            toward: self.subjob.coordinator.address.clone(),
        }
    }

    /// The name of the account as which it runs: its tasks are all of one user.
    pub(super) fn account(&self) -> Result<Option<String>, Failure> {
        let first = self.subjob.tasks.first();
        Ok(first.map(|task| task.payload.read::<Program>()).transpose()?.and_then(|program| program.account))
    }

    /// Makes its folder ready to be run. Its walltime counts from then on, however long it was held before.
    pub(super) fn prepare(&self, host: &Host, allocation: &Allocation, dir: &Path) -> Result<(), Failure> {
        let program = vec![host.pliant(), "run-tasks".to_owned(), format!("../{TASKS}")];
        let account = host.account_run(self.account()?.as_deref(), dir)?;
        let env = self.variables().into_iter().chain(allocation.variables(host)).collect();
        let spec = RunSpec { program, account, env, ..allocation.spec(host) };
        spec.write(dir)?;
        let specs = of_account(&spec).map(|spec| (None, spec)).into_iter().collect();
        let tasks = self.subjob.tasks.iter().map(|task| self.task(task)).collect::<Result<_, _>>()?;
        let (owner, grace_s) = (self.subjob.owner.clone(), u64::from(host.cluster.grace_s));
        let list = TaskList::Subjob(SubjobSpec { owner, grace_s, tasks }).text();
        // It says whose the subjob is, also where the account has one of its own.
        put_tasks(dir, &list)?;
        let shared = located(&self.files()?, &dir.join(SHARED));
        let files = JobFiles { specs, tasks: Some(list), shared, ..JobFiles::default() };
        Ok(JobFolder::at(dir)?.give(&files)?)
    }

    /// What its tasks share, each file once.
    fn files(&self) -> Result<Vec<FileSpec>, Failure> {
        let mut files = BTreeMap::new();
        for task in &self.subjob.tasks {
            for file in task.payload.read::<Program>()?.inputs {
                let uploaded = TaskProgram::uploaded(&file);
                files.insert(uploaded.name.clone(), uploaded);
            }
        }
        Ok(files.into_values().collect())
    }

    /// The variables of all of its tasks.
    fn variables(&self) -> BTreeMap<String, String> {
        let Subjob { id, owner, .. } = &self.subjob;
        [("PLIANT_LAUNCH", id.launch.to_string()), ("PLIANT_OWNER", owner.to_string())]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }

    fn task(&self, task: &PlacedTask) -> Result<TaskRun, Failure> {
        let program: Program = task.payload.read()?;
        let (procs, walltime) = (self.procs_of_one(), self.subjob.walltime);
        let mut env = program.prepared.variables(procs, walltime);
        let peers = task.neighbours.iter().filter_map(|name| Some((name, self.peers.get(name)?)));
        let peers: Vec<String> = peers.map(|(name, address)| format!("{name}={address}")).collect();
        let own = [
            ("PLIANT_TASK", task.name.clone()),
            (ADDRESS_VARIABLE, self.listens.get(&task.name).cloned().unwrap_or_default()),
            ("PLIANT_PEERS", peers.join(" ")),
        ];
        env.extend(own.map(|(name, value)| (name.to_owned(), value)));
        Ok(TaskRun {
            name: task.name.clone(),
            program: program.prepared.argv(procs, walltime),
            env,
            script: program.script_text().cloned(),
            max_output_bytes: program.max_output_bytes(),
            inputs: program.inputs.into_iter().map(input).collect(),
        })
    }

    /// The processors that a task may reckon with: its share of those that all have together, and at least one.
    fn procs_of_one(&self) -> Procs {
        Procs((self.subjob.procs.0 / self.subjob.tasks.len().max(1) as u32).max(1))
    }
}

/// An input file of a task, as the task gets it.
fn input(file: FileSpec) -> TaskInput {
    TaskInput { shared: TaskProgram::uploaded(&file).name, name: file.name }
}

/// All that a driver does about subjobs.
#[derive(Clone)]
pub(super) struct SubjobDriver {
    pub(super) task_ports: TaskPorts,
    pub(super) coordinators: Coordinators,
}

impl SubjobDriver {
    /// Does what the machine wants done.
    pub(super) fn carry_out(&self, machine: &Server, command: SubjobCommand) {
        match command {
            SubjobCommand::Locate { id } => {
                let found = machine.subjobs().find(|(subjob, ..)| subjob.id == id);
                if let Some((subjob, number, _)) = found {
                    self.task_ports.locate(number, subjob);
                }
            }
            SubjobCommand::Report { to, id, state } => {
                if state.is_over() {
                    self.task_ports.free(&id);
                }
                self.coordinators.notify(to, id, state);
            }
        }
    }
}

#[cfg(test)]
pub(in crate::server) mod tests;
