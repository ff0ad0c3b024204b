//! Errors of journals.

use std::io;
use std::path::PathBuf;

/// An error of a journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The folder cannot be created or used.
    #[error("{}: cannot be used: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Another daemon has the journal open.
    #[error("{location}: another daemon has this journal open{}", process.map(|id| format!(": process {id}")).unwrap_or_default())]
    Taken {
        /// The journal.
        location: String,
        /// The process that has it open, if known.
        process: Option<u32>,
    },
    /// The journal belongs to another daemon.
    #[error("{location}: expected the journal of {expected}, found that of {found}")]
    Owner {
        /// The journal.
        location: String,
        /// The daemon that opened it.
        expected: String,
        /// The daemon that owns it.
        found: String,
    },
    /// Another version of Pliant wrote the journal.
    #[error("{location}: expected a journal of version {expected}, found {found}")]
    Version {
        /// The journal.
        location: String,
        /// The version of this program.
        expected: i64,
        /// The version found.
        found: i64,
    },
    /// The file or database is not a journal, or is damaged.
    #[error("{location}: not a journal, or a damaged one: {why}")]
    Damaged {
        /// The journal.
        location: String,
        /// The cause.
        why: String,
    },
    /// A committed record is missing.
    #[error(
        "{location}: the journal is damaged: expected {what} {expected}, found {}",
        found.map_or("no more".to_owned(), |found| found.to_string())
    )]
    Gap {
        /// The journal.
        location: String,
        /// The kind of record.
        what: &'static str,
        /// The number that should follow.
        expected: u64,
        /// The number that follows; none at the end.
        found: Option<u64>,
    },
    /// The database is an older state of the journal, such as a replica that had not got all commits when it took over.
    #[error(
        "{location}: commits are missing, as after a failover to a replica: expected {what} {expected}, found {found}"
    )]
    Lagging {
        /// The journal.
        location: String,
        /// The kind of record, or the term of the leader.
        what: &'static str,
        /// The last number that was committed.
        expected: u64,
        /// The last number that is there.
        found: u64,
    },
    /// A batch does not follow the end of the journal: a mistake of the caller.
    #[error("cannot be journaled: expected {what} {expected} next, found {found}")]
    Order {
        /// The kind of record.
        what: &'static str,
        /// The number that should follow.
        expected: u64,
        /// The number given.
        found: u64,
    },
    /// The program was built without PostgreSQL.
    #[error(
        "expected a folder for the journal (state), found a PostgreSQL database, which this build does not support"
    )]
    NotBuilt,
    /// The connection string is invalid.
    #[error("not a connection string: {why}")]
    Connection {
        /// The cause.
        why: String,
    },
    /// The disk is full. Nothing was written; the call can be repeated.
    #[error("no space for the journal: {why}")]
    Full {
        /// The message of the database.
        why: String,
    },
    /// Another daemon has taken over.
    #[error("another daemon has taken over: {why}")]
    Deposed {
        /// What was found.
        why: String,
    },
    /// The database cannot be reached. The next call finds out whether the last commit succeeded.
    #[error("the journal's database cannot be reached: {why}")]
    Unreachable {
        /// The message of the database.
        why: String,
    },
    /// Any other error of the database.
    #[error("the journal's database failed: {why}")]
    Failed {
        /// The message of the database.
        why: String,
    },
}

impl JournalError {
    /// True if the call may succeed when it is repeated.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Full { .. } | Self::Unreachable { .. } | Self::Failed { .. })
    }

    /// What to do about the error.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Taken { .. } => Some("stop the other daemon, or give this one a folder of its own (state)"),
            Self::Owner { .. } => {
                Some("give each daemon a folder or database of its own; a daemon keeps its name")
            }
            Self::Version { .. } => Some("use the version of Pliant that wrote it"),
            Self::Damaged { .. } | Self::Gap { .. } => Some(
                "docs/guides/backup.md says what can be restored; a new journal would lose accepted jobs",
            ),
            Self::Lagging { .. } => Some(
                "have the database lead again that has them; docs/guides/backup.md says what can be restored without it",
            ),
            Self::Full { .. } => Some("free space on the disk; the daemon then continues by itself"),
            Self::Folder { .. } => Some(
                "check that this user can write to the folder; a systemd unit writes outside /var/lib/pliant with ReadWritePaths= only",
            ),
            Self::NotBuilt => Some(
                "use a package of Pliant, or build it with: cargo build --release -p pliant --features postgres",
            ),
            Self::Connection { .. } => {
                Some("expected, for example: host=/run/postgresql user=pliant dbname=pliant")
            }
            Self::Order { .. } | Self::Deposed { .. } | Self::Unreachable { .. } | Self::Failed { .. } => {
                None
            }
        }
    }
}
