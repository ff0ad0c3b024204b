//! What can be wrong with a file: what was expected, what was found, where, and what to do about it.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A file that cannot be used.
#[derive(Debug)]
pub struct TraceError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a file.
#[derive(Debug)]
pub enum Problem {
    /// It cannot be read; of kind `InvalidData` if it cannot be decompressed.
    Io(std::io::Error),
    /// It cannot be written.
    Write(std::io::Error),
    /// A line is not what the format says.
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
    /// A key of a TOML or JSON file is unknown, missing or has a bad value.
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
    /// A job would have to be dropped or repaired, and strictness was asked for.
    Strict {
        /// The line.
        line: u64,
        /// The job.
        job: i64,
        /// Why.
        reason: &'static str,
    },
    /// The file as a whole is not usable.
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

    /// What to do about it, if there is something to say.
    pub fn hint(&self) -> Option<String> {
        match &self.problem {
            Problem::Io(error) if error.kind() == ErrorKind::InvalidData => {
                Some("fetch the file again; `gzip -t FILE` checks it".to_owned())
            }
            Problem::Io(error) => reading_hint(error.kind()).map(str::to_owned),
            Problem::Write(error) => writing_hint(error.kind()).map(str::to_owned),
            Problem::Line { .. } => Some("see docs/workloads.md for the fields of each format".to_owned()),
            Problem::Strict { .. } => {
                Some("leave --strict out to repair or drop such jobs and count them".to_owned())
            }
            Problem::Key { hint, .. } | Problem::Content { hint, .. } => Some(hint.clone()),
        }
    }

    /// True if the file system is to blame, not the file's content.
    pub fn is_io(&self) -> bool {
        match &self.problem {
            Problem::Io(error) => error.kind() != ErrorKind::InvalidData,
            Problem::Write(_) => true,
            _ => false,
        }
    }
}

/// What to do about a file that cannot be read.
fn reading_hint(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NotFound => {
            Some("check the path; one that does not begin with / starts from the folder you are in")
        }
        ErrorKind::IsADirectory => Some("give a file in that folder"),
        ErrorKind::NotADirectory => Some("check the path; a file stands where it needs a folder"),
        ErrorKind::PermissionDenied => Some("ask its owner for the permission to read it"),
        _ => None,
    }
}

/// What to do about a file that cannot be written.
fn writing_hint(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::NotFound => Some("make its folder first, or give another place"),
        ErrorKind::IsADirectory => Some("give the name of a file, not of a folder"),
        ErrorKind::NotADirectory => Some("check the path; a file stands where it needs a folder"),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            Some("give a place that you may write to")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Some("make room, or give a place on another disk")
        }
        _ => None,
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            // What is wrong with damaged data is said in full by its reader.
            Problem::Io(error) if error.kind() == ErrorKind::InvalidData => write!(f, "{path}: {error}"),
            Problem::Io(error) => write!(f, "{path}: cannot read this file: {error}"),
            Problem::Write(error) => write!(f, "{path}: cannot write this file: {error}"),
            Problem::Line { line, column, expected, found } => {
                write!(f, "{path}:{line}:{column}: expected {expected}, found {found}")
            }
            Problem::Key { line, column, message, .. } => write!(f, "{path}:{line}:{column}: {message}"),
            Problem::Strict { line, job, reason } => write!(f, "{path}:{line}: job {job}: {reason}"),
            Problem::Content { message, .. } => write!(f, "{path}: {message}"),
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(error) | Problem::Write(error) => Some(error),
            _ => None,
        }
    }
}
