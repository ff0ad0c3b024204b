//! A master agent with 1,000,000 active jobs at 100,000 servers below 300 local agents: its start, its memory, and what users notice while
//! status updates come in and a snapshot is written.
//!
//! The local agents are connections of this process, which say and answer what agents would: greetings with the descriptions of all servers
//! below, heartbeats with their free processors, summaries, and status updates of one start or end a minute and server. One
//! server is real and takes the submissions. The past is written through the journal itself, as in [`crate::archive`].

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pliant_client::Client;
use pliant_control::agent::{Agent, AgentConfig, ChildKind, DiscoveryResult, DiscoverySubject, Event};
use pliant_control::estimation_vector::EstimationVector;
use pliant_control::job::{Exit, JobRecord, JobState, Work};
use pliant_control::names::{Handle, Key, Name, User};
use pliant_control::server_info::ServerInfo;
use pliant_journal::{self as journal, KeepFrom};
use pliant_model::{Estimate, Procs, Span, Speed, Speedup};
use pliant_policy::batch::PlanBounds;
use pliant_policy::discovery::{ClusterBounds, ServiceSet, Summary};
use pliant_policy::profile::{FreePlan, FreeStep};
use pliant_policy::tuning::Tuner;
use pliant_transport::{AgentAddress, ClientTls, Credentials, Identity, Role, Timeouts, channel};
use pliant_wire::proto::agent_client::AgentClient;
use pliant_wire::{FromChild, FromParent, JobsQuery, proto};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

use crate::Outcome;
use crate::archive;
use crate::federation::{Daemons, Federation, now};
use crate::figures::{Times, histogram};
use crate::past::Past;
use crate::submits::{Fillers, PROCS, fill, submit_for};

/// How many servers there are unless it is said.
pub(crate) const SERVERS: usize = 100_000;
const AGENTS: u32 = 300;
const OWNERS: u32 = 1_000;
/// Entries since the last snapshot, a little fewer than those after which the next one is taken.
const SINCE_SNAPSHOT: u32 = 99_500;
/// How many entries one commit has.
const AT_ONCE: usize = 10_000;
const REAL: &str = "lyon";
/// Starts and ends of jobs at a server.
const PERIOD: Duration = Duration::from_secs(60);
const HEARTBEAT: Duration = Duration::from_secs(2);
/// When simulated servers are free.
const BUSY: Span = Span(86_400);

/// The federation that is simulated.
#[derive(Clone, Copy)]
struct Size {
    /// Servers below each local agent.
    below: u32,
    /// Jobs at each server, of which the first one runs.
    jobs: u32,
}

/// What the simulated agents have done.
#[derive(Default)]
struct Tally {
    attached: AtomicU32,
    acknowledged: AtomicU64,
    answered: AtomicU64,
}

pub(crate) async fn measure(dir: &Path, servers: usize, jobs: u32, time: Duration) -> Outcome<()> {
    let below = (u32::try_from(servers)? / AGENTS).max(3);
    let size = Size { below, jobs: jobs.div_ceil(below * AGENTS) };
    let federation = Federation::new(dir)?;
    let file = federation.agent("master", None)?;
    let folder = file.parent().ok_or("expected a folder")?.join("state");
    let begun = Instant::now();
    let bytes = write_past(&folder, size)?;
    let size_mb = std::fs::metadata(folder.join("journal.db"))?.len() / 1_000_000;
    println!(
        "capacity: {} servers below {AGENTS} local agents, {} jobs, written in {:.0} s: a snapshot of {} MB and {SINCE_SNAPSHOT} entries, {size_mb} MB",
        AGENTS * below,
        AGENTS * below * size.jobs,
        begun.elapsed().as_secs_f64(),
        bytes / 1_000_000
    );
    let master = Daemons::start(std::slice::from_ref(&file))?;
    let (present, most) = master.cost()?.resident_mb;
    println!(
        "  ready {:.1} s after its start; {present} MB, {most} MB at most",
        master.started_in.as_secs_f64()
    );
    let (stop, agents, tally) = attach(&federation, &master, size).await?;
    question(&federation, &master, &tally, time).await?;
    let (present, most) = master.cost()?.resident_mb;
    println!("  {present} MB, {most} MB at most");
    let _ = stop.send(true);
    drop(agents);
    let begun = Instant::now();
    let metrics = master.stop()?;
    println!("  stopped in {:.1} s", begun.elapsed().as_secs_f64());
    let (seconds, snapshots) = histogram(&metrics, "pliant_journal_snapshot_seconds");
    println!("  {snapshots} snapshots before the stop, {seconds:.1} s");
    Ok(())
}

