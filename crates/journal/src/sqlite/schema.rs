//! The file and its tables: creation, opening and checks.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use pliant_telemetry::RequestId;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::statements::failed;
use super::{free_pages, sync};
use crate::schema::{INDEXES, VERSION};
use crate::sequence::Tail;
use crate::{Durability, JournalError};

/// Marks the file as a journal of Pliant, in its header: the letters `Plnt`.
const APPLICATION: i64 = 0x506c_6e74;
/// The longest wait of a connection for another one that locks the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// After how many pages in the log they are written into the file.
pub(super) const AUTOCHECKPOINT_PAGES: u32 = 4000;
/// The size to which a grown log is cut.
pub(super) const LOG_LIMIT_BYTES: u64 = 64 << 20;

/// Rows of `jobs` are long, so the table is not clustered by its key.
const TABLES: &str = "
    CREATE TABLE metadata (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        id INTEGER NOT NULL, last_entry INTEGER NOT NULL, next_update INTEGER NOT NULL, owner TEXT
    ) STRICT;
    CREATE TABLE entries (
        seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, event TEXT NOT NULL, commands INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE snapshots (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, parts INTEGER NOT NULL) STRICT;
    CREATE TABLE snapshot_parts (
        seq INTEGER NOT NULL, part INTEGER NOT NULL, bytes BLOB NOT NULL, hash INTEGER NOT NULL,
        PRIMARY KEY (seq, part)
    ) STRICT;
    CREATE TABLE status_updates (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
    CREATE TABLE jobs (
        server TEXT NOT NULL, number INTEGER NOT NULL, key BLOB, owner TEXT NOT NULL, name TEXT NOT NULL,
        state TEXT NOT NULL, submitted INTEGER NOT NULL, started INTEGER, ended INTEGER NOT NULL,
        expected_start INTEGER, expected_completion INTEGER, record TEXT NOT NULL, last_server TEXT NOT NULL,
        UNIQUE (server, number)
    ) STRICT;
    CREATE TABLE local_jobs (seq INTEGER PRIMARY KEY, ended INTEGER NOT NULL, record TEXT NOT NULL) STRICT;
    CREATE TABLE audit (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, record TEXT NOT NULL) STRICT;
";

/// Creates a journal at `path` in `folder`, under a temporary name until it is complete: an empty file at `path` is a
/// damaged journal, never an unfinished one.
pub(super) fn create(folder: &Path, path: &Path) -> Result<(), JournalError> {
    let unusable = |source| JournalError::Folder { path: folder.to_owned(), source };
    let temporary = folder.join("journal.db.new");
    for leftover in [&temporary, &folder.join("journal.db.new-journal")] {
        match fs::remove_file(leftover) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(unusable(error)),
            _ => {}
        }
    }
    // Not readable by others: it contains users' requests.
    OpenOptions::new().create_new(true).write(true).mode(0o600).open(&temporary).map_err(unusable)?;
    create_tables(&temporary).map_err(|error| failed(path, &error))?;
    fs::rename(&temporary, path).map_err(unusable)?;
    sync(folder).map_err(unusable)
}

fn create_tables(path: &Path) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    free_pages::prepare(&connection)?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.execute_batch(INDEXES)?;
    let id = (RequestId::fresh().number() >> 1) as i64;
    let Tail { last_entry, next_update } = Tail::START;
    transaction.execute(
        "INSERT INTO metadata (one, id, last_entry, next_update) VALUES (1, ?, ?, ?)",
        [id, last_entry as i64, next_update as i64],
    )?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.commit()?;
    connection.close().map_err(|(_, error)| error)
}

/// Checks that the file is a journal of this version and opens it for its daemon.
pub(super) fn open(path: &Path, durability: Durability) -> Result<Connection, JournalError> {
    let failed = |error: rusqlite::Error| failed(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed)?;
    check(path, &connection)?;
    configure(&connection, durability).map_err(failed)?;
    Ok(connection)
}

/// Checks that the file is a journal of this version.
pub(super) fn check(path: &Path, connection: &Connection) -> Result<(), JournalError> {
    let failed = |error: rusqlite::Error| failed(path, &error);
    let location = || path.display().to_string();
    let damaged = |why: &str| JournalError::Damaged { location: location(), why: why.to_owned() };
    if fs::metadata(path).is_ok_and(|metadata| metadata.len() == 0) {
        return Err(damaged("an empty file"));
    }
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(failed);
    if number("application_id")? != APPLICATION {
        return Err(damaged("a database of another application"));
    }
    let found = number("user_version")?;
    if found < 1 {
        return Err(damaged("a database without a version"));
    }
    if found != VERSION {
        return Err(JournalError::Version { location: location(), expected: VERSION, found });
    }
    Ok(())
}

fn configure(connection: &Connection, durability: Durability) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    set_durability(connection, durability)?;
    connection.pragma_update(None, "wal_autocheckpoint", AUTOCHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_LIMIT_BYTES as i64)?;
    // In KiB because it is negative. Indexes of jobs are written in random order.
    connection.pragma_update(None, "cache_size", -32_768)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    keep_prepared(connection)
}

/// Has statements prepared once. Without the stability guarantee SQLite prepares a statement anew whenever a limit or a bound changes.
fn keep_prepared(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(64);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// Has the next commits survive that.
pub(super) fn set_durability(connection: &Connection, durability: Durability) -> rusqlite::Result<()> {
    let synchronous = match durability {
        Durability::Power => "FULL",
        // The log is synced before its pages go into the file, so that the file stays whole if the log is lost.
        Durability::Process => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous)
}

/// Opens a journal for reading while its daemon writes.
pub(super) fn open_read_only(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    keep_prepared(&connection)?;
    Ok(connection)
}

/// The journal's ID and the end of its sequences.
pub(super) fn metadata(connection: &Connection) -> rusqlite::Result<(u64, Tail)> {
    connection.query_row("SELECT id, last_entry, next_update FROM metadata", [], |row| {
        let number = |column| row.get::<_, i64>(column).map(|number| number as u64);
        Ok((number(0)?, Tail { last_entry: number(1)?, next_update: number(2)? }))
    })
}
