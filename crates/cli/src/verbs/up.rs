//! `pliant up`: starts a whole federation on this machine, or the daemons of it that do not run.

use std::path::PathBuf;

use clap::Args;
use pliant_site::accounts::own_user;
use serde_json::json;

use crate::failure::Failure;
use crate::local::{self, CLUSTERS, Folder, StartReport};
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The folder of the federation [default: $XDG_STATE_HOME/pliant/up or ~/.local/state/pliant/up].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Creates certificates for these users, too; their client files are in DIR/users.
    #[arg(long, value_name = "NAME")]
    user: Vec<String>,
    /// A file of `[[service]]` tables: services that all servers offer.
    #[arg(long, value_name = "FILE")]
    services: Option<PathBuf>,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let folder = Folder::of(arguments.dir.as_deref())?;
    let users: Vec<&str> = arguments.user.iter().map(String::as_str).collect();
    let brought = local::bring_up(&folder, &users, arguments.services.as_deref())?;
    print(output, &folder, &brought, &users)
}

fn print(output: Output, folder: &Folder, brought: &StartReport, users: &[&str]) -> Result<(), Failure> {
    let StartReport { federation, started } = brought;
    let text = || {
        let mut text = String::new();
        let state = match started.len() {
            0 => "A federation runs already".to_owned(),
            all if all == federation.daemons.len() => "A federation runs on this machine".to_owned(),
            _ => format!("Some daemons ran already; started {}", started.join(", ")),
        };
        text.push_str(&format!(
            "{state}: an agent and {} servers, in {}\n",
            CLUSTERS.len(),
            folder.path().display()
        ));
        text.push_str(&format!("  jobs run as {}, the user of the servers\n", own_user()));
        for daemon in &federation.daemons {
            let what = match CLUSTERS.iter().find(|cluster| cluster.name == daemon.name) {
                Some(cluster) => format!("{} processors of speed {}", cluster.procs, cluster.speed),
                None => "agent".to_owned(),
            };
            text.push_str(&format!(
                "  {:<9} {:<27} {}   http://{}/metrics\n",
                daemon.name, what, daemon.address, daemon.http
            ));
        }
        for user in users {
            text.push_str(&format!("  user {user}: --config {}\n", folder.client(user).display()));
        }
        let default = Folder::of(None).is_ok_and(|default| default.path() == folder.path());
        let config = if default {
            String::new()
        } else {
            format!("  export PLIANT_CONFIG={}\n", folder.own_client().display())
        };
        let dir = if default { String::new() } else { format!(" --dir {}", folder.path().display()) };
        text.push_str(&format!(
            "Try:\n{config}  pliant servers --services\n  pliant submit pi samples=200000000 --out result\n  pliant queue\n  \
             pliant explore pi samples=20000000 --vary seed=1..1000 --min 3 --deadline 20s --out estimates\n  pliant down{dir}\n"
        ));
        text
    };
    let value = json!({
        "dir": folder.path(),
        "started": !started.is_empty(),
        "started_daemons": started,
        "client": folder.own_client(),
        "users": users.iter().map(|user| json!({ "name": user, "client": folder.client(user) })).collect::<Vec<_>>(),
        "daemons": federation.daemons,
    });
    output.print("up", text, value)
}
