//! A server with 1,000,000 waiting jobs: its memory, its restart, and submissions while it writes a snapshot.

use std::path::Path;
use std::time::{Duration, Instant};

use pliant_control::names::{Key, Token, User};
use pliant_control::replay::Machine;
use pliant_control::server::{Event, Server, ServerConfig, ServerState, Submit};
use pliant_daemon::host::digest;
use pliant_journal::{self as journal, Batch, Entry, Journal, SnapshotPart};
use pliant_model::{Procs, Speed, Time};
use pliant_policy::tuning::Tuner;
use pliant_transport::Role;

use crate::Outcome;
use crate::federation::{Daemons, Federation, attached, now};
use crate::figures::histogram;
use crate::submits::{Fillers, PROCS, fill, submit_for};

const WAITING: u32 = 1_000_000;
/// Entries since the last snapshot, a little fewer than those after which the next one is taken.
const SINCE_SNAPSHOT: u32 = 99_500;
const OWNERS: u32 = 100;
const SERVER: &str = "lyon";
const POLICY: &str = "easy";
/// The bytes of a part of the snapshot.
const PART_BYTES: usize = 1 << 20;
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
    println!("  {snapshots} snapshots before the stop, {:.1} s each", seconds / snapshots);
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
        waiting_per_user: u32::MAX,
    };
    let server = Server::from_state(config, state).map_err(|error| error.to_string())?;
    let mut past = Past { server, at: now(), entries: Vec::new(), sequence: snapshot.seq, begun: 0 };
    let template = template(&mut *journal)?;
    past.submit(&mut *journal, &template, WAITING - SINCE_SNAPSHOT)?;
    let bytes = serde_json::to_vec(&past.server.dump(past.at))?;
    let last = bytes.len().div_ceil(PART_BYTES) - 1;
    for (number, piece) in bytes.chunks(PART_BYTES).enumerate() {
        let (part, is_last) = (u32::try_from(number)?, number == last);
        let (seq, at, bytes) = (past.sequence, past.at.0, piece.to_vec());
        let part = SnapshotPart { seq, at, part, bytes, is_last };
        journal.commit(&Batch { snapshot_part: Some(part), ..Batch::default() })?;
    }
    while journal.trim(i64::MAX)? {}
    past.submit(&mut *journal, &template, SINCE_SNAPSHOT)?;
    Ok(bytes.len())
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

/// A server that lives on in a journal.
struct Past {
    server: Server,
    at: Time,
    entries: Vec<Entry>,
    sequence: u64,
    begun: u32,
}

impl Past {
    /// Submits a job of other users so many times.
    fn submit(&mut self, journal: &mut dyn Journal, template: &Submit, count: u32) -> Outcome<()> {
        for _ in 0..count {
            self.begun += 1;
            let key = Key((u128::from(self.begun) << 64).to_be_bytes());
            let owner: User = format!("owner{}", self.begun % OWNERS).parse()?;
            let submit = Box::new(Submit { key, owner, latest: None, ..template.clone() });
            self.deliver(Event::Submit { reply: Token(0), submit })?;
            if self.entries.len() == AT_ONCE {
                journal.commit(&Batch { entries: std::mem::take(&mut self.entries), ..Batch::default() })?;
            }
        }
        let entries = std::mem::take(&mut self.entries);
        Ok(journal.commit(&Batch { entries, ..Batch::default() })?)
    }

    fn deliver(&mut self, event: Event) -> Outcome<()> {
        let text = serde_json::to_string(&event)?;
        let mut commands = Vec::new();
        self.server.on(self.at, event, &mut commands);
        self.sequence += 1;
        let commands = digest::<Server>(&commands);
        self.entries.push(Entry { seq: self.sequence, at: self.at.0, event: text, commands });
        Ok(())
    }
}
