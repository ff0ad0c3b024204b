//! A server that runs very many short jobs in compressed time: the size of its journal.
//!
//! The machine of a server takes a submission every so often and ends each job half a minute after its start. What it keeps is committed,
//! snapshots are written and old rows are deleted as a daemon does, by the clock of the run and with the lifetimes that are defaults. The
//! folders of jobs are not part of it: they are removed `results_days` after their jobs.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use pliant_control::batch;
use pliant_control::job::{Exit, JobRecord, Work};
use pliant_control::names::{Key, Token};
use pliant_control::payload::Payload;
use pliant_control::reason::DiscoverySummary;
use pliant_control::server::{Command, Event, Server, ServerConfig, Submit, WaitingLimits};
use pliant_control::signed::{Claim, Digest, Signature, SignedClaim};
use pliant_daemon::host::Settings;
use pliant_journal::{self as journal, AuditRow, Batch, Durability, Journal, StatusUpdate};
use pliant_model::{JobId, Procs, Span, Speed, Speedup, Time};
use pliant_policy::tuning::Tuner;
use serde::Serialize;

use crate::Outcome;
use crate::archive;
use crate::past::Past;

/// How many jobs without `--jobs`.
pub(crate) const JOBS: u32 = 1_000_000;
const DAYS: i64 = 1_000;
const DAY_S: i64 = 86_400;
/// How often the size is printed.
const MARKS: u32 = 20;
const RUNTIME: Span = Span(30);
const USERS: u32 = 50;
/// Submissions between two commits.
const AT_ONCE: u32 = 200;
const SCRIPT_BYTES: usize = 1_000;
/// The sizes of what a user's client signs with (ECDSA P-256).
const SIGNATURE_BYTES: usize = 71;
const CERTIFICATE_BYTES: usize = 600;

