//! Errors of result folders, with path, line and column.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[cfg(feature = "parquet")]
use parquet::errors::ParquetError;

use crate::metrics::SUMMARY_SCHEMA;

/// An error in reading or writing a result file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A call of the operating system failed.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The action, as in "write this file".
        action: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// A value of a CSV file does not fit its column.
    #[error("{}:{line}: column `{column}`: expected {expected}, found `{found}`", path.display())]
    Value {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The column's name.
        column: &'static str,
        /// The values of the column.
        expected: &'static str,
        /// The value found.
        found: String,
    },
    /// A row of a CSV file contradicts itself.
    #[error("{}:{line}: expected {expected}, found {found}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// A condition on every row.
        expected: &'static str,
        /// The values found.
        found: String,
    },
    /// The first line of a CSV file does not name the expected columns.
    #[error("{}:1: expected the columns `{expected}`, found `{found}`", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// The expected columns.
        expected: String,
        /// The columns found.
        found: String,
    },
    /// A row of a CSV file has too few or too many columns.
    #[error("{}:{line}: expected {expected} columns, found {found}", path.display())]
    Columns {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Columns of the file.
        expected: u64,
        /// Columns of the row.
        found: u64,
    },
    /// A CSV file is not text.
    #[error("{}:{line}: expected text in UTF-8, found other bytes", path.display())]
    Text {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// `summary.json` is not JSON of the expected structure.
    #[error("{}:{line}:{column}: expected the summary of a run, {problem}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What was found there.
        problem: String,
    },
    /// `summary.json` has another version.
    #[error("{}: key `schema`: expected `{SUMMARY_SCHEMA}`, found `{found}`", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// The version found.
        found: String,
    },
    /// The clusters in `summary.json` are not a valid platform.
    #[error("{}: key `clusters`: {problem}", path.display())]
    Platform {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The Parquet writer failed.
    #[cfg(feature = "parquet")]
    #[error("{}: cannot write Parquet: {source}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: ParquetError,
    },
}

impl FileError {
    pub(crate) fn io(path: &Path, action: &'static str, source: std::io::Error) -> FileError {
        FileError::Io { path: path.to_owned(), action, source }
    }

    /// An error of the CSV reader in terms of the file.
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

    /// An error of the JSON reader in terms of the file.
    pub(crate) fn json(path: &Path, source: &serde_json::Error) -> FileError {
        let (line, column) = (source.line(), source.column());
        let text = source.to_string();
        let problem = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
        let value = problem.strip_prefix("invalid type: ").or(problem.strip_prefix("invalid value: "));
        let problem = match (problem.strip_prefix("missing field "), value) {
            (Some(key), _) => format!("found no key {key}"),
            (_, Some(value)) => format!("found {}", value.split(", expected").next().unwrap_or(value)),
            _ if source.is_eof() => "found the end of the file too early".to_owned(),
            _ => "found another kind of content".to_owned(),
        };
        FileError::Json { path: path.to_owned(), line: line.max(1), column: column.max(1), problem }
    }

    /// An error of the Parquet writer: usually a full disk.
    #[cfg(feature = "parquet")]
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

    /// True if the content of a file is wrong; false if a file could not be read or written.
    pub fn is_of_content(&self) -> bool {
        match self {
            Self::Io { .. } => false,
            #[cfg(feature = "parquet")]
            Self::Parquet { .. } => false,
            _ => true,
        }
    }

    /// What to do about the error, if anything.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io { path, action, source } if action.starts_with("read") => {
                reading_hint(path, source.kind())
            }
            Self::Io { source, .. } => writing_hint(source.kind()),
            Self::Value { .. } | Self::Row { .. } | Self::Columns { .. } | Self::Text { .. } => {
                Some("the file may have been edited; `pliant simulate --out` writes it again")
            }
            Self::Header { .. } | Self::Json { .. } | Self::Platform { .. } => {
                Some("check that it is a result file of pliant; docs/reference/results.md describes them")
            }
            Self::Schema { .. } => Some("read it with the version of Pliant that wrote it"),
            #[cfg(feature = "parquet")]
            Self::Parquet { .. } => Some("--files csv,swf,json excludes this file"),
        }
    }
}

fn reading_hint(path: &Path, kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NotFound if path.ends_with(super::SUMMARY_JSON) => {
            Some("check that this is the result folder of a finished run")
        }
        ErrorKind::NotFound => Some("it may have been excluded with --files or removed"),
        ErrorKind::PermissionDenied => Some("ask its owner for permission to read it"),
        _ => None,
    }
}

fn writing_hint(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            Some("a file has the name of this folder: give another folder")
        }
        ErrorKind::IsADirectory => Some("a folder has the name of this file: give another folder"),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem | ErrorKind::NotFound => {
            Some("give a folder that you can write to")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Some("free space, or give a folder on another disk")
        }
        _ => None,
    }
}
