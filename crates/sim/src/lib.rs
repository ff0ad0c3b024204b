//! The simulator: the batch and grid policies of `pliant-policy`, driven by a log instead of by users.
//!
//! [`simulate`] is the *direct* speed of the simulator: policies are called on clusters in memory. It
//! delivers to each cluster what a real batch system would deliver (submissions, ends, the clock) and asks
//! nothing of it that a real one cannot be asked. [`protocol`] is the other speed: agents, servers and clients
//! exchange messages over a simulated network.

pub mod campaign;
mod counters;
mod engine;
pub mod faults;
mod kernel;
pub mod limits;
pub mod multi_job;
pub mod optional;
pub mod protocol;
mod ready;
pub mod recorded;
mod stream;
pub mod twin;

use std::borrow::Borrow;
use std::fmt;

use pliant_model::{Job, Platform, Run, Speedup, Time};
use pliant_policy::batch::LocalPolicy;
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::Reallocation;
use pliant_policy::runtimes::predicted::{Basis, Prediction};
use pliant_policy::tuning::Tuner;

pub use stream::{StreamError, simulate_stream};

/// One job of a simulated workload: what the log says and how the simulation treats it.
#[derive(Clone, PartialEq, Debug)]
pub struct SimJob {
    /// The job.
    pub job: Job,
    /// How it scales, as its user and so all plans believe. [`Speedup::Rigid`] keeps the log's size.
    pub speedup: Speedup,
    /// How it really scales, where that is not what is believed: decides its limit and its end in the size that it
    /// gets. Only clusters that can plan a job longer when it outlives its plan take such jobs.
    pub true_speedup: Option<Speedup>,
    /// True if it goes through the federation; false if its user submits it straight, and rigid, to its
    /// origin cluster (non-dedicated platforms, paper 000, section 4.3.2).
    pub managed: bool,
}

/// Which of the events of one instant come first (docs/validation.md).
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
    /// How waiting jobs are moved; none keeps them where they are.
    pub reallocation: Option<Reallocation>,
    /// Order of the events of one instant.
    pub ties: Ties,
    /// What the clusters plan by, and with them the agent.
    pub plan_by: PlanBy,
    /// Seed of the policies that draw (random mapping).
    pub seed: u64,
    /// Whether to keep a record of every move, beside their number.
    pub keep_moves: bool,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            tuner: Tuner::default(),
            mapping: Mapping::Mct,
            reallocation: None,
            ties: Ties::FinishFirst,
            plan_by: PlanBy::Walltimes,
            seed: 1,
            keep_moves: true,
        }
    }
}

impl Policies {
    /// Fails if the clusters cannot do what is asked of them.
    fn check(&self, platform: &Platform) -> Result<(), SimError> {
        match folding(platform)? {
            Some(batch) if self.plan_by != PlanBy::Walltimes => {
                Err(SimError::Folding { batch, plan_by: self.plan_by.basis() })
            }
            _ => Ok(()),
        }
    }
}

/// The first batch policy of a platform that folds jobs.
fn folding(platform: &Platform) -> Result<Option<&'static str>, SimError> {
    for cluster in platform.clusters() {
        let local: LocalPolicy = cluster.batch.parse().map_err(SimError::Batch)?;
        if local.batch().folds {
            return Ok(Some(local.batch().name));
        }
    }
    Ok(None)
}

/// What plans are made by ([`pliant_policy::runtimes::predicted`]). The user's walltime is the limit in any case.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum PlanBy {
    /// What users ask for.
    #[default]
    Walltimes,
    /// What jobs that have ended make likely.
    Predictions(Prediction),
    /// What jobs will really take: a bound, since nobody knows.
    Runtimes,
}

impl PlanBy {
    /// The name of it.
    pub fn basis(&self) -> Basis {
        match self {
            Self::Walltimes => Basis::Walltimes,
            Self::Predictions(_) => Basis::Predictions,
            Self::Runtimes => Basis::Runtimes,
        }
    }
}

/// Told now and then how far a simulation is. Returning false stops the run with [`SimError::Stopped`].
pub trait Observer {
    /// `done` of `total` jobs have ended or were refused; the simulated clock is at `now`.
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
    /// A batch policy that folds jobs is to plan by something else than walltimes, from which it makes its shapes.
    Folding {
        /// The policy.
        batch: &'static str,
        /// What it was to plan by.
        plan_by: Basis,
    },
    /// A batch policy that folds jobs is to run a job that scales otherwise than is believed.
    FoldingMisjudged {
        /// The policy.
        batch: &'static str,
    },
    /// The workload is not sorted by submission: the job at this position comes before its predecessor.
    Unsorted(usize),
    /// The observer stopped the run.
    Stopped,
    /// The protocol speed does not do that.
    Protocol(protocol::Unsupported),
    /// The tree of agents is not one of the platform's clusters.
    Tree(protocol::TreeError),
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch(unknown) => write!(f, "{unknown}"),
            Self::Folding { batch, plan_by } => write!(
                f,
                "expected a batch policy that does not fold jobs to plan by {plan_by}, found `{batch}`"
            ),
            Self::FoldingMisjudged { batch } => write!(
                f,
                "expected a batch policy that does not fold jobs for jobs whose speedup is misjudged, found `{batch}`"
            ),
            Self::Unsorted(position) => {
                write!(f, "expected jobs sorted by submission, found job {position} before its predecessor")
            }
            Self::Stopped => write!(f, "stopped before the end"),
            Self::Protocol(unsupported) => write!(f, "{unsupported}"),
            Self::Tree(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for SimError {}

/// Simulates `jobs` (sorted by submission) on `platform`.
///
/// Jobs are taken from the iterator as their submission comes up and forgotten when they start: memory grows
/// with the jobs in flight and with one [`pliant_model::JobOutcome`] per job. [`simulate_stream`] takes jobs
/// that are read on the way and may turn out to be unreadable.
pub fn simulate<I>(
    platform: &Platform,
    jobs: I,
    policies: &Policies,
    observer: &mut dyn Observer,
) -> Result<Run, SimError>
where
    I: IntoIterator,
    I::Item: Borrow<SimJob>,
{
    engine::Engine::new(platform, jobs.into_iter(), policies)?.run(observer)
}
