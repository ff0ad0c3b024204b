//! `pliant admin forget`: servers whose state is lost.

use clap::Args;
use pliant_client::Client;
use pliant_control::names::Name;
use pliant_wire::ForgetOrder;
use serde_json::{Value, json};

use super::admin_user;
use crate::failure::Failure;
use crate::federation::{Access, Session, none_failed};
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The server.
    #[arg(value_name = "SERVER")]
    server: Name,
    /// The reason, of one line; the agent and the servers journal it, and show it to the users of the jobs.
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// A server that was down when the agent was asked; it alone is asked, may be repeated [default: the agent, then all servers].
    #[arg(long = "at", value_name = "NAME")]
    at: Vec<Name>,
    #[command(flatten)]
    access: Access,
}

pub(super) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { server, why, at, access } = arguments;
    let session = access.open()?;
    let order = ForgetOrder { server: server.clone(), why: why.clone() };
    let (jobs, others) = if at.is_empty() {
        let jobs = session.run(session.client.forget(&order))?;
        (Some(jobs), admin_user::all(&session)?)
    } else {
        (None, at.clone())
    };
    let others: Vec<Name> = others.into_iter().filter(|other| other != server || jobs.is_none()).collect();
    let (given_up, errors) = at_servers(&session, &order, &others);
    let described = given_up.iter().map(|(other, handoffs)| json!({ "server": other, "handoffs": handoffs }));
    let value = json!({ "server": server, "jobs": jobs, "servers": described.collect::<Vec<Value>>() });
    output.print("admin-forget", || text(server, jobs, &given_up), value)?;
    none_failed(errors)
}

/// How many handoffs each server has given up, in the order of the servers, and what failed.
fn at_servers(
    session: &Session,
    order: &ForgetOrder,
    servers: &[Name],
) -> (Vec<(Name, u32)>, Vec<pliant_client::ClientError>) {
    let ask = |client: Client, server: Name| {
        let order = order.clone();
        async move { client.forget_at(&server, &order).await }
    };
    let (mut given_up, mut errors) = (vec![None; servers.len()], Vec::new());
    session.run(session.each(servers.to_vec(), ask, |index, answer| match answer {
        Ok(handoffs) => given_up[index] = Some(handoffs),
        Err(error) => errors.push(error),
    }));
    let given_up = servers.iter().cloned().zip(given_up);
    (given_up.filter_map(|(server, handoffs)| Some((server, handoffs?))).collect(), errors)
}

fn text(server: &Name, jobs: Option<u32>, given_up: &[(Name, u32)]) -> String {
    let lost = jobs.map(|jobs| format!("{server} is lost, and {jobs} jobs with it\n"));
    // Nothing to give up is worth a line only if that was all that was asked for.
    let shown = given_up.iter().filter(|(_, handoffs)| *handoffs > 0 || jobs.is_none());
    let lines = shown
        .map(|(other, handoffs)| format!("{other} has given up {handoffs} handoffs from and to {server}\n"));
    lost.into_iter().chain(lines).collect()
}
