//! Reasons for refusals: a cause for programs, and a text for people.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::Name;

/// The cause of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Not given, or of a later version.
    Unknown,
    /// The server does not offer this service, or scripts, to this user.
    NotOffered,
    /// The request is invalid: an argument, a file.
    Invalid,
    /// It needs more processors than there are.
    TooLarge,
    /// Its walltime would be longer than the longest allowed.
    TooLong,
    /// Too many jobs of this user wait already.
    TooMany,
    /// The estimate that the client relied on is stale.
    Stale,
    /// Another user's submission has the key.
    KeyTaken,
    /// The server has no job numbers left.
    NoNumbersLeft,
    /// The server did not answer in time.
    NoAnswer,
    /// The server has no connection to its agent.
    NotConnected,
    /// The server could not be reached, or refused the connection.
    Unreachable,
    /// The server is overloaded.
    Busy,
    /// The server is stopping.
    Stopping,
    /// The batch system has not answered yet, or accepts no jobs at the moment.
    BatchSystem,
    /// The user has no account on the cluster.
    NoAccount,
    /// An operator has the server accept no new jobs.
    Drained,
    /// An operator has the server accept nothing of this user.
    Banned,
    /// It needs memory, GPUs or other resources that the cluster does not have, or does not count.
    Resources,
    /// It would complete after its deadline.
    Deadline,
    /// A call names data that are not at the server, or not the user's.
    NoData,
    /// What a call has stay at the server exceeds the bounds of its user.
    DataBounds,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 22] = [
        Cause::Unknown,
        Cause::NotOffered,
        Cause::Invalid,
        Cause::TooLarge,
        Cause::TooLong,
        Cause::TooMany,
        Cause::Stale,
        Cause::KeyTaken,
        Cause::NoNumbersLeft,
        Cause::NoAnswer,
        Cause::NotConnected,
        Cause::Unreachable,
        Cause::Busy,
        Cause::Stopping,
        Cause::BatchSystem,
        Cause::NoAccount,
        Cause::Drained,
        Cause::Banned,
        Cause::Resources,
        Cause::Deadline,
        Cause::NoData,
        Cause::DataBounds,
    ];

    /// True if a later try may succeed.
    pub fn may_pass(self) -> bool {
        match self {
            Self::TooMany | Self::Stale | Self::NoAnswer | Self::NotConnected => true,
            Self::Unreachable | Self::Busy | Self::Stopping | Self::BatchSystem | Self::Drained => true,
            Self::Unknown | Self::NotOffered | Self::Invalid | Self::TooLarge | Self::TooLong => false,
            Self::KeyTaken | Self::NoNumbersLeft | Self::NoAccount | Self::Banned | Self::Resources => false,
            // Other jobs may end early, but that is no reason to wait for.
            Self::Deadline => false,
            Self::NoData => false,
            // Data expire, and can be deleted, but nothing waits for that.
            Self::DataBounds => false,
        }
    }

    /// True if a server that refuses a batch of instances may take a smaller one, or other instances.
    pub fn is_of_work(self) -> bool {
        matches!(self, Self::Invalid | Self::TooLong | Self::Deadline)
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
            Self::NoAnswer => "no-answer",
            Self::NotConnected => "not-connected",
            Self::Unreachable => "unreachable",
            Self::Busy => "busy",
            Self::Stopping => "stopping",
            Self::BatchSystem => "batch-system",
            Self::NoAccount => "no-account",
            Self::Drained => "drained",
            Self::Banned => "banned",
            Self::Resources => "resources",
            Self::Deadline => "deadline",
            Self::NoData => "no-data",
            Self::DataBounds => "data-bounds",
        }
    }

    /// The cause of that word; [`Cause::Unknown`] if this version does not know it.
    pub fn from_word(word: &str) -> Cause {
        Self::ALL.into_iter().find(|cause| cause.word() == word).unwrap_or(Self::Unknown)
    }

    /// The cause with a text for people.
    pub fn because(self, why: impl Into<String>) -> Reason {
        Reason { cause: self, why: why.into() }
    }
}

/// The reason for a refusal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Reason {
    /// The cause.
    pub cause: Cause,
    /// The text for people.
    pub why: String,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// A summary of the answers to a discovery query, besides the estimates that were compared.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DiscoverySummary {
    /// Number of servers that the agents know, up or down; 0 if unknown.
    pub servers: u32,
    /// Number of servers that answered, by an estimate or a refusal.
    pub answered: u32,
    /// Number of servers that were not asked: by their summaries none of them is among the best.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub not_asked: u32,
    /// Servers that do not take the job, as far as known, and why.
    pub passed: Vec<(Name, Cause)>,
}

impl DiscoverySummary {
    /// True if it holds nothing.
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
    fn temporary_causes_may_pass() {
        let passing: Vec<&str> =
            Cause::ALL.into_iter().filter(|cause| cause.may_pass()).map(Cause::word).collect();
        assert_eq!(
            passing,
            [
                "too-many",
                "stale",
                "no-answer",
                "not-connected",
                "unreachable",
                "busy",
                "stopping",
                "batch-system",
                "drained"
            ]
        );
    }
}
