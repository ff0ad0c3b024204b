//! `pliant admin hold`, `release` and `priority`: waiting jobs that an operator keeps from starting, or serves before others.

use clap::Args;
use pliant_client::Client;
use pliant_control::names::Handle;
use pliant_wire::{JobAdminOrder, PriorityOrder, bounds};
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

#[derive(Args)]
pub(crate) struct PriorityArguments {
    /// The job ID.
    #[arg(value_name = "JOB")]
    job: Handle,
    /// `highest`, `normal`, or a number from -1000000 to 1000000: the highest is served first, other jobs have 0.
    #[arg(value_name = "PRIORITY", default_value = "highest", value_parser = priority, allow_hyphen_values = true)]
    priority: i64,
    /// The reason, of one line, which the server journals.
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    access: Access,
}

/// Gives a job a priority.
pub(super) fn run_priority(output: Output, arguments: &PriorityArguments) -> Result<(), Failure> {
    let PriorityArguments { job, priority, why, access } = arguments;
    let session = access.open()?;
    let order = PriorityOrder { job: job.clone(), why: why.clone(), priority: *priority };
    let record = session.run(session.client.prioritise(&order))?;
    let text = || format!("{} has the priority {priority}\n", record.handle);
    output.print("admin-jobs", text, json!({ "jobs": [described(&record)] }))
}

/// A priority by its word or number.
fn priority(text: &str) -> Result<i64, String> {
    match text {
        "highest" | "HIGHEST" => Ok(*bounds::JOB_PRIORITY.end()),
        "normal" => Ok(0),
        number => {
            number.parse().ok().filter(|number| bounds::JOB_PRIORITY.contains(number)).ok_or_else(|| {
                format!("expected `highest`, `normal` or a number from -1000000 to 1000000, found `{number}`")
            })
        }
    }
}
