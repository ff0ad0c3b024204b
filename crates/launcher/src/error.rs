//! Why the launcher does not do what it was asked for.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// The exit code of the launcher if it has not done what it was asked for.
pub const REFUSED: u8 = 125;
/// The same if it may be done later: the name service does not answer, or the host has too little of something.
pub const UNAVAILABLE: u8 = 124;
/// The same of what failed with the rights of the account, such as for its quota.
pub const FAILED_AS_ACCOUNT: u8 = 123;

/// Why nothing was done: a refusal, or a call of the system that failed. It is one line of printable characters for the log of the caller.
#[derive(Debug)]
pub(crate) struct Error {
    why: String,
    kind: Kind,
}

/// What the caller can do about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The same will not be done later either.
    Lasting,
    /// It may be done later: the name service does not answer, or the host has too little of something.
    Passing,
    /// It may be done later, and failed with the rights of the account: its user can cause it, by a full quota.
    OfAccount,
}

impl Error {
    /// For `map_err`: a call of the system failed while something was being done.
    pub(crate) fn system<E: Into<io::Error>>(action: impl fmt::Display) -> impl FnOnce(E) -> Error {
        move |cause| {
            let cause = cause.into();
            let kind = if may_pass(&cause) { Kind::Passing } else { Kind::Lasting };
            Error { why: format!("cannot {action}: {cause}"), kind }
        }
    }

    /// For `map_err`: the name service did not answer. It says so in many ways, and that an account is not there in none of them.
    pub(crate) fn name_service(action: impl fmt::Display) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::passing(format!("cannot {action}: {cause}"))
    }

    /// Something that is not allowed. What the caller chose is written with escapes.
    pub(crate) fn refused(what: &str, found: impl fmt::Debug, expected: impl fmt::Display) -> Error {
        Error::lasting(format!("{what}: expected {expected}, found {found:?}"))
    }

    /// Something that will not be done later either.
    pub(crate) fn lasting(why: String) -> Error {
        Error { why, kind: Kind::Lasting }
    }

    /// Something that may be done later.
    pub(crate) fn passing(why: String) -> Error {
        Error { why, kind: Kind::Passing }
    }

    /// The same of what was done with the rights of the account.
    pub(crate) fn of_account(self) -> Error {
        let kind = if self.kind == Kind::Passing { Kind::OfAccount } else { self.kind };
        Error { kind, ..self }
    }

    /// The exit code that says so.
    pub(crate) fn exit_code(&self) -> u8 {
        match self.kind {
            Kind::Lasting => REFUSED,
            Kind::Passing => UNAVAILABLE,
            Kind::OfAccount => FAILED_AS_ACCOUNT,
        }
    }
}

/// Whether a call of the system may succeed later.
fn may_pass(cause: &io::Error) -> bool {
    let passing = [
        Errno::AGAIN,
        Errno::BUSY,
        Errno::DQUOT,
        Errno::INTR,
        Errno::IO,
        Errno::MFILE,
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
    fn an_exit_code_says_what_may_be_done_later() {
        let failed = |errno: Errno| Error::system("make a folder")(errno);
        for errno in [Errno::DQUOT, Errno::NOSPC, Errno::AGAIN] {
            assert_eq!(failed(errno).exit_code(), UNAVAILABLE);
            assert_eq!(failed(errno).of_account().exit_code(), FAILED_AS_ACCOUNT);
        }
        for errno in [Errno::ACCESS, Errno::NOENT, Errno::EXIST, Errno::PERM] {
            assert_eq!(failed(errno).of_account().exit_code(), REFUSED);
            assert_eq!(Error::name_service("look up")(errno.into()).exit_code(), UNAVAILABLE);
        }
        assert_eq!(Error::refused("account", "root", "another one").exit_code(), REFUSED);
    }
}
