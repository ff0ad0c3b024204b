//! The durable record of a daemon: the events of its machine in order, the status updates that its parent has not
//! acknowledged, and the ended jobs.
//!
//! A daemon commits each event and its consequences in one transaction before it carries out any command. A restart loads
//! the last snapshot and the entries after it. Ended jobs are in a table of their own that a restart does not read.
//!
//! - [`open_sqlite`]: a file in the daemon's folder, for one daemon at a time.
//! - [`open_postgres`]: a database, for agents with a standby.
//!
//! Guarantees of both, tested in `tests/journal`:
//!
//! - A commit that returns survives `kill -9`. It is synced to the disk, so it also survives a power failure if the disk
//!   keeps synced data. With [`Durability::Process`], of a journal or of a batch, a power failure may lose the last commits.
//! - A commit that fails changes nothing and can be repeated. If its outcome was unknown (the connection broke), the
//!   repetition finds out, and the batch counts once.
//! - On a full disk a commit fails with [`JournalError::Full`]. The daemon then accepts nothing new and retries.
//! - One daemon at a time writes. SQLite refuses a second daemon; PostgreSQL lets it wait as a standby, and a daemon
//!   that has lost the lead cannot commit.
//! - A journal with a missing entry is refused.

mod archive;
mod database;
mod error;
mod listing;
#[cfg(feature = "postgres")]
mod postgres;
mod queries;
mod records;
mod schema;
mod sequence;
mod sqlite;
mod trim;

use std::path::Path;

pub use error::JournalError;
pub use records::{
    AuditRow, Batch, Entry, EntryBytes, Filter, JobCursor, JobRow, KeepFrom, Loaded, LocalJobCursor,
    LocalJobRow, Snapshot, SnapshotPart, StatusUpdate,
};

/// The largest number of entries that one call deletes, so that no commit waits long for it. The same of records of the audit trail,
/// and of local users' runs.
pub const TRIM_LIMIT: u64 = 10_000;
/// The same of ended jobs, which are in many indexes.
pub const JOBS_LIMIT: u64 = 1_000;
/// The same of parts of snapshots.
pub const PARTS_LIMIT: u32 = 4;

/// The inodes of a file system that gives out a limited number of them. Each file and each folder takes one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inodes {
    /// Those that this process may still use.
    pub free: u64,
    /// All of them, in use or free.
    pub total: u64,
}

/// The failures that a commit survives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Durability {
    /// A power failure: each commit is synced to the disk.
    #[default]
    Power,
    /// Any end of the process. A power failure may lose whole commits, the last ones; for daemons whose clients repeat
    /// the lost requests.
    Process,
}

/// A journal, for the one daemon that writes it.
pub trait Journal: Send {
    /// A random number drawn when the journal was created.
    fn id(&self) -> u64;

    /// Claims the journal for a daemon, by kind and name. The first claim is permanent.
    ///
    /// # Errors
    ///
    /// [`JournalError::Owner`] if another daemon has claimed it.
    fn claim(&mut self, owner: &str) -> Result<(), JournalError>;

    /// Reads what a restart begins with, and checks that all that was committed is there.
    ///
    /// # Errors
    ///
    /// [`JournalError::Gap`] if committed entries or status updates are missing; errors of the database.
    fn load(&mut self) -> Result<Loaded, JournalError>;

    /// Reads a part of a snapshot.
    ///
    /// # Errors
    ///
    /// [`JournalError::Damaged`] if it is missing; errors of the database.
    fn snapshot_part(&mut self, seq: u64, part: u32) -> Result<Vec<u8>, JournalError>;

    /// Reads entries after this one, in order: at most `limit`.
    ///
    /// # Errors
    ///
    /// Errors of the database.
    fn entries(&mut self, after: u64, limit: u32) -> Result<Vec<Entry>, JournalError>;

    /// Commits a batch, all of it or nothing. A batch whose commit failed can be committed again: it counts once.
    ///
    /// # Errors
    ///
    /// Errors with [`JournalError::is_transient`]: the commit can be repeated. [`JournalError::Order`] if the batch does
    /// not follow the journal's end, or has a part of a snapshot with entries that were never committed;
    /// [`JournalError::Deposed`] if another daemon leads.
    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError>;

