//! Durable submissions a second: discovery and submission of each job, at an agent and three servers.
//!
//! Each cluster of 1,000 processors runs one job that needs all of them, so that everything else waits and what is
//! measured is the accepting.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pliant_client::{Client, SubmitOrder};
use pliant_control::job::{JobState, Work};
use pliant_control::names::Key;
use pliant_model::{Procs, Span, Speedup};
use pliant_site::processes::{self, ProcessState};
use pliant_transport::Role;
use pliant_wire::{Script, SubmittedWork, bounds};
use tokio::task::JoinSet;

use crate::Outcome;
use crate::federation::{Daemons, Federation, attached};
use crate::figures::{Cost, POLL_INTERVAL, Times, histogram};

const SERVERS: [&str; 3] = ["bordeaux", "lyon", "toulouse"];
pub(crate) const PROCS: u32 = 1_000;
const USERS: usize = 8;
/// Submissions that are under way at a time, one by one.
const OPEN: [usize; 2] = [32, 128];
/// The same in batches: each user has as many as go in one message.
const GATHERED: usize = USERS * bounds::MANY_MAX;
/// The walltime of the jobs that fill the clusters, if no one ends them.
const FILLER: Span = Span(900);

pub(crate) async fn measure(dir: &Path, time: Duration) -> Outcome<()> {
    for open in OPEN {
        once(dir, time, open, false).await?;
    }
    Ok(())
}

/// The same, several submissions in a message.
pub(crate) async fn measure_batches(dir: &Path, time: Duration) -> Outcome<()> {
    once(dir, time, GATHERED, true).await
}

async fn once(dir: &Path, time: Duration, open: usize, is_gathered: bool) -> Outcome<()> {
    let federation = Federation::new(dir)?;
    // What runs would outlive its server; what waits never starts once the server has gone.
    let fillers = Fillers(SERVERS.iter().map(|name| federation.path(name)).collect());
    let agent = Daemons::start(&[federation.agent("master", None)?])?;
    let address = agent.addresses[0].clone();
    let mut servers = Vec::new();
    for name in SERVERS {
        servers.push(Daemons::start(&[federation.server(name, &address, &format!("procs = {PROCS}"))?])?);
    }
    let operator = federation.client(Role::Operator, "operator", &address)?;
    attached(&operator, SERVERS.len()).await?;
    fill(&operator, &SERVERS).await?;
    let clients = (0..USERS).map(|user| federation.client(Role::User, &format!("user{user}"), &address));
    let mut clients = clients.collect::<Outcome<Vec<_>>>()?;
    if is_gathered {
        clients = clients.iter().map(Client::gathering).collect();
    }

    let before = costs(&agent, &servers)?;
    let begun = Instant::now();
    let (mut times, failed) = submit_for(&clients, open, time).await?;
    let lasted = begun.elapsed().as_secs_f64();
    let after = costs(&agent, &servers)?;
    let rate = times.len() as f64 / lasted;
    let how = if is_gathered { "batches" } else { "submits" };
    println!("{how}, {open} open: {} in {lasted:.1} s = {rate:.0} a second, {failed} failed", times.len());
    println!("  {}", times.text());
    let each = |index: usize| (after[index].cpu - before[index].cpu).as_secs_f64() * 1e6 / times.len() as f64;
    let [of_agent, of_servers, of_clients] = [each(0), each(1) + each(2) + each(3), each(4)];
    println!(
        "  CPU per submission: agent {of_agent:.0} us, servers {of_servers:.0} us, clients {of_clients:.0} us"
    );
    println!("  agent: {} MB", after[0].resident_mb.0);
    for (name, daemon) in
        std::iter::once(agent).chain(servers).map(|daemon| (daemon.addresses[0].name.clone(), daemon))
    {
        let metrics = daemon.stop()?;
        let (seconds, commits) = histogram(&metrics, "pliant_journal_commit_seconds");
        let (events, _) = histogram(&metrics, "pliant_journal_batch_events");
        println!(
            "  {name}: {commits} commits, {:.1} events and {:.2} ms each",
            events / commits,
            seconds * 1e3 / commits
        );
    }
    drop(fillers);
    Ok(())
}

/// The folders of servers. What runs there is ended when this is dropped, which is after the servers.
pub(crate) struct Fillers(pub(crate) Vec<PathBuf>);

impl Drop for Fillers {
    fn drop(&mut self) {
        for folder in &self.0 {
            let job = folder.join("state/jobs/1");
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_secs(10) {
                // A job that cannot be ended now ends with its walltime.
                let ended = processes::terminate(&job).and_then(|()| processes::find(&job));
                if !matches!(ended, Ok(ProcessState::Running(_))) {
                    break;
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }
}

fn costs(agent: &Daemons, servers: &[Daemons]) -> Outcome<Vec<Cost>> {
    let daemons = std::iter::once(agent).chain(servers).map(Daemons::cost);
    daemons.chain([Cost::of(std::process::id())]).collect()
}

/// Gives each cluster a job that takes all of it, and waits until they run.
pub(crate) async fn fill(operator: &Client, servers: &[&str]) -> Outcome<()> {
    let mut fillers = Vec::new();
    for (number, name) in servers.iter().enumerate() {
        let work = Work::new(Procs(PROCS), FILLER, Speedup::Rigid);
        let text = format!("#!/bin/sh\nexec sleep {}\n", FILLER.0).into();
        let script = Script::new("fill.sh".to_owned(), text, work);
        let only = Some(name.parse()?);
        let order = order(SubmittedWork::Script(script), u64::MAX - number as u64);
        let accepted = operator.submit(&SubmitOrder { only, ..order }, |_| Ok(())).await?;
        fillers.push(accepted.handle);
    }
    for filler in &fillers {
        while operator.job(filler).await?.state != JobState::Active {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    Ok(())
}

fn order(what: SubmittedWork, number: u64) -> SubmitOrder {
    let key = Key(u128::from(number).to_be_bytes());
    SubmitOrder { timeout: Duration::from_secs(30), ..SubmitOrder::new(key, what) }
}

/// Submits for some time. Returns how long each took, and how many failed.
pub(crate) async fn submit_for(clients: &[Client], open: usize, time: Duration) -> Outcome<(Times, u64)> {
    // A key is used once in a federation that lives for one measurement: with the key of a job the answer would be that job.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let until = Instant::now() + time;
    let mut tasks = JoinSet::new();
    for task in 0..open {
        let client = clients[task % clients.len()].clone();
        tasks.spawn(async move {
            let (mut times, mut failed) = (Times::default(), 0);
            while Instant::now() < until {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                // From ten minutes to three hours, so that the plan has many steps.
                let seconds = 600 + number.wrapping_mul(2_654_435_761) % 10_200;
                let arguments = BTreeMap::from([("seconds".to_owned(), seconds.to_string())]);
                let order = order(SubmittedWork::Service { name: "wait".to_owned(), arguments }, number);
                let begun = Instant::now();
                match client.submit(&order, |_| Ok(())).await {
                    Ok(_) => times.add(begun.elapsed()),
                    Err(error) => {
                        failed += 1;
                        eprintln!("submission {number}: {error}");
                    }
                }
            }
            (times, failed)
        });
    }
    let (mut times, mut failed) = (Times::default(), 0);
    while let Some(ended) = tasks.join_next().await {
        let (some, more) = ended?;
        times.extend(some);
        failed += more;
    }
    Ok((times, failed))
}
