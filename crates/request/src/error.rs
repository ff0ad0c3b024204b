//! The error of a request.

use std::fmt::{self, Display};
use std::path::Path;

use pliant_client::ClientError;
use pliant_config::ConfigError;
use pliant_trace::TraceError;

/// A request that cannot be made: what was expected and found, and what to do about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestError {
    message: String,
    hint: Option<String>,
    is_input: bool,
}

impl RequestError {
    /// What the user gave is wrong.
    pub fn input(message: impl Display) -> RequestError {
        RequestError { message: message.to_string(), hint: None, is_input: true }
    }

    /// The system failed.
    pub fn system(message: impl Display) -> RequestError {
        RequestError { message: message.to_string(), hint: None, is_input: false }
    }

    /// A file could not be read or written.
    pub fn io(path: &Path, action: &str, source: &std::io::Error) -> RequestError {
        RequestError::system(format!("{}: cannot {action}: {source}", path.display()))
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(self, hint: impl Display) -> RequestError {
        RequestError { hint: Some(hint.to_string()), ..self }
    }

    /// Names the place of the error before its message.
    #[must_use]
    pub fn at(self, place: &str) -> RequestError {
        RequestError { message: format!("{place}: {}", self.message), ..self }
    }

    /// The same without what its message begins with, if that is so.
    #[must_use]
    pub fn without_start(self, start: &str) -> RequestError {
        let message = self.message.strip_prefix(start).map(str::to_owned).unwrap_or(self.message);
        RequestError { message, ..self }
    }

    /// The message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// True if what the user gave is wrong, false if the system failed.
    pub fn is_input(&self) -> bool {
        self.is_input
    }
}

impl Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RequestError {}

/// A configuration file that is not valid.
impl From<ConfigError> for RequestError {
    fn from(error: ConfigError) -> RequestError {
        let hint = error.hint().map(str::to_owned);
        RequestError { hint, ..RequestError::input(error) }
    }
}

impl From<ClientError> for RequestError {
    fn from(error: ClientError) -> RequestError {
        let hint = error.hint().map(str::to_owned);
        RequestError { message: error.to_string(), hint, is_input: error.is_input() }
    }
}

/// A file of tasks that cannot be read, or is wrong.
impl From<TraceError> for RequestError {
    fn from(error: TraceError) -> RequestError {
        RequestError { message: error.to_string(), hint: error.hint(), is_input: !error.is_io() }
    }
}
