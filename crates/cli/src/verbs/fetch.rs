//! `pliant fetch`: fetches the results of jobs and launches.

use std::fmt::{Display, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use pliant_client::ClientError;
use pliant_control::coallocation::LaunchId;
use pliant_control::job::JobState;
use pliant_control::names::Handle;
use pliant_wire::{Fetchable, JobResults, JobsQuery, OmittedFile, bounds};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, Session, inform};
use crate::job::did_not_run;
use crate::job_or_launch::JobOrLaunch;
use crate::output::Output;
use crate::progress::bar;
use crate::table::{Table, counted, grouped};
use crate::verbs::fetch_launch;

/// How many files that are not fetched are listed.
const NAMED_MAX: usize = 10;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The IDs of jobs and launches that have ended.
    #[arg(value_name = "JOB", required_unless_present = "all")]
    work: Vec<JobOrLaunch>,
    /// Fetches the results of all your jobs that have ended.
    #[arg(long, conflicts_with = "work")]
    all: bool,
    /// The folder of the results: stdout, stderr, and in work/ the files of the job; for a launch a folder for each task. With
    /// --all or several IDs it has a folder for each ID.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { work, all, out, access } = arguments;
    is_folder(out)?;
    let session = access.open()?;
    let work = if *all { all_ended(&session)? } else { work.clone() };
    let has_folders = *all || work.len() > 1;
    let mut fetched = Fetched::default();
    let mut failures = Vec::new();
    for one in &work {
        let dir = if has_folders { out.join(folder_name(one)) } else { out.clone() };
        let result = match one {
            JobOrLaunch::Job(job) => fetched.job(&session, job, &dir),
            JobOrLaunch::Launch(id) => fetched.launch(&session, id, &dir),
        };
        failures.extend(result.err());
    }
    if !fetched.is_empty() || failures.is_empty() {
        output.print(
            "fetch",
            || fetched.text(has_folders),
            json!({ "jobs": fetched.jobs, "launches": fetched.launches }),
        )?;
    }
    if *all && work.is_empty() {
        inform(|| "none of your jobs has ended".to_owned());
    }
    // The last failure ends the command with its code.
    let last = failures.pop();
    failures.iter().for_each(Failure::warn);
    last.map_or(Ok(()), Err)
}

/// The user's jobs that ran and have ended, the newest first.
fn all_ended(session: &Session) -> Result<Vec<JobOrLaunch>, Failure> {
    let states = JobState::ALL.into_iter().filter(|state| state.is_final()).collect();
    let query = JobsQuery::of_caller(states, bounds::JOBS_MAX as u32);
    let ended = session.run(session.client.newest_jobs(query, usize::MAX))?;
    let ran = ended.jobs.into_iter().filter(|job| did_not_run(job).is_none());
    Ok(ran.map(|job| JobOrLaunch::Job(job.handle)).collect())
}

/// The name of the folder of a job or a launch among several.
fn folder_name(work: &JobOrLaunch) -> String {
    match work {
        JobOrLaunch::Job(job) => job.to_string(),
        JobOrLaunch::Launch(id) => id.to_string().replace('/', "."),
    }
}

/// What was fetched.
#[derive(Default)]
struct Fetched {
    jobs: Vec<Value>,
    launches: Vec<Value>,
    tables: Vec<(String, String)>,
}

impl Fetched {
    fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    fn job(&mut self, session: &Session, job: &Handle, dir: &Path) -> Result<(), Failure> {
        if let Some(nothing) = did_not_run(&session.run(session.client.job(job))?) {
            return Err(nothing);
        }
        let results = into(session, job, dir)?;
        let mut value = json!({ "job_id": job, "dir": dir });
        describe(&results, &mut value);
        self.jobs.push(value);
        self.tables.push((job.to_string(), table(&results.files)));
        Ok(())
    }

    fn launch(&mut self, session: &Session, id: &LaunchId, dir: &Path) -> Result<(), Failure> {
        let left = fetch_launch::of(session, id, dir)?;
        let mut value = json!({ "launch": id.to_string() });
        left.describe(dir, &mut value);
        self.launches.push(value);
        self.tables.push((id.to_string(), left.table()));
        left.complete()
    }

    /// The files; of several jobs below the ID of each.
    fn text(&self, has_folders: bool) -> String {
        let with_id = |(id, table): &(String, String)| {
            if has_folders { format!("{id}\n{table}") } else { table.clone() }
        };
        self.tables.iter().map(with_id).collect()
    }
}

