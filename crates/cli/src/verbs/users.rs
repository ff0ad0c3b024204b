//! `pliant users`: what users have had of the cores for explorations, and what they deserved (paper 004, section 5).

use std::collections::BTreeMap;

use clap::Args;
use pliant_control::names::{Name, User};
use pliant_live::client::{Client, ClientError};
use pliant_live::wire::Shares;
use pliant_model::Span;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, tell};
use crate::moment::rough;
use crate::output::Output;
use crate::table::Table;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    access: Access,
}

/// What a user has had on all servers.
#[derive(Clone, Copy, Default)]
struct Sum {
    requests: u32,
    consumed_ms: i64,
    deserved_ms: i64,
}

impl Sum {
    /// Allocated over deserved.
    fn satisfaction(&self) -> Option<f64> {
        (self.deserved_ms > 0).then(|| self.consumed_ms as f64 / self.deserved_ms as f64)
    }
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
    let mut users: BTreeMap<User, Sum> = BTreeMap::new();
    for (name, answer) in answers {
        match answer {
            Ok(shares) => {
                cores += shares.cores;
                for share in shares.users {
                    let sum = users.entry(share.user).or_default();
                    sum.requests += share.share.requests;
                    sum.consumed_ms += share.share.consumed.0;
                    sum.deserved_ms += share.share.deserved.0;
                }
            }
            Err(error) => drop(silent.insert(name, error.to_string())),
        }
    }
    output.print("users", || table(&users), value(&users, cores, &silent))?;
    for (name, why) in silent {
        eprintln!("warning: server {name} is not among it: {why}");
    }
    if users.is_empty() {
        tell(|| "nobody explores".to_owned());
    }
    Ok(())
}

fn value(users: &BTreeMap<User, Sum>, cores: u32, silent: &BTreeMap<Name, String>) -> Value {
    let user = |(user, sum): (&User, &Sum)| {
        json!({
            "user": user,
            "requests": sum.requests,
            "consumed_s": sum.consumed_ms as f64 / 1e3,
            "deserved_s": sum.deserved_ms as f64 / 1e3,
            "satisfaction": sum.satisfaction(),
        })
    };
    json!({ "cores": cores, "users": users.iter().map(user).collect::<Vec<Value>>(), "silent": silent })
}

fn table(users: &BTreeMap<User, Sum>) -> String {
    let mut table = Table::new(1, &["user", "requests", "had", "deserved", "satisfaction"]);
    for (user, sum) in users {
        table.row(vec![
            user.to_string(),
            sum.requests.to_string(),
            rough(Span(sum.consumed_ms / 1_000)),
            rough(Span(sum.deserved_ms / 1_000)),
            sum.satisfaction().map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        ]);
    }
    table.render()
}
