//! What is asked of OAR, as commands and their arguments: words, never a line for a shell. But the command of a job is
//! one: its owner's login shell reads it, so every word of it is quoted.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use pliant_model::Span;
use pliant_policy::alternatives::Alternative;

use super::settings::Settings;
use crate::batch_system::commands::Call;
use crate::batch_system::{BATCH_OUTPUT, Submission};

/// Submits a job that needs these resources, as [`super::hierarchy`] writes them. Prints its id.
pub(super) fn submit(settings: &Settings, tag: &str, job: &Submission<'_>, resources: &str) -> Call {
    let mut call = Call::new("oarsub", &["--name"])
        .with(tag)
        .with("--directory")
        .with(job.folder)
        // In its folder. OAR's column is too short for a whole path.
        .with(format!("--stdout={BATCH_OUTPUT}"))
        .with(format!("--stderr={BATCH_OUTPUT}"));
    if job.alternatives.is_empty() {
        call = call.with("--resource").with(format!("{resources},walltime={}", clock(job.walltime)));
    }
    for Alternative { procs, walltime } in job.alternatives {
        call = call.with("--resource").with(format!("/resource_id={procs},walltime={}", clock(*walltime)));
    }
    if job.held {
        call = call.with("--hold");
    }
    let needs_licences = job.resources.is_some_and(|needed| !needed.licences.is_empty());
    let property = if needs_licences { with_licences(settings) } else { settings.properties.clone() };
    call = call.with_options([
        ("queue", &settings.queue),
        ("project", &settings.project),
        ("property", &property),
    ]);
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

/// Lists the resources that the server's jobs may have.
pub(super) fn resources(settings: &Settings) -> Call {
    let call = Call::new("oarnodes", &["--json"]);
    match with_licences(settings) {
        Some(condition) => call.with("--sql").with(condition),
        None => call,
    }
}

/// The condition on resources that is true of the server's nodes, and of all licences: these are on no node, so that they
/// need not have the properties of one. None if all resources will do.
fn with_licences(settings: &Settings) -> Option<String> {
    let properties = settings.properties.as_ref()?;
    if settings.licences.is_empty() {
        return Some(properties.clone());
    }
    let types: Vec<String> = settings.licences.iter().map(|kind| format!("'{}'", quoted(kind))).collect();
    Some(format!("({properties}) OR type IN ({})", types.join(", ")))
}

/// The condition that is true of all jobs that are not over, and of this server's jobs that ended since an instant.
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
