//! What the instances of a multi-job may expect of a server.

use pliant_model::{Span, SpanMs};
use pliant_policy::allocation::Free;
use pliant_policy::allocation::instance_batches::free_soon;
use pliant_policy::allocation::instances::{Expected, RuntimeSource};

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
    pub told: RuntimeSource,
    /// Jobs that wait or run.
    pub jobs: u32,
    /// Jobs that failed, of all that the server has had.
    pub failures: u64,
    /// The most such instances that a batch may have, by the longest walltime of a job there; none if there is no longest.
    pub batch_most: Option<u32>,
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

impl Prospects {
    /// How many instances run at a time.
    pub fn places(&self) -> u32 {
        self.free.iter().map(|places| places.places).fold(0, u32::saturating_add)
    }

    /// How many of them come free within the time of a batch.
    pub(super) fn soon(&self) -> u32 {
        free_soon(self.free.iter().map(Places::free))
    }

    /// How long the server says that an instance takes.
    pub(super) fn expected(&self) -> Expected {
        Expected { time: self.instance, source: self.told }
    }
}

impl Places {
    /// The same for an allocation in milliseconds.
    pub(super) fn free(&self) -> Free {
        Free { at: Span(self.at.0), processors: self.places }
    }
}
