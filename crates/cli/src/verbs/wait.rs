//! `pliant wait`: waits until jobs have ended.

use std::time::Duration;

use clap::Args;
use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use pliant_live::client::{Client, ClientError};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, Session, interrupted, none_failed, patience, tell};
use crate::job::{all_completed, change, described, short_exit};
use crate::moment::{both, now};
use crate::output::Output;
use crate::table::{Table, counted};

/// The exit code if time was up before all jobs had ended.
const TIME_UP: u8 = 4;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The jobs, by their handles.
    #[arg(value_name = "HANDLE", required = true)]
    handles: Vec<Handle>,
    /// Waits no longer than that: 90s, 15m, 2h, 1h30m.
    #[arg(long, value_name = "TIME", value_parser = patience)]
    timeout: Option<Duration>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let waited = until_ended(&session, &arguments.handles, arguments.timeout)?;
    let (ended, missing) = (waited.ended, waited.missing);
    let value = json!({
        "jobs": ended.iter().map(described).collect::<Vec<Value>>(),
        "not_ended": missing,
    });
    output.print("wait", || table(&ended), value)?;
    if missing.is_empty() {
        return all_completed(&ended);
    }
    let all = counted(arguments.handles.len() as u64, "job");
    let mut failure = Failure::system(format!("{} of {all} had not ended when time was up", missing.len()));
    failure.code = TIME_UP;
    Err(failure.hint(go_on(&missing)))
}

/// What came of waiting.
pub(crate) struct Waited {
    /// The jobs that have ended, in the order in which they were given.
    pub(crate) ended: Vec<JobRecord>,
    /// Those that have not.
    pub(crate) missing: Vec<Handle>,
}

/// Waits until jobs have ended, or `limit` is over, telling each change to whoever watches.
pub(crate) fn until_ended(
    session: &Session,
    handles: &[Handle],
    limit: Option<Duration>,
) -> Result<Waited, Failure> {
    // A wrong handle among many is told at once, not when the others have ended.
    let look = |client: Client, handle: Handle| async move {
        match client.job(&handle).await {
            Ok(_) => Ok(()),
            Err(error) if error.may_pass() => Ok(()),
            Err(error) => Err(error),
        }
    };
    let (_, errors) = session.each_job(handles, look);
    none_failed(errors)?;
    let wait = |client: Client, handle: Handle| async move {
        client.wait(&handle, |record| tell(|| change(record, now()))).await
    };
    let mut ended: Vec<Option<JobRecord>> = vec![None; handles.len()];
    let mut errors: Vec<ClientError> = Vec::new();
    let all = session.each(handles.iter().cloned(), wait, |index, answer| match answer {
        Ok(record) => ended[index] = Some(record),
        Err(error) => errors.push(error),
    });
    let finished = session.run_until_interrupted(async {
        match limit {
            // Whether time was up is seen in what is missing.
            Some(limit) => drop(tokio::time::timeout(limit, all).await),
            None => all.await,
        }
    });
    none_failed(errors)?;
    let missing = handles.iter().zip(&ended).filter(|(_, record)| record.is_none());
    let missing: Vec<Handle> = missing.map(|(handle, _)| handle.clone()).collect();
    if finished.is_none() {
        let whose = if missing.len() == 1 { "the job goes on" } else { "the jobs go on" };
        return Err(interrupted(format!("interrupted; {whose}"), go_on(&missing)));
    }
    Ok(Waited { ended: ended.into_iter().flatten().collect(), missing })
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
