//! An agent with a long past: 1,000,000 ended jobs in its journal, 50,000 waiting ones in its memory.
//!
//! The past is written through the journal itself, in the form that a daemon that has lived through it would have left.
//! The last measurement sends the agent status updates of 100,000 more jobs, over a connection like that of a server.

use std::path::Path;
use std::time::{Duration, Instant};

use pliant_client::Client;
use pliant_control::agent::{Agent, AgentConfig, ChildKind, Event};
use pliant_control::job::{Exit, JobRecord, JobState, Work};
use pliant_control::names::{Handle, Key, Name};
use pliant_control::reason::DiscoverySummary;
use pliant_control::server_info::ServerInfo;
use pliant_journal::{self as journal, Batch, JobRow, Journal};
use pliant_model::{Estimate, Procs, Span, Speed, Speedup, Time};
use pliant_transport::AgentAddress;
use pliant_transport::{ClientTls, Credentials, Identity, Role, Timeouts, channel};
use pliant_wire::proto::agent_client::AgentClient;
use pliant_wire::{FromChild, FromParent, JobsQuery};
use tokio_stream::wrappers::ReceiverStream;

use crate::Outcome;
use crate::federation::{Daemons, Federation, attached, now};
use crate::figures::Times;
use crate::past::Past;

const ENDED: u32 = 1_000_000;
const WAITING: u32 = 50_000;
/// Entries since the last snapshot: about as many as there are before the next one is taken.
const SINCE_SNAPSHOT: u32 = 19_000;
const MORE_JOBS: u32 = 100_000;
pub(crate) const SERVERS: u32 = 12;
pub(crate) const USERS: u32 = 50;
const ASKED: u32 = 1_000;

pub(crate) async fn measure(dir: &Path) -> Outcome<()> {
    let federation = Federation::new(dir)?;
    let file = federation.agent("master", None)?;
    let folder = file.parent().ok_or("expected a folder")?.join("state");
    let begun = Instant::now();
    write_past(&folder)?;
    let size_mb = std::fs::metadata(folder.join("journal.db"))?.len() / 1_000_000;
    println!("archive: {ENDED} ended jobs written in {:.0} s, {size_mb} MB", begun.elapsed().as_secs_f64());

    let agent = Daemons::start(std::slice::from_ref(&file))?;
    println!(
        "  ready {:.2} s after its start, {} MB",
        agent.started_in.as_secs_f64(),
        agent.cost()?.resident_mb.0
    );
    let address = agent.addresses[0].clone();
    let operator = federation.client(Role::Operator, "operator", &address)?;
    let owner = federation.client(Role::User, "user1", &address)?;
    ask(&operator, &owner).await?;
    println!("  after the questions: {} MB", agent.cost()?.resident_mb.0);

    let server = federation.credentials(Role::Server, "server-0")?;
    let begun = Instant::now();
    send_updates(&address, server, &operator).await?;
    let rate = f64::from(2 * MORE_JOBS) / begun.elapsed().as_secs_f64();
    let (present, most) = agent.cost()?.resident_mb;
    println!(
        "  {MORE_JOBS} more jobs, queued and ended: {rate:.0} status updates a second; {present} MB, {most} MB at most"
    );
    drop(agent);
    let again = Daemons::start(&[file])?;
    println!("  ready again {:.2} s after its start", again.started_in.as_secs_f64());
    Ok(())
}

pub(crate) fn server_name(number: u32) -> Name {
    format!("server-{}", number % SERVERS).parse().expect("a name of letters and digits")
}

pub(crate) fn info(number: u32) -> ServerInfo {
    ServerInfo {
        name: server_name(number),
        address: format!("127.0.0.1:{}", 1024 + number),
        rank: 0,
        procs: Procs(64),
        speed: Speed::REFERENCE,
        policy: "cbf".to_owned(),
        services: vec![("pi".to_owned(), "estimates pi by Monte Carlo".to_owned())],
        scripts: true,
        optional_cores: 0,
        optional_per_core: 0,
    }
}

