//! What can go wrong with a result folder, with the path, the line and the column.

use std::fmt;
use std::path::{Path, PathBuf};

/// A result file that cannot be written, read or understood.
#[derive(Debug)]
pub enum FileError {
    /// The system refused.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was tried, as in "write this file".
        action: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// A value of a CSV file is not what its column holds.
    Value {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        /// The column's name.
        column: &'static str,
        /// What the column holds.
        expected: &'static str,
        /// What was there.
        found: String,
    },
    /// A row of a CSV file contradicts itself.
    Row {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        /// What holds for every row.
        expected: &'static str,
        /// What was there.
        found: String,
    },
    /// The first line of a CSV file is not the expected one.
    Header {
        /// The file.
        path: PathBuf,
        /// The expected columns.
        expected: String,
        /// What was there.
        found: String,
    },
    /// A CSV file is not CSV, or a row has too few or too many columns.
    Csv {
        /// The file.
        path: PathBuf,
        /// The parser's complaint, with the line.
        source: csv::Error,
    },
    /// `summary.json` is not JSON of the expected form.
    Json {
        /// The file.
        path: PathBuf,
        /// The parser's complaint, with line and column.
        source: serde_json::Error,
    },
    /// `summary.json` is of another version.
    Schema {
        /// The file.
        path: PathBuf,
        /// The version that was there.
        found: String,
    },
    /// The clusters in `summary.json` make no platform.
    Platform {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        problem: String,
    },
    /// The Parquet writer failed.
    Parquet {
        /// The file.
        path: PathBuf,
        /// Why.
        source: parquet::errors::ParquetError,
    },
}

impl FileError {
    pub(crate) fn io(path: &Path, action: &'static str, source: std::io::Error) -> FileError {
        FileError::Io { path: path.to_owned(), action, source }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, action, source } => {
                write!(f, "{}: cannot {action}: {source}", path.display())?;
                if path.ends_with(super::SUMMARY_JSON) && source.kind() == std::io::ErrorKind::NotFound {
                    write!(f, " (is this the result folder of a run that ended?)")?;
                }
                Ok(())
            }
            Self::Value { path, line, column, expected, found } => write!(
                f,
                "{}:{line}: column `{column}`: expected {expected}, found `{found}` (was the file edited?)",
                path.display()
            ),
            Self::Row { path, line, expected, found } => {
                write!(
                    f,
                    "{}:{line}: expected {expected}, found {found} (was the file edited?)",
                    path.display()
                )
            }
            Self::Header { path, expected, found } => write!(
                f,
                "{}:1: expected the columns `{expected}`, found `{found}` (is it a result file of pliant?)",
                path.display()
            ),
            Self::Csv { path, source } => {
                write!(f, "{}: expected comma-separated rows: {source}", path.display())
            }
            Self::Json { path, source } => {
                write!(f, "{}: expected the summary of a run: {source}", path.display())
            }
            Self::Schema { path, found } => write!(
                f,
                "{}: key `schema`: expected `{}`, found `{found}` (read it with the version that wrote it)",
                path.display(),
                crate::metrics::SUMMARY_SCHEMA
            ),
            Self::Platform { path, problem } => write!(f, "{}: key `clusters`: {problem}", path.display()),
            Self::Parquet { path, source } => write!(f, "{}: cannot write Parquet: {source}", path.display()),
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Csv { source, .. } => Some(source),
            Self::Json { source, .. } => Some(source),
            Self::Parquet { source, .. } => Some(source),
            Self::Value { .. }
            | Self::Row { .. }
            | Self::Header { .. }
            | Self::Schema { .. }
            | Self::Platform { .. } => None,
        }
    }
}
