//! The prospects of a multi-job's instances on a server.

use pliant_model::{Span, SpanMs};
use pliant_policy::allocation::Free;
use pliant_policy::allocation::instance_batches::free_soon;
use pliant_policy::allocation::instances::{Expected, RuntimeSource};

/// The prospects that a server reports for a multi-job.
#[derive(Clone, PartialEq, Debug)]
pub struct InstanceProspects {
    /// When its slots become free, by the expected runtimes of its jobs. A slot runs one instance at a time.
    pub free: Vec<FreeSlots>,
    /// The expected runtime of an instance: the mean over the sampled instances.
    pub instance: SpanMs,
    /// The units of the service in an instance, by its arguments; 1 if the arguments do not matter.
    pub scale: f64,
    /// The source of the expectation.
    pub source: RuntimeSource,
    /// Waiting or running jobs.
    pub jobs: u32,
    /// Failed jobs, of all jobs of the server so far.
    pub failures: u64,
    /// The most such instances in a batch, by the longest walltime of a job there; none without a limit.
    pub batch_most: Option<u32>,
    /// The numbers of the user's waiting jobs, which these prospects leave out.
    pub waiting: Vec<u32>,
    /// The sampled instances that the server refuses, each with the reason.
    pub refused: Vec<(u32, String)>,
}

/// Slots that become free at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeSlots {
    /// The time from now.
    pub at: SpanMs,
    /// The number of slots.
    pub slots: u32,
}

impl InstanceProspects {
    /// The number of instances that run at a time.
    pub fn slots(&self) -> u32 {
        self.free.iter().map(|slots| slots.slots).fold(0, u32::saturating_add)
    }

    /// The number of slots that become free within the duration of a batch.
    pub(super) fn free_soon(&self) -> u32 {
        free_soon(self.free.iter().map(FreeSlots::free))
    }

    /// The expected runtime of an instance, as the server reports it.
    pub(super) fn expected(&self) -> Expected {
        Expected { time: self.instance, source: self.source }
    }
}

impl FreeSlots {
    /// The same for an allocation in milliseconds.
    pub(super) fn free(&self) -> Free {
        Free { at: Span(self.at.0), processors: self.slots }
    }
}