pub(crate) fn record(number: u32, submitted: Time, state: JobState) -> JobRecord {
    let (procs, walltime) = (Procs(1 + number % 32), Span(600 + i64::from(number % 7_000)));
    let start = submitted + Span(i64::from(number % 900));
    let is_final = state.is_final();
    JobRecord {
        handle: Handle { server: server_name(number), number },
        key: Key(u128::from(number).to_be_bytes()),
        owner: format!("user{}", number % USERS).parse().expect("a name of letters and digits"),
        name: "pi".to_owned(),
        work: Work::new(procs, walltime, Speedup::Amdahl { parallel: 0.99, limit: Procs(64) }),
        state,
        submitted,
        expected: Estimate { procs, walltime, start },
        procs,
        walltime,
        started: is_final.then_some(start),
        ended: is_final.then_some(start + Span(walltime.0 * 2 / 3)),
        exit: is_final.then_some(Exit::Code(i32::from(state == JobState::Failed))),
        requeues: 0,
        compared: Vec::new(),
        discovery: DiscoverySummary::default(),
        pinned: false,
        hops: Vec::new(),
        unit_runtime: None,
        runtime: None,
        size_choice: None,
        gpus: None,
        estimates: Vec::new(),
        claim: None,
    }
}

/// One in a hundred failed.
fn end_state(number: u32) -> JobState {
    if number.is_multiple_of(100) { JobState::Failed } else { JobState::Completed }
}

/// Writes the records of so many ended jobs, which were submitted by users in turn.
pub(crate) fn write_ended(journal: &mut dyn Journal, jobs: u32) -> Outcome<()> {
    let begin = now() - Span(30 * 86_400);
    for chunk in 0..jobs / 10_000 {
        let numbers = chunk * 10_000..(chunk + 1) * 10_000;
        let ended = numbers.map(|number| {
            let submitted = begin + Span(i64::from(number) * 2);
            row(&record(number, submitted, end_state(number)))
        });
        journal.commit(&Batch { ended: ended.collect(), ..Batch::default() })?;
    }
    Ok(())
}

fn write_past(folder: &Path) -> Outcome<()> {
    let mut journal = journal::open_sqlite(folder)?;
    let now = now();
    write_ended(&mut *journal, ENDED)?;
    let config = AgentConfig { name: "master".parse()?, root: true, timeout: Span(3), reallocation: None };
    let mut past = Past::new(Agent::new(config), now - Span(600), 0);
    for server in 0..SERVERS {
        let (child, servers) = (server_name(server), vec![info(server)]);
        past.deliver(Event::Attached {
            child,
            kind: ChildKind::Server,
            journal: u64::from(server) + 1,
            servers,
        })?;
    }
    let waiting = |past: &mut Past<Agent>, number: u32| {
        let record = record(ENDED + number % WAITING, now - Span(3_600), JobState::Queued);
        let child = record.handle.server.clone();
        past.deliver(Event::StatusUpdate { child, sequence: u64::from(number) + 1, record: Box::new(record) })
    };
    for number in 0..WAITING {
        waiting(&mut past, number)?;
    }
    past.commit(&mut *journal)?;
    past.snapshot(&mut *journal)?;
    for number in 0..SINCE_SNAPSHOT {
        waiting(&mut past, WAITING + number)?;
    }
    past.commit(&mut *journal)
}

pub(crate) fn row(record: &JobRecord) -> JobRow {
    JobRow {
        server: record.handle.server.to_string(),
        number: record.handle.number,
        key: Some(record.key.0),
        owner: record.owner.to_string(),
        name: record.name.clone(),
        state: record.state.word().to_owned(),
        submitted: record.submitted.0,
        started: record.started.map(|at| at.0),
        ended: record.ended.unwrap_or(record.submitted).0,
        expected_start: Some(record.expected.start.0),
        expected_completion: Some(record.expected.completion().0),
        record: serde_json::to_string(record).expect("records are plain data with text keys"),
        last_server: record.server().to_string(),
    }
}

