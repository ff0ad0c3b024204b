//! Errors of workload files: what was expected, what was found, where, and what to do.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// An error of a file.
#[derive(Debug, thiserror::Error)]
#[error("{}{problem}", path.display())]
pub struct TraceError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong; its message continues the path.
    #[source]
    pub problem: Problem,
}

/// The kinds of errors of a file.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// It cannot be read; of kind `InvalidData` if it cannot be decompressed.
    #[error(": {}", reading(.0))]
    Io(#[source] std::io::Error),
    /// It cannot be written.
    #[error(": cannot write this file: {0}")]
    Write(#[source] std::io::Error),
    /// A line does not follow the format.
    #[error(":{line}:{column}: expected {expected}, found {found}")]
    Line {
        /// The line; 1 is the first.
        line: u64,
        /// The column in bytes; 1 is the first.
        column: u64,
        /// What was expected there.
        expected: String,
        /// What was found.
        found: String,
    },
    /// A key of a TOML or JSON file is unknown, missing or has an invalid value.
    #[error(":{line}:{column}: {message}")]
    Key {
        /// The line.
        line: u64,
        /// The column.
        column: u64,
        /// What is wrong, naming the key.
        message: String,
        /// What to do.
        hint: String,
    },
    /// A job needs repair, which the strict mode refuses.
    #[error(":{line}: job {job}: {reason}")]
    Strict {
        /// The line.
        line: u64,
        /// The job.
        job: i64,
        /// Why.
        reason: &'static str,
    },
    /// The file as a whole is not usable.
    #[error(": {message}")]
    Content {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: String,
    },
}

impl TraceError {
    pub(crate) fn new(path: &Path, problem: Problem) -> TraceError {
        TraceError { path: path.to_owned(), problem }
    }

    /// What to do about the error, if anything.
    pub fn hint(&self) -> Option<String> {
        match &self.problem {
            Problem::Io(error) if error.kind() == ErrorKind::InvalidData => {
                Some("fetch the file again; `gzip -t FILE` checks it".to_owned())
            }
            Problem::Io(error) => reading_hint(error.kind()).map(str::to_owned),
            Problem::Write(error) => writing_hint(error.kind()).map(str::to_owned),
            Problem::Line { .. } => {
                Some("see docs/reference/files/formats.md for the fields of each format".to_owned())
            }
            Problem::Strict { .. } => {
                Some("leave --strict out to repair or drop such jobs and count them".to_owned())
            }
            Problem::Key { hint, .. } | Problem::Content { hint, .. } => Some(hint.clone()),
        }
    }

    /// True if the error is one of the file system, not of the content.
    pub fn is_io(&self) -> bool {
        match &self.problem {
            Problem::Io(error) => error.kind() != ErrorKind::InvalidData,
            Problem::Write(_) => true,
            _ => false,
        }
    }
}

/// The message of a reading error. Errors of damaged data are complete by themselves.
fn reading(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::InvalidData => error.to_string(),
        _ => format!("cannot read this file: {error}"),
    }
}

/// What to do about a file that cannot be read.
fn reading_hint(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NotFound => {
            Some("check the path; one that does not begin with / starts from the folder you are in")
        }
        ErrorKind::IsADirectory => Some("give a file in that folder"),
        ErrorKind::NotADirectory => Some("check the path: one of its folders is a file"),
        ErrorKind::PermissionDenied => Some("ask its owner for permission to read it"),
        _ => None,
    }
}

/// What to do about a file that cannot be written.
fn writing_hint(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NotFound => Some("create its folder first, or give another path"),
        ErrorKind::IsADirectory => Some("give the name of a file, not of a folder"),
        ErrorKind::NotADirectory => Some("check the path: one of its folders is a file"),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            Some("give a path that you can write to")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Some("free space, or give a path on another disk")
        }
        _ => None,
    }
}
