//! Why the launcher does not do what it was asked for.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A refusal, or a call of the system that failed.
#[derive(Debug)]
pub enum Error {
    /// The program is not installed as it has to be.
    Installation(&'static str),
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
    /// The calling user is not the one in the configuration file.
    Caller {
        /// The user in the file.
        expected: String,
        /// The uid of the calling user.
        uid: u32,
    },
    /// There is no request on standard input.
    Request(io::Error),
    /// The account is not one as which anything is done.
    Account {
        /// The name in the request.
        account: String,
        /// Why not.
        reason: String,
    },
    /// Another value of the request is not allowed.
    Value {
        /// The value's name.
        name: &'static str,
        /// The value.
        found: String,
        /// What was expected.
        expected: String,
    },
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

    /// A value that is not allowed.
    pub(crate) fn value(name: &'static str, found: impl fmt::Debug, expected: impl Into<String>) -> Error {
        Error::Value { name, found: format!("{found:?}"), expected: expected.into() }
    }
}

/// What the caller chose is written with escapes: a refusal is one line of printable characters.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Installation(problem) => f.write_str(problem),
            Error::Unprotected { path, found } => write!(f, "{path:?}: {found}"),
            Error::Config { path, cause } => write!(f, "{}:{cause}", path.display()),
            Error::Caller { expected, uid } => {
                write!(f, "expected a call by the user `{expected}` (`caller` in the file), found uid {uid}")
            }
            Error::Request(cause) => write!(f, "no request on standard input: {cause}"),
            Error::Account { account, reason } => write!(f, "account {account:?}: {reason}"),
            Error::Value { name, found, expected } => write!(f, "{name}: expected {expected}, found {found}"),
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