    /// Syncs what batches with [`Durability::Process`] have committed. Any later commit of a batch with [`Durability::Power`] does that,
    /// too. A journal that is open for reading has nothing to sync.
    ///
    /// # Errors
    ///
    /// As [`Journal::commit`].
    fn sync(&mut self) -> Result<(), JournalError>;

    /// Checks that no other daemon has taken the journal over. A commit does that by itself; this is for what a leader does
    /// outside of its journal.
    ///
    /// # Errors
    ///
    /// [`JournalError::Deposed`] if another daemon leads; errors with [`JournalError::is_transient`] if that is unknown.
    fn check_leader(&mut self) -> Result<(), JournalError>;

    /// Deletes what has been kept long enough, the oldest first, and a bounded number at once: parts of snapshots other than the last
    /// one and the one that is being written ([`PARTS_LIMIT`]), entries that are in the last snapshot, runs of local users' jobs, records
    /// of the audit trail ([`TRIM_LIMIT`] each), and ended jobs ([`JOBS_LIMIT`]). The job of each server with the highest number stays
    /// ([`Archive::last_number`]), and so does the last record of the audit trail. SQLite gives some of the pages that are free back to
    /// the disk. True if there is more to delete or to give back.
    ///
    /// # Errors
    ///
    /// As [`Journal::commit`].
    fn trim(&mut self, keep_from: &KeepFrom, writing: Option<u64>) -> Result<bool, JournalError>;

    /// Allocates so many bytes of its disk to commits, which so go on when the disk is full. Does nothing if they are allocated.
    /// A database has a disk of its own, where nothing is allocated.
    ///
    /// # Errors
    ///
    /// [`JournalError::Full`] if the disk has no room for them and as many others, [`JournalError::Folder`] if its file system
    /// cannot allocate them.
    fn reserve(&mut self, bytes: u64) -> Result<(), JournalError>;

    /// The bytes of its disk that this process may still use. `None` for a database, which has a disk of its own.
    ///
    /// # Errors
    ///
    /// [`JournalError::Folder`] if the file system does not say.
    fn free_bytes(&self) -> Result<Option<u64>, JournalError>;

    /// The inodes of its disk. `None` for a database, which has a disk of its own, and for a file system without a limit of inodes, such
    /// as Btrfs and some network file systems, which reports none at all.
    ///
    /// # Errors
    ///
    /// [`JournalError::Folder`] if the file system does not say.
    fn inodes(&self) -> Result<Option<Inodes>, JournalError>;

    /// The bytes of its disk that its files take, the reserve included. `None` for a database, whose own monitoring says it.
    ///
    /// # Errors
    ///
    /// [`JournalError::Folder`] if the file system does not say.
    fn stored_bytes(&self) -> Result<Option<u64>, JournalError>;

    /// Opens a second connection for reading on another thread.
    ///
    /// # Errors
    ///
    /// If the journal's file cannot be opened again. A database is connected with the first query.
    fn archive(&self) -> Result<Box<dyn Archive>, JournalError>;
}

/// Reads a journal. Each result is of one state of the journal.
///
/// Calls fail only if the database cannot be read; a later call may succeed.
pub trait Archive: Send {
    /// An ended job.
    fn job(&mut self, server: &str, number: u32) -> Result<Option<JobRow>, JournalError>;

    /// The ended jobs of a server with the next higher numbers, in their order.
    fn jobs_later_than(&mut self, server: &str, number: u32, limit: u32)
    -> Result<Vec<JobRow>, JournalError>;

    /// The ended job of a submission; of a moved job, the row that ended last.
    fn job_by_key(&mut self, key: &[u8; 16]) -> Result<Option<JobRow>, JournalError>;

    /// Ended jobs, the last to be submitted first.
    fn jobs(&mut self, filter: &Filter) -> Result<Vec<JobRow>, JournalError>;

    /// Jobs that ended at `since` or later and before a cursor, the last to end first.
    fn ended_since(
        &mut self,
        since: i64,
        before: Option<JobCursor>,
        limit: u32,
    ) -> Result<Vec<JobRow>, JournalError>;

    /// The last servers of ended jobs, by name.
    fn servers(&mut self) -> Result<Vec<String>, JournalError>;

