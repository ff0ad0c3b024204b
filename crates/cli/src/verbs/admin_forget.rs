//! `pliant admin forget`: servers whose state is lost.

use clap::Args;
use pliant_control::names::Name;
use pliant_wire::ForgetOrder;
use serde_json::json;

use crate::failure::Failure;
use crate::federation::Access;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The server.
    #[arg(value_name = "SERVER")]
    server: Name,
    /// The reason, of one line; the agent journals it, and shows it to the users of the jobs.
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    access: Access,
}

pub(super) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { server, why, access } = arguments;
    let session = access.open()?;
    let order = ForgetOrder { server: server.clone(), why: why.clone() };
    let jobs = session.run(session.client.forget(&order))?;
    let value = json!({ "server": server, "jobs": jobs });
    output.print("admin-forget", || format!("{server} is lost, and {jobs} jobs with it\n"), value)
}
