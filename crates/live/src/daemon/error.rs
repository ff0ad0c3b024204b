//! Why a daemon cannot start or go on.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use pliant_control::names::Name;

use super::RunnerError;
use crate::config::ConfigError;
use crate::identity::{Peer, Role, ServerTls, TlsError};
use crate::journal::JournalError;
use crate::telemetry::{HttpError, MetricsError};

/// Why a daemon cannot start or go on.
#[derive(Debug)]
pub enum DaemonError {
    /// Its file cannot be used.
    Config(ConfigError),
    /// Its certificate cannot be used.
    Tls(TlsError),
    /// Its certificate is somebody else's.
    Certificate {
        /// What it should say.
        expected: (Role, Name),
        /// What it says.
        found: Peer,
    },
    /// It cannot listen.
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Its journal cannot be used.
    Journal(JournalError),
    /// Its loop cannot go on.
    Runner(RunnerError),
    /// Its pages cannot be served.
    Http(HttpError),
    /// Its metrics cannot be kept.
    Metrics(MetricsError),
    /// Connections cannot be served.
    Transport(tonic::transport::Error),
    /// A thread cannot be started.
    Thread(io::Error),
    /// A folder of its state cannot be used.
    State {
        /// What of it.
        what: &'static str,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Its thread ended in disorder; a log line before says why.
    Panicked,
}

impl DaemonError {
    /// True if its configuration is wrong: starting it again will not help.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Config(_) | Self::Tls(_) | Self::Certificate { .. } | Self::Http(_) => true,
            Self::Journal(error) => !error.may_pass(),
            Self::Runner(RunnerError::Restore { .. }) => true,
            _ => false,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Tls(error) => error.hint(),
            Self::Certificate { .. } => Some("issue one with `pliant ca issue`, or correct `name`"),
            Self::Journal(error) => error.hint(),
            Self::Http(error) => error.hint(),
            Self::Listen { .. } => Some("is another daemon there? change `listen`"),
            Self::Config(ConfigError::Content(error)) => Some(&error.hint),
            _ => None,
        }
    }

    /// Whether the certificate is the daemon's own.
    pub(crate) fn check_name(tls: &ServerTls, role: Role, name: &Name) -> Result<(), DaemonError> {
        let own = tls.own();
        if own.role == role && own.name == name.as_str() {
            return Ok(());
        }
        Err(DaemonError::Certificate { expected: (role, name.clone()), found: own.clone() })
    }
}

impl fmt::Display for DaemonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "{error}"),
            Self::Tls(error) => write!(f, "{error}"),
            Self::Certificate { expected: (role, name), found } => write!(
                f,
                "expected a certificate of {} {name}, found one of {} {}",
                role.name(),
                found.role.name(),
                found.name
            ),
            Self::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            Self::Journal(error) => write!(f, "{error}"),
            Self::Runner(error) => write!(f, "{error}"),
            Self::Http(error) => write!(f, "{error}"),
            Self::Metrics(error) => write!(f, "{error}"),
            Self::Transport(error) => write!(f, "cannot serve connections: {error}"),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Self::State { what, source } => write!(f, "cannot use the {what}: {source}"),
            Self::Panicked => write!(f, "internal error, please report it with the log"),
        }
    }
}

impl std::error::Error for DaemonError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Tls(error) => Some(error),
            Self::Listen { source, .. } | Self::Thread(source) => Some(source),
            Self::Journal(error) => Some(error),
            Self::Runner(error) => Some(error),
            Self::Http(error) => Some(error),
            Self::Metrics(error) => Some(error),
            Self::Transport(error) => Some(error),
            Self::State { source, .. } => Some(source.as_ref()),
            Self::Certificate { .. } | Self::Panicked => None,
        }
    }
}

macro_rules! from {
    ($($variant:ident($source:ty)),* $(,)?) => {$(
        impl From<$source> for DaemonError {
            fn from(source: $source) -> DaemonError {
                DaemonError::$variant(source)
            }
        }
    )*};
}

from!(
    Config(ConfigError),
    Tls(TlsError),
    Journal(JournalError),
    Runner(RunnerError),
    Http(HttpError),
    Metrics(MetricsError),
);