/// Attaches the simulated local agents.
async fn attach(
    federation: &Federation,
    master: &Daemons,
    size: Size,
) -> Outcome<(watch::Sender<bool>, JoinSet<Outcome<()>>, Arc<Tally>)> {
    let (stop, stopping) = watch::channel(false);
    let (mut agents, tally) = (JoinSet::new(), Arc::new(Tally::default()));
    let credentials =
        (0..AGENTS).map(|agent| federation.credentials(Role::Agent, agent_name(agent).as_str()));
    let credentials = credentials.collect::<Outcome<Vec<_>>>()?;
    let before = master.cost()?.cpu;
    let begun = Instant::now();
    for (number, credentials) in (0..).zip(credentials) {
        let simulated = Simulated { number, size, tally: tally.clone() };
        let (address, mut stopping) = (master.addresses[0].clone(), stopping.clone());
        agents.spawn(async move {
            tokio::select! {
                ended = simulated.serve(&address, &credentials) => {
                    if let Err(error) = &ended {
                        eprintln!("{}: {error}", agent_name(number));
                    }
                    ended
                }
                _ = stopping.wait_for(|stop| *stop) => Ok(()),
            }
        });
    }
    while tally.attached.load(Ordering::Relaxed) < AGENTS {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if begun.elapsed() > Duration::from_secs(300) {
            return Err("expected all local agents to be attached after five minutes".into());
        }
    }
    let cpu = (master.cost()?.cpu - before).as_secs_f64();
    println!("  all attached after {:.1} s, {cpu:.1} s of processor time", begun.elapsed().as_secs_f64());
    Ok((stop, agents, tally))
}

/// What users notice: first while a snapshot is written, then while an operator lists everything.
async fn question(federation: &Federation, master: &Daemons, tally: &Tally, time: Duration) -> Outcome<()> {
    let address = &master.addresses[0];
    let fillers = Fillers(vec![federation.path(REAL)]);
    let cluster = format!("procs = {PROCS}\nbatch = \"easy\"");
    let server = Daemons::start(&[federation.server(REAL, address, &cluster)?])?;
    let operator = federation.client(Role::Operator, "operator", address)?;
    let submitter = federation.client(Role::User, "submitter", address)?;
    let other = federation.client(Role::User, "owner7", address)?;
    while operator.discover(&script(0), 1, Some(&REAL.parse()?)).await?.vectors.is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    fill(&operator, &[REAL]).await?;
    let clients = [submitter];
    let until = Instant::now() + time;
    let (begun, before) = (Instant::now(), master.cost()?.cpu);
    let updates = tally.acknowledged.load(Ordering::Relaxed);
    let (submits, discoveries, lists) =
        tokio::join!(submit_for(&clients, 1, time), discover(&other, until), list(&other, until));
    let (mut submits, failed) = submits?;
    println!("  {} submissions, {failed} failed: {}", submits.len(), submits.text());
    let (mut times, answered) = discoveries?;
    println!("  {} discoveries, {answered:.1} servers answered each: {}", times.len(), times.text());
    let mut lists = lists?;
    println!("  {} lists of 100 own jobs: {}", lists.len(), lists.text());
    let lasted = begun.elapsed().as_secs_f64();
    let cpu = (master.cost()?.cpu - before).as_secs_f64() / lasted;
    let rate = (tally.acknowledged.load(Ordering::Relaxed) - updates) as f64 / lasted;
    let answers = tally.answered.load(Ordering::Relaxed);
    println!(
        "  meanwhile {rate:.0} status updates a second; {cpu:.2} processors; local agents answered {answers} questions"
    );
    let until = Instant::now() + time / 2;
    let (submits, everything) =
        tokio::join!(submit_for(&clients, 1, time / 2), list_everything(&operator, until));
    for (what, mut times) in everything? {
        println!("  {} times {what}: {}", times.len(), times.text());
    }
    let (mut submits, failed) = submits?;
    println!("  meanwhile {} submissions, {failed} failed: {}", submits.len(), submits.text());
    drop(server);
    drop(fillers);
    Ok(())
}

fn script(turn: u32) -> DiscoverySubject {
    let walltime = Span(600 + i64::from(turn % 600));
    DiscoverySubject::Work(Work::new(
        Procs(4),
        walltime,
        Speedup::Amdahl { parallel: 0.95, limit: Procs(16) },
    ))
}

/// Discovers one after another. Also returns how many servers answered on average.
async fn discover(client: &Client, until: Instant) -> Outcome<(Times, f64)> {
    let (mut times, mut answered, mut turn) = (Times::default(), 0, 0);
    while Instant::now() < until {
        let begun = Instant::now();
        let found = client.discover(&script(turn), 3, None).await?;
        times.add(begun.elapsed());
        answered += found.answered;
        turn += 1;
        if found.vectors.len() != 3 || !found.silent.is_empty() {
            return Err(format!("expected 3 answers and no silent server, found {found:?}").into());
        }
    }
    let mean = f64::from(answered) / times.len() as f64;
    Ok((times, mean))
}