/// Asks for single jobs and for lists, and prints how long that took.
async fn ask(operator: &Client, owner: &Client) -> Outcome<()> {
    let mut times = Times::default();
    for question in 0..ASKED {
        let number = question.wrapping_mul(2_654_435_761) % ENDED;
        let handle = Handle { server: server_name(number), number };
        let begun = Instant::now();
        operator.find(&handle).await?;
        times.add(begun.elapsed());
    }
    println!("  one ended job: {}", times.text());
    let all =
        JobsQuery { owner: None, all: true, server: None, states: Vec::new(), limit: 100, before: None };
    let own = JobsQuery { all: false, ..all.clone() };
    let ended = vec![JobState::Completed, JobState::Failed, JobState::Canceled];
    let queries = [
        ("all jobs", operator, all.clone()),
        ("jobs of their owner", owner, own.clone()),
        ("jobs of an owner", operator, JobsQuery { owner: Some("user7".parse()?), ..own }),
        ("jobs of a server", operator, JobsQuery { server: Some(server_name(3)), ..all.clone() }),
        ("failed jobs", operator, JobsQuery { states: vec![JobState::Failed], ..all.clone() }),
        ("waiting jobs", operator, JobsQuery { states: vec![JobState::Queued], ..all.clone() }),
        ("ended jobs", operator, JobsQuery { states: ended, ..all }),
    ];
    for (what, client, query) in queries {
        let mut times = Times::default();
        for _ in 0..ASKED / 5 {
            let begun = Instant::now();
            let found = client.jobs(&query).await?.jobs.len();
            times.add(begun.elapsed());
            if found != 100 {
                return Err(format!("{what}: expected 100, found {found}").into());
            }
        }
        println!("  100 {what}: {}", times.text());
    }
    Ok(())
}

/// Sends the agent status updates of jobs as a server does, and waits until all are acknowledged.
async fn send_updates(agent: &AgentAddress, credentials: Credentials, operator: &Client) -> Outcome<()> {
    let tls = std::sync::Arc::new(ClientTls::load(&credentials)?);
    let identity = Identity::new(Role::Agent, agent.name.as_str())?;
    let channel = channel(&agent.address, &identity, tls, &Timeouts::default());
    let (sender, receiver) = tokio::sync::mpsc::channel(1024);
    let hello = FromChild::Hello {
        name: server_name(0),
        kind: ChildKind::Server,
        journal: 99,
        servers: vec![info(0)],
    };
    sender.send((&hello).into()).await?;
    let mut down = AgentClient::new(channel).attach(ReceiverStream::new(receiver)).await?.into_inner();
    attached(operator, 1).await?;
    let heart = sender.clone();
    let sending = tokio::spawn(async move {
        let now = now();
        for number in 0..MORE_JOBS {
            // Numbers of this server.
            let number_there = (2 * ENDED / SERVERS + number) * SERVERS;
            for (turn, state) in [JobState::Queued, end_state(number)].into_iter().enumerate() {
                let record = Box::new(record(number_there, now, state));
                let sequence = u64::from(2 * number) + turn as u64 + 1;
                sender.send((&FromChild::StatusUpdate { sequence, record }).into()).await?;
            }
        }
        Outcome::Ok(())
    });
    let mut beat = tokio::time::interval(Duration::from_secs(2));
    let mut kept = 0;
    while kept < u64::from(2 * MORE_JOBS) {
        let message = tokio::select! {
            message = down.message() => message?.ok_or("the agent closed the connection")?,
            _ = beat.tick() => {
                heart.send((&FromChild::Heartbeat { now: None, free: Vec::new(), certificate: None, certificates: Vec::new(), drained: Vec::new() }).into()).await?;
                continue;
            }
        };
        if let FromParent::Acknowledge { sequence } = FromParent::try_from(message)? {
            kept = sequence;
        }
    }
    sending.await?
}
