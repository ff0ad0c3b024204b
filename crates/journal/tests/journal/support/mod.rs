//! Locations of test journals, and records to put into them.

pub(crate) mod model;
pub(crate) mod proxy;
pub(crate) mod scenarios;

use std::path::{Path, PathBuf};

use pliant_journal::{
    Batch, Entry, JobRow, Journal, JournalError, KeepFrom, SnapshotPart, StatusUpdate, open_postgres,
    open_sqlite,
};
use pliant_testing::postgres::Database;
use tempfile::TempDir;

/// A location of one journal.
pub(crate) trait Storage {
    /// Opens the journal there.
    fn open(&self) -> Result<Box<dyn Journal>, JournalError> {
        open_address(&self.address())
    }

    /// The address by which another process opens it.
    fn address(&self) -> String;

    /// Runs SQL on the tables without the journal.
    fn tamper(&self, text: &str);
}

/// Opens the journal at an address.
pub(crate) fn open_address(address: &str) -> Result<Box<dyn Journal>, JournalError> {
    match address.split_once(':').unwrap() {
        ("sqlite", folder) => open_sqlite(Path::new(folder)),
        ("postgres", connection) => open_postgres(connection),
        (kind, _) => panic!("no kind of journal: {kind}"),
    }
}

/// All that a restart reads.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Whole {
    pub(crate) snapshot: Option<Taken>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) status_updates: Vec<u64>,
    pub(crate) next_update: u64,
}

/// A snapshot with its state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    pub(crate) seq: u64,
    pub(crate) at: i64,
    pub(crate) state: String,
}

impl Taken {
    /// The snapshot in parts of at most so many bytes.
    pub(crate) fn parts(&self, bytes: usize) -> Vec<SnapshotPart> {
        let pieces: Vec<&[u8]> = self.state.as_bytes().chunks(bytes).collect();
        let part = |(number, piece): (usize, &&[u8])| SnapshotPart {
            seq: self.seq,
            at: self.at,
            part: u32::try_from(number).unwrap(),
            bytes: piece.to_vec(),
            is_last: number + 1 == pieces.len(),
        };
        pieces.iter().enumerate().map(part).collect()
    }
}

/// Reads a journal as a restart does, in small pages.
pub(crate) fn whole(journal: &mut dyn Journal) -> Result<Whole, JournalError> {
    let loaded = journal.load()?;
    let mut snapshot = None;
    if let Some(taken) = loaded.snapshot {
        let parts = (0..taken.parts).map(|part| journal.snapshot_part(taken.seq, part));
        let bytes = parts.collect::<Result<Vec<_>, _>>()?.concat();
        let state = String::from_utf8(bytes).unwrap();
        snapshot = Some(Taken { seq: taken.seq, at: taken.at, state });
    }
    let mut last = snapshot.as_ref().map_or(0, |taken| taken.seq);
    let mut entries = Vec::new();
    loop {
        let page = journal.entries(last, 700)?;
        let Some(end) = page.last() else { break };
        last = end.seq;
        entries.extend(page);
    }
    assert_eq!(last, loaded.last_entry);
    Ok(Whole { snapshot, entries, status_updates: loaded.status_updates, next_update: loaded.next_update })
}

/// Puts a snapshot into a journal, in two parts or one, and deletes what it makes superfluous.
pub(crate) fn compact(
    journal: &mut dyn Journal,
    snapshot: &Taken,
    keep_from: i64,
) -> Result<bool, JournalError> {
    for part in snapshot.parts(snapshot.state.len().div_ceil(2)) {
        journal.commit(&Batch { snapshot_part: Some(part), ..Batch::default() })?;
    }
    journal.trim(&entries_from(keep_from), None)
}

/// Keeps entries from that time on, and all jobs and records.
pub(crate) fn entries_from(entries: i64) -> KeepFrom {
    KeepFrom { entries, first_entry: 0, jobs: i64::MIN, audit: i64::MIN }
}

/// A temporary folder.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(TempDir::new().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.path().join("journal.db")
    }
}

impl Storage for Folder {
    fn address(&self) -> String {
        format!("sqlite:{}", self.0.path().display())
    }

    fn tamper(&self, text: &str) {
        rusqlite::Connection::open(self.file()).unwrap().execute_batch(text).unwrap();
    }
}

impl Storage for Database {
    fn address(&self) -> String {
        format!("postgres:{}", self.connection())
    }

    fn tamper(&self, text: &str) {
        self.query(text);
    }
}

/// An entry whose time is its number.
pub(crate) fn entry(seq: u64) -> Entry {
    // Hashes use all bits.
    Entry {
        seq,
        at: seq as i64,
        event: format!("{{\"event\":{seq}}}"),
        commands: seq.wrapping_mul(u64::MAX / 3),
    }
}

pub(crate) fn entries(from: u64, to: u64) -> Vec<Entry> {
    (from..=to).map(entry).collect()
}

pub(crate) fn status_updates(from: u64, to: u64) -> Vec<StatusUpdate> {
    (from..=to).map(|seq| StatusUpdate { seq, body: format!("update {seq}") }).collect()
}

/// A batch with only entries.
pub(crate) fn entry_batch(from: u64, to: u64) -> Batch {
    Batch { entries: entries(from, to), ..Batch::default() }
}

/// A completed job, one second later than promised.
pub(crate) fn job(server: &str, number: u32, ended: i64) -> JobRow {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&number.to_be_bytes());
    key[4..][..server.len()].copy_from_slice(server.as_bytes());
    JobRow {
        server: server.to_owned(),
        number,
        key: Some(key),
        owner: "ada".to_owned(),
        name: "matrix".to_owned(),
        state: "completed".to_owned(),
        submitted: ended - 100,
        started: Some(ended - 50),
        ended,
        expected_start: Some(ended - 50),
        expected_completion: Some(ended - 1),
        record: format!("{{\"zeichen\":\"ä{number}\"}}"),
        last_server: server.to_owned(),
    }
}
