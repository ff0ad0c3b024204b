//! `pliant admin limit`: what single users may have running and waiting at servers.

use clap::Args;
use pliant_client::{Client, ClientError};
use pliant_control::names::{Name, User};
use pliant_control::server::{LimitChange, LimitKey};
use pliant_wire::{LimitOrder, LimitsList, ListedLimits};
use serde_json::{Value, json};

use super::admin_user;
use crate::failure::Failure;
use crate::federation::{Access, inform, none_failed};
use crate::output::Output;
use crate::table::Table;
use crate::time_text::moment;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The user [default: lists the limits of all users].
    #[arg(value_name = "USER")]
    user: Option<User>,
    /// The limits to change: running-jobs, processors (of running jobs), waiting-jobs or waiting-bytes, and a number, or
    /// `none` for no limit [default: lists the limits].
    #[arg(value_name = "KEY=VALUE", value_parser = change, requires = "why")]
    changes: Vec<LimitChange>,
    /// The reason, of one line; the servers journal it, and show it to the user.
    #[arg(long, value_name = "TEXT", requires = "changes")]
    why: Option<String>,
    /// A server, may be repeated [default: all, also those that are down].
    #[arg(long = "server", value_name = "NAME")]
    servers: Vec<Name>,
    #[command(flatten)]
    access: Access,
}

/// The limits of a user at a server; none if there are none.
struct Located {
    server: Name,
    user: User,
    limits: Option<ListedLimits>,
}

pub(super) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { user, changes, why, servers, access } = arguments;
    let order = user.clone().zip(why.clone());
    let order = order.map(|(user, why)| LimitOrder { user, why, changes: changes.clone() });
    let session = access.open()?;
    let servers = if servers.is_empty() { admin_user::all(&session)? } else { servers.clone() };
    let ask = |client: Client, server: Name| {
        let order = order.clone();
        async move { answer(&client, &server, order.as_ref()).await }
    };
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    session.run(session.each(servers.clone(), ask, |index, answer| match answer {
        Ok(list) => rows.extend(located(&servers[index], list, order.as_ref())),
        Err(error) => errors.push(error),
    }));
    rows.retain(|row| user.as_ref().is_none_or(|user| row.user == *user));
    rows.sort_by(|one, other| (&one.user, &one.server).cmp(&(&other.user, &other.server)));
    if errors.is_empty() || !rows.is_empty() {
        let value = json!({ "limits": rows.iter().map(described).collect::<Vec<Value>>() });
        output.print("admin-limits", || table(&rows), value)?;
    }
    if rows.is_empty() && errors.is_empty() {
        inform(|| "no limits".to_owned());
    }
    none_failed(errors)
}

async fn answer(
    client: &Client,
    server: &Name,
    order: Option<&LimitOrder>,
) -> Result<LimitsList, ClientError> {
    match order {
        Some(order) => client.limit(server, order).await,
        None => client.limits(server).await,
    }
}

/// The limits in the answer of a server. The user of an act is in it also without limits.
fn located(server: &Name, list: LimitsList, order: Option<&LimitOrder>) -> Vec<Located> {
    let row = |user: User, limits| Located { server: server.clone(), user, limits };
    match order {
        Some(order) => vec![row(order.user.clone(), list.users.into_iter().next())],
        None => list.users.into_iter().map(|limits| row(limits.user.clone(), Some(limits))).collect(),
    }
}

/// `KEY=VALUE`.
fn change(text: &str) -> Result<LimitChange, String> {
    let keys = LimitKey::ALL.map(LimitKey::word).join(", ");
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("expected KEY=VALUE with a key of {keys}, found `{text}`"))?;
    let key = LimitKey::from_word(key).ok_or_else(|| format!("expected a key of {keys}, found `{key}`"))?;
    let value = match value {
        "none" => None,
        number => Some(number.parse().map_err(|_| format!("expected a number or `none`, found `{number}`"))?),
    };
    Ok(LimitChange { key, value })
}

impl Located {
    fn of(&self, key: LimitKey) -> Option<u64> {
        self.limits.as_ref()?.limits.iter().find(|limit| limit.key == key)?.value
    }
}

fn described(row: &Located) -> Value {
    let mut value = json!({
        "server": row.server,
        "user": row.user,
        "at_s": row.limits.as_ref().map(|limits| limits.at.0),
        "by": row.limits.as_ref().map(|limits| &limits.by),
        "why": row.limits.as_ref().map(|limits| &limits.why),
    });
    for key in LimitKey::ALL {
        value[key.word().replace('-', "_")] = json!(row.of(key));
    }
    value
}

fn table(rows: &[Located]) -> String {
    let keys = LimitKey::ALL.map(LimitKey::word);
    let header = ["user", "server", "since", "by", "why"].into_iter().chain(keys);
    let mut table = Table::new(5, &header.collect::<Vec<&str>>());
    for row in rows {
        let limits = row.limits.as_ref();
        let mut cells = vec![row.user.to_string(), row.server.to_string()];
        cells.push(limits.map(|limits| moment(limits.at)).unwrap_or_default());
        cells.push(limits.map(|limits| limits.by.to_string()).unwrap_or_default());
        cells.push(limits.map(|limits| limits.why.clone()).unwrap_or_default());
        let number = |key| row.of(key).map_or_else(|| "none".to_owned(), |most| most.to_string());
        cells.extend(LimitKey::ALL.map(number));
        table.row(cells);
    }
    table.render()
}
