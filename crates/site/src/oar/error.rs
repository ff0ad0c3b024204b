//! What can go wrong between this daemon and OAR, and which of it passes by itself.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

/// Why something that was asked of OAR was not done, or is not known to be.
#[derive(Debug)]
pub enum OarError {
    /// A command of OAR cannot be started.
    Command {
        /// Its name.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// OAR's server or its database does not answer, or has not done yet what it was asked. Passes. It may have been
    /// done, or may yet be: what is asked stands in the database.
    NoAnswer {
        /// The command that asked.
        command: &'static str,
        /// What it said, or for how long it said nothing.
        why: String,
    },
    /// OAR understood and says no. Asked again as it is, it says the same.
    Refused {
        /// The command that asked.
        command: &'static str,
        /// What it said.
        why: String,
    },
    /// OAR knows no job of that id that is ours.
    UnknownJob {
        /// The id.
        id: String,
    },
    /// What a command printed is not understood.
    Unreadable {
        /// The command.
        command: &'static str,
        /// Where.
        place: String,
        /// What is wrong there.
        why: String,
    },
    /// A command printed more than is taken in.
    TooLong {
        /// The command.
        command: &'static str,
        /// Bytes that are taken in.
        limit: usize,
    },
}

impl OarError {
    /// Whether it is worth asking the same again later.
    pub fn may_pass(&self) -> bool {
        match self {
            OarError::NoAnswer { .. } => true,
            // The descriptors or the memory of this host may be used up for a moment.
            OarError::Command { source, .. } => {
                !matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
            }
            OarError::Refused { .. }
            | OarError::UnknownJob { .. }
            | OarError::Unreadable { .. }
            | OarError::TooLong { .. } => false,
        }
    }

    /// Whether what was asked may have been done all the same.
    pub fn leaves_open(&self) -> bool {
        self.may_pass() || matches!(self, OarError::Unreadable { .. })
    }

    pub(super) fn silent(command: &'static str, waited: Duration) -> OarError {
        OarError::NoAnswer { command, why: format!("nothing within {} s", waited.as_secs()) }
    }

    /// What a command that failed means, by its exit code and what it printed on its standard error.
    pub(super) fn told(command: &'static str, code: i32, stderr: &str) -> OarError {
        let why = told(stderr);
        // Of oarsub 9 says that the job is in the database, but OAR's server was not told; of the others 2.
        let unheard = (command == "oarsub" && code == 9) || (command != "oarsub" && code == 2);
        match unheard || SILENCE.iter().any(|phrase| stderr.contains(phrase)) {
            true => OarError::NoAnswer { command, why },
            false => OarError::Refused { command, why },
        }
    }
}

/// What OAR's commands say when its server or its database does not answer.
const SILENCE: &[&str] = &[
    "DB connection error",
    "Cannot connect to database",
    "could not connect",
    "connection to server",
    "server closed the connection",
    "the database system is",
    "Cannot connect to executor",
    "Connection refused",
    "too many clients",
    "deadlock detected",
];

/// The last complaint: before it stand the remarks of admission rules, behind it the summary of oarsub.
fn told(stderr: &str) -> String {
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.rfind(|line| !line.contains("please verify your request syntax"));
    shown(said.unwrap_or("nothing on its standard error"))
}

/// Text from outside as it may stand in one line of a log.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(200).flat_map(char::escape_debug).collect();
    if text.chars().nth(200).is_some() {
        shown.push_str("...");
    }
    shown
}

impl fmt::Display for OarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OarError::Command { command, source } => write!(
                f,
                "cannot start {command}: {source} (`commands` names the folder of OAR's commands if they are not in \
                 PATH)"
            ),
            OarError::NoAnswer { command, why } => write!(f, "oar does not answer {command}: {why}"),
            OarError::Refused { command, why } => write!(f, "oar refuses {command}: {why}"),
            OarError::UnknownJob { id } => write!(f, "oar knows no job {id} of ours"),
            OarError::Unreadable { command, place, why } => {
                write!(f, "{command}: {place}: expected what oar 2.5 prints, found something else: {why}")
            }
            OarError::TooLong { command, limit } => {
                write!(f, "{command}: expected at most {limit} bytes of output, found more")
            }
        }
    }
}

impl Error for OarError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            OarError::Command { source, .. } => Some(source),
            _ => None,
        }
    }
}
