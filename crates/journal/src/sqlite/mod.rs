//! The journal in SQLite: a write-ahead log, synced at each commit or when its pages go into the file.

mod free_pages;
mod reserve;
mod schema;
mod statements;
#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, Transaction, params};
use rustix::fs::{FlockOperation, flock};

use self::reserve::Reserve;
use self::statements::{SqliteReader, SqliteStatements, failed};
use crate::archive::Reader;
use crate::database::Statements;
use crate::listing::JOB_COLUMNS;
use crate::queries::{self, REPLACE_JOB};
use crate::sequence::{Fresh, Tail};
use crate::{
    Archive, AuditRow, Batch, Durability, Entry, Inodes, JobRow, Journal, JournalError, KeepFrom, Loaded,
    LocalJobRow, StatusUpdate, check_owner, trim,
};

/// A journal in a folder.
pub(super) struct Sqlite {
    connection: Connection,
    path: PathBuf,
    id: u64,
    tail: Tail,
    /// None if it is open for reading only.
    reserve: Option<Reserve>,
    /// What the journal as a whole survives, and what the next commit would.
    durability: (Durability, Durability),
    /// Locked while the journal is open for writing. Dropped last.
    _lock: Option<File>,
}

impl Sqlite {
    pub(super) fn open(folder: &Path, durability: Durability) -> Result<Sqlite, JournalError> {
        let unusable = |source| JournalError::Folder { path: folder.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unusable)?;
        let lock = lock(folder)?;
        let path = folder.join("journal.db");
        if !path.try_exists().map_err(unusable)? {
            if folder.join("journal.db-wal").try_exists().map_err(unusable)? {
                let why = "found its log (journal.db-wal) without it".to_owned();
                return Err(JournalError::Damaged { location: path.display().to_string(), why });
            }
            schema::create(folder, &path)?;
        }
        let connection = schema::open(&path, durability)?;
        let (id, tail) = schema::metadata(&connection).map_err(|error| failed(&path, &error))?;
        let reserve = Reserve::new(&path)?;
        free_pages::convert(&path, &connection, reserve.free_bytes()?);
        let durability = (durability, durability);
        Ok(Sqlite { connection, path, id, tail, reserve: Some(reserve), durability, _lock: Some(lock) })
    }

    /// Opens the journal of a folder for reading; none if there is none. Another process may write it meanwhile.
    pub(super) fn open_read_only(folder: &Path) -> Result<Option<Sqlite>, JournalError> {
        let path = folder.join("journal.db");
        let exists = path.try_exists();
        if !exists.map_err(|source| JournalError::Folder { path: folder.to_owned(), source })? {
            return Ok(None);
        }
        let connection = schema::open_read_only(&path).map_err(|error| failed(&path, &error))?;
        schema::check(&path, &connection)?;
        let (id, tail) = schema::metadata(&connection).map_err(|error| failed(&path, &error))?;
        let durability = (Durability::Power, Durability::Power);
        Ok(Some(Sqlite { connection, path, id, tail, reserve: None, durability, _lock: None }))
    }

    /// Has the next commits survive what a batch asks for, and what the journal as a whole does.
    fn set_durability(&mut self, wanted: Durability) -> Result<(), JournalError> {
        let (least, present) = self.durability;
        // The weaker of both.
        let wanted = wanted.max(least);
        if wanted != present {
            schema::set_durability(&self.connection, wanted).map_err(|error| failed(&self.path, &error))?;
            self.durability.1 = wanted;
        }
        Ok(())
    }

    /// Runs `work` in a transaction, which is committed if `work` succeeds and rolled back otherwise.
    fn transact<A>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut dyn Statements) -> Result<A, JournalError>,
    ) -> Result<A, JournalError> {
        let path = &self.path;
        let failed = |error| failed(path, &error);
        let transaction = self.connection.transaction().map_err(failed)?;
        let done = work(&transaction, &mut SqliteStatements { connection: &transaction, path })?;
        transaction.commit().map_err(failed)?;
        Ok(done)
    }
}

impl Journal for Sqlite {
    fn id(&self) -> u64 {
        self.id
    }

    fn claim(&mut self, owner: &str) -> Result<(), JournalError> {
        let found = self.transact(|_, db| queries::claim(db, owner))?;
        check_owner(&self.path.display().to_string(), owner, found)
    }

    fn load(&mut self) -> Result<Loaded, JournalError> {
        let path = self.path.clone();
        let (tail, loaded) = self.transact(|transaction, db| {
            let (_, tail) = schema::metadata(transaction).map_err(|error| failed(&path, &error))?;
            Ok((tail, queries::load(db, tail)?))
        })?;
        self.tail = tail;
        Ok(loaded)
    }

    fn snapshot_part(&mut self, seq: u64, part: u32) -> Result<Vec<u8>, JournalError> {
        self.transact(|_, db| queries::snapshot_part(db, seq, part))
    }

