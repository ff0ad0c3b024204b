//! Jobs as processes of this host.
//!
//! Every job runs under a *supervisor*, a small process of our own (`pliant run-job DIR`, [`supervise`]) that outlives
//! the server: whatever happens to the server, the job goes on, is ended at its walltime, and its exit is recorded.
//! A restarted server reads the outcome of each job from its folder ([`find`]).
//!
//! # The folder of a job
//!
//! | file | written by | meaning |
//! |---|---|---|
//! | `spec.json` | server ([`RunSpec::write`]) | what to run; durable before the supervisor is started |
//! | `lock` | both | locked (`flock`) from before the supervisor exists until it is gone; holds its process id |
//! | `cancel` | server ([`terminate`]) | the job is to be ended |
//! | `started.json` | supervisor | created exclusively before the job is started: it is never started again |
//! | `work/` | job | the folder it runs in |
//! | `stdout`, `stderr` | supervisor | what the job wrote, each cut at [`RunSpec::max_output_bytes`] |
//! | `exit.json` | supervisor | how it ended ([`Exit`]); durable and complete once it is there |
//! | `tasks.json` | server | what a batch of instances or a subjob of a launch runs ([`run_tasks`]) |
//! | `inputs/` | server | input files that a batch shares with others of its multi-job, or that the tasks of a subjob share |
//! | `supervisor.log` | supervisor | its own complaints, normally empty |
//!
//! The folder must be on a local file system: `flock` shows which supervisors live.
//!
//! A supervisor that an external batch system starts for a sibling job or for a subjob first waits at a [`StartGate`], another
//! folder, until it may go on to this one.
//!
//! # Accounts
//!
//! A job that runs as an account of its own ([`RunSpec::account`]) has its work folder, script, tasks, inputs and outputs in a folder of
//! that account, a [`JobFolder`](crate::JobFolder). The folder above has the records, and belongs to the server: no job can read or
//! change them. The supervisor stays the server's, starts the job's program through the launcher, and signals it through that.
//!
//! # Why no job is started twice, and none is forgotten
//!
//! *Twice*: `started.json` is created with `O_EXCL` by a supervisor that holds the lock, before it starts anything. A
//! supervisor that finds it there refuses.
//!
//! *Forgotten*: a server may die right after it started a supervisor which has not yet run a single instruction. If
//! the supervisor took the lock itself, the restarted server could find the lock free and no marker, and conclude
//! that nothing was ever started, while it is about to be. So the server takes the lock and hands the open file to
//! the supervisor as its standard input. An `flock` belongs to the open file and not to a process: from the moment
//! the supervisor exists it holds the lock too, whether the server lives or not, and there is no instant at which
//! the lock is free between "not started" and "ended". If the server dies before the supervisor exists, the lock
//! is free and there is no marker, and nothing was started indeed.
//!
//! | lock | `exit.json` | `started.json` | [`ProcessState`] |
//! |---|---|---|---|
//! | held | | | `Running` |
//! | free | yes | | `Ended` |
//! | free | no | yes | `Lost`: the supervisor was killed or the host restarted |
//! | free | no | no | `NeverStarted` |
//!
//! # What is ended with a job
//!
//! The job is the leader of a process group. Over its walltime, or cancelled, the group gets TERM, and KILL after the
//! grace period. When the leader is gone, for whatever reason, whatever is left is killed at once: the
//! group, and processes that left it (`setsid`, daemons), which the supervisor inherits as their subreaper.
//!
//! If the supervisor itself was killed, [`find`] kills what it left: processes whose environment carries
//! [`FOLDER_VARIABLE`] with this folder, and those in the recorded session and group of this boot. A process that
//! both left the group and overwrote its environment escapes this, as does one that runs as another user.

mod account;
mod allotted;
mod cgroup;
mod control;
mod descriptors;
mod disk;
mod folder;
mod gate;
mod group;
mod inputs;
pub(crate) mod job_folder;
mod limits;
mod listeners;
mod open_files;
mod output;
mod persistence;
mod ports;
mod record;
mod resident;
mod spec;
mod streams;
mod supervisor;
mod survivors;
mod table;
mod tasks;
mod throttle;
mod watch;
mod within;

pub use account::NOT_STARTED_PREFIX;
pub(crate) use account::PROGRAM_PATH;
pub use cgroup::{check as check_cgroup, delegated as delegated_cgroup};
pub use control::{
    Ending, FoundState, Lost, ProcessState, Running, SpawnError, account_of, ask_end, find, forget_run,
    recorded, spawn, terminate,
};
pub use descriptors::keep_descriptors;
pub use disk::FileUsage;
pub(crate) use disk::Measured;
pub use folder::FolderError;
pub use gate::{Reservation, StartGate, StartPermit, TaskAddresses};
pub use job_folder::shows_message_queues;
pub use limits::JobLimits;
pub use persistence::{ACCOUNT_TIMEOUT_MIN, AccountFailures};
pub use ports::Ports;
pub use record::Exit;
pub use resident::{NewCall, ResidentSpec, Residents, TurnHolder, put_call, run_resident};
pub use spec::{RunSpec, SpecError, SpecFault};
pub use streams::Streams;
pub use supervisor::{SuperviseError, supervise};
pub(crate) use supervisor::{no_such_folder, program_in, why as why_not_started};
pub(crate) use survivors::Marks;
pub use survivors::boot_id;
pub use tasks::{
    ADDRESS_VARIABLE, BatchSpec, CallSpec, InstanceRun, KEPT, OUTPUT_BYTES, OutputFrom, ParameterFormat,
    SubjobSpec, TaskEnd, TaskInput, TaskList, TaskRun, TasksEnd, longest_of_batch, run_tasks, task_ends,
    task_ends_length,
};

/// Environment variable of every job: the absolute path of its folder. It also marks the job's processes as ours.
pub const FOLDER_VARIABLE: &str = "PLIANT_JOB_DIR";