/// Fetches every result of a job into a folder, and warns of missing ones.
pub(crate) fn into(session: &Session, handle: &Handle, folder: &Path) -> Result<JobResults, Failure> {
    let client = &session.client;
    let fetched = session.run(async {
        let results = client.results(handle).await?;
        let bar = bar(results.files.iter().map(|file| file.size).sum(), "bytes");
        for file in &results.files {
            if let Err(error) = client.fetch(handle, file, folder).await {
                bar.finish_and_clear();
                return Err(error);
            }
            bar.inc(file.size);
        }
        bar.finish_and_clear();
        Ok::<JobResults, ClientError>(results)
    });
    let results = fetched?;
    warn(handle, &results);
    Ok(results)
}

/// Warns of files and output of a job or a task that cannot be fetched.
pub(super) fn warn(of: &dyn Display, results: &JobResults) {
    for warning in warnings(of, results) {
        stderr_line!("warning: {warning}");
    }
}

fn warnings(of: &dyn Display, results: &JobResults) -> Vec<String> {
    let cut = [(results.stdout_cut, "output"), (results.stderr_cut, "error")];
    let mut warnings: Vec<String> = cut
        .into_iter()
        .filter(|(cut, _)| *cut)
        .map(|(_, stream)| {
            format!(
                "some of what {of} wrote on standard {stream} was dropped: it was more than is kept, or the \
                 server's disk was full"
            )
        })
        .collect();
    let JobResults { left_out, left_out_count, .. } = results;
    if *left_out_count > 0 {
        let mut warning = format!("not fetched of {of}: {}", counted(*left_out_count, "file"));
        for OmittedFile { name, why, .. } in left_out.iter().take(NAMED_MAX) {
            let _ = write!(warning, "\n  {name}: {why}");
        }
        let more = left_out_count.saturating_sub(left_out.len().min(NAMED_MAX) as u64);
        if more > 0 {
            let _ = write!(warning, "\n  and {} more", grouped(more));
        }
        warnings.push(warning);
    }
    warnings
}

/// Refuses a path that exists and is no folder.
pub(crate) fn is_folder(path: &Path) -> Result<(), Failure> {
    if path.exists() && !path.is_dir() {
        let problem = format!("--out: expected a folder, found the file {}", path.display());
        return Err(Failure::input(problem));
    }
    Ok(())
}

/// Puts results into a document for scripts.
pub(crate) fn describe(results: &JobResults, document: &mut Value) {
    let file = |file: &Fetchable| json!({ "name": file.name, "bytes": file.size, "sha256": file.sha256 });
    let left = |left: &OmittedFile| json!({ "name": left.name, "reason": left.word });
    document["files"] = results.files.iter().map(file).collect();
    document["left_out"] = results.left_out.iter().map(left).collect();
    document["left_out_count"] = json!(results.left_out_count);
    document["stdout_cut"] = json!(results.stdout_cut);
    document["stderr_cut"] = json!(results.stderr_cut);
}

fn table(files: &[Fetchable]) -> String {
    let mut table = Table::new(1, &["file", "bytes"]);
    for file in files {
        table.row(vec![file.name.to_string(), grouped(file.size)]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_cause_warnings() {
        let handle: Handle = "lyon.3".parse().unwrap();
        let check = |results: JobResults, expected: &[&str]| {
            assert_eq!(warnings(&handle, &results), expected);
        };
        check(JobResults::default(), &[]);
        let dropped = "was dropped: it was more than is kept, or the server's disk was full";
        let out = format!("some of what lyon.3 wrote on standard output {dropped}");
        let err = format!("some of what lyon.3 wrote on standard error {dropped}");
        check(JobResults { stdout_cut: true, stderr_cut: true, ..JobResults::default() }, &[&out, &err]);
        let left =
            OmittedFile { name: "l".into(), word: "not-a-file".into(), why: "not a regular file".into() };
        let one = JobResults { left_out: vec![left.clone()], left_out_count: 1, ..JobResults::default() };
        check(one, &["not fetched of lyon.3: 1 file\n  l: not a regular file"]);
        let many = JobResults { left_out: vec![left; 100], left_out_count: 5000, ..JobResults::default() };
        let text = warnings(&handle, &many).remove(0);
        assert_eq!((text.lines().count(), text.lines().last()), (12, Some("  and 4,990 more")));
    }
}
