//! Why a daemon cannot start or go on.

use std::io;
use std::net::SocketAddr;

use pliant_config::ConfigError;
use pliant_control::names::Name;
use pliant_journal::JournalError;
use pliant_transport::{Peer, Role, ServerTls, TlsError};

use crate::monitoring::{HttpError, MetricsError};

/// Why the loop of a machine cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The journal is lost for good: another daemon leads, or it is damaged.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The state in the journal does not fit the configuration.
    #[error(
        "the state in the journal does not fit the configuration: {why}; to change the kind of batch system, let the server \
         run empty first"
    )]
    Restore {
        /// Why.
        why: String,
    },
    /// What the journal holds cannot be read.
    #[error("cannot read entry {sequence} of the journal: {source}")]
    Unreadable {
        /// The entry, or the snapshot's.
        sequence: u64,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// Why a daemon cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Its file cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Its certificate is another daemon's.
    #[error(
        "expected a certificate of {} {}, found one of {} {}",
        expected.0.name(), expected.1, found.role.name(), found.name
    )]
    Certificate {
        /// What it should say.
        expected: (Role, Name),
        /// What it says.
        found: Peer,
    },
    /// It runs as root, and its jobs would, too.
    #[error("expected a user other than root, found root: all jobs would run as root")]
    Root,
    /// It runs as root, and its jobs as accounts.
    #[error("expected a user other than root, found root: the launcher does nothing for root")]
    RootWithAccounts,
    /// It cannot listen.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Its journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Its loop cannot go on.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Its pages cannot be served.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Its metrics cannot be kept.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// Connections cannot be served.
    #[error("cannot serve connections: {0}")]
    Transport(#[source] tonic::transport::Error),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// A folder of its state cannot be used.
    #[error("cannot use the {what}: {source}")]
    State {
        /// What of it.
        what: &'static str,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Its journal is an older copy of itself, and was not said to be one.
    #[error(
        "the state folder is an older copy of itself: its journal ended at status update {last}, of which the parent has kept those up \
         to {kept}"
    )]
    OlderCopy {
        /// The last status update in the journal when the server started.
        last: u64,
        /// The last one that the parent has kept.
        kept: u64,
    },
    /// Its thread ended in disorder; a log line before says why.
    #[error("internal error, please report it with the log")]
    Panicked,
}

impl DaemonError {
    /// True if its configuration is wrong: starting it again will not help.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Config(_) | Self::Tls(_) | Self::Certificate { .. } | Self::Http(_) => true,
            Self::Root | Self::RootWithAccounts | Self::OlderCopy { .. } => true,
            Self::Journal(error) | Self::Machine(MachineError::Journal(error)) => is_wrong(error),
            Self::Machine(MachineError::Restore { .. } | MachineError::Unreadable { .. }) => true,
            _ => false,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Tls(error) => error.hint(),
            Self::Root => Some("run the server as a user of its own, or give --allow-root"),
            Self::RootWithAccounts => Some("run the server as `caller` of /etc/pliant/launcher.toml"),
            Self::Certificate { .. } => Some("issue one with `pliant ca issue`, or correct `name`"),
            Self::Journal(error) | Self::Machine(MachineError::Journal(error)) => error.hint(),
            Self::Machine(MachineError::Unreadable { .. }) => Some(
                "use the version of Pliant that wrote it; docs/guides/backup.md says what can be restored",
            ),
            Self::OlderCopy { .. } => Some(
                "put the newer folder back, or start the server with --restored, which asks its agent what has changed since; \
                 docs/guides/backup.md says more",
            ),
            Self::Http(error) => error.hint(),
            Self::Listen { .. } => Some(
                "`ss -ltnp` shows the process that listens there: another daemon, or a job; end it, or change `listen`",
            ),
            Self::Config(error) => error.hint(),
            _ => None,
        }
    }

    /// Whether the certificate is the daemon's own.
    pub(crate) fn check_name(tls: &ServerTls, role: Role, name: &Name) -> Result<(), DaemonError> {
        let own = tls.own();
        if own.role == role && own.name == name.as_str() {
            return Ok(());
        }
        Err(DaemonError::Certificate { expected: (role, name.clone()), found: own })
    }
}

/// True if the journal stays as it is however often the daemon is started.
fn is_wrong(error: &JournalError) -> bool {
    // One that another daemon has taken over is in order, and so is one that we were about to write disorder to.
    !error.is_transient() && !matches!(error, JournalError::Deposed { .. } | JournalError::Order { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_start_does_not_mend_is_input() {
        let location = || "state".to_owned();
        let why = || "why".to_owned();
        let gap = |found| JournalError::Gap { location: location(), what: "entry", expected: 3, found };
        type Wrap = fn(JournalError) -> DaemonError;
        let cases: [(Wrap, &str); 2] = [
            (DaemonError::Journal, "when it was opened"),
            (|error| MachineError::from(error).into(), "when it was read or written"),
        ];
        for (wrap, when) in cases {
            for (error, expected) in [
                (gap(None), true),
                (gap(Some(5)), true),
                (JournalError::Lagging { location: location(), what: "term", expected: 3, found: 2 }, true),
                (JournalError::Damaged { location: location(), why: why() }, true),
                (JournalError::Version { location: location(), expected: 1, found: 2 }, true),
                (JournalError::Full { why: why() }, false),
                (JournalError::Unreachable { why: why() }, false),
                (JournalError::Deposed { why: why() }, false),
                (JournalError::Order { what: "entry", expected: 3, found: 4 }, false),
            ] {
                let hint = error.hint();
                let text = format!("{error} {when}");
                let error = wrap(error);
                assert_eq!(error.is_input(), expected, "{text}");
                assert_eq!(error.hint(), hint, "{text}");
            }
        }
        let source = serde_json::from_str::<u32>("{").unwrap_err();
        let unreadable = DaemonError::from(MachineError::Unreadable { sequence: 3, source });
        assert!(unreadable.is_input() && unreadable.hint().is_some());
    }
}
