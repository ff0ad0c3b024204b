//! What can go wrong with a result folder, with the path, the line and the column.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

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
    /// A row of a CSV file has too few or too many columns.
    Columns {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
        /// How many columns the file has.
        expected: u64,
        /// How many there were.
        found: u64,
    },
    /// A CSV file is not text.
    Text {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: u64,
    },
    /// `summary.json` is not JSON of the expected form.
    Json {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// Its column, from 1.
        column: usize,
        /// What is wrong there.
        problem: String,
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
        source: ParquetError,
    },
}

impl FileError {
    pub(crate) fn io(path: &Path, action: &'static str, source: std::io::Error) -> FileError {
        FileError::Io { path: path.to_owned(), action, source }
    }

    /// What the CSV reader complains about, in words of the file.
    pub(crate) fn csv(path: &Path, source: csv::Error) -> FileError {
        let path = path.to_owned();
        let line = source.position().map_or(1, csv::Position::line);
        match source.into_kind() {
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                FileError::Columns { path, line, expected: expected_len, found: len }
            }
            csv::ErrorKind::Io(source) => FileError::Io { path, action: "read this file", source },
            _ => FileError::Text { path, line },
        }
    }

    /// What the JSON reader complains about, in words of the file.
    pub(crate) fn json(path: &Path, source: &serde_json::Error) -> FileError {
        let (line, column) = (source.line(), source.column());
        let text = source.to_string();
        let problem = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
        let value = problem.strip_prefix("invalid type: ").or(problem.strip_prefix("invalid value: "));
        let problem = match (problem.strip_prefix("missing field "), value) {
            (Some(key), _) => format!("found no key {key}"),
            (_, Some(value)) => format!("found {}", value.split(", expected").next().unwrap_or(value)),
            _ if source.is_eof() => "found the end of the file too early".to_owned(),
            _ => "found something that does not belong there".to_owned(),
        };
        FileError::Json { path: path.to_owned(), line: line.max(1), column: column.max(1), problem }
    }

    /// What the Parquet writer failed at: mostly a disk that is full.
    pub(crate) fn parquet(path: &Path, source: ParquetError) -> FileError {
        let path = path.to_owned();
        match source {
            ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
                Ok(source) => FileError::Io { path, action: "write this file", source: *source },
                Err(inner) => FileError::Parquet { path, source: ParquetError::External(inner) },
            },
            source => FileError::Parquet { path, source },
        }
    }

    /// What to do about it, if there is something to say.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io { path, action, source } if action.starts_with("read") => {
                reading_hint(path, source.kind())
            }
            Self::Io { source, .. } => writing_hint(source.kind()),
            Self::Value { .. } | Self::Row { .. } | Self::Columns { .. } | Self::Text { .. } => {
                Some("was the file edited? `pliant simulate --out` writes it anew")
            }
            Self::Header { .. } | Self::Json { .. } | Self::Platform { .. } => {
                Some("is it a result file of pliant? docs/results.md describes them")
            }
            Self::Schema { .. } => Some("read it with the version that wrote it"),
            Self::Parquet { .. } => Some("--formats csv,swf,json leaves this file out"),
        }
    }
}

fn reading_hint(path: &Path, kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NotFound if path.ends_with(super::SUMMARY_JSON) => {
            Some("is this the result folder of a run that ended?")
        }
        ErrorKind::NotFound => Some("was it left out with --formats, or removed?"),
        ErrorKind::PermissionDenied => Some("ask its owner for the permission to read it"),
        _ => None,
    }
}

fn writing_hint(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            Some("a file stands where a folder is needed: give another folder")
        }
        ErrorKind::IsADirectory => Some("a folder stands where the file is to be: give another folder"),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotFound => {
            Some("give a folder that you may write to")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Some("make room, or give a folder on another disk")
        }
        _ => None,
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, action, source } => write!(f, "{}: cannot {action}: {source}", path.display()),
            Self::Value { path, line, column, expected, found } => {
                write!(
                    f,
                    "{}:{line}: column `{column}`: expected {expected}, found `{found}`",
                    path.display()
                )
            }
            Self::Row { path, line, expected, found } => {
                write!(f, "{}:{line}: expected {expected}, found {found}", path.display())
            }
            Self::Header { path, expected, found } => {
                write!(f, "{}:1: expected the columns `{expected}`, found `{found}`", path.display())
            }
            Self::Columns { path, line, expected, found } => {
                write!(f, "{}:{line}: expected {expected} columns, found {found}", path.display())
            }
            Self::Text { path, line } => {
                write!(f, "{}:{line}: expected text in UTF-8, found other bytes", path.display())
            }
            Self::Json { path, line, column, problem } => {
                write!(f, "{}:{line}:{column}: expected the summary of a run, {problem}", path.display())
            }
            Self::Schema { path, found } => write!(
                f,
                "{}: key `schema`: expected `{}`, found `{found}`",
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
            Self::Parquet { source, .. } => Some(source),
            _ => None,
        }
    }
}
