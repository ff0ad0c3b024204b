//! Why the launcher does not do what it was asked for.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A refusal, or a call of the system that failed.
#[derive(Debug)]
pub enum Error {
    /// What was found is not what the file, or the launcher itself, allows.
    Refused {
        /// What is not allowed: a part of the request, or of the installation.
        what: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A file or folder that others than root could change.
    Unprotected {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        found: String,
    },
    /// The configuration file says something that it cannot say.
    Config {
        /// The configuration file.
        path: PathBuf,
        /// What is wrong in it.
        cause: ConfigError,
    },
    /// There is no request on standard input.
    Request(io::Error),
    /// A call of the system failed.
    System {
        /// What was being done.
        action: String,
        /// The system's reason.
        cause: io::Error,
    },
}

impl Error {
    /// For `map_err`: a call of the system failed while something was being done.
    pub(crate) fn system<E: Into<io::Error>>(action: impl Into<String>) -> impl FnOnce(E) -> Error {
        let action = action.into();
        move |cause| Error::System { action, cause: cause.into() }
    }

    /// Something that is not allowed.
    pub(crate) fn refused(what: &'static str, found: impl fmt::Debug, expected: impl Into<String>) -> Error {
        Error::Refused { what, found: format!("{found:?}"), expected: expected.into() }
    }
}

/// What the caller chose is written with escapes: a refusal is one line of printable characters.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused { what, found, expected } => {
                write!(f, "{what}: expected {expected}, found {found}")
            }
            Error::Unprotected { path, found } => write!(f, "{path:?}: {found}"),
            Error::Config { path, cause } => write!(f, "{}:{cause}", path.display()),
            Error::Request(cause) => write!(f, "no request on standard input: {cause}"),
            Error::System { action, cause } => write!(f, "cannot {action}: {cause}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Config { cause, .. } => Some(cause),
            Error::Request(cause) | Error::System { cause, .. } => Some(cause),
            _ => None,
        }
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

impl std::error::Error for ConfigError {}
