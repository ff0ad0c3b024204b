//! Rows of the database as what they mean, and its errors.

use std::path::Path;

use rusqlite::{ErrorCode, Row, ffi};

use crate::{Entry, JobRow, JournalError, Notice};

/// An entry, from `seq, at, event, commands`.
pub(super) fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry {
        seq: row.get::<_, i64>(0)? as u64,
        at: row.get(1)?,
        event: row.get(2)?,
        commands: row.get::<_, i64>(3)? as u64,
    })
}

/// News, from `seq, body`.
pub(super) fn notice(row: &Row<'_>) -> rusqlite::Result<Notice> {
    Ok(Notice { seq: row.get::<_, i64>(0)? as u64, body: row.get(1)? })
}

/// A job, from the columns of a listing.
pub(super) fn job(row: &Row<'_>) -> rusqlite::Result<JobRow> {
    Ok(JobRow {
        server: row.get(0)?,
        number: row.get(1)?,
        key: row.get(2)?,
        owner: row.get(3)?,
        name: row.get(4)?,
        state: row.get(5)?,
        submitted: row.get(6)?,
        started: row.get(7)?,
        ended: row.get(8)?,
        expected_start: row.get(9)?,
        expected_completion: row.get(10)?,
        record: row.get(11)?,
        last_server: row.get(12)?,
    })
}

/// What an error of the database means for a daemon.
pub(super) fn failed(path: &Path, error: &rusqlite::Error) -> JournalError {
    let why = error.to_string();
    let place = path.display().to_string();
    let code = error.sqlite_error().map(|error| (error.code, error.extended_code));
    match code {
        // The index of the log lives in a file of its own: there was no room to make it longer.
        Some((ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE)) => JournalError::Full { why },
        // A page that should be there is not, is said with a code of its own.
        Some(
            (ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt, _) | (_, ffi::SQLITE_IOERR_SHORT_READ),
        ) => JournalError::Damaged { place, why },
        Some((ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly, _)) => {
            JournalError::Folder { path: path.to_owned(), source: std::io::Error::other(why) }
        }
        Some(_) => JournalError::Failed { why },
        // Not said by the database but by us, of a value in it: a wrong type, or no text.
        None => JournalError::Damaged { place, why },
    }
}
