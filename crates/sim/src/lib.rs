//! The simulator: local batch policies and grid policies of `pliant-policy`, driven by a log instead of by users.
use pliant_model::{Job, Platform, Run, Speedup, Time};
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::Reallocation;
use pliant_policy::tuning::Tuner;

/// One job of a simulated workload: what the log says and how the simulation treats it.
#[derive(Clone, PartialEq, Debug)]
pub struct SimJob {
    /// The job.
    pub job: Job,
    /// How it scales. [`Speedup::Rigid`] keeps the log's size.
    pub speedup: Speedup,
    /// True if it goes through the federation; false if its user submits it straight, and rigid, to its
    /// origin cluster (non-dedicated platforms, paper 000, section 4.3.2).
    pub managed: bool,
}

/// Which of the events of one instant come first (oracle semantics; see docs/validation.md).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Ties {
    /// Terminations, then submissions, then starts.
    #[default]
    FinishFirst,
    /// Submissions, then terminations, then starts.
    SubmitFirst,
}

/// The policies of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Policies {
    /// How servers size moldable requests.
    pub tuner: Tuner,
    /// How the agent chooses a cluster.
    pub mapping: Mapping,
    /// How waiting jobs are moved; none keeps them.
    pub reallocation: Option<Reallocation>,
    /// Order of the events of one instant.
    pub ties: Ties,
    /// Seed of the policies that draw (random mapping).
    pub seed: u64,
}

/// Told now and then how far a simulation is. Returning false stops the run with [`SimError::Stopped`].
pub trait Observer {
    /// `done` of `total` jobs have ended; the simulated clock is at `now`.
    fn progress(&mut self, done: usize, total: usize, now: Time) -> bool;
}

/// Watches nothing.
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _: usize, _: usize, _: Time) -> bool {
        true
    }
}

/// A run that cannot be simulated.
#[derive(Clone, PartialEq, Debug)]
pub enum SimError {
    /// A cluster names a batch policy that is not registered.
    Batch(pliant_policy::UnknownName),
    /// The observer stopped the run.
    Stopped,
}

/// Simulates `jobs` (sorted by submission) on `platform`.
pub fn simulate(platform: &Platform, jobs: &[SimJob], policies: &Policies, observer: &mut dyn Observer) -> Result<Run, SimError> {
    let _ = (platform, jobs, policies, observer);
    Err(SimError::Stopped)
}
