//! The durable record of a daemon: what its machine was told, in order; the news that its parent has not
//! acknowledged; and the jobs that have ended.
//!
//! A daemon commits what it was told, with all that follows from it, in one transaction before it carries
//! anything out. On a restart the machine is made again from the last snapshot and the entries after it.
//! Ended jobs live in a table of their own that a restart does not read, so neither memory nor the time of a
//! restart grows with them.
//!
//! - [`open_sqlite`]: a file in the daemon's folder, for one daemon at a time.
//! - [`open_postgres`]: a database that a second agent can stand by on.
//!
//! What both promise, and `tests/journal` shows on both:
//!
//! - A commit that returns survives `kill -9`. It was synced to the disk, so it survives the loss of power too if the
//!   disk keeps what it says it has (which no test here shows); a journal that is opened with [`Durability::Process`]
//!   leaves that to the system, and may lose its last commits with the power.
//! - A commit that fails leaves nothing behind, and the journal goes on: the same batch may be committed again.
//!   If the outcome was not known (the connection broke in the middle), the second attempt finds out, and the
//!   batch counts once.
//! - On a full disk a commit fails with [`JournalError::Full`]. The daemon then accepts nothing new and tries
//!   again until there is room.
//! - One daemon at a time writes; another is refused (SQLite) or waits for its turn (PostgreSQL), and one that
//!   has lost its turn cannot commit.
//! - A journal that lacks an entry is refused, not read as if it were whole.

mod error;
mod listing;
mod postgres;
mod records;
mod sequence;
mod sqlite;

use std::path::Path;

pub use error::JournalError;
pub use records::{Batch, Entry, Filter, JobRow, Loaded, LocalPlace, LocalRow, Notice, Snapshot};

/// How many entries are dropped at a time at most, so that no commit waits long for it.
pub const DROPPED_AT_ONCE: u64 = 10_000;

/// What a commit that returns survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// The loss of power: each commit is synced to the disk.
    Power,
    /// The end of the process, however it comes about. The loss of power may cost the last commits, as a whole and from the
    /// last one on: for those whose clients say again what was lost with them.
    Process,
}

/// A journal, for the one daemon that writes it.
pub trait Journal: Send {
    /// A number drawn when the journal was made.
    fn id(&self) -> u64;

    /// Makes sure that it is the journal of that daemon, by kind and name, and stays it: the first one to claim it has
    /// it.
    ///
    /// # Errors
    ///
    /// [`JournalError::Owner`] if it is another's.
    fn claim(&mut self, owner: &str) -> Result<(), JournalError>;

    /// What a restart needs.
    ///
    /// # Errors
    ///
    /// [`JournalError::Gap`] if an entry or news that were committed are missing; whatever a database may
    /// say.
    fn load(&mut self) -> Result<Loaded, JournalError>;

    /// Makes a batch durable, all of it or nothing. A batch whose commit failed may be committed again: it
    /// counts once.
    ///
    /// # Errors
    ///
    /// Those for which [`JournalError::may_pass`] is true: nothing is lost by another attempt.
    /// [`JournalError::Order`] if the batch does not follow what is there; [`JournalError::Deposed`] if
    /// another daemon leads.
    fn commit(&mut self, batch: &Batch) -> Result<(), JournalError>;

    /// Keeps a snapshot, drops the older ones and what [`Journal::trim`] drops. True if there is more to
    /// trim.
    ///
    /// # Errors
    ///
    /// As [`Journal::commit`]; [`JournalError::Order`] if it has entries that were never committed.
    fn compact(&mut self, snapshot: &Snapshot, keep_after: i64) -> Result<bool, JournalError>;

    /// Drops entries that are in the last snapshot and older than `keep_after`, in seconds since the Unix
    /// epoch: the oldest first, [`DROPPED_AT_ONCE`] of them at most. True if there are more. As many runs of local
    /// users' jobs that ended before then go with them.
    ///
    /// # Errors
    ///
    /// As [`Journal::commit`].
    fn trim(&mut self, keep_after: i64) -> Result<bool, JournalError>;

    /// A second way in, for reading on another thread while commits go on.
    ///
    /// # Errors
    ///
    /// If the journal's file cannot be opened again. A database is reached with the first question.
    fn archive(&self) -> Result<Box<dyn Archive>, JournalError>;
}

/// Reads what a journal keeps. Each answer is one state of the journal, never half a commit.
///
/// Every question fails only if the database cannot be read; the next one may succeed.
pub trait Archive: Send {
    /// An ended job.
    fn job(&mut self, server: &str, number: u32) -> Result<Option<JobRow>, JournalError>;

    /// The ended job of a submission; if it was moved, the one that ended last.
    fn job_by_key(&mut self, key: &[u8; 16]) -> Result<Option<JobRow>, JournalError>;

    /// Ended jobs, the last to end first.
    fn jobs(&mut self, filter: &Filter) -> Result<Vec<JobRow>, JournalError>;

    /// Server, start minus promised start, end minus promised completion, in seconds: of the last `last` jobs
    /// that started at each server and were promised both.
    fn accuracy(&mut self, server: Option<&str>, last: u32) -> Result<Vec<(String, i64, i64)>, JournalError>;

    /// Runs of local users' jobs that ended at `since` or later, after that place, in order of their ends, each with its
    /// place.
    fn locals(
        &mut self,
        since: i64,
        after: Option<LocalPlace>,
        limit: u32,
    ) -> Result<Vec<(LocalPlace, LocalRow)>, JournalError>;

    /// Entries from a number on, for replays; those dropped are left out.
    fn entries(&mut self, from: u64, limit: u32) -> Result<Vec<Entry>, JournalError>;

    /// News that the parent has not acknowledged, those after a number, in order.
    fn notices(&mut self, after: u64, limit: u32) -> Result<Vec<Notice>, JournalError>;

    /// The highest number of the jobs of a server that have ended.
    fn last_number(&mut self, server: &str) -> Result<Option<u32>, JournalError>;

    /// How many jobs have ended. Reads an index from end to end.
    fn ended(&mut self) -> Result<u64, JournalError>;
}

/// Opens the journal in a folder, made if it is not there, whose commits survive the loss of power.
///
/// # Errors
///
/// If the folder cannot be used, another daemon has the journal open, or what is there is no journal, a
/// damaged one or one of a later version.
pub fn open_sqlite(folder: &Path) -> Result<Box<dyn Journal>, JournalError> {
    open_sqlite_for(folder, Durability::Power)
}

/// The same, for what commits are to survive.
///
/// # Errors
///
/// As [`open_sqlite`].
pub fn open_sqlite_for(folder: &Path, durability: Durability) -> Result<Box<dyn Journal>, JournalError> {
    Ok(Box::new(sqlite::Sqlite::open(folder, durability)?))
}

fn of_owner(place: &str, expected: &str, found: String) -> Result<(), JournalError> {
    if found == expected {
        return Ok(());
    }
    Err(JournalError::Owner { place: place.to_owned(), expected: expected.to_owned(), found })
}

/// Opens the journal in a PostgreSQL database (its schema `pliant`), made if it is not there. Waits as long
/// as another daemon has it. Not to be called, nor the journal's other functions but [`Journal::archive`], on
/// a thread that drives tokio: they block.
///
/// `connection` is a connection string as libpq knows it, `host=... user=... dbname=...` or
/// `postgresql://...`.
///
/// # Errors
///
/// If the database cannot be reached, or what is there is no journal or one of a later version.
pub fn open_postgres(connection: &str) -> Result<Box<dyn Journal>, JournalError> {
    Ok(Box::new(postgres::Postgres::open(connection)?))
}
