//! The tables and the leader's lock.

use pliant_telemetry::RequestId;

use super::LOCATION;
use super::session::Session;
use crate::JournalError;
use crate::database::{Row, Statements, read_one};
use crate::schema::{INDEXES, VERSION};
use crate::sequence::Tail;

/// The advisory lock held while the tables are created, and that of the leader.
const CREATE_LOCK: i64 = 0x506c_6961_6e74_0001;
const LEADER_LOCK: i64 = 0x506c_6961_6e74_0002;

/// The tables of SQLite. Collation `"C"` compares names byte by byte as SQLite does.
const TABLES: &str = r#"
    CREATE TABLE metadata (
        one BOOLEAN PRIMARY KEY CHECK (one), version BIGINT NOT NULL, id BIGINT NOT NULL, term BIGINT NOT NULL,
        last_entry BIGINT NOT NULL, next_update BIGINT NOT NULL, owner TEXT
    );
    CREATE TABLE entries (
        seq BIGINT PRIMARY KEY, at BIGINT NOT NULL, event TEXT NOT NULL, commands BIGINT NOT NULL
    );
    CREATE TABLE snapshots (seq BIGINT PRIMARY KEY, at BIGINT NOT NULL, parts BIGINT NOT NULL);
    CREATE TABLE snapshot_parts (
        seq BIGINT NOT NULL, part BIGINT NOT NULL, bytes BYTEA NOT NULL, hash BIGINT NOT NULL, PRIMARY KEY (seq, part)
    );
    CREATE TABLE status_updates (seq BIGINT PRIMARY KEY, body TEXT NOT NULL);
    CREATE TABLE jobs (
        server TEXT COLLATE "C" NOT NULL, number BIGINT NOT NULL, key BYTEA, owner TEXT COLLATE "C" NOT NULL,
        name TEXT NOT NULL, state TEXT COLLATE "C" NOT NULL, submitted BIGINT NOT NULL, started BIGINT,
        ended BIGINT NOT NULL, expected_start BIGINT, expected_completion BIGINT, record TEXT NOT NULL,
        last_server TEXT COLLATE "C" NOT NULL, PRIMARY KEY (server, number)
    );
    CREATE TABLE local_jobs (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ended BIGINT NOT NULL, record TEXT NOT NULL
    );
    CREATE TABLE audit (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at BIGINT NOT NULL, record TEXT NOT NULL
    );
"#;

/// The row of the table `metadata`.
pub(super) struct Metadata {
    pub id: u64,
    pub term: i64,
    pub tail: Tail,
}

/// Creates the tables if they do not exist.
pub(super) fn prepare(session: &mut Session) -> Result<(), JournalError> {
    session.run("BEGIN")?;
    // Daemons may start at the same time.
    session.change("SELECT pg_advisory_xact_lock($1)", &[&CREATE_LOCK])?;
    let text = "SELECT to_regnamespace('pliant') IS NOT NULL, to_regclass('pliant.metadata') IS NOT NULL, \
                EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('pliant'))";
    let read = |row: &mut Row| Ok((row.take(0)?, row.take(1)?, row.take(2)?));
    let (schema, metadata, tables): (bool, bool, bool) = read_one(session, text, &[], read)?;
    if tables && !metadata {
        let why = "the schema pliant has tables of another application".to_owned();
        return Err(JournalError::Damaged { location: LOCATION.to_owned(), why });
    }
    if !metadata {
        if !schema {
            session.run("CREATE SCHEMA pliant")?;
        }
        session.run(TABLES)?;
        session.run(INDEXES)?;
        let id = RequestId::fresh().number() >> 1;
        let Tail { last_entry, next_update } = Tail::START;
        let text = "INSERT INTO metadata (one, version, id, term, last_entry, next_update) \
                    VALUES (true, $1, $2, 0, $3, $4)";
        session.execute(text, &[VERSION.into(), id.into(), last_entry.into(), next_update.into()])?;
    }
    session.run("COMMIT")?;
    check_version(session)
}

/// Checks that the journal has the version of this program.
pub(super) fn check_version(session: &mut Session) -> Result<(), JournalError> {
    let found: i64 = read_one(session, "SELECT version FROM metadata", &[], |row| row.take(0))?;
    if found != VERSION {
        return Err(JournalError::Version { location: LOCATION.to_owned(), expected: VERSION, found });
    }
    Ok(())
}

/// Takes the leader's lock for this session. False if another one has it.
pub(super) fn try_lock(session: &mut Session) -> Result<bool, JournalError> {
    read_one(session, "SELECT pg_try_advisory_lock($1)", &[LEADER_LOCK.into()], |row| row.take(0))
}

/// Begins the term of a new leader.
pub(super) fn begin_term(session: &mut Session) -> Result<Metadata, JournalError> {
    let text = "UPDATE metadata SET term = term + 1 RETURNING id, term, last_entry, next_update";
    read_one(session, text, &[], read)
}

/// Reads the metadata of the journal.
pub(super) fn metadata(session: &mut Session) -> Result<Metadata, JournalError> {
    read_one(session, "SELECT id, term, last_entry, next_update FROM metadata", &[], read)
}

fn read(row: &mut Row) -> Result<Metadata, String> {
    let tail = Tail { last_entry: row.take(2)?, next_update: row.take(3)? };
    Ok(Metadata { id: row.take(0)?, term: row.take(1)?, tail })
}
