//! Why a call did not do what it should.

use std::error::Error;
use std::fmt;

use pliant_control::reason::Cause;
use pliant_transport::{TlsError, not_sent};
use tonic::{Code, Status};

/// Why a call did not do what it should.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientError {
    kind: Kind,
    message: String,
    hint: Option<String>,
    /// Why nobody takes a submission.
    causes: Vec<Cause>,
    /// It is our certificate, or what its holder may do.
    denied: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// What was asked for is wrong.
    Usage,
    /// There is no such thing, or none that we may know of.
    Missing,
    /// Nobody is there to answer.
    Absent,
    /// It may work later.
    Busy,
    /// It failed.
    Failed,
}

impl ClientError {
    fn new(kind: Kind, message: String, hint: Option<String>) -> ClientError {
        ClientError { kind, message, hint, causes: Vec::new(), denied: false }
    }

    /// What was asked for is wrong.
    pub(crate) fn usage(message: impl fmt::Display) -> ClientError {
        ClientError::new(Kind::Usage, message.to_string(), None)
    }

    /// Nobody is there to answer.
    pub(crate) fn absent(message: impl fmt::Display) -> ClientError {
        ClientError::new(Kind::Absent, message.to_string(), None)
    }

    /// There is no such thing.
    pub(crate) fn missing(message: impl fmt::Display) -> ClientError {
        ClientError::new(Kind::Missing, message.to_string(), None)
    }

    /// It failed.
    pub(crate) fn failed(message: impl fmt::Display) -> ClientError {
        ClientError::new(Kind::Failed, message.to_string(), None)
    }

    /// An answer that cannot be understood.
    pub(crate) fn protocol(error: impl fmt::Display) -> ClientError {
        let message = format!("the answer cannot be understood: {error}");
        let hint = Some("is it of a much later version?".to_owned());
        ClientError::new(Kind::Failed, message, hint)
    }

    /// Our certificate cannot be used.
    pub(crate) fn tls(error: TlsError) -> ClientError {
        let hint = error.hint().map(str::to_owned);
        ClientError::new(Kind::Usage, error.to_string(), hint)
    }

    /// The same, with why nobody takes a submission.
    pub(crate) fn because(self, causes: Vec<Cause>) -> ClientError {
        ClientError { causes, ..self }
    }

    /// The same, with what to do about it.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> ClientError {
        ClientError { hint: Some(hint.into()), ..self }
    }

    /// The same, with what to do about it if there is no such thing.
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
            return ClientError { denied, ..ClientError::new(Kind::Absent, message, hint) };
        }
        let denied = !is_broken(status)
            && matches!(status.code(), Code::PermissionDenied | Code::Unauthenticated | Code::AlreadyExists);
        let kind = match status.code() {
            _ if is_broken(status) => Kind::Absent,
            Code::InvalidArgument | Code::PermissionDenied | Code::Unauthenticated | Code::AlreadyExists => {
                Kind::Usage
            }
            Code::FailedPrecondition | Code::OutOfRange => Kind::Usage,
            Code::NotFound => Kind::Missing,
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => Kind::Absent,
            Code::ResourceExhausted | Code::Aborted => Kind::Busy,
            _ => Kind::Failed,
        };
        let message = match kind {
            Kind::Usage | Kind::Missing => status.message().to_owned(),
            _ => format!("{whom}: {}", status.message()),
        };
        ClientError { denied, ..ClientError::new(kind, message, None) }
    }

    /// True if it is our certificate that is refused, or what its holder may do: asking again changes nothing.
    pub fn is_denied(&self) -> bool {
        self.denied
    }

    /// True if what was asked for is wrong, or is not there.
    pub fn is_input(&self) -> bool {
        matches!(self.kind, Kind::Usage | Kind::Missing)
    }

    /// True if there is no such thing, or none that we may know of.
    pub fn is_missing(&self) -> bool {
        self.kind == Kind::Missing
    }

    /// Why nobody takes a submission, one for each reason told; nothing if it is something else that failed.
    pub fn causes(&self) -> &[Cause] {
        &self.causes
    }

    /// True if the same may work later.
    pub fn may_pass(&self) -> bool {
        matches!(self.kind, Kind::Absent | Kind::Busy)
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

/// True if the call broke off on its way, whatever its code: what a daemon answers has no further cause. It may have
/// been done.
pub(super) fn is_broken(status: &Status) -> bool {
    status.source().is_some()
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for ClientError {}
