//! A server with 1,000,000 waiting jobs: its memory, its restart, and submissions while it writes a snapshot.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use pliant_control::names::{Key, Token, User};
use pliant_control::server::{Event, Server, ServerConfig, ServerState, Submit, WaitingLimits};
use pliant_journal::{self as journal, Journal, KeepFrom};
use pliant_model::{Procs, Speed};
use pliant_policy::tuning::Tuner;
use pliant_transport::Role;

use crate::Outcome;
use crate::federation::{Daemons, Federation, attached, now};
use crate::figures::histogram;
use crate::past::Past;
use crate::submits::{Fillers, PROCS, fill, submit_for};

const WAITING: u32 = 1_000_000;
/// Entries since the last snapshot, a little fewer than those after which the next one is taken.
const SINCE_SNAPSHOT: u32 = 99_500;
const OWNERS: u32 = 100;
const SERVER: &str = "lyon";
const POLICY: &str = "easy";
/// How many entries one commit has.
const AT_ONCE: usize = 10_000;

pub(crate) async fn measure(dir: &Path, time: Duration) -> Outcome<()> {
    let federation = Federation::new(dir)?;
    let fillers = Fillers(vec![federation.path(SERVER)]);
    let agent = Daemons::start(&[federation.agent("master", None)?])?;
    let address = agent.addresses[0].clone();
    let file = federation.server(SERVER, &address, &format!("procs = {PROCS}\nbatch = \"{POLICY}\""))?;
    let operator = federation.client(Role::Operator, "operator", &address)?;
    let client = federation.client(Role::User, "user0", &address)?;
    let server = Daemons::start(std::slice::from_ref(&file))?;
    attached(&operator, 1).await?;
    fill(&operator, &[SERVER]).await?;
    let (mut times, _) = submit_for(std::slice::from_ref(&client), 1, Duration::from_secs(3)).await?;
    println!(
        "backlog: one user after another submits to a server; {} jobs wait: {}",
        times.len(),
        times.text()
    );
    drop(server);

    let begun = Instant::now();
    let folder = federation.path(SERVER).join("state");
    let bytes = write_past(&folder)?;
    let size_mb = std::fs::metadata(folder.join("journal.db"))?.len() / 1_000_000;
    println!(
        "  {WAITING} waiting jobs written in {:.0} s: a snapshot of {} MB and {SINCE_SNAPSHOT} entries, {size_mb} MB",
        begun.elapsed().as_secs_f64(),
        bytes / 1_000_000
    );
    let server = Daemons::start(std::slice::from_ref(&file))?;
    let (present, most) = server.cost()?.resident_mb;
    println!(
        "  ready {:.1} s after its start; {present} MB, {most} MB at most",
        server.started_in.as_secs_f64()
    );
    attached(&operator, 1).await?;
    // The snapshot is begun meanwhile.
    let (mut times, failed) = submit_for(std::slice::from_ref(&client), 1, time).await?;
    println!("  submissions meanwhile: {}, {failed} failed: {}", times.len(), times.text());
    let (present, most) = server.cost()?.resident_mb;
    let begun = Instant::now();
    let metrics = server.stop()?;
    println!("  {present} MB, {most} MB at most; stopped in {:.1} s", begun.elapsed().as_secs_f64());
    let (seconds, snapshots) = histogram(&metrics, "pliant_journal_snapshot_seconds");
    let each = if snapshots > 0.0 { format!(", {:.1} s each", seconds / snapshots) } else { String::new() };
    println!("  {snapshots} snapshots before the stop{each}");
    drop(fillers);
    Ok(())
}

/// Makes the server's past longer. Returns the bytes of the snapshot.
fn write_past(folder: &Path) -> Outcome<usize> {
    let mut journal = journal::open_sqlite(folder)?;
    let loaded = journal.load()?;
    let snapshot = loaded.snapshot.ok_or("expected a snapshot of the stopped server")?;
    let parts = (0..snapshot.parts).map(|part| journal.snapshot_part(snapshot.seq, part));
    let state: ServerState = serde_json::from_slice(&parts.collect::<Result<Vec<_>, _>>()?.concat())?;
    let config = ServerConfig {
        name: SERVER.parse()?,
        address: "127.0.0.1:1".to_owned(),
        procs: Procs(PROCS),
        speed: Speed::REFERENCE,
        policy: POLICY.to_owned(),
        tuner: Tuner::default(),
        waiting: WaitingLimits::of_jobs(u32::MAX),
        host: None,
    };
    let server = Server::from_state(config, state).map_err(|error| error.to_string())?;
    let mut past = Past::new(server, now(), snapshot.seq);
    let template = template(&mut *journal)?;
    submit(&mut past, &mut *journal, &template, 0..WAITING - SINCE_SNAPSHOT)?;
    let bytes = past.snapshot(&mut *journal)?;
    let keep_from = KeepFrom { entries: i64::MAX, first_entry: 0, jobs: i64::MIN, audit: i64::MIN };
    while journal.trim(&keep_from, None)? {}
    submit(&mut past, &mut *journal, &template, WAITING - SINCE_SNAPSHOT..WAITING)?;
    Ok(bytes)
}

/// A submission that the server has accepted.
fn template(journal: &mut dyn Journal) -> Outcome<Submit> {
    for entry in journal.entries(0, 1_000)?.into_iter().rev() {
        if let Event::Submit { submit, .. } = serde_json::from_str(&entry.event)? {
            return Ok(*submit);
        }
    }
    Err("expected a submission in the journal".into())
}

/// Submits jobs of other users, with these numbers.
fn submit(
    past: &mut Past<Server>,
    journal: &mut dyn Journal,
    template: &Submit,
    numbers: Range<u32>,
) -> Outcome<()> {
    for number in numbers {
        let key = Key(((u128::from(number) + 1) << 64).to_be_bytes());
        let owner: User = format!("owner{}", number % OWNERS).parse()?;
        let submit = Box::new(Submit { key, owner, latest: None, ..template.clone() });
        past.deliver(Event::Submit { reply: Token(0), submit })?;
        if past.entries.len() == AT_ONCE {
            past.commit(journal)?;
        }
    }
    past.commit(journal)
}
