//! `pliant admin hold` and `release`: waiting jobs that an operator keeps from starting.

use clap::Args;
use pliant_client::Client;
use pliant_control::names::Handle;
use pliant_wire::JobAdminOrder;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, none_failed};
use crate::job::described;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The job IDs.
    #[arg(value_name = "JOB", required = true)]
    jobs: Vec<Handle>,
    /// The reason, of one line; the server journals it, and shows that of a hold to the owner.
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    access: Access,
}

/// Holds jobs, or releases them.
pub(super) fn run(output: Output, arguments: &Arguments, holds: bool) -> Result<(), Failure> {
    let Arguments { jobs, why, access } = arguments;
    let session = access.open()?;
    let ask = |client: Client, job: Handle| {
        let order = JobAdminOrder { job, why: why.clone() };
        async move { if holds { client.hold(&order).await } else { client.release(&order).await } }
    };
    let (records, errors) = session.each_job(jobs, ask);
    if !records.is_empty() {
        let now = if holds { "is held" } else { "may start" };
        let text = || records.iter().map(|record| format!("{} {now}\n", record.handle)).collect();
        let value = json!({ "jobs": records.iter().map(described).collect::<Vec<Value>>() });
        output.print("admin-jobs", text, value)?;
    }
    none_failed(errors)
}
