//! What can go wrong between this daemon and Slurm, and which of it passes by itself.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

/// Why something that was asked of Slurm was not done, or is not known to be.
#[derive(Debug)]
pub enum SlurmError {
    /// A command of Slurm cannot be started.
    Command {
        /// Its name.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// The controller, or a service it needs, does not answer. Passes. What was asked may have been done, or may
    /// yet be: a controller that was hung works off what it was sent.
    NoAnswer {
        /// The command that asked.
        command: &'static str,
        /// What it said, or for how long it said nothing.
        why: String,
    },
    /// Slurm understood and says no. Asked again as it is, it says the same.
    Refused {
        /// The command that asked.
        command: &'static str,
        /// What it said.
        why: String,
    },
    /// Slurm knows no job of that id: there never was one, or it ended too long ago.
    UnknownJob {
        /// The id.
        id: String,
    },
    /// The job does not wait any more, and what was asked can be done to waiting jobs only.
    NotWaiting {
        /// The id.
        id: String,
    },
    /// What a command printed is not understood.
    Unreadable(Unreadable),
    /// A command printed more than is taken in.
    TooLong {
        /// The command.
        command: &'static str,
        /// Bytes that are taken in.
        limit: usize,
    },
}

/// Text of Slurm's that is not understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// The command that printed it.
    pub command: &'static str,
    /// Where: a job's id, a field, a setting.
    pub place: String,
    /// What was expected there.
    pub expected: &'static str,
    /// What was found, cut if it is long.
    pub found: String,
}

impl Unreadable {
    pub(super) fn new(command: &'static str, place: &str, expected: &'static str, found: &str) -> Unreadable {
        Unreadable { command, place: shown(place), expected, found: shown(found) }
    }
}

impl SlurmError {
    /// Whether it is worth asking the same again later.
    pub fn may_pass(&self) -> bool {
        match self {
            SlurmError::NoAnswer { .. } => true,
            // The descriptors or the memory of this host may be used up for a moment.
            SlurmError::Command { source, .. } => {
                !matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
            }
            SlurmError::Refused { .. }
            | SlurmError::UnknownJob { .. }
            | SlurmError::NotWaiting { .. }
            | SlurmError::Unreadable(_)
            | SlurmError::TooLong { .. } => false,
        }
    }

    /// The same of what was not asked for by itself: the rest may be done later.
    pub(super) fn left_open(self) -> SlurmError {
        match self {
            SlurmError::Refused { command, why } => SlurmError::NoAnswer { command, why },
            other => other,
        }
    }

    pub(super) fn silent(command: &'static str, waited: Duration) -> SlurmError {
        SlurmError::NoAnswer { command, why: format!("nothing within {} s", waited.as_secs()) }
    }

    /// What a command that failed means, by what it printed on its standard error. `id` is the job it was about.
    pub(super) fn told(command: &'static str, id: Option<&str>, stderr: &str) -> SlurmError {
        let why = told(command, stderr);
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| stderr.contains(phrase));
        match id {
            _ if says(SILENCE) => SlurmError::NoAnswer { command, why },
            Some(id) if says(UNKNOWN) => SlurmError::UnknownJob { id: id.to_owned() },
            Some(id) if says(NOT_WAITING) => SlurmError::NotWaiting { id: id.to_owned() },
            _ => SlurmError::Refused { command, why },
        }
    }
}

/// What Slurm's commands say when the controller, or munge, or the database does not answer, or not now.
const SILENCE: &[&str] = &[
    "Unable to contact slurm",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Transport endpoint is not connected",
    "Communication connection failure",
    "Communication shutdown failure",
    "Message send failure",
    "Message receive failure",
    "Connection refused",
    "Connection reset",
    "Connection timed out",
    "No route to host",
    "Resource temporarily unavailable",
    "Slurm temporarily unable to accept job",
    "Slurm controller in standby mode",
    "slurmctld is starting",
    "Protocol authentication error",
    "Unable to connect to database",
    "Munge encode failed",
    "Munge decode failed",
    "Failed to connect to socket",
    "Unable to resolve",
    // What `scontrol hold` and `release` say of a controller that is away.
    "Unexpected message received",
];
const UNKNOWN: &[&str] = &["Invalid job id specified", "Invalid job id"];
const NOT_WAITING: &[&str] = &[
    "Job is no longer pending execution",
    "Job has already finished",
    "Job/step already completing or completed",
];

/// The last complaint, without the name of the command before it.
fn told(command: &str, stderr: &str) -> String {
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.clone().rfind(|line| line.contains("error")).or_else(|| lines.next());
    let mut said = said.unwrap_or("nothing on its standard error");
    for prefix in [command, ":", " ", "error:", " "] {
        said = said.strip_prefix(prefix).unwrap_or(said);
    }
    shown(said)
}

/// Text from outside as it may stand in one line of a log.
fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(200).flat_map(char::escape_debug).collect();
    if text.chars().nth(200).is_some() {
        shown.push_str("...");
    }
    shown
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unreadable { command, place, expected, found } = self;
        write!(f, "{command}: {place}: expected {expected}, found `{found}`")
    }
}

impl Error for Unreadable {}

impl fmt::Display for SlurmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlurmError::Command { command, source } => write!(
                f,
                "cannot start {command}: {source} (`commands` names the folder of Slurm's commands if they are not \
                 in PATH)"
            ),
            SlurmError::NoAnswer { command, why } => write!(f, "slurm does not answer {command}: {why}"),
            SlurmError::Refused { command, why } => write!(f, "slurm refuses {command}: {why}"),
            SlurmError::UnknownJob { id } => write!(f, "slurm knows no job {id}"),
            SlurmError::NotWaiting { id } => write!(f, "job {id} of slurm does not wait any more"),
            SlurmError::Unreadable(unreadable) => unreadable.fmt(f),
            SlurmError::TooLong { command, limit } => {
                write!(f, "{command}: expected at most {limit} bytes of output, found more")
            }
        }
    }
}

impl Error for SlurmError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SlurmError::Command { source, .. } => Some(source),
            SlurmError::Unreadable(unreadable) => Some(unreadable),
            _ => None,
        }
    }
}

impl From<Unreadable> for SlurmError {
    fn from(unreadable: Unreadable) -> SlurmError {
        SlurmError::Unreadable(unreadable)
    }
}
