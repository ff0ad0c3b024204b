//! The file and its tables: made, opened, checked.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use pliant_telemetry::RequestId;
use rusqlite::{Connection, OpenFlags};

use super::rows::failed;
use super::sync;
use crate::sequence::Tail;
use crate::{Durability, JournalError};

/// The version of the tables, and of what entries, snapshots and records say.
const VERSION: i64 = 1;
/// Marks the file as ours, in its header: the letters `Plnt`.
const APPLICATION: i64 = 0x506c_6e74;
/// How long one connection waits for another that has the file at that moment.
const PATIENCE: Duration = Duration::from_secs(10);

/// Jobs have indexes that hold them by end, for every set of columns that a listing may fix (a rare state of
/// one owner at one server is found among that owner's jobs at that server). Rows are long, so they are not
/// in the key's own tree.
const TABLES: &str = "
    CREATE TABLE about (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        id INTEGER NOT NULL, last_entry INTEGER NOT NULL, next_notice INTEGER NOT NULL, owner TEXT
    ) STRICT;
    CREATE TABLE entries (
        seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, event TEXT NOT NULL, commands INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, state TEXT NOT NULL) STRICT;
    CREATE TABLE notices (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
    CREATE TABLE jobs (
        server TEXT NOT NULL, number INTEGER NOT NULL, key BLOB, owner TEXT NOT NULL, name TEXT NOT NULL,
        state TEXT NOT NULL, submitted INTEGER NOT NULL, started INTEGER, ended INTEGER NOT NULL,
        expected_start INTEGER, expected_completion INTEGER, record TEXT NOT NULL, last_server TEXT NOT NULL,
        UNIQUE (server, number)
    ) STRICT;
    CREATE INDEX jobs_by_key ON jobs (key, ended) WHERE key IS NOT NULL;
    CREATE INDEX jobs_by_end ON jobs (ended, server, number);
    CREATE INDEX jobs_by_owner ON jobs (owner, ended, server, number);
    CREATE INDEX jobs_by_state ON jobs (state, ended, server, number);
    CREATE INDEX jobs_by_owner_state ON jobs (owner, state, ended, server, number);
    CREATE INDEX jobs_by_server ON jobs (last_server, ended, server, number);
    CREATE INDEX jobs_by_server_state ON jobs (last_server, state, ended, server, number);
    CREATE INDEX jobs_by_owner_server ON jobs (owner, last_server, ended, server, number, state);
    CREATE INDEX jobs_promised ON jobs (last_server, ended, number, started, expected_start, expected_completion)
        WHERE started IS NOT NULL AND expected_start IS NOT NULL AND expected_completion IS NOT NULL;
    CREATE TABLE local_jobs (seq INTEGER PRIMARY KEY, ended INTEGER NOT NULL, record TEXT NOT NULL) STRICT;
    CREATE INDEX local_jobs_by_end ON local_jobs (ended, seq);
";

/// Keeps a job, in place of an older row of it.
pub(super) const UPSERT_JOB: &str = "
    INSERT INTO jobs (server, number, key, owner, name, state, submitted, started, ended, expected_start,
        expected_completion, record, last_server)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (server, number) DO UPDATE SET
        key = excluded.key, owner = excluded.owner, name = excluded.name, state = excluded.state,
        submitted = excluded.submitted, started = excluded.started, ended = excluded.ended,
        expected_start = excluded.expected_start, expected_completion = excluded.expected_completion,
        record = excluded.record, last_server = excluded.last_server";

/// Makes a new journal at `path`, in `folder`. It gets its name when it is whole, so that an empty file of
/// that name is never a journal that was about to be made, but one that was lost.
pub(super) fn make(folder: &Path, path: &Path) -> Result<(), JournalError> {
    let unusable = |source| JournalError::Folder { path: folder.to_owned(), source };
    let unnamed = folder.join("journal.db.new");
    for leftover in [&unnamed, &folder.join("journal.db.new-journal")] {
        match fs::remove_file(leftover) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(unusable(error)),
            _ => {}
        }
    }
    // Not readable by others: what users ask for is in it.
    OpenOptions::new().create_new(true).write(true).mode(0o600).open(&unnamed).map_err(unusable)?;
    fill(&unnamed).map_err(|error| failed(path, &error))?;
    fs::rename(&unnamed, path).map_err(unusable)?;
    sync(folder).map_err(unusable)
}

fn fill(path: &Path) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    let id = (RequestId::fresh().number() >> 1) as i64;
    let Tail { last_entry, next_notice } = Tail::START;
    transaction.execute(
        "INSERT INTO about (one, id, last_entry, next_notice) VALUES (1, ?, ?, ?)",
        [id, last_entry as i64, next_notice as i64],
    )?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.commit()?;
    connection.close().map_err(|(_, error)| error)
}

/// Opens a journal for its daemon, once it is clear that it is one.
pub(super) fn open(path: &Path, durability: Durability) -> Result<Connection, JournalError> {
    let failed = |error: rusqlite::Error| failed(path, &error);
    let place = || path.display().to_string();
    let damaged = |why: &str| JournalError::Damaged { place: place(), why: why.to_owned() };
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0) {
        return Err(damaged("an empty file"));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failed);
    if number("application_id")? != APPLICATION {
        return Err(damaged("a database of something else"));
    }
    let found = number("user_version")?;
    if found < 1 {
        return Err(damaged("a database without a version"));
    }
    if found != VERSION {
        return Err(JournalError::Version { place: place(), expected: VERSION, found });
    }
    configure(&connection, durability).map_err(failed)?;
    Ok(connection)
}

fn configure(connection: &Connection, durability: Durability) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    let synchronous = match durability {
        Durability::Power => "FULL",
        // The log is synced before its pages go into the file, so the file is whole whatever is lost of the log.
        Durability::Process => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "wal_autocheckpoint", 4000)?;
    // A log that has grown is cut again, in bytes.
    connection.pragma_update(None, "journal_size_limit", 64 << 20)?;
    // In KiB, as it is negative: the indexes of jobs are written all over.
    connection.pragma_update(None, "cache_size", -32_768)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// Opens a journal for reading, beside its daemon.
pub(super) fn open_beside(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// The journal's number, and where it ends.
pub(super) fn about(connection: &Connection) -> rusqlite::Result<(u64, Tail)> {
    connection.query_row("SELECT id, last_entry, next_notice FROM about", [], |row| {
        let number = |column| row.get::<_, i64>(column).map(|number| number as u64);
        Ok((number(0)?, Tail { last_entry: number(1)?, next_notice: number(2)? }))
    })
}
