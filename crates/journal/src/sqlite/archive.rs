//! Reading a journal while its daemon writes it.

use std::path::{Path, PathBuf};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql, params, params_from_iter};

use super::rows::{entry, failed, job, notice};
use super::schema;
use crate::listing::{COLUMNS, Value, from, merged, questions};
use crate::sequence::whole;
use crate::{Archive, Entry, Filter, JobRow, JournalError, LocalPlace, LocalRow, Notice};

/// A reader of a journal.
pub(super) struct SqliteArchive {
    connection: Connection,
    path: PathBuf,
}

impl SqliteArchive {
    pub(super) fn open(path: &Path) -> Result<SqliteArchive, JournalError> {
        let connection = schema::open_beside(path).map_err(|error| failed(path, &error))?;
        Ok(SqliteArchive { connection, path: path.to_owned() })
    }

    fn ask<A>(&self, question: impl FnOnce(&Connection) -> rusqlite::Result<A>) -> Result<A, JournalError> {
        question(&self.connection).map_err(|error| failed(&self.path, &error))
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Number(number) => ValueRef::Integer(*number),
        }))
    }
}

impl Archive for SqliteArchive {
    fn job(&mut self, server: &str, number: u32) -> Result<Option<JobRow>, JournalError> {
        self.ask(|connection| {
            let text = format!("SELECT {COLUMNS} FROM jobs WHERE server = ? AND number = ?");
            connection.prepare_cached(&text)?.query_row(params![server, number], job).optional()
        })
    }

    fn job_by_key(&mut self, key: &[u8; 16]) -> Result<Option<JobRow>, JournalError> {
        self.ask(|connection| {
            let text = format!("SELECT {COLUMNS} FROM jobs WHERE key = ? ORDER BY ended DESC LIMIT 1");
            connection.prepare_cached(&text)?.query_row(params![key], job).optional()
        })
    }

    fn jobs(&mut self, filter: &Filter) -> Result<Vec<JobRow>, JournalError> {
        let rows = self.ask(|connection| {
            // One state of the journal for all questions.
            let transaction = connection.unchecked_transaction()?;
            let mut rows = Vec::new();
            for question in questions(filter, '?') {
                let mut statement = transaction.prepare_cached(&question.text)?;
                for row in statement.query_map(params_from_iter(&question.values), job)? {
                    rows.push(row?);
                }
            }
            Ok(rows)
        });
        Ok(merged(filter, rows?))
    }

    fn accuracy(&mut self, server: Option<&str>, last: u32) -> Result<Vec<(String, i64, i64)>, JournalError> {
        self.ask(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let servers = match server {
                Some(server) => vec![server.to_owned()],
                None => servers(&transaction)?,
            };
            let mut statement = transaction.prepare_cached(
                "SELECT last_server, started - expected_start, ended - expected_completion FROM jobs WHERE last_server = ? \
                 AND started IS NOT NULL AND expected_start IS NOT NULL AND expected_completion IS NOT NULL \
                 ORDER BY ended DESC, number DESC LIMIT ?",
            )?;
            let mut errors = Vec::new();
            for server in servers {
                let rows =
                    statement.query_map(params![server, last], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
                for row in rows {
                    errors.push(row?);
                }
            }
            Ok(errors)
        })
    }

    fn locals(
        &mut self,
        since: i64,
        after: Option<LocalPlace>,
        limit: u32,
    ) -> Result<Vec<(LocalPlace, LocalRow)>, JournalError> {
        let (ended, number) = from(since, after);
        self.ask(|connection| {
            let text = "SELECT ended, seq, record FROM local_jobs WHERE (ended, seq) > (?, ?) ORDER BY ended, seq LIMIT ?";
            let row = |row: &rusqlite::Row<'_>| {
                let ended = row.get(0)?;
                Ok(((ended, row.get::<_, i64>(1)? as u64), LocalRow { ended, record: row.get(2)? }))
            };
            connection.prepare_cached(text)?.query_map(params![ended, number, limit], row)?.collect()
        })
    }

    fn entries(&mut self, from: u64, limit: u32) -> Result<Vec<Entry>, JournalError> {
        let entries = self.ask(|connection| {
            let text = "SELECT seq, at, event, commands FROM entries WHERE seq >= ? ORDER BY seq LIMIT ?";
            connection.prepare_cached(text)?.query_map(params![from as i64, limit], entry)?.collect()
        });
        whole(&self.path.display().to_string(), entries?)
    }

    fn notices(&mut self, after: u64, limit: u32) -> Result<Vec<Notice>, JournalError> {
        self.ask(|connection| {
            let text = "SELECT seq, body FROM notices WHERE seq > ? ORDER BY seq LIMIT ?";
            connection.prepare_cached(text)?.query_map(params![after as i64, limit], notice)?.collect()
        })
    }

    fn last_number(&mut self, server: &str) -> Result<Option<u32>, JournalError> {
        self.ask(|connection| {
            let text = "SELECT max(number) FROM jobs WHERE server = ?";
            connection.prepare_cached(text)?.query_row([server], |row| row.get(0))
        })
    }

    fn ended(&mut self) -> Result<u64, JournalError> {
        self.ask(|connection| {
            let count = connection.query_row("SELECT count(*) FROM jobs", [], |row| row.get::<_, i64>(0));
            count.map(|count| count as u64)
        })
    }
}

/// The servers that have had jobs to their end, hopping from one to the next in the index.
fn servers(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let mut next = connection.prepare_cached("SELECT min(last_server) FROM jobs WHERE last_server > ?")?;
    loop {
        let last = found.last().map_or("", String::as_str);
        match next.query_row([last], |row| row.get::<_, Option<String>>(0))? {
            Some(server) => found.push(server),
            None => return Ok(found),
        }
    }
}
