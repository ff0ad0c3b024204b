//! Which status updates of a job contradict what is known of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::job::{Exit, JobRecord};

/// Why a status update is refused: what was reported before shows that it is false.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contradiction {
    /// The job has another owner.
    Owner,
    /// The job was submitted under another key.
    Key,
    /// The job was moved otherwise.
    Moves,
    /// The job has ended, in another way.
    Ended,
}

impl Contradiction {
    /// The first thing in which a report contradicts a known record of the same job. A job has one owner and one key, each of
    /// its moves was made once, and a job that has ended has done so once and for all. A report that is older than what is
    /// known contradicts nothing, and neither does a move away from the server with which the job was taken to be lost.
    pub fn of(known: &JobRecord, reported: &JobRecord) -> Option<Contradiction> {
        if known.owner != reported.owner {
            return Some(Contradiction::Owner);
        }
        if known.key != reported.key {
            return Some(Contradiction::Key);
        }
        if known.progress() > reported.progress() {
            return None;
        }
        if !known.hops.iter().zip(&reported.hops).all(|(one, other)| one.is_same(other)) {
            return Some(Contradiction::Moves);
        }
        let was_elsewhere =
            matches!(known.exit, Some(Exit::Lost(_))) && reported.hops.len() > known.hops.len();
        (known.state.is_final() && known != reported && !was_elsewhere).then_some(Contradiction::Ended)
    }

    /// The stable word for metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Key => "key",
            Self::Moves => "moves",
            Self::Ended => "ended",
        }
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Owner => "the job is another user's",
            Self::Key => "the job was submitted under another key",
            Self::Moves => "the job was moved otherwise",
            Self::Ended => "the job has ended, and otherwise",
        })
    }
}
