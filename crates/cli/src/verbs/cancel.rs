//! `pliant cancel`: withdraws waiting jobs and ends running ones.

use clap::Args;
use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::Handle;
use pliant_live::client::Client;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, none_failed};
use crate::job::described;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The jobs, by their handles.
    #[arg(value_name = "HANDLE", required = true)]
    handles: Vec<Handle>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let ask = |client: Client, handle: Handle| async move { client.cancel(&handle).await };
    let (records, errors) = session.each_job(&arguments.handles, ask);
    if !records.is_empty() {
        let text = || records.iter().map(line).collect();
        let value = json!({ "jobs": records.iter().map(described).collect::<Vec<Value>>() });
        output.print("cancel", text, value)?;
    }
    none_failed(errors)
}

/// How a job stands after its cancellation.
fn line(record: &JobRecord) -> String {
    let handle = &record.handle;
    match record.state {
        JobState::Canceled => format!("{handle} is cancelled\n"),
        state if state.is_final() => format!("{handle} had ended already: {state}\n"),
        _ => format!("{handle} is being ended\n"),
    }
}