    /// Start minus promised start and end minus promised completion, in seconds: of the last `last` jobs of a server that
    /// have both promises.
    fn accuracy(&mut self, server: &str, last: u32) -> Result<Vec<(i64, i64)>, JournalError>;

    /// Runs of local users' jobs that ended at `since` or later, after a cursor, in order of their ends.
    fn local_jobs(
        &mut self,
        since: i64,
        after: Option<LocalJobCursor>,
        limit: u32,
    ) -> Result<Vec<(LocalJobCursor, LocalJobRow)>, JournalError>;

    /// Records of the audit trail after a number, in order, each with its number.
    fn audit(&mut self, after: u64, limit: u32) -> Result<Vec<(u64, AuditRow)>, JournalError>;

    /// Entries from a number on, without deleted ones, for replays.
    fn entries(&mut self, from: u64, limit: u32) -> Result<Vec<Entry>, JournalError>;

    /// Unacknowledged status updates after a number, in order.
    fn status_updates(&mut self, after: u64, limit: u32) -> Result<Vec<StatusUpdate>, JournalError>;

    /// The highest number of the ended jobs of a server.
    fn last_number(&mut self, server: &str) -> Result<Option<u32>, JournalError>;

    /// The number of ended jobs. Reads a whole index.
    fn ended(&mut self) -> Result<u64, JournalError>;
}

/// Opens the journal in a folder, created if it does not exist, with [`Durability::Power`].
///
/// # Errors
///
/// If the folder cannot be used, another daemon has the journal open, or the file is not a journal, damaged or of
/// another version.
pub fn open_sqlite(folder: &Path) -> Result<Box<dyn Journal>, JournalError> {
    open_sqlite_for(folder, Durability::Power)
}

/// Opens the journal in a folder like [`open_sqlite`], with a given durability.
///
/// # Errors
///
/// As [`open_sqlite`].
pub fn open_sqlite_for(folder: &Path, durability: Durability) -> Result<Box<dyn Journal>, JournalError> {
    Ok(Box::new(sqlite::Sqlite::open(folder, durability)?))
}

/// Opens the journal in a folder for reading, also while its daemon writes it; none if the folder has none. Commits to it fail.
/// What is read at different times may be of different states of the journal.
///
/// # Errors
///
/// As [`open_sqlite`], but for [`JournalError::Taken`].
pub fn open_sqlite_read_only(folder: &Path) -> Result<Option<Box<dyn Journal>>, JournalError> {
    let journal = sqlite::Sqlite::open_read_only(folder)?;
    Ok(journal.map(|journal| Box::new(journal) as Box<dyn Journal>))
}

/// Copies the journal in a folder to a file that is empty, as it is at one moment, also while its daemon writes it. Returns the daemon
/// that has claimed it.
///
/// # Errors
///
/// If the journal cannot be read, is no journal or of another version, or the copy cannot be written.
pub fn back_up_sqlite(folder: &Path, to: &Path) -> Result<Option<String>, JournalError> {
    sqlite::back_up(folder, to)
}

fn check_owner(location: &str, expected: &str, found: String) -> Result<(), JournalError> {
    if found == expected {
        return Ok(());
    }
    Err(JournalError::Owner { location: location.to_owned(), expected: expected.to_owned(), found })
}

/// Opens the journal in a PostgreSQL database (its schema `pliant`), created if it does not exist. Waits while another
/// daemon leads. This function and the methods of the journal except [`Journal::archive`] block: do not call them on a
/// thread that drives tokio.
///
/// `connection` is a connection string of libpq, `host=... user=... dbname=...` or `postgresql://...`.
///
/// # Errors
///
/// If the database cannot be reached, or its schema is not a journal or one of another version.
#[cfg(feature = "postgres")]
pub fn open_postgres(connection: &str) -> Result<Box<dyn Journal>, JournalError> {
    Ok(Box::new(postgres::Postgres::open(connection)?))
}

/// Refuses: journals in PostgreSQL need the feature `postgres`.
///
/// # Errors
///
/// [`JournalError::NotBuilt`].
#[cfg(not(feature = "postgres"))]
pub fn open_postgres(_: &str) -> Result<Box<dyn Journal>, JournalError> {
    Err(JournalError::NotBuilt)
}
