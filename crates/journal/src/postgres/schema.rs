//! The tables, and who leads.

use pliant_telemetry::RequestId;

use super::PLACE;
use super::link::Link;
use crate::JournalError;
use crate::sequence::Tail;

/// The version of the tables, and of what entries, snapshots and records say.
const VERSION: i64 = 1;
/// The lock of whoever makes the tables, and the leader's. Locks belong to a database, and so does a journal.
const MAKING: i64 = 0x506c_6961_6e74_0001;
const LEADING: i64 = 0x506c_6961_6e74_0002;

/// As in SQLite. Names are compared byte by byte there, hence `"C"`.
const TABLES: &str = r#"
    CREATE TABLE about (
        one BOOLEAN PRIMARY KEY CHECK (one), version BIGINT NOT NULL, id BIGINT NOT NULL, term BIGINT NOT NULL,
        last_entry BIGINT NOT NULL, next_notice BIGINT NOT NULL, owner TEXT
    );
    CREATE TABLE entries (
        seq BIGINT PRIMARY KEY, at BIGINT NOT NULL, event TEXT NOT NULL, commands BIGINT NOT NULL
    );
    CREATE TABLE snapshots (seq BIGINT PRIMARY KEY, at BIGINT NOT NULL, state TEXT NOT NULL);
    CREATE TABLE notices (seq BIGINT PRIMARY KEY, body TEXT NOT NULL);
    CREATE TABLE jobs (
        server TEXT COLLATE "C" NOT NULL, number BIGINT NOT NULL, key BYTEA, owner TEXT COLLATE "C" NOT NULL,
        name TEXT NOT NULL, state TEXT COLLATE "C" NOT NULL, submitted BIGINT NOT NULL, started BIGINT,
        ended BIGINT NOT NULL, expected_start BIGINT, expected_completion BIGINT, record TEXT NOT NULL,
        last_server TEXT COLLATE "C" NOT NULL, PRIMARY KEY (server, number)
    );
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
    CREATE TABLE local_jobs (
        seq BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, ended BIGINT NOT NULL, record TEXT NOT NULL
    );
    CREATE INDEX local_jobs_by_end ON local_jobs (ended, seq);
"#;

/// The row that says what the journal is.
pub(super) struct About {
    pub id: u64,
    pub term: i64,
    pub tail: Tail,
}

/// Makes the tables if they are not there.
pub(super) async fn prepare(mut link: Link) -> Result<Link, JournalError> {
    link.run("BEGIN").await?;
    // Two daemons that start at the same time.
    link.execute("SELECT pg_advisory_xact_lock($1)", &[&MAKING]).await?;
    let there = "SELECT to_regnamespace('pliant') IS NOT NULL, to_regclass('pliant.about') IS NOT NULL";
    let there = link.one(there, &[]).await?;
    let (schema, about): (bool, bool) = (there.try_get(0)?, there.try_get(1)?);
    if schema && !about && has_tables(&mut link).await? {
        let why = "the schema pliant has tables of something else".to_owned();
        return Err(JournalError::Damaged { place: PLACE.to_owned(), why });
    }
    if !about {
        if !schema {
            link.run("CREATE SCHEMA pliant").await?;
        }
        link.run(TABLES).await?;
        let id = (RequestId::fresh().number() >> 1) as i64;
        let Tail { last_entry, next_notice } = Tail::START;
        let text = "INSERT INTO about (one, version, id, term, last_entry, next_notice) \
                    VALUES (true, $1, $2, 0, $3, $4)";
        link.execute(text, &[&VERSION, &id, &(last_entry as i64), &(next_notice as i64)]).await?;
    }
    link.run("COMMIT").await?;
    check(&mut link).await?;
    Ok(link)
}

async fn has_tables(link: &mut Link) -> Result<bool, JournalError> {
    let text = "SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('pliant'))";
    Ok(link.one(text, &[]).await?.try_get(0)?)
}

/// An error if the journal is of another version.
pub(super) async fn check(link: &mut Link) -> Result<(), JournalError> {
    let found: i64 = link.one("SELECT version FROM about", &[]).await?.try_get(0)?;
    if found != VERSION {
        return Err(JournalError::Version { place: PLACE.to_owned(), expected: VERSION, found });
    }
    Ok(())
}

/// Takes the leader's lock for this connection. False if another one has it.
pub(super) async fn try_lock(link: &mut Link) -> Result<bool, JournalError> {
    Ok(link.one("SELECT pg_try_advisory_lock($1)", &[&LEADING]).await?.try_get(0)?)
}

/// Begins the term of a new leader.
pub(super) async fn next_term(link: &mut Link) -> Result<About, JournalError> {
    let text = "UPDATE about SET term = term + 1 RETURNING id, term, last_entry, next_notice";
    read(&link.one(text, &[]).await?)
}

/// What the journal says of itself.
pub(super) async fn about(link: &mut Link) -> Result<About, JournalError> {
    read(&link.one("SELECT id, term, last_entry, next_notice FROM about", &[]).await?)
}

fn read(row: &tokio_postgres::Row) -> Result<About, JournalError> {
    let number = |column: usize| row.try_get::<_, i64>(column).map(|number| number as u64);
    let tail = Tail { last_entry: number(2)?, next_notice: number(3)? };
    Ok(About { id: number(0)?, term: row.try_get(1)?, tail })
}
