//! Why a call is not made, or its outcome not known.

use std::io;
use std::path::PathBuf;

use pliant_calls::{EncodingError, ValueError};
use pliant_control::names::Name;
use pliant_control::reason::Cause;

use crate::ClientError;

/// A call that failed on the way. How a call ended that was carried out is a [`CallEnd`](super::CallEnd).
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The federation has no such server.
    NoSuchServer(Name),
    /// No server offers such a service to the caller.
    NoSuchService(String),
    /// The service has no signature.
    NotTyped(String),
    /// The arguments are not what the signature says.
    Values(ValueError),
    /// The arguments cannot be sent.
    Encoding(EncodingError),
    /// A local file cannot be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Data that the call names are not at their server: they have expired, were deleted, or are another user's.
    NoData(ClientError),
    /// What the call has stay at the server is more than its user may have there.
    DataBounds(ClientError),
    /// The call names data of another server than the one to which it goes.
    StoredElsewhere {
        /// The parameter.
        parameter: String,
        /// The server to which the call goes.
        server: Name,
        /// The server that has the data.
        found: Name,
    },
    /// No server accepts the call.
    Refused(ClientError),
    /// A daemon is down or does not answer: the same may work later.
    Unavailable(ClientError),
    /// Another failure.
    Other(ClientError),
}

impl CallError {
    /// The error of a submission.
    pub(super) fn of_submission(error: ClientError) -> CallError {
        match error.causes() {
            [] => error.into(),
            causes if causes.iter().all(|cause| matches!(cause, Cause::Unreachable | Cause::NoAnswer)) => {
                CallError::Unavailable(error)
            }
            causes if causes.contains(&Cause::NoData) => CallError::NoData(error),
            causes if causes.contains(&Cause::DataBounds) => CallError::DataBounds(error),
            _ => CallError::Refused(error),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::NoSuchServer(_) => Some("`pliant servers` lists the servers"),
            Self::NoSuchService(_) | Self::NotTyped(_) | Self::Values(_) => {
                Some("`pliant servers --services` shows the services and their signatures")
            }
            Self::Encoding(_) => Some("pass large data as a file"),
            Self::File { .. } => None,
            Self::StoredElsewhere { .. } => {
                Some("data of two servers cannot be arguments of one call: pass one of them as a value")
            }
            Self::NoData(error) | Self::DataBounds(error) => error.hint(),
            Self::Refused(error) | Self::Unavailable(error) | Self::Other(error) => error.hint(),
        }
    }

    /// True if the same may work later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSuchServer(name) => write!(f, "expected a server of the federation, found `{name}`"),
            Self::NoSuchService(name) => {
                write!(f, "expected a service that a server offers, found `{}`", name.escape_debug())
            }
            Self::NotTyped(name) => {
                write!(
                    f,
                    "expected a service with a signature, found `{}`, which has none",
                    name.escape_debug()
                )
            }
            Self::Values(error) => error.fmt(f),
            Self::Encoding(error) => error.fmt(f),
            Self::StoredElsewhere { parameter, server, found } => {
                write!(f, "`{parameter}`: expected data at server {server}, found data at server {found}")
            }
            Self::NoData(error) | Self::DataBounds(error) => error.fmt(f),
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Refused(error) | Self::Unavailable(error) | Self::Other(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<ClientError> for CallError {
    fn from(error: ClientError) -> CallError {
        if error.may_pass() { CallError::Unavailable(error) } else { CallError::Other(error) }
    }
}

impl From<ValueError> for CallError {
    fn from(error: ValueError) -> CallError {
        CallError::Values(error)
    }
}

impl From<EncodingError> for CallError {
    fn from(error: EncodingError) -> CallError {
        CallError::Encoding(error)
    }
}
