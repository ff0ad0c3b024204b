//! What can be wrong with a journal.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// What can be wrong with a journal.
#[derive(Debug)]
pub enum JournalError {
    /// Its folder cannot be made or used.
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another daemon has it open.
    Taken {
        /// Where it is.
        place: String,
        /// The process that has it, if that is known.
        process: Option<u32>,
    },
    /// It belongs to another daemon.
    Owner {
        /// Where it is.
        place: String,
        /// Who opened it.
        expected: String,
        /// Whose it is.
        found: String,
    },
    /// It was written by another version of Pliant.
    Version {
        /// Where it is.
        place: String,
        /// The version that this program knows.
        expected: i64,
        /// The version that was found.
        found: i64,
    },
    /// It is not a journal, or a damaged one.
    Damaged {
        /// Where it is.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// Something that was committed is missing.
    Gap {
        /// Where it is.
        place: String,
        /// What is numbered: entries or news.
        what: &'static str,
        /// The number that should follow.
        expected: u64,
        /// The one that does; none at the end.
        found: Option<u64>,
    },
    /// What is to be committed does not follow what is there: a mistake of the caller.
    Order {
        /// What is numbered.
        what: &'static str,
        /// The number that should follow.
        expected: u64,
        /// The one given.
        found: u64,
    },
    /// The connection string cannot be read.
    Connection {
        /// Why.
        why: String,
    },
    /// The disk is full. Nothing was written; the same may be tried again.
    Full {
        /// What the database says.
        why: String,
    },
    /// Another daemon has taken over.
    Deposed {
        /// What was found.
        why: String,
    },
    /// The database cannot be reached. Whether the last commit was done is found out when it can.
    Unreachable {
        /// What the database says.
        why: String,
    },
    /// Anything else that the database says.
    Failed {
        /// What it says.
        why: String,
    },
}

impl JournalError {
    /// True if the same may work later: nothing is lost by trying again.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Unreachable { .. } | Self::Failed { .. })
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Taken { .. } => Some("stop the other daemon, or give this one a folder of its own (state)"),
            Self::Owner { .. } => {
                Some("give each daemon a folder or database of its own; a daemon keeps its name")
            }
            Self::Version { .. } => Some("use the version of Pliant that wrote it"),
            Self::Damaged { .. } | Self::Gap { .. } => {
                Some("restore the folder from a backup; starting anew would forget accepted jobs")
            }
            Self::Full { .. } => Some("make room on the disk; work goes on by itself then"),
            Self::Folder { .. } => Some("check that the folder may be written by this user"),
            Self::Connection { .. } => {
                Some("expected, for example: host=/run/postgresql user=pliant dbname=pliant")
            }
            Self::Order { .. } | Self::Deposed { .. } | Self::Unreachable { .. } | Self::Failed { .. } => {
                None
            }
        }
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder { path, source } => write!(f, "{}: cannot be used: {source}", path.display()),
            Self::Taken { place, process: None } => {
                write!(f, "{place}: another daemon has this journal open")
            }
            Self::Taken { place, process: Some(process) } => {
                write!(f, "{place}: another daemon has this journal open: process {process}")
            }
            Self::Owner { place, expected, found } => {
                write!(f, "{place}: expected the journal of {expected}, found that of {found}")
            }
            Self::Version { place, expected, found } => {
                write!(f, "{place}: expected a journal of version {expected}, found {found}")
            }
            Self::Damaged { place, why } => write!(f, "{place}: not a journal, or a damaged one: {why}"),
            Self::Gap { place, what, expected, found: Some(found) } => {
                write!(f, "{place}: the journal is damaged: expected {what} {expected}, found {found}")
            }
            Self::Gap { place, what, expected, found: None } => {
                write!(f, "{place}: the journal is damaged: expected {what} {expected}, found no more")
            }
            Self::Order { what, expected, found } => {
                write!(f, "cannot be journaled: expected {what} {expected} next, found {found}")
            }
            Self::Connection { why } => write!(f, "not a connection string: {why}"),
            Self::Full { why } => write!(f, "no room for the journal: {why}"),
            Self::Deposed { why } => write!(f, "another daemon has taken over: {why}"),
            Self::Unreachable { why } => write!(f, "the journal's database cannot be reached: {why}"),
            Self::Failed { why } => write!(f, "the journal's database failed: {why}"),
        }
    }
}

impl std::error::Error for JournalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Folder { source, .. } => Some(source),
            _ => None,
        }
    }
}