fn query(all: bool) -> JobsQuery {
    JobsQuery { owner: None, all, server: None, states: Vec::new(), limit: 100, before: None }
}

async fn list(client: &Client, until: Instant) -> Outcome<Times> {
    let mut times = Times::default();
    while Instant::now() < until {
        let begun = Instant::now();
        client.jobs(&query(false)).await?;
        times.add(begun.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(times)
}

/// Lists all jobs, running ones, one job and all servers in turn.
async fn list_everything(operator: &Client, until: Instant) -> Outcome<Vec<(&'static str, Times)>> {
    let mut all = vec![
        ("100 of all jobs", Times::default()),
        ("100 running jobs", Times::default()),
        ("one job", Times::default()),
        ("all servers", Times::default()),
    ];
    let mut turn = 0;
    while Instant::now() < until {
        let begun = Instant::now();
        match turn % 4 {
            0 => drop(operator.jobs(&query(true)).await?),
            1 => drop(operator.jobs(&JobsQuery { states: vec![JobState::Active], ..query(true) }).await?),
            2 => {
                let server = server_name(turn as u32 % AGENTS, 0);
                drop(operator.find(&Handle { server, number: 9 }).await?);
            }
            _ => drop(operator.servers().await?),
        }
        all[turn % 4].1.add(begun.elapsed());
        turn += 1;
    }
    Ok(all)
}

fn agent_name(agent: u32) -> Name {
    format!("agent-{agent}").parse().expect("a name of letters and digits")
}

fn server_name(agent: u32, server: u32) -> Name {
    format!("site-{agent}-cluster-{server}").parse().expect("a name of letters and digits")
}

fn infos(agent: u32, size: Size) -> Vec<ServerInfo> {
    let info = |server| ServerInfo { name: server_name(agent, server), ..archive::info(server) };
    (0..size.below).map(info).collect()
}

/// The job of that number at a server of a local agent.
fn record(agent: u32, server: u32, number: u32, state: JobState) -> Box<JobRecord> {
    let turn = agent.wrapping_mul(7_919).wrapping_add(server * 31 + number);
    let owner: User = format!("owner{}", turn % OWNERS).parse().expect("a user of letters and digits");
    let submitted = now() - Span(i64::from(turn % 7_200));
    let handle = Handle { server: server_name(agent, server), number };
    let key = (u128::from(agent) << 64) | (u128::from(server) << 32) | u128::from(number);
    let record = archive::record(turn, submitted, state);
    let started = (state != JobState::Queued).then_some(submitted);
    let is_final = state.is_final();
    let (ended, exit) = (is_final.then(now), is_final.then_some(Exit::Code(0)));
    Box::new(JobRecord { handle, owner, key: Key(key.to_be_bytes()), started, ended, exit, ..record })
}

/// Writes the past of the master. Returns the bytes of the snapshot.
fn write_past(folder: &Path, size: Size) -> Outcome<usize> {
    let mut journal = journal::open_sqlite(folder)?;
    let config = AgentConfig { name: "master".parse()?, root: true, timeout: Span(3), reallocation: None };
    let mut past = Past::new(Agent::new(config), now() - Span(600), 0);
    for agent in 0..AGENTS {
        let (child, servers) = (agent_name(agent), infos(agent, size));
        past.deliver(Event::Attached {
            child,
            kind: ChildKind::Agent,
            journal: u64::from(agent) + 1,
            servers,
        })?;
    }
    let mut since_snapshot = None;
    let total = size.jobs * size.below * AGENTS;
    let mut bytes = 0;
    for turn in 0..total {
        if total - turn == SINCE_SNAPSHOT.min(total) {
            past.commit(&mut *journal)?;
            bytes = past.snapshot(&mut *journal)?;
            let keep_from = KeepFrom { entries: i64::MAX, first_entry: 0, jobs: i64::MIN, audit: i64::MIN };
            while journal.trim(&keep_from, None)? {}
            since_snapshot = Some(turn);
        }
        let (agent, rest) = (turn % AGENTS, turn / AGENTS);
        let (server, number) = (rest % size.below, rest / size.below + 1);
        let state = if number == 1 { JobState::Active } else { JobState::Queued };
        let (child, record) = (agent_name(agent), record(agent, server, number, state));
        past.deliver(Event::StatusUpdate { child, sequence: u64::from(rest) + 1, record })?;
        if past.entries.len() == AT_ONCE {
            past.commit(&mut *journal)?;
        }
    }
    past.commit(&mut *journal)?;
    since_snapshot.map(|_| bytes).ok_or_else(|| "expected a snapshot".into())
}

/// A local agent of which only the connection exists.
struct Simulated {
    number: u32,
    size: Size,
    tally: Arc<Tally>,
}

impl Simulated {
    async fn serve(&self, master: &AgentAddress, credentials: &Credentials) -> Outcome<()> {
        let tls = Arc::new(ClientTls::load(credentials)?);
        let identity = Identity::new(Role::Agent, master.name.as_str())?;
        let channel = channel(&master.address, &identity, tls, &Timeouts::default());
        let (sender, receiver) = mpsc::channel(256);
        let hello = FromChild::Hello {
            name: agent_name(self.number),
            kind: ChildKind::Agent,
            journal: u64::from(self.number) + 1,
            servers: infos(self.number, self.size),
        };
        sender.send((&hello).into()).await?;
        let mut down = AgentClient::new(channel).attach(ReceiverStream::new(receiver)).await?.into_inner();
        let mut sent = loop {
            let message = down.message().await?.ok_or("the master closed the connection")?;
            if let FromParent::Acknowledge { sequence } = FromParent::try_from(message)? {
                break sequence;
            }
        };
        self.tally.attached.fetch_add(1, Ordering::Relaxed);
        sender.send((&FromChild::Summary(self.summary())).into()).await?;
        let mut beat = tokio::time::interval(HEARTBEAT);
        let mut change = tokio::time::interval(PERIOD / self.size.below);
        let (mut turn, mut kept) = (0, sent);
        loop {
            tokio::select! {
                message = down.message() => {
                    match FromParent::try_from(message?.ok_or("the master closed the connection")?)? {
                        FromParent::Question { discovery, .. } => {
                            self.tally.answered.fetch_add(1, Ordering::Relaxed);
                            let found = self.found();
                            sender.send((&FromChild::Answer { discovery, found }).into()).await?;
                        }
                        FromParent::Acknowledge { sequence } => {
                            self.tally.acknowledged.fetch_add(sequence - kept, Ordering::Relaxed);
                            kept = sequence;
                        }
                        _ => {}
                    }
                }
                _ = beat.tick() => sender.send(self.heartbeat()).await?,
                _ = change.tick() => {
                    sent += 1;
                    let record = self.change(turn);
                    turn += 1;
                    sender.send((&FromChild::StatusUpdate { sequence: sent, record }).into()).await?;
                }
            }
        }
    }

    /// One server after the other: its running job ends, its first waiting job starts, another one is queued.
    fn change(&self, turn: u32) -> Box<JobRecord> {
        let (server, round) = (turn / 3 % self.size.below, turn / 3 / self.size.below);
        let (number, state) = match turn % 3 {
            0 => (1 + round, JobState::Completed),
            1 => (2 + round, JobState::Active),
            _ => (self.size.jobs + 1 + round, JobState::Queued),
        };
        record(self.number, server, number, state)
    }

    fn heartbeat(&self) -> proto::Up {
        let free = (0..self.size.below).map(|server| (server_name(self.number, server), Procs(server % 7)));
        let at = Some(now());
        let beat = FromChild::Heartbeat {
            now: at,
            free: free.collect(),
            certificate: at,
            certificates: Vec::new(),
            drained: Vec::new(),
        };
        (&beat).into()
    }

    /// Clusters of several sizes, on which nothing is free for a day or longer.
    fn summary(&self) -> Summary {
        let cluster = |kind: u32| {
            let procs = Procs(16 << kind);
            let busy_s = BUSY.0 as u32 + 600 * kind + 60 * self.number;
            let step = |after_s, procs| FreeStep { after_s, procs };
            let free = FreePlan::from_lines(now(), vec![step(0, 0), step(busy_s.into(), procs.0)], None);
            let plan = free.map(|free| PlanBounds { free, jobs: Some(self.size.jobs as usize) });
            Summary::of(ClusterBounds::planned(Speed::REFERENCE, procs, false, plan, Tuner::default()))
        };
        let clusters: Vec<Summary> = (0..6).map(cluster).collect();
        Summary { services: ServiceSet::of(["pi"]), ..Summary::joined(&clusters) }
    }

    /// The best three servers.
    fn found(&self) -> DiscoveryResult {
        let start = now() + BUSY + Span(i64::from(60 * self.number));
        let vector = |server: u32| EstimationVector {
            server: server_name(self.number, server),
            address: "127.0.0.1:1".to_owned(),
            rank: 0,
            estimate: Estimate {
                procs: Procs(4),
                walltime: Span(600),
                start: start + Span(i64::from(server)),
            },
            speed: Speed::REFERENCE,
            procs: Procs(64),
            free: Procs(0),
            queue_length: self.size.jobs,
            partition: None,
        };
        let vectors = (0..3).map(vector).collect();
        let servers = self.size.below;
        DiscoveryResult {
            vectors,
            servers,
            answered: 3,
            not_asked: servers - 3,
            ..DiscoveryResult::default()
        }
    }
}
