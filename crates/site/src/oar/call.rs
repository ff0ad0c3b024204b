//! What is asked of OAR, as commands and their arguments: words, never a line for a shell. But the command of a job is
//! one: its owner's login shell reads it, so every word of it is quoted.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use pliant_model::Span;
use pliant_policy::alternatives::Alternative;

use super::settings::Settings;

/// A command to be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Call {
    pub(super) command: &'static str,
    pub(super) arguments: Vec<OsString>,
}

/// A job to be submitted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Submission<'a> {
    /// Our number of it: with the server's name its tag.
    pub number: u32,
    /// Its folder: where it starts, and where what OAR itself has to say about it goes.
    pub folder: &'a Path,
    /// The program to run on its first node, and its arguments.
    pub program: &'a [OsString],
    /// The sizes among which OAR chooses, in order of preference; at least one.
    pub alternatives: &'a [Alternative],
    /// Whether it must not start before it is released.
    pub held: bool,
}

/// The name of the file in a job's folder that takes what a job prints before its supervisor has it.
const BATCH_OUTPUT: &str = crate::slurm::BATCH_OUTPUT;

impl Call {
    fn new(command: &'static str, arguments: &[&str]) -> Call {
        Call { command, arguments: arguments.iter().map(OsString::from).collect() }
    }

    fn with(mut self, argument: impl Into<OsString>) -> Call {
        self.arguments.push(argument.into());
        self
    }
}

/// Submits a job. Prints its id.
pub(super) fn submit(settings: &Settings, tag: &str, job: &Submission<'_>) -> Call {
    let mut call = Call::new("oarsub", &["--name"])
        .with(tag)
        .with("--directory")
        .with(job.folder)
        // In its folder. OAR keeps little room for a whole path.
        .with(format!("--stdout={BATCH_OUTPUT}"))
        .with(format!("--stderr={BATCH_OUTPUT}"));
    for Alternative { procs, walltime } in job.alternatives {
        call = call.with("--resource").with(format!("/resource_id={procs},walltime={}", clock(*walltime)));
    }
    if job.held {
        call = call.with("--hold");
    }
    for (option, value) in
        [("queue", &settings.queue), ("project", &settings.project), ("property", &settings.properties)]
    {
        if let Some(value) = value {
            call = call.with(format!("--{option}={value}"));
        }
    }
    call.arguments.extend(settings.extra.iter().map(OsString::from));
    call.with(line(job.program))
}

/// Keeps a waiting job from starting. Done to one that does not wait, it fails.
pub(super) fn hold(id: &str) -> Call {
    Call::new("oarhold", &[id])
}

/// Lets a held job start. Done to one that is not held, it fails.
pub(super) fn resume(id: &str) -> Call {
    Call::new("oarresume", &[id])
}

/// Ends a job, whether it runs or waits.
pub(super) fn delete(id: &str) -> Call {
    Call::new("oardel", &[id])
}

/// Lists the jobs for which a condition of SQL holds.
pub(super) fn jobs(condition: &str) -> Call {
    Call::new("oarstat", &["--json", "--full", "--sql", condition])
}

/// Lists all resources, or those for which a condition of SQL holds.
pub(super) fn resources(condition: Option<&str>) -> Call {
    let call = Call::new("oarnodes", &["--json"]);
    match condition {
        Some(condition) => call.with("--sql").with(condition),
        None => call,
    }
}

/// The condition that is true of all jobs that are not over, and of ours that ended since an instant.
pub(super) fn present(prefix: &str, since: i64) -> String {
    format!(
        "state NOT IN ('Terminated', 'Error') OR (job_name LIKE '{}%' AND (stop_time >= {since} OR submission_time >= {since}))",
        quoted(prefix)
    )
}

/// The condition that is true of jobs with one of these names.
pub(super) fn named(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("'{}'", quoted(name))).collect();
    format!("job_name IN ({})", names.join(", "))
}

/// The condition that is true of jobs with one of these ids, which are numbers.
pub(super) fn with_ids(ids: &[&str]) -> String {
    format!("job_id IN ({})", ids.join(", "))
}

/// Inside the quotes of SQL.
fn quoted(text: &str) -> String {
    text.replace('\'', "''")
}

/// `H:M:S`, at least a second.
fn clock(walltime: Span) -> String {
    let seconds = walltime.seconds().max(1);
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A line for a shell of POSIX that becomes the program.
fn line(program: &[OsString]) -> OsString {
    let mut line = b"exec".to_vec();
    for word in program {
        line.push(b' ');
        line.extend(quoted_word(word));
    }
    OsString::from_vec(line)
}

fn quoted_word(word: &OsStr) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => quoted.extend(br"'\''"),
            byte => quoted.push(byte),
        }
    }
    quoted.push(b'\'');
    quoted
}
