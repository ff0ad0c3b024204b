//! Why the launcher does not do what it was asked for.

use std::fmt;
use std::io;

/// Why nothing was done: a refusal, or a call of the system that failed. It is one line of printable characters for the log of the caller,
/// and nothing else depends on it.
#[derive(Debug)]
pub(crate) struct Error(pub(crate) String);

impl Error {
    /// For `map_err`: a call of the system failed while something was being done.
    pub(crate) fn system<E: Into<io::Error>>(action: impl fmt::Display) -> impl FnOnce(E) -> Error {
        move |cause| Error(format!("cannot {action}: {}", cause.into()))
    }

    /// Something that is not allowed. What the caller chose is written with escapes.
    pub(crate) fn refused(what: &str, found: impl fmt::Debug, expected: impl fmt::Display) -> Error {
        Error(format!("{what}: expected {expected}, found {found:?}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wrong in the text of a configuration file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The line, from 1.
    pub line: usize,
    /// What was expected and what was found.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.message)
    }
}
