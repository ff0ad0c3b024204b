//! What is asked of Slurm, as commands and their arguments: words, never a line for a shell.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use pliant_control::listing::Shape;
use pliant_model::Span;

use super::settings::Settings;

/// A command to be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Call {
    pub(super) command: &'static str,
    pub(super) arguments: Vec<OsString>,
    /// What it reads on its standard input.
    pub(super) input: &'static [u8],
    /// The job it is about, for what it says of one it does not know.
    pub(super) id: Option<String>,
}

/// A job to be submitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submission<'a> {
    /// Our number of it: with the server's name its tag.
    pub number: u32,
    /// Its folder: where it starts, and where what Slurm itself has to say about it goes.
    pub folder: &'a Path,
    /// The program to run on its first node, and its arguments.
    pub program: &'a [OsString],
    /// Its cores.
    pub shape: Shape,
    /// Its limit; Slurm counts in minutes, so it may get up to 59 s more.
    pub walltime: Span,
    /// Whether it must not start before it is released.
    pub held: bool,
}

/// The batch script of every job: it becomes the program that is named in its arguments.
const SCRIPT: &[u8] = b"#!/bin/sh\nexec \"$@\"\n";

/// The name of the file in a job's folder that takes what Slurm prints into a job's output.
pub const BATCH_OUTPUT: &str = "batch-output";

impl Call {
    fn new(command: &'static str, arguments: &[&str]) -> Call {
        let arguments = arguments.iter().map(OsString::from).collect();
        Call { command, arguments, input: b"", id: None }
    }

    fn about(mut self, id: &str) -> Call {
        self.id = Some(id.to_owned());
        self
    }

    fn with(mut self, argument: impl Into<OsString>) -> Call {
        self.arguments.push(argument.into());
        self
    }
}

/// Submits a job. Prints its id.
pub(super) fn submit(settings: &Settings, tag: &str, job: &Submission<'_>) -> Call {
    let minutes = minutes(job.walltime);
    let mut call = Call::new("sbatch", &["--parsable"])
        // Slurm keeps a name longer than a comment, and a site's plugin may change either.
        .with(format!("--job-name={tag}"))
        .with(format!("--comment={tag}"))
        .with(format!("--ntasks={}", job.shape.cores))
        .with(format!("--time={minutes}"))
        .with(joined("--chdir=", job.folder.as_os_str().as_bytes()))
        .with(output("--output=", job.folder))
        .with(output("--error=", job.folder))
        .with("--open-mode=append")
        // With anything but ALL, Slurm loads the environment of a login: slow, and different on every site. The
        // command that submits is given next to none, so that ALL is the least.
        .with("--export=ALL")
        .with("--propagate=NONE")
        // A job runs once; what becomes of it when a node fails is decided by who submitted it.
        .with("--no-requeue");
    if let Some(nodes) = job.shape.nodes {
        call = call.with(format!("--nodes={nodes}"));
    }
    if job.shape.exclusive {
        call = call.with("--exclusive");
    }
    if job.held {
        call = call.with("--hold");
    }
    for (option, value) in
        [("partition", &settings.partition), ("account", &settings.account), ("qos", &settings.qos)]
    {
        if let Some(value) = value {
            call = call.with(format!("--{option}={value}"));
        }
    }
    call.arguments.extend(settings.extra.iter().map(OsString::from));
    call = call.with("/dev/stdin");
    call.arguments.extend(job.program.iter().cloned());
    call.input = SCRIPT;
    call
}

/// Keeps a job from starting. Done to one that runs, it changes only its priority.
pub(super) fn hold(id: &str) -> Call {
    // As its user, whoever we are: what an administrator holds is told apart by that.
    Call::new("scontrol", &["uhold", id]).about(id)
}

/// Lets a held job start.
pub(super) fn release(id: &str) -> Call {
    Call::new("scontrol", &["release", id]).about(id)
}

/// Cancels a job that waits; the command itself looks whether it does, so this is for jobs that are held.
pub(super) fn cancel_waiting(id: &str) -> Call {
    Call::new("scancel", &["--verbose", "--state=PENDING", id]).about(id)
}

/// Ends a job: SIGTERM, and after the cluster's KillWait SIGKILL.
pub(super) fn cancel(id: &str) -> Call {
    Call::new("scancel", &["--verbose", id]).about(id)
}

/// Gives a waiting job another shape. All in one: Slurm does either all of it or, if the job runs, nothing.
pub(super) fn reshape(id: &str, shape: Shape, walltime: Span) -> Call {
    // Tasks alone do not change a job's size. Slurm raises a number of nodes that is too small.
    let Shape { cores, nodes, .. } = shape;
    Call::new("scontrol", &["update"])
        .with(format!("JobId={id}"))
        .with(format!("NumNodes={}", nodes.unwrap_or(1)))
        .with(format!("NumTasks={cores}"))
        .with(format!("NumCPUs={cores}"))
        .with(format!("TimeLimit={}", minutes(walltime)))
        .about(id)
}

/// Lists all jobs in a format.
pub(super) fn jobs(format: &str) -> Call {
    Call::new("squeue", &["--all", "--noheader", "--states=all"]).with(format!("--format={format}"))
}

/// Lists one job in a format.
pub(super) fn job(id: &str, format: &str) -> Call {
    jobs(format).with(format!("--jobs={id}")).about(id)
}

/// Prints how jobs ended, of those that the controller still knows. Of several ids it leaves out what it does not
/// know; for a single one it fails.
pub(super) fn exits(ids: &str, format: &str) -> Call {
    Call::new("squeue", &["--all", "--noheader", "--states=all"])
        .with(format!("--jobs={ids}"))
        .with(format!("--Format={format}"))
        .about(ids)
}

/// Lists all nodes in a format, once for each of their partitions.
pub(super) fn nodes(format: &str) -> Call {
    Call::new("sinfo", &["--all", "--noheader", "--Node"]).with(format!("--format={format}"))
}

/// Prints all that is known of all jobs, a line each: there alone it stands which cores they have on which node.
pub(super) fn details() -> Call {
    Call::new("scontrol", &["--details", "--oneliner", "--all", "show", "jobs"])
}

/// Prints what the controller is configured to do.
pub(super) fn configuration() -> Call {
    Call::new("scontrol", &["show", "config"])
}

/// Reads the accounts of jobs by their ids.
pub(super) fn accounts_of(ids: &str, format: &str) -> Call {
    accounts(format).with(format!("--jobs={ids}"))
}

/// Reads the accounts of jobs by their names.
pub(super) fn accounts_named(names: &str, days: u32, format: &str) -> Call {
    accounts(format).with(format!("--name={names}")).with(format!("--starttime=now-{days}days"))
}

fn accounts(format: &str) -> Call {
    Call::new("sacct", &["--allocations", "--noheader", "--parsable2", "--delimiter=\u{1f}"])
        .with(format!("--format={format}"))
}

/// Slurm counts limits in minutes. None is 0: that would be no limit.
fn minutes(walltime: Span) -> i64 {
    walltime.seconds().saturating_add(59).div_euclid(60).max(1)
}

/// The file for a job's output: a name in which `%` begins a pattern.
fn output(option: &str, folder: &Path) -> OsString {
    let mut name = Vec::new();
    for &byte in folder.as_os_str().as_bytes() {
        name.push(byte);
        if byte == b'%' {
            name.push(byte);
        }
    }
    name.push(b'/');
    name.extend_from_slice(BATCH_OUTPUT.as_bytes());
    joined(option, &name)
}

fn joined(option: &str, value: &[u8]) -> OsString {
    OsString::from_vec([option.as_bytes(), value].concat())
}
