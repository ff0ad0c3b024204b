//! `pliant wait`: waits until jobs have ended.

use std::time::Duration;

use clap::Args;
use pliant_client::{Client, ClientError};
use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, Session, inform, interrupted, none_failed, timeout};
use crate::job::{all_completed, change, described, short_exit};
use crate::output::Output;
use crate::table::{Table, counted};
use crate::time_text::{both, now};

/// The exit code if time was up before all jobs had ended.
const TIME_UP: u8 = 4;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The job IDs.
    #[arg(value_name = "JOB", required = true)]
    handles: Vec<Handle>,
    /// The longest wait, such as 90s, 15m, 2h or 1h30m [default: no limit].
    #[arg(long, value_name = "TIME", value_parser = timeout)]
    timeout: Option<Duration>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let WaitResult { ended, missing, errors } = until_ended(&session, &arguments.handles, arguments.timeout)?;
    if !(ended.is_empty() && missing.is_empty()) {
        let value = json!({
            "jobs": ended.iter().map(described).collect::<Vec<Value>>(),
            "not_ended": missing,
        });
        output.print("wait", || table(&ended), value)?;
    }
    none_failed(errors)?;
    if missing.is_empty() {
        return all_completed(&ended);
    }
    let mut failure = Failure::system(not_ended(&missing, arguments.handles.len()));
    failure.code = TIME_UP;
    Err(failure.hint(go_on(&missing)))
}

/// Which jobs of how many had not ended.
fn not_ended(missing: &[Handle], all: usize) -> String {
    let names: Vec<String> = missing.iter().map(Handle::to_string).collect();
    match names.as_slice() {
        [one] => format!("{one} had not ended when time was up"),
        _ => format!(
            "{} of {} had not ended when time was up: {}",
            names.len(),
            counted(all as u64, "job"),
            names.join(", ")
        ),
    }
}

/// The outcome of waiting.
pub(crate) struct WaitResult {
    /// The jobs that have ended, in the order of the command line.
    pub(crate) ended: Vec<JobRecord>,
    /// The jobs that have not ended.
    pub(crate) missing: Vec<Handle>,
    /// The errors of the other jobs.
    pub(crate) errors: Vec<ClientError>,
}

/// Waits until jobs have ended or `limit` is over, and reports changes. The error of a job does not end the wait for others.
pub(crate) fn until_ended(
    session: &Session,
    handles: &[Handle],
    limit: Option<Duration>,
) -> Result<WaitResult, Failure> {
    // A wrong job ID is reported at once.
    let look = |client: Client, handle: Handle| async move {
        match client.job(&handle).await {
            Ok(_) => Ok(None),
            Err(error) if error.may_pass() => Ok(None),
            Err(error) => Ok(Some(error)),
        }
    };
    let (looked, _) = session.each_job(handles, look);
    let wrong = || looked.iter().flatten();
    let good: Vec<&Handle> =
        handles.iter().zip(&looked).filter(|(_, wrong)| wrong.is_none()).map(|(handle, _)| handle).collect();
    if !good.is_empty() {
        wrong().for_each(|error| inform(|| format!("{error}; waiting for the others")));
    }
    let changed = |record: &JobRecord| inform(|| change(record, now()));
    let mut answers: Vec<Option<Result<JobRecord, ClientError>>> = vec![None; good.len()];
    let ended = |index, answer| answers[index] = Some(answer);
    let all = session.client.wait_each(good.iter().copied().cloned(), changed, ended);
    let finished = session.run_until_interrupted(async {
        match limit {
            // The missing jobs show that time was up.
            Some(limit) => drop(tokio::time::timeout(limit, all).await),
            None => all.await,
        }
    });
    let (mut ended, mut missing, mut errors) = (Vec::new(), Vec::new(), wrong().cloned().collect::<Vec<_>>());
    for (handle, answer) in good.into_iter().zip(answers) {
        match answer {
            Some(Ok(record)) => ended.push(record),
            Some(Err(error)) => errors.push(error),
            None => missing.push(handle.clone()),
        }
    }
    if finished.is_none() {
        let whose = if missing.len() == 1 { "the job continues" } else { "the jobs continue" };
        return Err(interrupted(format!("interrupted; {whose}"), go_on(&missing)));
    }
    Ok(WaitResult { ended, missing, errors })
}

fn go_on(missing: &[Handle]) -> String {
    match missing {
        [one] => format!(
            "`pliant wait {one}` waits again, `pliant fetch {one} --out DIR` fetches what it left, `pliant cancel \
             {one}` ends it"
        ),
        _ => "the same command waits again".to_owned(),
    }
}

fn table(records: &[JobRecord]) -> String {
    let now = now();
    let mut table = Table::new(4, &["job", "state", "exit", "ended"]);
    for record in records {
        let ended = record.ended.map_or_else(|| "-".to_owned(), |ended| both(ended, now));
        table.row(vec![record.handle.to_string(), record.state.to_string(), short_exit(record), ended]);
    }
    table.render()
}
