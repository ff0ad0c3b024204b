//! `pliant status`: shows all details of jobs.

use clap::Args;
use pliant_control::names::Handle;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, none_failed};
use crate::job::{described, facts};
use crate::output::Output;
use crate::time_text::now;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The job IDs.
    #[arg(value_name = "JOB", required = true)]
    handles: Vec<Handle>,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let ask = |client: pliant_client::Client, handle: Handle| async move { client.job(&handle).await };
    let (records, errors) = session.each_job(&arguments.handles, ask);
    if !records.is_empty() {
        let now = now();
        let text = || records.iter().map(|record| facts(record, now)).collect::<Vec<_>>().join("\n");
        let value = json!({ "jobs": records.iter().map(described).collect::<Vec<Value>>() });
        output.print("status", text, value)?;
    }
    none_failed(errors)
}
