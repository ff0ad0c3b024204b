//! `pliant admin forget`: servers whose state is lost.

use clap::Args;
use pliant_client::{Client, ClientError};
use pliant_control::names::Name;
use pliant_wire::ForgetOrder;
use serde_json::{Value, json};

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
    /// Another server, which gives up what waits for the lost one: one that was down when the agent was asked, or is below another agent.
    /// May be repeated [default: the agent, then all servers].
    #[arg(long = "at", value_name = "NAME")]
    at: Vec<Name>,
    #[command(flatten)]
    access: Access,
}

pub(super) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { server, why, at, access } = arguments;
    let session = access.open()?;
    let order = ForgetOrder { server: server.clone(), why: why.clone() };
    let known = session.run(session.client.servers())?.servers;
    if known.iter().any(|known| known.info.name == *server && known.attached) {
        return Err(Failure::input(format!("the server {server} is connected")));
    }
    let (jobs, others) = if at.is_empty() {
        let others = known.into_iter().map(|known| known.info.name).filter(|known| known != server);
        (Some(session.run(session.client.forget(&order))?), others.collect())
    } else {
        (None, at.clone())
    };
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
) -> (Vec<(Name, u32)>, Vec<ClientError>) {
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
