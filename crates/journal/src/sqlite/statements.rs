//! Statements on a connection to SQLite, and its errors.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, ToSql, ffi, params_from_iter};

use super::schema;
use crate::JournalError;
use crate::archive::ReadConnection;
use crate::database::{Row, Statements, Value};

/// Runs statements on a connection, inside its present transaction.
pub(super) struct SqliteStatements<'c> {
    pub connection: &'c Connection,
    pub path: &'c Path,
}

impl Statements for SqliteStatements<'_> {
    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn rows(&mut self, text: &str, values: &[Value]) -> Result<Vec<Row>, JournalError> {
        let read = || {
            let mut statement = self.connection.prepare_cached(text)?;
            let columns = statement.column_count();
            let row = |row: &rusqlite::Row<'_>| {
                (0..columns).map(|column| value(row.get_ref(column)?)).collect::<Result<_, _>>().map(Row)
            };
            statement.query_map(params_from_iter(values), row)?.collect::<rusqlite::Result<Vec<Row>>>()
        };
        read().map_err(|error| failed(self.path, &error))
    }

    fn execute(&mut self, text: &str, values: &[Value]) -> Result<(), JournalError> {
        let done = self.connection.prepare_cached(text).and_then(|mut statement| {
            statement.execute(params_from_iter(values))?;
            Ok(())
        });
        done.map_err(|error| failed(self.path, &error))
    }
}

fn value(value: ValueRef<'_>) -> rusqlite::Result<Value> {
    Ok(match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Number(number),
        ValueRef::Text(_) => Value::Text(value.as_str()?.to_owned()),
        ValueRef::Blob(bytes) => Value::Bytes(bytes.to_owned()),
        ValueRef::Real(_) => return Err(rusqlite::types::FromSqlError::InvalidType.into()),
    })
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Number(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// A read-only connection.
pub(super) struct SqliteReader {
    connection: Connection,
    path: PathBuf,
    /// Closed after the connection.
    _index: Option<Arc<File>>,
}

impl SqliteReader {
    pub(super) fn open(path: &Path, index: Option<Arc<File>>) -> Result<SqliteReader, JournalError> {
        let connection = schema::open_read_only(path).map_err(|error| failed(path, &error))?;
        Ok(SqliteReader { connection, path: path.to_owned(), _index: index })
    }
}

impl ReadConnection for SqliteReader {
    fn read<A>(
        &mut self,
        mut read: impl FnMut(&mut dyn Statements) -> Result<A, JournalError>,
    ) -> Result<A, JournalError> {
        let transaction = self.connection.transaction().map_err(|error| failed(&self.path, &error))?;
        read(&mut SqliteStatements { connection: &transaction, path: &self.path })
    }
}

/// An error of SQLite as an error of the journal.
pub(super) fn failed(path: &Path, error: &rusqlite::Error) -> JournalError {
    let why = error.to_string();
    let location = path.display().to_string();
    let code = error.sqlite_error().map(|error| (error.code, error.extended_code));
    match code {
        // The index of the write-ahead log, a file of its own, could not grow.
        Some((ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_SHMSIZE)) => JournalError::Full { why },
        // A missing page has an extended code.
        Some(
            (ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt, _) | (_, ffi::SQLITE_IOERR_SHORT_READ),
        ) => JournalError::Damaged { location, why },
        Some((ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly, _)) => {
            JournalError::Folder { path: path.to_owned(), source: std::io::Error::other(why) }
        }
        Some(_) => JournalError::Failed { why },
        // An error of rusqlite about a value: a wrong type, or a text that is not UTF-8.
        None => JournalError::Damaged { location, why },
    }
}
