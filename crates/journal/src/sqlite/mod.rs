//! The journal in SQLite: a write-ahead log that is synced at each commit, or when its pages go into the file.

mod archive;
mod rows;
mod schema;
#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use rustix::fs::{FlockOperation, flock};

use self::archive::SqliteArchive;
use self::rows::{entry, failed};
use super::sequence::{Fresh, Tail, same};
use super::{
    Archive, Batch, DROPPED_AT_ONCE, Durability, Entry, JobRow, Journal, JournalError, Loaded, LocalRow,
    Notice, Snapshot, of_owner,
};

/// A journal in a folder.
pub(super) struct Sqlite {
    connection: Connection,
    path: PathBuf,
    id: u64,
    tail: Tail,
    /// Held as long as the journal is open: one daemon at a time. Dropped last.
    _lock: File,
}

impl Sqlite {
    pub(super) fn open(folder: &Path, durability: Durability) -> Result<Sqlite, JournalError> {
        let unusable = |source| JournalError::Folder { path: folder.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unusable)?;
        let lock = lock(folder)?;
        let path = folder.join("journal.db");
        if !path.try_exists().map_err(unusable)? {
            if folder.join("journal.db-wal").try_exists().map_err(unusable)? {
                let why = "its log (journal.db-wal) is there, it is not".to_owned();
                return Err(JournalError::Damaged { place: path.display().to_string(), why });
            }
            schema::make(folder, &path)?;
        }
        let connection = schema::open(&path, durability)?;
        let (id, tail) = schema::about(&connection).map_err(|error| failed(&path, &error))?;
        Ok(Sqlite { connection, path, id, tail, _lock: lock })
    }

    /// Runs `work` in a transaction: all of it is done, durably, or nothing.
    fn transact<A>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<A>,
    ) -> Result<A, JournalError> {
        // Dropped without a commit, a transaction is rolled back.
        let done = self.connection.transaction().and_then(|transaction| {
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        });
        done.map_err(|error| failed(&self.path, &error))
    }

    fn read(&mut self) -> rusqlite::Result<(Tail, Loaded)> {
        let transaction = self.connection.transaction()?;
        let (_, tail) = schema::about(&transaction)?;
        let snapshot = transaction
            .query_row("SELECT seq, at, state FROM snapshots ORDER BY seq DESC LIMIT 1", [], |row| {
                Ok(Snapshot { seq: row.get::<_, i64>(0)? as u64, at: row.get(1)?, state: row.get(2)? })
            })
            .optional()?;
        let after = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq) as i64;
        let entries = transaction
            .prepare("SELECT seq, at, event, commands FROM entries WHERE seq > ? ORDER BY seq")?
            .query_map([after], entry)?
            .collect::<rusqlite::Result<_>>()?;
        let notices = transaction
            .prepare("SELECT seq FROM notices ORDER BY seq")?
            .query_map([], |row| row.get::<_, i64>(0).map(|seq| seq as u64))?
            .collect::<rusqlite::Result<_>>()?;
        Ok((tail, Loaded { snapshot, entries, notices, next_notice: tail.next_notice }))
    }

    /// The entry with the number of the last one of a batch.
    fn last_of(&self, batch: &Batch) -> Result<Option<Entry>, JournalError> {
        let seq = batch.entries.last().map_or(0, |entry| entry.seq) as i64;
        let text = "SELECT seq, at, event, commands FROM entries WHERE seq = ?";
        let found = self.connection.query_row(text, [seq], entry).optional();
        found.map_err(|error| failed(&self.path, &error))
    }
}

impl Journal for Sqlite {
    fn id(&self) -> u64 {
        self.id
    }

    fn claim(&mut self, owner: &str) -> Result<(), JournalError> {
        let found: String = self.transact(|transaction| {
            transaction.execute("UPDATE about SET owner = ? WHERE owner IS NULL", [owner])?;
            transaction.query_row("SELECT owner FROM about", [], |row| row.get(0))
        })?;
        of_owner(&self.path.display().to_string(), owner, found)
    }

    fn load(&mut self) -> Result<Loaded, JournalError> {
        let (tail, loaded) = self.read().map_err(|error| failed(&self.path, &error))?;
        tail.check(&self.path.display().to_string(), &loaded)?;
        self.tail = tail;
        Ok(loaded)
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let Some(fresh) = self.tail.fresh(batch)? else {
            return same(batch, self.last_of(batch)?.as_ref());
        };
        self.transact(|transaction| write(transaction, batch, &fresh))?;
        self.tail = fresh.tail;
        Ok(())
    }

