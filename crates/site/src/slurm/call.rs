//! What is asked of Slurm, as commands and their arguments: words, never a line for a shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use pliant_control::listing::CoreLayout;
use pliant_model::{Resources, Span};

use super::arrays::{BLOCK, block, indices};
use super::mark::Mark;
use super::resource_options::ResourceOptions;
use super::settings::Settings;
use crate::batch_system::commands::Call;
use crate::batch_system::{BATCH_OUTPUT, Submission};

/// Jobs that are submitted together, as the tasks of one array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArraySubmission<'a> {
    /// Our numbers of them, in order, all of one [`block`].
    pub numbers: &'a [u32],
    /// The folder of each without its number, which stands at the end.
    pub folders: &'a Path,
    /// The program to run on the first node of each, and its arguments but for the last one, which is its folder.
    pub program: &'a [OsString],
    /// The cores of each.
    pub shape: CoreLayout,
    /// What each needs besides cores.
    pub resources: Option<&'a Resources>,
    /// The partition of each, if it is not the server's own.
    pub partition: Option<&'a str>,
    /// The limit of each.
    pub walltime: Span,
}

/// The batch script of every job: it becomes the program that is named in its arguments.
const SCRIPT: &[u8] = b"#!/bin/sh\nexec \"$@\"\n";
/// The same of an array: its arguments are the beginning of the folders' names, and the first number of the block.
const ARRAY_SCRIPT: &[u8] = b"#!/bin/sh\n\
    folder=\"$1$(($2 + SLURM_ARRAY_TASK_ID))\"\n\
    shift 2\n\
    cd \"$folder\" && exec \"$@\" \"$folder\"\n";

/// Submits a job. Prints its id.
pub(super) fn submit(settings: &Settings, tag: &str, job: &Submission<'_>, node_cores: u32) -> Call {
    let written = escaped(job.folder);
    let needs = Needs::of(settings, job.partition, job.resources, job.shape, node_cores);
    let mut call = placed(needs, tag, job.walltime, job.folder, &written);
    if let Some(node) = job.node {
        call = call.with(format!("--nodelist={node}"));
    }
    if job.held {
        call = call.with("--hold");
    }
    if job.nice > 0 {
        call = call.with(format!("--nice={}", job.nice));
    }
    call = call.with("/dev/stdin");
    call.arguments.extend(job.program.iter().cloned());
    call.input = SCRIPT;
    call
}

/// Submits several jobs at once. Prints the id of their array.
pub(super) fn submit_array(
    settings: &Settings,
    tag: &str,
    jobs: &ArraySubmission<'_>,
    node_cores: u32,
) -> Call {
    let first = jobs.numbers.first().map_or(0, |number| block(*number));
    // The names of the folders end with numbers: those of the block, then the index with its leading zeros.
    let mut written = escaped(jobs.folders);
    written.extend_from_slice(
        match first / BLOCK {
            0 => "%a".to_owned(),
            thousands => format!("{thousands}%3a"),
        }
        .as_bytes(),
    );
    let bytes = jobs.folders.as_os_str().as_bytes();
    let parent = bytes.iter().rposition(|byte| *byte == b'/').map_or(&b"/"[..], |at| &bytes[..at.max(1)]);
    let parent = Path::new(OsStr::from_bytes(parent));
    let needs = Needs::of(settings, jobs.partition, jobs.resources, jobs.shape, node_cores);
    let mut call = placed(needs, tag, jobs.walltime, parent, &written)
        .with(format!("--array={}", indices(jobs.numbers)))
        .with("/dev/stdin")
        .with(jobs.folders.as_os_str())
        .with(first.to_string());
    call.arguments.extend(jobs.program.iter().cloned());
    call.input = ARRAY_SCRIPT;
    call
}

/// What a job needs and where it goes, by the server's file and by what it says itself.
struct Needs<'a> {
    partition: Option<&'a str>,
    account: Option<&'a str>,
    qos: Option<&'a str>,
    shape: CoreLayout,
    tasks: u32,
    /// More options: those of the server's file, and of its resources.
    more: Vec<OsString>,
}

impl<'a> Needs<'a> {
    fn of(
        settings: &'a Settings,
        partition: Option<&'a str>,
        resources: Option<&'a Resources>,
        shape: CoreLayout,
        node_cores: u32,
    ) -> Needs<'a> {
        let says = resources.map(|resources| &resources.batch);
        let options = ResourceOptions::new(shape, resources, node_cores);
        Needs {
            partition: partition.or(settings.partition.as_deref()),
            account: says.and_then(|says| says.account.as_deref()).or(settings.account.as_deref()),
            qos: says.and_then(|says| says.qos.as_deref()).or(settings.qos.as_deref()),
            shape: options.shape,
            tasks: options.tasks,
            more: settings.extra.iter().map(OsString::from).chain(options.words()).collect(),
        }
    }
}

