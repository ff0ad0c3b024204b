//! Discovery over 138 servers below 12 local agents, for a service and for a script.
//!
//! Every daemon has its own thread, journal and TLS connections, but all servers share a process, and so do the local
//! agents: on two processors a process each would mostly measure the switching between them. For a script agents ask only servers
//! that may be among the best.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use pliant_client::Client;
use pliant_control::agent::DiscoverySubject;
use pliant_control::job::Work;
use pliant_model::{Procs, Span, Speedup};
use pliant_transport::Role;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::federation::{Daemons, Federation, attached};
use crate::figures::{Cost, Times};

/// How many servers there are unless it is said.
pub(crate) const SERVERS: usize = 138;
/// About so many servers are below a local agent.
const BELOW: usize = 12;
/// Discoveries one after another, and altogether when several are under way.
const COUNT: usize = 3_000;
/// Candidates asked for, as `pliant submit` does.
const BEST: u32 = 3;
const OPEN: [usize; 2] = [4, 16];

pub(crate) async fn measure(dir: &Path, servers: usize, summaries: bool) -> Outcome<()> {
    let federation = if summaries { Federation::new(dir)? } else { Federation::without_summaries(dir)? };
    let master = Daemons::start(&[federation.agent("master", None)?])?;
    let address = master.addresses[0].clone();
    let local = servers.div_ceil(BELOW);
    let agents = (0..local).map(|agent| federation.agent(&format!("agent-{agent}"), Some(&address)));
    let agents = Daemons::start(&agents.collect::<Outcome<Vec<_>>>()?)?;
    let files = (0..servers).map(|server| {
        let parent = &agents.addresses[server % local];
        federation.server(&format!("server-{server}"), parent, "procs = 64")
    });
    let below = Daemons::start(&files.collect::<Outcome<Vec<_>>>()?)?;
    let processes = [master, agents, below];
    let client = federation.client(Role::User, "alice", &address)?;
    attached(&client, servers).await?;
    let arguments = BTreeMap::from([("seconds".to_owned(), "600".to_owned())]);
    let service = DiscoverySubject::Service { name: "wait".to_owned(), arguments };
    let script = Work::new(Procs(4), Span(600), Speedup::Amdahl { parallel: 0.95, limit: Procs(16) });
    for (what, subject) in [("service", service), ("script", DiscoverySubject::Work(script))] {
        println!("discovery over {servers} servers below {local} local agents, for a {what}:");
        measure_one(&client, &subject, &processes).await?;
    }
    Ok(())
}

async fn measure_one(client: &Client, what: &DiscoverySubject, processes: &[Daemons]) -> Outcome<()> {
    discover(client, what, COUNT / 10, 0).await?;
    let costs = || processes.iter().map(Daemons::cost).collect::<Outcome<Vec<_>>>();
    let before = costs()?;
    let begun = Instant::now();
    let Discoveries { mut times, mut answered } = discover(client, what, COUNT, 0).await?;
    let rate = COUNT as f64 / begun.elapsed().as_secs_f64();
    println!("  {COUNT} one after another ({rate:.0} a second): {}", times.text());
    answered.sort_unstable();
    let at = |percent: usize| answered[(answered.len() - 1) * percent / 100];
    println!("  servers that answered each: p50 {}, p99 {}, most {}", at(50), at(99), at(100));
    for open in OPEN {
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for task in 0..open {
            let (client, what) = (client.clone(), what.clone());
            tasks.spawn(async move { discover(&client, &what, COUNT / open, task).await });
        }
        let mut times = Times::default();
        while let Some(some) = tasks.join_next().await {
            times.extend(some??.times);
        }
        let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
        println!("  {open} at a time ({rate:.0} a second): {}", times.text());
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

/// Discoveries, one after another.
#[derive(Default)]
struct Discoveries {
    times: Times,
    /// How many servers answered each.
    answered: Vec<u32>,
}

/// `task` makes the question another one than those that are asked at the same time, since equal ones share an answer.
async fn discover(
    client: &Client,
    what: &DiscoverySubject,
    count: usize,
    task: usize,
) -> Outcome<Discoveries> {
    let mut what = what.clone();
    match &mut what {
        DiscoverySubject::Work(work) => work.walltime = work.walltime + Span(task as i64),
        DiscoverySubject::Service { arguments, .. } => {
            arguments.insert("seconds".to_owned(), (600 + task).to_string());
        }
        _ => {}
    }
    let mut discoveries = Discoveries::default();
    for _ in 0..count {
        let begun = Instant::now();
        let found = client.discover(&what, BEST, None).await?;
        discoveries.times.add(begun.elapsed());
        discoveries.answered.push(found.answered);
        if found.vectors.len() != BEST as usize || !found.silent.is_empty() {
            return Err(format!("expected {BEST} answers and no silent server, found {found:?}").into());
        }
    }
    Ok(discoveries)
}