pub(crate) fn measure(dir: &Path, jobs: u32) -> Outcome<()> {
    let folder = tempfile::tempdir_in(dir)?;
    let begun = Instant::now();
    let mut life = Life::new(folder.path())?;
    println!("retention: a server that ran {jobs} jobs in {DAYS} days");
    println!("       jobs   day  rows of jobs  state folder  longest trim");
    let interval_s = DAYS as f64 * DAY_S as f64 / f64::from(jobs);
    for number in 1..=jobs {
        life.advance(Time((f64::from(number) * interval_s) as i64))?;
        life.submit(number)?;
        if number.is_multiple_of(AT_ONCE) || number == jobs {
            life.commit()?;
        }
        if number.is_multiple_of((jobs / MARKS).max(1)) {
            let rows = life.journal.archive()?.ended()?;
            let bytes = folder_bytes(folder.path())?;
            let (day, trim) = (life.past.at.0 / DAY_S, std::mem::take(&mut life.longest_trim));
            println!(
                "{number:>11} {day:>5} {rows:>13} {:>10.1} MB {:>10.0} ms",
                bytes as f64 / 1e6,
                trim.as_secs_f64() * 1e3
            );
        }
    }
    drop(life);
    let bytes = folder_bytes(folder.path())? as f64 / 1e6;
    println!("  {bytes:.1} MB once it is closed; the run took {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

/// A server's machine with its journal.
struct Life {
    past: Past<Server>,
    journal: Box<dyn Journal>,
    settings: Settings,
    batch: Batch,
    next_update: u64,
    /// The jobs that run, and when they end.
    running: Vec<(Time, JobId)>,
    snapshot: u64,
    longest_trim: Duration,
}

impl Life {
    fn new(folder: &Path) -> Outcome<Life> {
        let config = ServerConfig {
            name: "lyon".parse()?,
            address: "127.0.0.1:1".to_owned(),
            procs: Procs(64),
            speed: Speed::REFERENCE,
            policy: "easy".to_owned(),
            tuner: Tuner::default(),
            waiting: WaitingLimits::of_jobs(u32::MAX),
            host: None,
        };
        let server = Server::new(config, Time(0)).map_err(|error| error.to_string())?;
        Ok(Life {
            past: Past::new(server, Time(0), 0),
            // Nothing here needs the disk to keep it.
            journal: journal::open_sqlite_for(folder, Durability::Process)?,
            settings: Settings::default(),
            batch: Batch::default(),
            next_update: 1,
            running: Vec::new(),
            snapshot: 0,
            longest_trim: Duration::ZERO,
        })
    }

    /// Starts and ends what is due until then.
    fn advance(&mut self, until: Time) -> Outcome<()> {
        loop {
            let end = self.running.iter().min().copied();
            let due = self.past.machine.next_due();
            let next = end.map(|(at, _)| at).into_iter().chain(due).min();
            let Some(next) = next.filter(|next| *next <= until) else { break };
            self.past.at = self.past.at.max(next);
            match end.filter(|(at, _)| *at <= next) {
                Some((at, job)) => {
                    self.running.retain(|running| *running != (at, job));
                    let elapsed_ms = Some(RUNTIME.0.unsigned_abs() * 1000);
                    let ended = batch::Event::Ended { job, exit: Exit::Code(0), elapsed_ms };
                    self.deliver(Event::Batch(ended))?;
                }
                None => self.deliver(Event::Due)?,
            }
        }
        self.past.at = until;
        Ok(())
    }

    fn submit(&mut self, number: u32) -> Outcome<()> {
        let (key, owner) =
            (Key(u128::from(number).to_be_bytes()), format!("user{}", number % USERS).parse()?);
        let claim = Claim {
            owner,
            key,
            digest: Digest([1; 32]),
            audience: "lyon".parse()?,
            made: self.past.at,
            lifetime: Span(3_600),
        };
        let signature =
            Signature { bytes: vec![1; SIGNATURE_BYTES], certificate: vec![1; CERTIFICATE_BYTES] };
        let submit = Submit {
            key,
            owner: claim.owner.clone(),
            name: "short.sh".to_owned(),
            work: Work::new(Procs(1), Span(600), Speedup::Rigid),
            own_time: false,
            pinned: false,
            latest: None,
            compared: Vec::new(),
            discovery: DiscoverySummary::default(),
            payload: Payload::of(&"x".repeat(SCRIPT_BYTES)),
            sample: None,
            claim: Some(Box::new(SignedClaim { claim, signature })),
        };
        self.deliver(Event::Submit { reply: Token(0), submit: Box::new(submit) })?;
        self.advance(self.past.at)
    }

    /// Hands an event to the machine, and adds to the batch what a server keeps of what follows.
    fn deliver(&mut self, event: Event) -> Outcome<()> {
        for command in self.past.deliver(event)? {
            match command {
                Command::Report(record) => {
                    let body = json(&record)?;
                    self.batch.status_updates.push(StatusUpdate { seq: self.next_update, body });
                    self.next_update += 1;
                }
                Command::Archive(record) => self.archive(&record),
                Command::Audit(record) => {
                    self.batch.audit.push(AuditRow { at: record.at.0, record: json(&record)? });
                }
                Command::Batch(batch::Command::Run(run)) => {
                    self.running.push((self.past.at + RUNTIME, run.job));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn archive(&mut self, record: &JobRecord) {
        self.batch.ended.push(archive::row(record));
    }

    /// Commits what has gathered. The parent has acknowledged the status updates before.
    fn commit(&mut self) -> Outcome<()> {
        let entries = std::mem::take(&mut self.past.entries);
        let first = self.batch.status_updates.first().map_or(self.next_update, |update| update.seq);
        let batch = std::mem::take(&mut self.batch);
        self.journal.commit(&Batch { entries, updates_acknowledged: Some(first - 1), ..batch })?;
        if self.past.sequence >= self.snapshot + self.settings.snapshot_every {
            self.past.snapshot(&mut *self.journal)?;
            self.snapshot = self.past.sequence;
        }
        loop {
            let begun = Instant::now();
            let is_more = self.journal.trim(&self.settings.keep_from(self.past.at, 0), None)?;
            self.longest_trim = self.longest_trim.max(begun.elapsed());
            if !is_more {
                return Ok(());
            }
        }
    }
}

fn json(record: &impl Serialize) -> Outcome<String> {
    Ok(serde_json::to_string(record)?)
}

/// The bytes of the files of a folder.
fn folder_bytes(folder: &Path) -> Outcome<u64> {
    let mut bytes = 0;
    for file in fs::read_dir(folder)? {
        bytes += file?.metadata()?.len();
    }
    Ok(bytes)
}
