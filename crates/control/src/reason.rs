//! Why somebody does not take a submission: a cause that programs decide on, and a text for people.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::Name;

/// What stands in the way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// It is not said, or one of a later version.
    Unknown,
    /// The server does not run this service, or no scripts, for this user.
    NotOffered,
    /// What was asked for is wrong: an argument, a file.
    Invalid,
    /// It needs more processors than there are.
    TooLarge,
    /// It would take longer than it may.
    TooLong,
    /// Too many jobs of this user wait already.
    TooMany,
    /// The estimate that it relied on holds no more.
    Stale,
    /// Another user's submission has the key.
    KeyTaken,
    /// The server has given all its numbers.
    NoNumbersLeft,
    /// There was no answer in time.
    Silent,
    /// It has no connection to the agent above it.
    Absent,
    /// It could not be reached, or turned the call away at the door.
    Unreachable,
    /// It has too much to do.
    Busy,
    /// It is being stopped.
    Stopping,
    /// Its batch system has not answered yet, or takes no jobs at the moment.
    BatchSystem,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 15] = [
        Cause::Unknown,
        Cause::NotOffered,
        Cause::Invalid,
        Cause::TooLarge,
        Cause::TooLong,
        Cause::TooMany,
        Cause::Stale,
        Cause::KeyTaken,
        Cause::NoNumbersLeft,
        Cause::Silent,
        Cause::Absent,
        Cause::Unreachable,
        Cause::Busy,
        Cause::Stopping,
        Cause::BatchSystem,
    ];

    /// True if the same may be taken in a while: it is no fault of the submission's.
    pub fn may_pass(self) -> bool {
        match self {
            Self::TooMany | Self::Stale | Self::Silent | Self::Absent => true,
            Self::Unreachable | Self::Busy | Self::Stopping | Self::BatchSystem => true,
            Self::Unknown | Self::NotOffered | Self::Invalid | Self::TooLarge | Self::TooLong => false,
            Self::KeyTaken | Self::NoNumbersLeft => false,
        }
    }

    /// The stable word for scripts and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unknown => "other",
            Self::NotOffered => "not-offered",
            Self::Invalid => "invalid",
            Self::TooLarge => "too-large",
            Self::TooLong => "too-long",
            Self::TooMany => "too-many",
            Self::Stale => "stale",
            Self::KeyTaken => "key-taken",
            Self::NoNumbersLeft => "no-numbers-left",
            Self::Silent => "silent",
            Self::Absent => "not-connected",
            Self::Unreachable => "unreachable",
            Self::Busy => "busy",
            Self::Stopping => "stopping",
            Self::BatchSystem => "batch-system",
        }
    }

    /// The cause of that word, as far as this version knows it.
    pub fn from_word(word: &str) -> Cause {
        Self::ALL.into_iter().find(|cause| cause.word() == word).unwrap_or(Self::Unknown)
    }

    /// With a text for people.
    pub fn because(self, why: impl Into<String>) -> Reason {
        Reason { cause: self, why: why.into() }
    }
}

/// Why somebody does not take a submission.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Reason {
    /// What stands in the way.
    pub cause: Cause,
    /// The same for people.
    pub why: String,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// What came of asking the servers of a federation before a job was sent to one of them, beside the estimates that
/// were compared.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiscoverySummary {
    /// How many servers the agents know of that could be asked, there or not; 0 if that is not known.
    pub servers: u32,
    /// How many of them answered, by an estimate or a refusal.
    pub answered: u32,
    /// Servers that do not take the job, as far as they were told of, and why.
    pub passed: Vec<(Name, Cause)>,
}

impl DiscoverySummary {
    /// True if nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == DiscoverySummary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_word_of_its_own() {
        for cause in Cause::ALL {
            assert_eq!(Cause::from_word(cause.word()), cause);
        }
        assert_eq!(Cause::from_word("phase of the moon"), Cause::Unknown);
    }

    #[test]
    fn what_passes_is_told_from_what_does_not() {
        let passing: Vec<&str> =
            Cause::ALL.into_iter().filter(|cause| cause.may_pass()).map(Cause::word).collect();
        assert_eq!(
            passing,
            [
                "too-many",
                "stale",
                "silent",
                "not-connected",
                "unreachable",
                "busy",
                "stopping",
                "batch-system"
            ]
        );
    }
}
