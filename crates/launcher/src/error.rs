//! Why the launcher does not do what it was asked for.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// Why nothing was done: a refusal, or a call of the system that failed. It is one line of printable characters for the log of the caller.
#[derive(Debug)]
pub(crate) struct Error {
    why: String,
    /// The same may be done later: the name service does not answer, or the disk is full.
    pub(crate) may_pass: bool,
}

impl Error {
    /// For `map_err`: a call of the system failed while something was being done.
    pub(crate) fn system<E: Into<io::Error>>(action: impl fmt::Display) -> impl FnOnce(E) -> Error {
        move |cause| {
            let cause = cause.into();
            Error { why: format!("cannot {action}: {cause}"), may_pass: may_pass(&cause) }
        }
    }

    /// Something that is not allowed. What the caller chose is written with escapes.
    pub(crate) fn refused(what: &str, found: impl fmt::Debug, expected: impl fmt::Display) -> Error {
        Error::lasting(format!("{what}: expected {expected}, found {found:?}"))
    }

    /// Something that will not be done later either.
    pub(crate) fn lasting(why: String) -> Error {
        Error { why, may_pass: false }
    }
}

/// Whether a call of the system may succeed later. A name service that is not there says so in many ways.
fn may_pass(cause: &io::Error) -> bool {
    let passing = [
        Errno::AGAIN,
        Errno::BUSY,
        Errno::CONNREFUSED,
        Errno::CONNRESET,
        Errno::DQUOT,
        Errno::HOSTUNREACH,
        Errno::INTR,
        Errno::IO,
        Errno::MFILE,
        Errno::NETUNREACH,
        Errno::NFILE,
        Errno::NOMEM,
        Errno::NOSPC,
        Errno::STALE,
        Errno::TIMEDOUT,
    ];
    Errno::from_io_error(cause).is_some_and(|errno| passing.contains(&errno))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_done_later_passes() {
        let failed = |errno: Errno| Error::system("make a folder")(errno).may_pass;
        assert!([Errno::DQUOT, Errno::NOSPC, Errno::CONNREFUSED, Errno::AGAIN].into_iter().all(failed));
        assert!(![Errno::ACCESS, Errno::NOENT, Errno::EXIST, Errno::PERM].into_iter().any(failed));
        assert!(!Error::refused("account", "root", "another one").may_pass);
    }
}
