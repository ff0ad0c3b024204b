//! Errors of calls.

use std::error::Error;
use std::fmt;

use pliant_control::reason::Cause;
use pliant_transport::{TlsError, not_sent};
use pliant_wire::hint_of;
use tonic::{Code, Status};

/// A call that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientError {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    /// Why no server takes a submission.
    causes: Vec<Cause>,
    /// Our certificate is refused, or its holder lacks the permission.
    denied: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ErrorKind {
    /// The request is wrong.
    Usage,
    /// It does not exist, or we may not see it.
    Missing,
    /// The daemon is down or does not answer.
    Unavailable,
    /// It may work later.
    Busy,
    /// It failed.
    Failed,
}

impl ClientError {
    fn new(kind: ErrorKind, message: String, hint: Option<String>) -> ClientError {
        ClientError { kind, message, hint, causes: Vec::new(), denied: false }
    }

    /// The request is wrong.
    pub(crate) fn usage(message: impl fmt::Display) -> ClientError {
        ClientError::new(ErrorKind::Usage, message.to_string(), None)
    }

    /// The daemon is down or does not answer.
    pub(crate) fn unavailable(message: impl fmt::Display) -> ClientError {
        ClientError::new(ErrorKind::Unavailable, message.to_string(), None)
    }

    /// It does not exist.
    pub(crate) fn missing(message: impl fmt::Display) -> ClientError {
        ClientError::new(ErrorKind::Missing, message.to_string(), None)
    }

    /// It failed.
    pub(crate) fn failed(message: impl fmt::Display) -> ClientError {
        ClientError::new(ErrorKind::Failed, message.to_string(), None)
    }

    /// An invalid answer.
    pub(crate) fn protocol(error: impl fmt::Display) -> ClientError {
        let message = format!("the answer is not valid: {error}");
        let hint = Some("the daemon may have a later version".to_owned());
        ClientError::new(ErrorKind::Failed, message, hint)
    }

    /// Our certificate cannot be used.
    pub(crate) fn tls(error: TlsError) -> ClientError {
        let hint = error.hint().map(str::to_owned);
        ClientError::new(ErrorKind::Usage, error.to_string(), hint)
    }

    /// Adds why no server takes a submission.
    pub(crate) fn because(self, causes: Vec<Cause>) -> ClientError {
        ClientError { causes, ..self }
    }

    /// Adds what to do about it.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> ClientError {
        ClientError { hint: Some(hint.into()), ..self }
    }

    /// Adds what to do if it does not exist.
    pub(crate) fn if_missing(self, hint: &str) -> ClientError {
        let hint = if self.is_missing() { Some(hint.to_owned()) } else { self.hint };
        ClientError { hint, ..self }
    }

    /// A call that failed.
    pub(crate) fn call(whom: impl fmt::Display, status: &Status) -> ClientError {
        if let Some(error) = not_sent(status) {
            let hint = error.hint().map(str::to_owned);
            let message = format!("{whom}: {error}");
            let denied = error.is_about_us();
            return ClientError { denied, ..ClientError::new(ErrorKind::Unavailable, message, hint) };
        }
        let denied = !is_broken(status)
            && matches!(status.code(), Code::PermissionDenied | Code::Unauthenticated | Code::AlreadyExists);
        let kind = match status.code() {
            _ if is_broken(status) => ErrorKind::Unavailable,
            Code::InvalidArgument | Code::PermissionDenied | Code::Unauthenticated | Code::AlreadyExists => {
                ErrorKind::Usage
            }
            Code::FailedPrecondition | Code::OutOfRange => ErrorKind::Usage,
            Code::NotFound => ErrorKind::Missing,
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => ErrorKind::Unavailable,
            Code::ResourceExhausted | Code::Aborted => ErrorKind::Busy,
            _ => ErrorKind::Failed,
        };
        let message = match kind {
            ErrorKind::Usage | ErrorKind::Missing => status.message().to_owned(),
            _ => format!("{whom}: {}", status.message()),
        };
        let hint = hint_of(status).map(str::to_owned);
        ClientError { denied, ..ClientError::new(kind, message, hint) }
    }

    /// True if our certificate is refused or its holder lacks the permission: asking again changes nothing.
    pub fn is_denied(&self) -> bool {
        self.denied
    }

    /// True if the request is wrong, or asks for something that does not exist.
    pub fn is_input(&self) -> bool {
        matches!(self.kind, ErrorKind::Usage | ErrorKind::Missing)
    }

    /// True if it does not exist, or we may not see it.
    pub fn is_missing(&self) -> bool {
        self.kind == ErrorKind::Missing
    }

    /// Why no server takes a submission; empty for other failures.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// True if the same call may work later.
    pub fn may_pass(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Busy)
    }

    /// True if the daemon is down or does not answer.
    pub(crate) fn is_down(&self) -> bool {
        self.kind == ErrorKind::Unavailable
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// True if the call broke off: the answer of a daemon has no source. The daemon may have carried out the call.
pub(super) fn is_broken(status: &Status) -> bool {
    status.source().is_some()
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ClientError {}
