//! `pliant cancel`: withdraws waiting jobs, ends running ones, and cancels launches, sweeps and explorations.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use pliant_client::{Client, ClientError};
use pliant_control::coallocation::{LaunchEnd, LaunchId, LaunchRecord, LaunchState};
use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::Handle;
use pliant_wire::{JobsPage, JobsQuery, LaunchesQuery, bounds};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, Session, inform, none_failed};
use crate::job::described;
use crate::job_or_launch::JobOrLaunch;
use crate::launch_text;
use crate::output::Output;
use crate::verbs::{explore, sweep};

#[derive(Args)]
pub(crate) struct Arguments {
    /// The IDs of jobs and launches, and the folders of sweeps and explorations.
    #[arg(value_name = "JOB|DIR", required_unless_present = "all")]
    work: Vec<CancelTarget>,
    /// Cancels all of your jobs that wait or run, and all of your launches.
    #[arg(long, conflicts_with = "work")]
    all: bool,
    #[command(flatten)]
    access: Access,
}

/// Work that can be cancelled.
#[derive(Clone)]
enum CancelTarget {
    Job(Handle),
    Launch(LaunchId),
    /// A sweep or an exploration.
    Folder(PathBuf),
}

impl FromStr for CancelTarget {
    type Err = String;
    fn from_str(text: &str) -> Result<CancelTarget, String> {
        match text.parse() {
            Ok(JobOrLaunch::Job(job)) => Ok(CancelTarget::Job(job)),
            Ok(JobOrLaunch::Launch(id)) => Ok(CancelTarget::Launch(id)),
            Err(_) if Path::new(text).is_dir() => Ok(CancelTarget::Folder(PathBuf::from(text))),
            Err(problem) => Err(format!("{problem}; and there is no folder of that name")),
        }
    }
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let targets = if arguments.all { all(&session)? } else { arguments.work.clone() };
    let (mut jobs, mut launches, mut folders) = (Vec::new(), Vec::new(), Vec::new());
    for target in targets {
        match target {
            CancelTarget::Job(job) => jobs.push(job),
            CancelTarget::Launch(id) => launches.push(id),
            CancelTarget::Folder(dir) => folders.push(dir),
        }
    }
    let is_empty = jobs.is_empty() && launches.is_empty() && folders.is_empty();
    let ask = |client: Client, handle: Handle| async move { client.cancel(&handle).await };
    let (records, mut errors) = session.each_job(&jobs, ask);
    let launches = cancel_launches(&session, launches, &mut errors);
    let (folders, failures) = cancel_folders(&session, &folders);
    if is_empty || !(records.is_empty() && launches.is_empty() && folders.is_empty()) {
        let of_folders = folders.iter().map(|(text, _)| text.clone());
        let text =
            || records.iter().map(line).chain(launches.iter().map(launch_line)).chain(of_folders).collect();
        let value = json!({
            "jobs": records.iter().map(described).collect::<Vec<Value>>(),
            "launches": launches.iter().map(launch_text::described).collect::<Vec<Value>>(),
            "folders": folders.iter().map(|(_, value)| value).collect::<Vec<&Value>>(),
        });
        output.print("cancel", text, value)?;
    }
    if is_empty {
        inform(|| "none of your jobs waits or runs, and no launch is open".to_owned());
    }
    none_failed(errors)?;
    failures.into_iter().next().map_or(Ok(()), Err)
}

/// All open work of the user that the federation knows.
fn all(session: &Session) -> Result<Vec<CancelTarget>, Failure> {
    let states = JobState::ALL.into_iter().filter(|state| !state.is_final()).collect();
    let query = JobsQuery::of_caller(states, bounds::JOBS_MAX as u32);
    let JobsPage { jobs, .. } = session.run(session.client.newest_jobs(query, usize::MAX))?;
    let query = LaunchesQuery { all: false, limit: bounds::JOBS_MAX as u32 };
    let launches = session.run(session.client.launches(&query))?;
    let open = launches.into_iter().filter(|launch| launch.state != LaunchState::Over);
    let jobs = jobs.into_iter().map(|job| CancelTarget::Job(job.handle));
    Ok(jobs.chain(open.map(|launch| CancelTarget::Launch(launch.id))).collect())
}

/// A line and the description of each sweep or exploration that is cancelled, and what failed.
fn cancel_folders(session: &Session, folders: &[PathBuf]) -> (Vec<(String, Value)>, Vec<Failure>) {
    let (mut cancelled, mut failures) = (Vec::new(), Vec::new());
    for dir in folders {
        let result = match explore::is_exploration(dir) {
            true => explore::cancel(session, dir),
            false => sweep::cancel(session, dir),
        };
        match result {
            Ok(one) => cancelled.push(one),
            Err(failure) => failures.push(failure),
        }
    }
    (cancelled, failures)
}

/// The known ones, in the order of the command line.
fn cancel_launches(
    session: &Session,
    launches: Vec<LaunchId>,
    errors: &mut Vec<ClientError>,
) -> Vec<LaunchRecord> {
    let ask = |client: Client, id: LaunchId| async move { client.cancel_launch(&id).await };
    let mut records = Vec::new();
    session.run(session.each(launches, ask, |index, answer| match answer {
        Ok(record) => records.push((index, record)),
        Err(error) => errors.push(error),
    }));
    records.sort_by_key(|(index, _)| *index);
    records.into_iter().map(|(_, record)| record).collect()
}

/// The state of a launch after its cancellation.
fn launch_line(record: &LaunchRecord) -> String {
    let id = &record.id;
    match (&record.end, record.state) {
        (Some(LaunchEnd::Cancelled), LaunchState::Over) => format!("{id} is cancelled\n"),
        (Some(end), LaunchState::Over) => format!("{id} had ended already: {end}\n"),
        (Some(LaunchEnd::Cancelled), _) => format!("{id} is being ended\n"),
        (Some(end), _) => format!("{id} was being ended already: {end}\n"),
        (None, state) => format!("{id} is {}\n", state.word()),
    }
}

/// The state of a job after its cancellation.
fn line(record: &JobRecord) -> String {
    let handle = &record.handle;
    match record.state {
        JobState::Canceled => format!("{handle} is cancelled\n"),
        state if state.is_final() => format!("{handle} had ended already: {state}\n"),
        _ => format!("{handle} is being ended\n"),
    }
}
