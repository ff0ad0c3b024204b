//! `pliant users`: the usage and fair share of the cores for explorations, by user (paper 004, section 5).

use std::collections::BTreeMap;

use clap::Args;
use pliant_client::{Client, ClientError};
use pliant_control::names::{Name, User};
use pliant_model::Span;
use pliant_policy::optional::{Share, unfairness};
use pliant_wire::Shares;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, inform};
use crate::output::Output;
use crate::table::Table;
use crate::time_text::rough;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let session = arguments.access.open()?;
    let federation = session.run(session.client.servers())?;
    let there = federation.servers.iter().filter(|server| server.attached && server.info.optional_cores > 0);
    let whom: Vec<(Name, String)> =
        there.map(|server| (server.info.name.clone(), server.info.address.clone())).collect();
    let names: Vec<Name> = whom.iter().map(|(name, _)| name.clone()).collect();
    let ask =
        |client: Client, (name, address): (Name, String)| async move { client.users(&name, &address).await };
    let mut answers: Vec<(Name, Result<Shares, ClientError>)> = Vec::new();
    session.run(session.each(whom, ask, |index, answer| answers.push((names[index].clone(), answer))));
    let mut cores = 0;
    let mut silent: BTreeMap<Name, String> = BTreeMap::new();
    let mut users: BTreeMap<User, Share> = BTreeMap::new();
    for (name, answer) in answers {
        match answer {
            Ok(shares) => {
                cores += shares.cores;
                for share in shares.users {
                    let sum = users.entry(share.user).or_default();
                    *sum = *sum + share.share;
                }
            }
            Err(error) => drop(silent.insert(name, error.to_string())),
        }
    }
    output.print("users", || table(&users), value(&users, cores, &silent))?;
    for (name, why) in silent {
        stderr_line!("warning: server {name} is left out: {why}");
    }
    if users.is_empty() {
        // Users are shown their own line only.
        let who = if session.client.is_operator() { "no user has explored" } else { "you have not explored" };
        inform(|| format!("{who} on the servers that answered"));
    }
    Ok(())
}

fn value(users: &BTreeMap<User, Share>, cores: u32, silent: &BTreeMap<Name, String>) -> Value {
    let user = |(user, sum): (&User, &Share)| {
        json!({
            "user": user,
            "requests": sum.requests,
            "usage_s": sum.usage.seconds(),
            "fair_share_s": sum.fair_share.seconds(),
            "satisfaction": sum.satisfaction(),
            "completed": sum.completed,
            "useful_s": sum.useful.seconds(),
            "killed": sum.killed,
            "late": sum.late,
        })
    };
    json!({
        "cores": cores,
        "users": users.iter().map(user).collect::<Vec<Value>>(),
        "unfairness": unfairness(users.values().copied()),
        "unhappy_users": unhappy(users),
        "silent": silent,
    })
}

/// Users with a mandatory request that was or is late.
fn unhappy(users: &BTreeMap<User, Share>) -> usize {
    users.values().filter(|share| share.late > 0).count()
}

fn table(users: &BTreeMap<User, Share>) -> String {
    let columns =
        ["user", "requests", "usage", "fair share", "satisfaction", "completed", "useful", "killed", "late"];
    let mut table = Table::new(1, &columns);
    for (user, sum) in users {
        table.row(vec![
            user.to_string(),
            sum.requests.to_string(),
            rough(Span(sum.usage.0 / 1_000)),
            rough(Span(sum.fair_share.0 / 1_000)),
            sum.satisfaction().map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            sum.completed.to_string(),
            rough(Span(sum.useful.0 / 1_000)),
            sum.killed.to_string(),
            sum.late.to_string(),
        ]);
    }
    let overall = match users.len() {
        0 | 1 => String::new(),
        _ => format!("unfairness {:.2}, {} unhappy\n", unfairness(users.values().copied()), unhappy(users)),
    };
    table.render() + &overall
}