/// What all submissions have in common: `folder` is where they start, `written` where what Slurm prints goes, as a pattern.
fn placed(needs: Needs<'_>, tag: &str, walltime: Span, folder: &Path, written: &[u8]) -> Call {
    let Needs { partition, account, qos, shape, tasks, more } = needs;
    let written = [written, b"/", BATCH_OUTPUT.as_bytes()].concat();
    let mut call = Call::new("sbatch", &["--parsable"])
        // Slurm keeps a name longer than a comment, and a site's plugin may change either.
        .with(format!("--job-name={tag}"))
        .with(format!("--comment={tag}"))
        .with(format!("--ntasks={tasks}"))
        .with(format!("--time={}", minutes(walltime)))
        .with(joined("--chdir=", folder.as_os_str().as_bytes()))
        .with(joined("--output=", &written))
        .with(joined("--error=", &written))
        .with("--open-mode=append")
        // With anything but ALL, Slurm loads the environment of a login: slow, and different on every site. The
        // command that submits is given next to none, so that ALL is the least.
        .with("--export=ALL")
        .with("--propagate=NONE")
        // A job runs once; its user decides about a resubmission when a node fails.
        .with("--no-requeue");
    if let Some(nodes) = shape.nodes {
        call = call.with(format!("--nodes={nodes}"));
    }
    if shape.exclusive {
        call = call.with("--exclusive");
    }
    // Of an option that is given twice the last one counts.
    call.arguments.extend(more);
    for (option, value) in [("partition", partition), ("account", account), ("qos", qos)] {
        if let Some(value) = value {
            call = call.with(format!("--{option}={value}"));
        }
    }
    call
}

/// Keeps a job from starting. Done to one that runs, it changes only its priority.
pub(super) fn hold(id: &str) -> Call {
    // As the job's user, also if this process is root: this distinguishes the holds of administrators.
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
pub(super) fn reshape(id: &str, shape: CoreLayout, walltime: Span) -> Call {
    // Tasks alone do not change a job's size. Slurm raises a number of nodes that is too small.
    let CoreLayout { cores, nodes, .. } = shape;
    Call::new("scontrol", &["update"])
        .with(format!("JobId={id}"))
        .with(format!("NumNodes={}", nodes.unwrap_or(1)))
        .with(format!("NumTasks={cores}"))
        .with(format!("NumCPUs={cores}"))
        .with(format!("TimeLimit={}", minutes(walltime)))
        .about(id)
}

/// Lists all jobs in a format. Its mark is in no argument: who reads it while the command runs can write it into the name of an own job,
/// and with it the jobs of others.
pub(super) fn jobs(format: &str) -> Call {
    Call::new("squeue", &["--all", "--noheader", "--states=all"]).with_variable("SQUEUE_FORMAT", format)
}

/// Lists in a long format what all jobs that wait or run request.
pub(super) fn requests(format: &str) -> Call {
    Call::new("squeue", &["--all", "--noheader"]).with_variable("SQUEUE_FORMAT2", format)
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
        .with_variable("SQUEUE_FORMAT2", format)
        .about(ids)
}

/// Lists all nodes in a format, once for each of their partitions.
pub(super) fn nodes(format: &str) -> Call {
    Call::new("sinfo", &["--all", "--noheader", "--Node"]).with(format!("--format={format}"))
}

/// Prints the settings of all partitions, a line each.
pub(super) fn partitions() -> Call {
    Call::new("scontrol", &["--oneliner", "--all", "show", "partitions"])
}

/// Prints the licences of the cluster, a line each.
pub(super) fn licences() -> Call {
    Call::new("scontrol", &["--oneliner", "show", "licenses"])
}

/// Prints the reservations, a line each.
pub(super) fn reservations() -> Call {
    Call::new("scontrol", &["--oneliner", "--all", "show", "reservations"])
}

/// Prints all that is known of all jobs, a line each: there alone it stands which cores they have on which node.
pub(super) fn details() -> Call {
    Call::new("scontrol", &["--details", "--oneliner", "--all", "show", "jobs"])
}

/// Prints what the controller is configured to do.
pub(super) fn configuration() -> Call {
    Call::new("scontrol", &["show", "config"])
}

/// Prints what a user may do, beyond what all may.
pub(super) fn level_of(user: &str) -> Call {
    Call::new("sacctmgr", &["--noheader", "--parsable2", "show", "user", user, "format=adminlevel"])
}

/// Which jobs the accounts are asked for, by their IDs or their names, separated by commas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum AccountsOf {
    Ids(String),
    /// Of the last so many days.
    Names(String, u32),
}

/// Reads the accounts of jobs, `|` behind each field: the format is of fields that no user writes.
pub(super) fn accounts(of: &AccountsOf, format: &str) -> Call {
    let call = Call::new("sacct", &["--allusers", "--allocations", "--noheader", "--parsable"])
        .with(format!("--format={format}"));
    match of {
        AccountsOf::Ids(ids) => call.with(format!("--jobs={ids}")),
        AccountsOf::Names(names, days) => {
            call.with(format!("--name={names}")).with(format!("--starttime=now-{days}days"))
        }
    }
}

/// The same with a mark behind each field, which all users can read while the command runs.
pub(super) fn marked_accounts(of: &AccountsOf, format: &str, mark: &Mark) -> Call {
    accounts(of, format).with(format!("--delimiter={}", mark.text()))
}

/// Slurm counts limits in minutes. None is 0: that would be no limit.
pub(super) fn minutes(walltime: Span) -> i64 {
    walltime.seconds().saturating_add(59).div_euclid(60).max(1)
}

/// A folder in the name of a file in which `%` begins a pattern.
fn escaped(folder: &Path) -> Vec<u8> {
    let mut name = Vec::new();
    for &byte in folder.as_os_str().as_bytes() {
        name.push(byte);
        if byte == b'%' {
            name.push(byte);
        }
    }
    name
}

fn joined(option: &str, value: &[u8]) -> OsString {
    OsString::from_vec([option.as_bytes(), value].concat())
}
