//! Statements on a session with PostgreSQL, and its errors.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};

use super::LOCATION;
use super::session::{Executor, Session, Target};
use crate::archive::ReadConnection;
use crate::database::{Row, Statements, Value};
use crate::listing::JOB_COLUMNS;
use crate::queries::REPLACE_JOB;
use crate::{AuditRow, JobRow, JournalError, LocalJobRow};

impl Statements for Session {
    fn location(&self) -> String {
        LOCATION.to_owned()
    }

    fn rows(&mut self, text: &str, values: &[Value]) -> Result<Vec<Row>, JournalError> {
        self.query(text, &parameters(values))?.iter().map(row).collect()
    }

    fn execute(&mut self, text: &str, values: &[Value]) -> Result<(), JournalError> {
        self.change(text, &parameters(values)).map(drop)
    }
}

fn parameters(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(parameter).collect()
}

fn parameter(value: &Value) -> &(dyn ToSql + Sync) {
    match value {
        Value::Null => &None::<i64>,
        Value::Number(number) => number,
        Value::Text(text) => text,
        Value::Bytes(bytes) => bytes,
    }
}

fn row(row: &tokio_postgres::Row) -> Result<Row, JournalError> {
    let value = |(column, of): (usize, &tokio_postgres::Column)| {
        let value = match *of.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(column)?.map(Value::Number),
            Type::BOOL => row.try_get::<_, Option<bool>>(column)?.map(|value| Value::Number(value.into())),
            Type::TEXT => row.try_get::<_, Option<String>>(column)?.map(Value::Text),
            Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(column)?.map(Value::Bytes),
            _ => {
                let why = format!("expected no column of type {}, found {}", of.type_(), of.name());
                return Err(JournalError::Damaged { location: LOCATION.to_owned(), why });
            }
        };
        Ok(value.unwrap_or(Value::Null))
    };
    row.columns().iter().enumerate().map(value).collect::<Result<_, _>>().map(Row)
}

/// A reader of a journal. Connects with the first query, and again after a connection was lost.
pub(super) struct PostgresReader {
    executor: Arc<Executor>,
    target: Target,
    session: Option<Session>,
}

impl PostgresReader {
    pub(super) fn new(target: Target) -> Result<PostgresReader, JournalError> {
        Ok(PostgresReader { executor: Executor::new()?, target, session: None })
    }
}

impl ReadConnection for PostgresReader {
    fn read<A>(
        &mut self,
        mut read: impl FnMut(&mut dyn Statements) -> Result<A, JournalError>,
    ) -> Result<A, JournalError> {
        // A connection lost while it was idle shows now: one more attempt on a new one.
        if let Some(session) = self.session.as_mut() {
            match read_once(session, &mut read) {
                Err(JournalError::Unreachable { .. }) => self.session = None,
                other => return other,
            }
        }
        let session = self.session.insert(Session::open(&self.executor, &self.target)?);
        read_once(session, &mut read)
    }
}

fn read_once<A>(
    session: &mut Session,
    read: &mut impl FnMut(&mut dyn Statements) -> Result<A, JournalError>,
) -> Result<A, JournalError> {
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
    let answer = read(session);
    let ended = session.run("ROLLBACK");
    let answer = answer?;
    ended.map(|()| answer)
}

/// Inserts jobs and replaces older rows of them.
pub(super) fn write_jobs(session: &mut Session, jobs: &[JobRow]) -> Result<(), JournalError> {
    // A statement must not write a row twice: only the last row of each job counts.
    let jobs: BTreeMap<_, _> = jobs.iter().map(|job| ((&job.server, job.number), job)).collect();
    if jobs.is_empty() {
        return Ok(());
    }
    fn column<'b, A>(jobs: &BTreeMap<(&'b String, u32), &'b JobRow>, of: impl Fn(&'b JobRow) -> A) -> Vec<A> {
        jobs.values().map(|job| of(job)).collect()
    }
    let text = format!(
        "INSERT INTO jobs ({JOB_COLUMNS}) SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::text[], \
         $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], \
         $12::text[], $13::text[]) {REPLACE_JOB}"
    );
    session.change(
        &text,
        &[
            &column(&jobs, |job| job.server.as_str()),
            &column(&jobs, |job| i64::from(job.number)),
            &column(&jobs, |job| job.key.as_ref().map(|key| key.as_slice())),
            &column(&jobs, |job| job.owner.as_str()),
            &column(&jobs, |job| job.name.as_str()),
            &column(&jobs, |job| job.state.as_str()),
            &column(&jobs, |job| job.submitted),
            &column(&jobs, |job| job.started),
            &column(&jobs, |job| job.ended),
            &column(&jobs, |job| job.expected_start),
            &column(&jobs, |job| job.expected_completion),
            &column(&jobs, |job| job.record.as_str()),
            &column(&jobs, |job| job.last_server.as_str()),
        ],
    )?;
    Ok(())
}

/// Inserts runs of local users' jobs.
pub(super) fn write_local_jobs(session: &mut Session, locals: &[LocalJobRow]) -> Result<(), JournalError> {
    if locals.is_empty() {
        return Ok(());
    }
    let ended: Vec<i64> = locals.iter().map(|local| local.ended).collect();
    let records: Vec<&str> = locals.iter().map(|local| local.record.as_str()).collect();
    let text = "INSERT INTO local_jobs (ended, record) SELECT * FROM unnest($1::bigint[], $2::text[])";
    session.change(text, &[&ended, &records])?;
    Ok(())
}

/// Inserts records of the audit trail, in their order.
pub(super) fn write_audit(session: &mut Session, audit: &[AuditRow]) -> Result<(), JournalError> {
    if audit.is_empty() {
        return Ok(());
    }
    let at: Vec<i64> = audit.iter().map(|row| row.at).collect();
    let records: Vec<&str> = audit.iter().map(|row| row.record.as_str()).collect();
    // A row gets its number in the order of the arrays.
    let text = "INSERT INTO audit (at, record) SELECT at, record \
                FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS rows (at, record, place) ORDER BY place";
    session.change(text, &[&at, &records])?;
    Ok(())
}

impl From<tokio_postgres::Error> for JournalError {
    /// An error of PostgreSQL as an error of the journal.
    fn from(error: tokio_postgres::Error) -> JournalError {
        let Some(reported) = error.as_db_error() else {
            let cause =
                std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
            return JournalError::Unreachable { why: format!("{error}{cause}") };
        };
        let code = reported.code();
        let why = format!("{} ({})", reported.message(), code.code());
        // The classes 08 (connection exceptions) and 57P (the server shuts down or starts), and a replica.
        let gone = code.code().starts_with("08") || code.code().starts_with("57P");
        match code {
            code if *code == SqlState::DISK_FULL => JournalError::Full { why },
            code if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
                JournalError::Damaged { location: LOCATION.to_owned(), why }
            }
            code if gone || *code == SqlState::READ_ONLY_SQL_TRANSACTION => JournalError::Unreachable { why },
            _ => JournalError::Failed { why },
        }
    }
}
