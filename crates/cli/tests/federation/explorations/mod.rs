//! Explorations (paper 004) on real daemons: several users at once, crashes, and the paper's scenarios.

mod faults;
mod folders;
mod moving;
mod occupancy;
mod paper;
mod scripts;
mod shares;
mod verbs;

use std::time::Duration;

use pliant_client::{ExplorationFolder, ExplorationSpec, ExplorationStatus, Explorer, ParameterSpace};
use pliant_control::names::User;
use pliant_model::SpanMs;
use pliant_policy::optional::Share;
use pliant_wire::Shares;

use crate::harness::{Cluster, Federation};

/// A server with cores for explorations.
pub(crate) fn server(name: &'static str, optional: &str) -> Cluster {
    let plain = Cluster::new(name, 1, 1.0);
    let tables = format!("{}\n[optional]\n{optional}\n", plain.tables);
    Cluster { tables, ..plain }
}

/// Pauses of that length: three for certain, and more until the deadline.
pub(crate) fn pauses(ms: i64, most: u32, deadline: SpanMs) -> ExplorationSpec {
    let fixed = [("ms".to_owned(), ms.to_string())].into();
    ExplorationSpec {
        executable: "pause".into(),
        parameters: ParameterSpace { fixed, ..ParameterSpace::default() },
        inputs: Vec::new(),
        mandatory: 3,
        most,
        deadline,
        legacy: None,
        reallocation: None,
        timeout: Duration::from_secs(3),
    }
}

/// Explores until it is over.
pub(crate) async fn explore(
    federation: &Federation,
    user: &str,
    spec: &ExplorationSpec,
    folder: Option<ExplorationFolder>,
) -> ExplorationStatus {
    let client = federation.client(user);
    let explorer = Explorer::new(&client, spec, folder).unwrap();
    explorer.run(std::future::pending(), |_| {}).await.unwrap()
}

/// The shares of all users, by server.
pub(crate) async fn shares(federation: &Federation, servers: &[&str]) -> Vec<Shares> {
    let operator = federation.operator();
    let mut shares = Vec::new();
    for server in servers {
        shares.push(operator.users(&server.parse().unwrap(), &federation.address(server)).await.unwrap());
    }
    shares
}

/// The share of a user over all servers.
pub(crate) fn share_of(shares: &[Shares], user: &str) -> Share {
    let user: User = user.parse().unwrap();
    let own = shares.iter().flat_map(|shares| &shares.users).filter(|share| share.user == user);
    own.fold(Share::default(), |sum, share| sum + share.share)
}
