//! `pliant admin ban` and `unban`: users of whom servers accept nothing.

use clap::Args;
use pliant_client::Client;
use pliant_control::names::{Name, User};
use pliant_control::server::Ban;
use pliant_wire::UserAdminOrder;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, Session, none_failed};
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The user.
    #[arg(value_name = "USER")]
    user: User,
    /// The reason, of one line; the servers journal it, and show that of a ban to the user.
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// A server, may be repeated [default: all, also those that are down].
    #[arg(long = "server", value_name = "NAME")]
    servers: Vec<Name>,
    #[command(flatten)]
    access: Access,
}

/// Bans a user, or ends that.
pub(super) fn run(output: Output, arguments: &Arguments, bans: bool) -> Result<(), Failure> {
    let Arguments { user, why, servers, access } = arguments;
    let session = access.open()?;
    let servers = if servers.is_empty() { all(&session)? } else { servers.clone() };
    let ask = |client: Client, server: Name| {
        let order = UserAdminOrder { user: user.clone(), why: why.clone() };
        async move { if bans { client.ban(&server, &order).await } else { client.unban(&server, &order).await } }
    };
    let mut states: Vec<Option<Option<Ban>>> = vec![None; servers.len()];
    let mut errors = Vec::new();
    session.run(session.each(servers.clone(), ask, |index, answer| match answer {
        Ok(state) => states[index] = Some(state),
        Err(error) => errors.push(error),
    }));
    let states = servers.iter().zip(&states);
    let states: Vec<_> =
        states.filter_map(|(server, state)| Some((server, state.as_ref()?.as_ref()))).collect();
    if !states.is_empty() {
        let text = || states.iter().map(|(server, ban)| line(user, server, *ban)).collect();
        let described: Vec<Value> = states.iter().map(|(server, ban)| described(server, *ban)).collect();
        output.print("admin-users", text, json!({ "user": user, "servers": described }))?;
    }
    none_failed(errors)
}

/// The servers of the federation. One that is down gets no act, which its error says.
pub(super) fn all(session: &Session) -> Result<Vec<Name>, Failure> {
    let federation = session.run(session.client.servers())?;
    Ok(federation.servers.into_iter().map(|server| server.info.name).collect())
}

fn described(server: &Name, ban: Option<&Ban>) -> Value {
    let ban = ban.map(|Ban { at, by, why }| json!({ "at_s": at.0, "by": by, "why": why }));
    json!({ "server": server, "banned": ban })
}

fn line(user: &User, server: &Name, ban: Option<&Ban>) -> String {
    match ban {
        Some(_) => format!("{server} accepts nothing of {user}\n"),
        None => format!("{server} accepts jobs of {user}\n"),
    }
}
