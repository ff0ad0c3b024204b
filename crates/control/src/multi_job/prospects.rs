//! What the instances of a multi-job may expect of a server.

use pliant_model::{Span, SpanMs};
use pliant_policy::allocation::Free;
use pliant_policy::runtimes::Level;

use super::PACK_MS;

/// What a server says to whoever has a multi-job.
#[derive(Clone, PartialEq, Debug)]
pub struct Prospects {
    /// When its places come free, judging by the expected runtimes of what it has: each runs an instance at a time.
    pub free: Vec<Places>,
    /// How long an instance is expected to take: the mean over those that were asked about.
    pub instance: SpanMs,
    /// In how many units of its service that is: what the arguments make of it, 1 if they make nothing of it.
    pub scale: f64,
    /// From where that is known.
    pub told: Told,
    /// Jobs that wait or run.
    pub jobs: u32,
    /// Jobs that failed, of all that the server has had.
    pub failures: u64,
    /// The most such instances that a pack may have, by the longest walltime of a job there; none if there is no longest.
    pub pack_most: Option<u32>,
    /// Jobs of whoever asks that wait there, and that all of this is told without: their numbers.
    pub waiting: Vec<u32>,
    /// Of the instances that were to stand for all: those that are not taken there, and why.
    pub refused: Vec<(u32, String)>,
}

/// Places that come free at the same moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Places {
    /// From now.
    pub at: SpanMs,
    /// How many.
    pub places: u32,
}

/// From where it is known how long an instance takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// It is not: that is its walltime.
    Walltime,
    /// From jobs of the service that ended on the server.
    Statistics {
        /// How many.
        jobs: u64,
    },
    /// From jobs that ended anywhere in the federation: the server has seen too few of the service itself.
    Federation {
        /// What they have in common: the service or, where too few jobs of it are known, the user, or nothing.
        level: Level,
        /// How many.
        jobs: u64,
    },
    /// From instances of the same multi-job.
    Own {
        /// How many.
        instances: u64,
    },
}

/// How long a job is expected to run by all that has ended in a federation, on processors of speed 1 and the fewest that
/// it takes, divided by what its arguments make of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expectation {
    /// So long.
    pub runtime: SpanMs,
    /// What the jobs that tell it have in common.
    pub level: Level,
    /// How many they are.
    pub jobs: u64,
}

impl Told {
    /// True if jobs of the same service tell it.
    pub(super) fn is_of_service(self) -> bool {
        match self {
            Told::Statistics { .. } | Told::Own { .. } => true,
            Told::Federation { level, .. } => level == Level::Executable,
            Told::Walltime => false,
        }
    }
}

impl Prospects {
    /// How many instances run at a time.
    pub fn places(&self) -> u32 {
        self.free.iter().map(|places| places.places).fold(0, u32::saturating_add)
    }

    /// How many of them come free within the time of a pack.
    pub(super) fn soon(&self) -> u32 {
        let soon = self.free.iter().filter(|places| places.at.0 <= PACK_MS);
        soon.map(|places| places.places).fold(0, u32::saturating_add)
    }
}

impl Places {
    /// The same for an allocation in milliseconds.
    pub(super) fn free(&self) -> Free {
        Free { at: Span(self.at.0), processors: self.places }
    }
}