    fn compact(&mut self, snapshot: &Snapshot, keep_after: i64) -> Result<bool, JournalError> {
        self.tail.covers(snapshot.seq)?;
        self.transact(|transaction| {
            transaction.execute(
                "INSERT INTO snapshots (seq, at, state) VALUES (?, ?, ?) \
                 ON CONFLICT (seq) DO UPDATE SET at = excluded.at, state = excluded.state",
                params![snapshot.seq as i64, snapshot.at, snapshot.state],
            )?;
            transaction.execute("DELETE FROM snapshots WHERE seq < (SELECT max(seq) FROM snapshots)", [])?;
            trim(transaction, keep_after)
        })
    }

    fn trim(&mut self, keep_after: i64) -> Result<bool, JournalError> {
        self.transact(|transaction| trim(transaction, keep_after))
    }

    fn archive(&self) -> Result<Box<dyn Archive>, JournalError> {
        Ok(Box::new(SqliteArchive::open(&self.path)?))
    }
}

/// Makes sure that no other daemon uses the folder, as long as the file is open.
fn lock(folder: &Path) -> Result<File, JournalError> {
    let unusable = |source| JournalError::Folder { path: folder.to_owned(), source };
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    let mut file = options.open(folder.join("lock")).map_err(unusable)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(error) if error == rustix::io::Errno::WOULDBLOCK => {
            let mut text = String::new();
            let process = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(JournalError::Taken { place: folder.display().to_string(), process });
        }
        Err(error) => return Err(unusable(error.into())),
    }
    // Only for people: on a full disk it does without.
    let _ = name_process(&mut file);
    Ok(file)
}

fn name_process(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Makes the names in a folder durable.
fn sync(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

fn write(transaction: &Transaction<'_>, batch: &Batch, fresh: &Fresh<'_>) -> rusqlite::Result<()> {
    let mut entries =
        transaction.prepare_cached("INSERT INTO entries (seq, at, event, commands) VALUES (?, ?, ?, ?)")?;
    for Entry { seq, at, event, commands } in fresh.entries {
        entries.execute(params![*seq as i64, at, event, *commands as i64])?;
    }
    let mut notices = transaction.prepare_cached("INSERT INTO notices (seq, body) VALUES (?, ?)")?;
    for Notice { seq, body } in fresh.notices {
        notices.execute(params![*seq as i64, body])?;
    }
    if let Some(seq) = batch.notices_acknowledged {
        transaction.prepare_cached("DELETE FROM notices WHERE seq <= ?")?.execute([seq as i64])?;
    }
    write_jobs(transaction, &batch.ended)?;
    let mut locals = transaction.prepare_cached("INSERT INTO local_jobs (ended, record) VALUES (?, ?)")?;
    for LocalRow { ended, record } in &batch.locals {
        locals.execute(params![ended, record])?;
    }
    let Tail { last_entry, next_notice } = fresh.tail;
    transaction
        .prepare_cached("UPDATE about SET last_entry = ?, next_notice = ?")?
        .execute([last_entry as i64, next_notice as i64])?;
    Ok(())
}

fn write_jobs(transaction: &Transaction<'_>, jobs: &[JobRow]) -> rusqlite::Result<()> {
    let mut upsert = transaction.prepare_cached(schema::UPSERT_JOB)?;
    for job in jobs {
        upsert.execute(params![
            job.server,
            job.number,
            job.key,
            job.owner,
            job.name,
            job.state,
            job.submitted,
            job.started,
            job.ended,
            job.expected_start,
            job.expected_completion,
            job.record,
            job.last_server,
        ])?;
    }
    Ok(())
}

/// Drops the oldest entries, those before the first one, among the next few, that is to be kept; and runs of local users'
/// jobs.
fn trim(transaction: &Transaction<'_>, keep_after: i64) -> rusqlite::Result<bool> {
    let locals = "DELETE FROM local_jobs WHERE seq IN \
                  (SELECT seq FROM local_jobs WHERE ended < ? ORDER BY ended, seq LIMIT ?)";
    transaction.prepare_cached(locals)?.execute(params![keep_after, DROPPED_AT_ONCE as i64])?;
    let first: Option<i64> = transaction.query_row("SELECT min(seq) FROM entries", [], |row| row.get(0))?;
    let snapshot: Option<i64> =
        transaction.query_row("SELECT max(seq) FROM snapshots", [], |row| row.get(0))?;
    let (Some(first), Some(snapshot)) = (first, snapshot) else { return Ok(false) };
    let end = (first + DROPPED_AT_ONCE as i64).min(snapshot + 1);
    let kept: Option<i64> = transaction
        .prepare_cached(
            "SELECT seq FROM entries WHERE seq >= ? AND seq < ? AND at >= ? ORDER BY seq LIMIT 1",
        )?
        .query_row([first, end, keep_after], |row| row.get(0))
        .optional()?;
    let end = kept.unwrap_or(end);
    transaction.prepare_cached("DELETE FROM entries WHERE seq < ?")?.execute([end])?;
    transaction
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM entries WHERE seq = ? AND seq <= ? AND at < ?)")?
        .query_row([end, snapshot, keep_after], |row| row.get(0))
}
