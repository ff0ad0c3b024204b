//! Why work that a client can resume could not go on.

use std::fmt;

use pliant_control::names::Name;
use pliant_control::reason::Reason;

use crate::{ClientError, FolderError};

/// A server that takes nothing, and why.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerRefusal {
    /// The server.
    pub server: Name,
    /// Why.
    pub reason: Reason,
}

/// Why a sweep or an exploration could not go on.
#[derive(Debug)]
pub enum WorkError {
    /// A call failed, or no server takes the requests.
    Client(ClientError),
    /// The folder cannot be used.
    Folder(FolderError),
    /// No server runs such instances; why, by server.
    NoServer(Vec<ServerRefusal>),
    /// No server has accepted anything.
    Refused {
        /// How many instances were refused alone.
        instances: usize,
        /// One of the servers that refused.
        server: Name,
        /// Why.
        why: String,
    },
    /// The key of a job is that of another user's job.
    NotOurs {
        /// The server.
        server: Name,
        /// Why.
        why: String,
    },
}

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => error.fmt(f),
            Self::Folder(error) => error.fmt(f),
            Self::NoServer(servers) if servers.is_empty() => {
                write!(f, "no server is connected to the federation")
            }
            Self::NoServer(servers) => {
                write!(f, "no server accepts the work")?;
                let line = |one: &ServerRefusal| write!(f, "\n  {}: {}", one.server, one.reason.why);
                servers.iter().try_for_each(line)
            }
            Self::Refused { instances, server, why } => {
                write!(f, "no server accepts any of {instances} instances\n  {server}: {why}")
            }
            Self::NotOurs { server, why } => {
                write!(f, "the jobs of the sweep belong to another user\n  {server}: {why}")
            }
        }
    }
}

impl std::error::Error for WorkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Client(error) => Some(error),
            Self::Folder(error) => Some(error),
            Self::NoServer(_) | Self::Refused { .. } | Self::NotOurs { .. } => None,
        }
    }
}

impl From<ClientError> for WorkError {
    fn from(error: ClientError) -> WorkError {
        WorkError::Client(error)
    }
}

impl From<FolderError> for WorkError {
    fn from(error: FolderError) -> WorkError {
        WorkError::Folder(error)
    }
}
