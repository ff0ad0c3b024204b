//! `pliant cancel`: withdraws waiting jobs, ends running ones, and ends launches.

use clap::Args;
use pliant_client::{Client, ClientError};
use pliant_control::coallocation::{LaunchEnd, LaunchId, LaunchRecord, LaunchState};
use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::Handle;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, Session, none_failed};
use crate::job::described;
use crate::job_or_launch::JobOrLaunch;
use crate::launch_text;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The job IDs and launch IDs.
    #[arg(value_name = "JOB", required = true)]
    handles: Vec<JobOrLaunch>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let (mut jobs, mut launches) = (Vec::new(), Vec::new());
    for handle in arguments.handles.iter().cloned() {
        match handle {
            JobOrLaunch::Job(handle) => jobs.push(handle),
            JobOrLaunch::Launch(id) => launches.push(id),
        }
    }
    let ask = |client: Client, handle: Handle| async move { client.cancel(&handle).await };
    let (records, mut errors) = session.each_job(&jobs, ask);
    let launches = cancel_launches(&session, launches, &mut errors);
    if !(records.is_empty() && launches.is_empty()) {
        let text = || records.iter().map(line).chain(launches.iter().map(launch_line)).collect();
        let value = json!({
            "jobs": records.iter().map(described).collect::<Vec<Value>>(),
            "launches": launches.iter().map(launch_text::described).collect::<Vec<Value>>(),
        });
        output.print("cancel", text, value)?;
    }
    none_failed(errors)
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
