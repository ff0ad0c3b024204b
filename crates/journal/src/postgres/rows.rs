//! Rows of the database as what they mean, and its errors.

use std::collections::BTreeMap;

use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::PLACE;
use super::link::Link;
use crate::{Entry, JobRow, JournalError, LocalRow, Notice, Snapshot};

/// An entry, from `seq, at, event, commands`.
pub(super) fn entry(row: &Row) -> Result<Entry, JournalError> {
    Ok(Entry {
        seq: row.try_get::<_, i64>(0)? as u64,
        at: row.try_get(1)?,
        event: row.try_get(2)?,
        commands: row.try_get::<_, i64>(3)? as u64,
    })
}

/// A snapshot, from `seq, at, state`.
pub(super) fn snapshot(row: &Row) -> Result<Snapshot, JournalError> {
    Ok(Snapshot { seq: row.try_get::<_, i64>(0)? as u64, at: row.try_get(1)?, state: row.try_get(2)? })
}

/// A number of an entry or of news, from `seq`.
pub(super) fn number(row: &Row) -> Result<u64, JournalError> {
    Ok(row.try_get::<_, i64>(0)? as u64)
}

/// News, from `seq, body`.
pub(super) fn notice(row: &Row) -> Result<Notice, JournalError> {
    Ok(Notice { seq: row.try_get::<_, i64>(0)? as u64, body: row.try_get(1)? })
}

/// A job, from the columns of a listing.
pub(super) fn job(row: &Row) -> Result<JobRow, JournalError> {
    let damaged = |why: &str| JournalError::Damaged { place: PLACE.to_owned(), why: why.to_owned() };
    let number: i64 = row.try_get(1)?;
    let key: Option<&[u8]> = row.try_get(2)?;
    let key = key.map(<[u8; 16]>::try_from).transpose();
    Ok(JobRow {
        server: row.try_get(0)?,
        number: u32::try_from(number).map_err(|_| damaged("a job's number is out of range"))?,
        key: key.map_err(|_| damaged("a job's key has not 16 bytes"))?,
        owner: row.try_get(3)?,
        name: row.try_get(4)?,
        state: row.try_get(5)?,
        submitted: row.try_get(6)?,
        started: row.try_get(7)?,
        ended: row.try_get(8)?,
        expected_start: row.try_get(9)?,
        expected_completion: row.try_get(10)?,
        record: row.try_get(11)?,
        last_server: row.try_get(12)?,
    })
}

/// Keeps jobs, in place of older rows of them.
pub(super) async fn write_jobs(link: &mut Link, jobs: &[JobRow]) -> Result<(), JournalError> {
    // One statement may not write the same row twice: of each job, the last.
    let jobs: BTreeMap<_, _> = jobs.iter().map(|job| ((&job.server, job.number), job)).collect();
    if jobs.is_empty() {
        return Ok(());
    }
    fn column<'b, A>(jobs: &BTreeMap<(&'b String, u32), &'b JobRow>, of: impl Fn(&'b JobRow) -> A) -> Vec<A> {
        jobs.values().map(|job| of(job)).collect()
    }
    let text = "
        INSERT INTO jobs (server, number, key, owner, name, state, submitted, started, ended, expected_start,
            expected_completion, record, last_server)
        SELECT * FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::text[],
            $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::text[])
        ON CONFLICT (server, number) DO UPDATE SET
            key = excluded.key, owner = excluded.owner, name = excluded.name, state = excluded.state,
            submitted = excluded.submitted, started = excluded.started, ended = excluded.ended,
            expected_start = excluded.expected_start, expected_completion = excluded.expected_completion,
            record = excluded.record, last_server = excluded.last_server";
    link.execute(
        text,
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
    )
    .await?;
    Ok(())
}

/// Keeps runs of local users' jobs.
pub(super) async fn write_locals(link: &mut Link, locals: &[LocalRow]) -> Result<(), JournalError> {
    if locals.is_empty() {
        return Ok(());
    }
    let ended: Vec<i64> = locals.iter().map(|local| local.ended).collect();
    let records: Vec<&str> = locals.iter().map(|local| local.record.as_str()).collect();
    let text = "INSERT INTO local_jobs (ended, record) SELECT * FROM unnest($1::bigint[], $2::text[])";
    link.execute(text, &[&ended, &records]).await?;
    Ok(())
}

impl From<tokio_postgres::Error> for JournalError {
    /// What an error of the database means for a daemon.
    fn from(error: tokio_postgres::Error) -> JournalError {
        let Some(said) = error.as_db_error() else {
            let cause =
                std::error::Error::source(&error).map(|source| format!(": {source}")).unwrap_or_default();
            return JournalError::Unreachable { why: format!("{error}{cause}") };
        };
        let code = said.code();
        let why = format!("{} ({})", said.message(), code.code());
        // The classes 08 (connections) and 57P (the server is told to stop, or has just started), and a
        // server that is but the copy of another.
        let gone = code.code().starts_with("08") || code.code().starts_with("57P");
        match code {
            code if *code == SqlState::DISK_FULL => JournalError::Full { why },
            code if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
                JournalError::Damaged { place: PLACE.to_owned(), why }
            }
            code if gone || *code == SqlState::READ_ONLY_SQL_TRANSACTION => JournalError::Unreachable { why },
            _ => JournalError::Failed { why },
        }
    }
}
