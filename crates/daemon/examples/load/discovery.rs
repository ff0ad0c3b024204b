//! Discovery over 138 servers below 12 local agents.
//!
//! Every daemon has its own thread, journal and TLS connections, but all servers share a process, and so do the local
//! agents: on two processors a process each would mostly measure the switching between them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use pliant_client::Client;
use pliant_control::agent::DiscoverySubject;
use pliant_transport::Role;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::federation::{Daemons, Federation, attached};
use crate::figures::{Cost, Times};

const AGENTS: usize = 12;
const SERVERS: usize = 138;
/// Discoveries one after another, and altogether when several are under way.
const COUNT: usize = 3_000;
/// Candidates asked for, as `pliant submit` does.
const BEST: u32 = 3;
const OPEN: [usize; 2] = [4, 16];

pub(crate) async fn measure(dir: &Path) -> Outcome<()> {
    let federation = Federation::new(dir)?;
    let master = Daemons::start(&[federation.agent("master", None)?])?;
    let address = master.addresses[0].clone();
    let agents = (0..AGENTS).map(|agent| federation.agent(&format!("agent-{agent}"), Some(&address)));
    let agents = Daemons::start(&agents.collect::<Outcome<Vec<_>>>()?)?;
    let servers = (0..SERVERS).map(|server| {
        let parent = &agents.addresses[server % AGENTS];
        federation.server(&format!("server-{server}"), parent, "procs = 64")
    });
    let servers = Daemons::start(&servers.collect::<Outcome<Vec<_>>>()?)?;
    let processes = [master, agents, servers];
    let client = federation.client(Role::User, "alice", &address)?;
    attached(&client, SERVERS).await?;
    discover(&client, COUNT / 10).await?;

    let costs = || processes.iter().map(Daemons::cost).collect::<Outcome<Vec<_>>>();
    let before = costs()?;
    let begun = Instant::now();
    let mut times = discover(&client, COUNT).await?;
    let rate = COUNT as f64 / begun.elapsed().as_secs_f64();
    println!(
        "discovery over {SERVERS} servers, {COUNT} one after another ({rate:.0} a second): {}",
        times.text()
    );
    for open in OPEN {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..open {
            let client = client.clone();
            tasks.spawn(async move { discover(&client, COUNT / open).await });
        }
        let mut times = Times::default();
        while let Some(some) = tasks.join_next().await {
            times.extend(some??);
        }
        let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
        println!("discovery over {SERVERS} servers, {open} at a time ({rate:.0} a second): {}", times.text());
    }
    let count = (COUNT * (1 + OPEN.len())) as f64;
    let each = |(before, after): (&Cost, &Cost)| (after.cpu - before.cpu).as_secs_f64() * 1e3 / count;
    let each: Vec<f64> = before.iter().zip(&costs()?).map(each).collect();
    println!(
        "  CPU per discovery: master {:.2} ms, local agents {:.2} ms, servers {:.2} ms",
        each[0], each[1], each[2]
    );
    Ok(())
}

async fn discover(client: &Client, count: usize) -> Outcome<Times> {
    let arguments = BTreeMap::from([("seconds".to_owned(), "600".to_owned())]);
    let what = DiscoverySubject::Service { name: "wait".to_owned(), arguments };
    let mut times = Times::default();
    for _ in 0..count {
        let begun = Instant::now();
        let found = client.discover(&what, BEST, None).await?;
        times.add(begun.elapsed());
        if found.vectors.len() != BEST as usize || !found.silent.is_empty() {
            return Err(format!("expected {BEST} answers and no silent server, found {found:?}").into());
        }
    }
    Ok(times)
}
