//! What can go wrong between this daemon and a batch system, and which of it passes by itself.

use std::fmt;
use std::io;

use crate::accounts::AccountName;

/// A kind of batch system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum System {
    /// Slurm.
    Slurm,
    /// OAR.
    Oar,
}

/// Why something that was asked of a batch system was not done, or is not known to be.
#[derive(Debug, thiserror::Error)]
pub enum BatchSystemError {
    /// A command cannot be started.
    #[error(
        "cannot start {command}: {source} (`commands` names the folder of the commands of {system} if they are not in PATH)"
    )]
    Command {
        /// Whose command.
        system: System,
        /// Its name.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// The batch system, or a service that it needs, does not answer, or has not done yet what it was asked. Passes. What was
    /// asked may have been done, or may yet be: a controller that was hung works off what it was sent, and what was asked of
    /// OAR stands in its database.
    #[error("{system} does not answer {command}: {why}")]
    NoAnswer {
        /// The batch system.
        system: System,
        /// The command that asked.
        command: &'static str,
        /// What it said, or for how long it said nothing.
        why: String,
    },
    /// The batch system understood and says no. Asked again as it is, it says the same.
    #[error("{system} refuses {command}: {why}")]
    Refused {
        /// The batch system.
        system: System,
        /// The command that asked.
        command: &'static str,
        /// What it said.
        why: String,
    },
    /// The batch system takes no more jobs of the user, or of all, at the moment: a limit is reached. There is no job. Passes when others
    /// have ended.
    #[error("{system} takes no more jobs at the moment: {why}")]
    Limited {
        /// The batch system.
        system: System,
        /// What it said.
        why: String,
    },
    /// The launcher does not run the command as the account. It was not run.
    #[error("the launcher does not run {command} as the account {account}: {why}")]
    NotAsAccount {
        /// The command.
        command: &'static str,
        /// The account.
        account: AccountName,
        /// Why.
        why: String,
        /// It may do so later.
        may_pass: bool,
    },
    /// The batch system hides what the server has to see.
    #[error("{0}")]
    Hidden(String),
    /// The batch system knows no job of this server with that id: there never was one, or it ended too long ago.
    #[error("{system} knows no job {id} of this server")]
    UnknownJob {
        /// The batch system.
        system: System,
        /// The id.
        id: String,
    },
    /// The job does not wait any more, and what was asked can be done to waiting jobs only.
    #[error("job {id} of {system} does not wait any more")]
    NotWaiting {
        /// The batch system.
        system: System,
        /// The id.
        id: String,
    },
    /// What a command printed is not understood.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A command printed more than is taken in.
    #[error("{command}: expected at most {limit} bytes of output, found more")]
    TooLong {
        /// The command.
        command: &'static str,
        /// Bytes that are taken in.
        limit: usize,
    },
}

/// Text of a batch system that is not understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{command}: {location}: expected {expected}, found `{found}`")]
pub struct Unreadable {
    /// The command that printed it.
    pub command: &'static str,
    /// Where: a job's id, a field, a setting.
    pub location: String,
    /// What was expected there.
    pub expected: &'static str,
    /// What was found, cut if it is long.
    pub found: String,
}

impl Unreadable {
    pub(crate) fn new(
        command: &'static str,
        location: &str,
        expected: &'static str,
        found: &str,
    ) -> Unreadable {
        Unreadable { command, location: shown(location), expected, found: shown(found) }
    }
}

/// Checks that the message of an error is short, and one line.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fit_to_show(unreadable: &Unreadable) {
    let shown = unreadable.to_string();
    assert!(shown.len() < 8_000 && !shown.contains(char::is_control), "{shown:?}");
}

impl System {
    pub(crate) fn no_answer(self, command: &'static str, why: impl Into<String>) -> BatchSystemError {
        BatchSystemError::NoAnswer { system: self, command, why: why.into() }
    }

    pub(crate) fn refused(self, command: &'static str, why: impl Into<String>) -> BatchSystemError {
        BatchSystemError::Refused { system: self, command, why: why.into() }
    }

    pub(crate) fn unknown_job(self, id: &str) -> BatchSystemError {
        BatchSystemError::UnknownJob { system: self, id: id.to_owned() }
    }
}

impl BatchSystemError {
    /// True if the same command may succeed later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoAnswer { .. } | Self::Hidden(_) | Self::Limited { .. } => true,
            // The descriptors or the memory of this host may be used up for a moment.
            Self::Command { source, .. } => {
                !matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
            }
            Self::NotAsAccount { may_pass, .. } => *may_pass,
            Self::Refused { .. } | Self::UnknownJob { .. } | Self::NotWaiting { .. } => false,
            Self::Unreadable(_) | Self::TooLong { .. } => false,
        }
    }

    /// True if the command may have been carried out all the same.
    pub fn leaves_open(&self) -> bool {
        !self.is_limit() && (self.may_pass() || matches!(self, Self::Unreadable(_)))
    }

    /// True if the batch system takes no more jobs for a while: there is none, and there may be one later.
    pub fn is_limit(&self) -> bool {
        matches!(self, Self::Limited { .. })
    }

    /// The same of what was not asked for by itself: the rest may be done later.
    pub(crate) fn left_open(self) -> BatchSystemError {
        match self {
            Self::Refused { system, command, why } => Self::NoAnswer { system, command, why },
            other => other,
        }
    }
}

/// Text from outside as it may stand in one line of a log.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(200).flat_map(char::escape_debug).collect();
    if text.chars().nth(200).is_some() {
        shown.push_str("...");
    }
    shown
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            System::Slurm => "slurm",
            System::Oar => "oar",
        })
    }
}
