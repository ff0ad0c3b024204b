//! `pliant admin ban` and `unban`: users of whom servers accept nothing.

use clap::Args;
use pliant_client::Client;
use pliant_control::names::{Name, User};
use pliant_control::server::Ban;
use pliant_wire::UserAdminOrder;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, Session, inform, none_failed};
use crate::output::Output;
use crate::table::Table;
use crate::time_text::moment;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The user.
    #[arg(value_name = "USER")]
    user: User,
    /// The reason, of one line; the servers journal it.
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// A server, may be repeated [default: all, also those that are down].
    #[arg(long = "server", value_name = "NAME")]
    servers: Vec<Name>,
    #[command(flatten)]
    access: Access,
}

#[derive(Args)]
pub(crate) struct BanArguments {
    /// The user [default: lists the banned users].
    #[arg(value_name = "USER", requires = "why")]
    user: Option<User>,
    /// The reason, of one line; the servers journal it, and show it to the user.
    #[arg(long, value_name = "TEXT", requires = "user")]
    why: Option<String>,
    /// A server, may be repeated [default: all, also those that are down].
    #[arg(long = "server", value_name = "NAME")]
    servers: Vec<Name>,
    #[command(flatten)]
    access: Access,
}

/// Bans a user, or lists the banned ones.
pub(super) fn run_ban(output: Output, arguments: &BanArguments) -> Result<(), Failure> {
    let BanArguments { user, why, servers, access } = arguments;
    match user.clone().zip(why.clone()) {
        Some((user, why)) => act(output, &UserAdminOrder { user, why }, servers, access, true),
        None => list(output, servers, access),
    }
}

/// Ends the ban of a user.
pub(super) fn run_unban(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { user, why, servers, access } = arguments;
    act(output, &UserAdminOrder { user: user.clone(), why: why.clone() }, servers, access, false)
}

fn list(output: Output, servers: &[Name], access: &Access) -> Result<(), Failure> {
    let session = access.open()?;
    let servers = if servers.is_empty() { all(&session)? } else { servers.to_vec() };
    let ask = |client: Client, server: Name| async move { client.limits(&server).await };
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    session.run(session.each(servers.clone(), ask, |index, answer| match answer {
        Ok(list) => rows.extend(list.bans.into_iter().map(|one| (one.user, servers[index].clone(), one.ban))),
        Err(error) => errors.push(error),
    }));
    rows.sort_by(|one, other| (&one.0, &one.1).cmp(&(&other.0, &other.1)));
    if errors.is_empty() || !rows.is_empty() {
        let listed = |(user, server, Ban { at, by, why }): &(User, Name, Ban)| json!({ "user": user, "server": server, "at_s": at.0, "by": by, "why": why });
        let value = json!({ "bans": rows.iter().map(listed).collect::<Vec<Value>>() });
        output.print("admin-bans", || table(&rows), value)?;
    }
    if rows.is_empty() && errors.is_empty() {
        inform(|| "no banned users".to_owned());
    }
    none_failed(errors)
}

fn table(rows: &[(User, Name, Ban)]) -> String {
    let mut table = Table::new(5, &["user", "server", "since", "by", "why"]);
    for (user, server, Ban { at, by, why }) in rows {
        table.row(vec![user.to_string(), server.to_string(), moment(*at), by.to_string(), why.clone()]);
    }
    table.render()
}

/// Bans the user of an order, or ends that.
fn act(
    output: Output,
    order: &UserAdminOrder,
    servers: &[Name],
    access: &Access,
    bans: bool,
) -> Result<(), Failure> {
    let user = &order.user;
    let session = access.open()?;
    let servers = if servers.is_empty() { all(&session)? } else { servers.to_vec() };
    let ask = |client: Client, server: Name| {
        let order = order.clone();
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