    fn entries(&mut self, after: u64, limit: u32) -> Result<Vec<Entry>, JournalError> {
        self.transact(|_, db| queries::entries(db, after + 1, limit))
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError> {
        let Some(fresh) = self.tail.fresh(batch)? else {
            return self.transact(|_, db| queries::check_repeated(db, batch));
        };
        let path = self.path.clone();
        self.set_durability(batch.durability)?;
        self.transact(|transaction, db| {
            write(transaction, batch, &fresh).map_err(|error| failed(&path, &error))?;
            batch.snapshot_part.as_ref().map_or(Ok(()), |part| queries::store_part(db, part))
        })?;
        self.tail = fresh.tail;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        if self.reserve.is_none() {
            // It is open for reading: nothing was written through it.
            return Ok(());
        }
        let path = self.path.clone();
        self.set_durability(Durability::Power)?;
        // A commit syncs the whole log, those of others before it included.
        self.transact(|transaction, _| {
            let written = transaction.execute("UPDATE metadata SET last_entry = last_entry", []);
            written.map(drop).map_err(|error| failed(&path, &error))
        })
    }

    /// The folder is locked as long as the journal is open.
    fn check_leader(&mut self) -> Result<(), JournalError> {
        Ok(())
    }

    fn trim(&mut self, keep_from: &KeepFrom, writing: Option<u64>) -> Result<bool, JournalError> {
        let more_rows = self.transact(|_, db| trim::trim(db, keep_from, writing))?;
        let more_pages =
            free_pages::give_back(&self.connection).map_err(|error| failed(&self.path, &error))?;
        Ok(more_rows || more_pages)
    }

    fn reserve(&mut self, bytes: u64) -> Result<(), JournalError> {
        match &self.reserve {
            Some(reserve) => reserve.allocate(&self.connection, bytes),
            None => Ok(()),
        }
    }

    fn free_bytes(&self) -> Result<Option<u64>, JournalError> {
        self.reserve.as_ref().map(Reserve::free_bytes).transpose()
    }

    fn inodes(&self) -> Result<Option<Inodes>, JournalError> {
        Ok(self.reserve.as_ref().map(Reserve::inodes).transpose()?.flatten())
    }

    fn stored_bytes(&self) -> Result<Option<u64>, JournalError> {
        self.reserve.as_ref().map(Reserve::stored_bytes).transpose()
    }

    fn archive(&self) -> Result<Box<dyn Archive>, JournalError> {
        Ok(Box::new(Reader(SqliteReader::open(&self.path, self.reserve.as_ref().map(Reserve::index))?)))
    }
}

/// Copies a journal to an empty file in one transaction, and returns its owner.
pub(super) fn back_up(folder: &Path, to: &Path) -> Result<Option<String>, JournalError> {
    let path = folder.join("journal.db");
    let failed = |error: rusqlite::Error| failed(&path, &error);
    let connection = schema::open_read_only(&path).map_err(failed)?;
    schema::check(&path, &connection)?;
    let unnamed = || JournalError::Folder {
        path: to.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, "expected a path in UTF-8"),
    };
    let name = to.to_str().ok_or_else(unnamed)?;
    connection.execute("VACUUM INTO ?", [name]).map_err(failed)?;
    let copy = schema::open_read_only(to).map_err(failed)?;
    schema::check(to, &copy)?;
    copy.query_row("SELECT owner FROM metadata", [], |row| row.get(0)).map_err(failed)
}

/// Locks the folder against other daemons while the returned file is open.
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
            return Err(JournalError::Taken { location: folder.display().to_string(), process });
        }
        Err(error) => return Err(unusable(error.into())),
    }
    // Only used in messages: a full disk must not prevent the lock.
    let _ = write_process_id(&mut file);
    Ok(file)
}

fn write_process_id(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Syncs the names in a folder to the disk.
fn sync(folder: &Path) -> io::Result<()> {
    fs::File::open(folder)?.sync_all()
}

fn write(transaction: &Transaction<'_>, batch: &Batch, fresh: &Fresh<'_>) -> rusqlite::Result<()> {
    let mut entries =
        transaction.prepare_cached("INSERT INTO entries (seq, at, event, commands) VALUES (?, ?, ?, ?)")?;
    for Entry { seq, at, event, commands } in fresh.entries {
        entries.execute(params![*seq as i64, at, event, *commands as i64])?;
    }
    let mut updates = transaction.prepare_cached("INSERT INTO status_updates (seq, body) VALUES (?, ?)")?;
    for StatusUpdate { seq, body } in fresh.status_updates {
        updates.execute(params![*seq as i64, body])?;
    }
    if let Some(seq) = batch.updates_acknowledged {
        transaction.prepare_cached("DELETE FROM status_updates WHERE seq <= ?")?.execute([seq as i64])?;
    }
    write_jobs(transaction, &batch.ended)?;
    let mut locals = transaction.prepare_cached("INSERT INTO local_jobs (ended, record) VALUES (?, ?)")?;
    for LocalJobRow { ended, record } in &batch.local_jobs {
        locals.execute(params![ended, record])?;
    }
    let mut audit = transaction.prepare_cached("INSERT INTO audit (at, record) VALUES (?, ?)")?;
    for AuditRow { at, record } in &batch.audit {
        audit.execute(params![at, record])?;
    }
    let Tail { last_entry, next_update } = fresh.tail;
    transaction
        .prepare_cached("UPDATE metadata SET last_entry = ?, next_update = ?")?
        .execute([last_entry as i64, next_update as i64])?;
    Ok(())
}

fn write_jobs(transaction: &Transaction<'_>, jobs: &[JobRow]) -> rusqlite::Result<()> {
    let text = format!(
        "INSERT INTO jobs ({JOB_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) {REPLACE_JOB}"
    );
    let mut upsert = transaction.prepare_cached(&text)?;
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
