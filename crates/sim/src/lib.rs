//! The simulator: the batch and grid policies of `pliant-policy`, driven by a log instead of by users.
//!
//! [`simulate`] is the *direct* simulation: policies are called on clusters in memory. Clusters get only what a real batch
//! system gets (submissions, ends, the clock) and answer only what a real one can answer. [`protocol`] is the other speed:
//! agents, servers and clients exchange messages over a simulated network.

pub mod campaign;
mod counters;
mod engine;
pub mod faults;
mod kernel;
pub mod limits;
pub mod multi_job;
mod needs;
pub mod optional;
mod priority_of_log;
pub mod protocol;
mod ready;
pub mod recorded;
mod run_options;
mod stream;
pub mod what_if;

use std::borrow::{Borrow, Cow};
use std::fmt;

use pliant_model::{Job, PlannedJob, Platform, Run, Speedup, Time};
use pliant_policy::batch::LocalPolicy;
use pliant_policy::batch::order::PrioritySettings;
use pliant_policy::custom::{CustomPolicies, PolicyError};
use pliant_policy::mapping::Mapping;
use pliant_policy::reallocation::Reallocation;
use pliant_policy::runtimes::predicted::{Basis, Prediction};
use pliant_policy::tuning::Tuner;

pub use engine::episode::{Episode, Step};
pub use priority_of_log::{PriorityError, PriorityOfLog};
pub use run_options::{OptionError, RunOptions};
pub use stream::{StreamError, simulate_stream};

/// One job of a simulated workload: its log entry and how the simulation treats it.
#[derive(Clone, PartialEq, Debug)]
pub struct SimJob {
    /// The job.
    pub job: Job,
    /// The speedup that its user and all plans assume. [`Speedup::Rigid`] keeps the log's size.
    pub speedup: Speedup,
    /// The real speedup, if the assumed one is wrong: decides the time limit and the end in the size that the job gets. Only
    /// clusters that can extend the plan of a running job accept such jobs.
    pub true_speedup: Option<Speedup>,
    /// True if it goes through the federation; false if a local user submits it as a rigid job to its origin cluster
    /// (non-dedicated platforms, paper 000, section 4.3.2).
    pub managed: bool,
}

/// The order of terminations and submissions of one instant (docs/research/validation.md).
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
    /// How waiting jobs are moved; none: they stay where they are.
    pub reallocation: Option<Reallocation>,
    /// What queue orders by usage are set by. Simulations over a network use the default.
    pub priority: PrioritySettings,
    /// Order of the events of one instant.
    pub ties: Ties,
    /// The runtimes that clusters and agent plan by.
    pub plan_by: PlanBy,
    /// What estimates of clusters with nodes count. Simulations over a network count nodes.
    pub estimates: Estimates,
    /// What moldable jobs need of the memory of clusters with nodes.
    pub memory: MoldableMemory,
    /// The seed of random policies (random mapping).
    pub seed: u64,
    /// Whether to record every move, not only their number.
    pub keep_moves: bool,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            tuner: Tuner::default(),
            mapping: Mapping::Mct,
            reallocation: None,
            priority: PrioritySettings::default(),
            ties: Ties::FinishFirst,
            plan_by: PlanBy::Walltimes,
            estimates: Estimates::Nodes,
            memory: MoldableMemory::PerProcessor,
            seed: 1,
            keep_moves: true,
        }
    }
}

impl Policies {
    /// Fails if a batch policy does not support these policies.
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

/// What the estimates and plans of a cluster with nodes count. Its batch system counts memory in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Estimates {
    /// Processors and memory of each node, as the batch system does.
    #[default]
    Nodes,
    /// Processors only. What they promise is wrong where memory is scarce.
    Processors,
}

/// The memory of a job that gets another size than its log says. In that size it needs what the log says in both cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MoldableMemory {
    /// As much for each processor at every size.
    #[default]
    PerProcessor,
    /// As much in all at every size: on fewer processors each needs more.
    Total,
}

/// The runtimes that plans use ([`pliant_policy::runtimes::predicted`]). The user's walltime is the time limit in any case.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum PlanBy {
    /// The walltimes that users request.
    #[default]
    Walltimes,
    /// Predictions from ended jobs.
    Predictions(Prediction),
    /// The real runtimes, which are unknown live: a bound.
    Runtimes,
}

impl PlanBy {
    /// Its name.
    pub fn basis(&self) -> Basis {
        match self {
            Self::Walltimes => Basis::Walltimes,
            Self::Predictions(_) => Basis::Predictions,
            Self::Runtimes => Basis::Runtimes,
        }
    }
}

/// Gets the progress of a simulation from time to time. Returning false stops the run with [`SimError::Stopped`].
pub trait Observer {
    /// `done` of `total` jobs have ended or were refused; the simulated clock is at `now`.
    fn progress(&mut self, done: usize, total: usize, now: Time) -> bool;

    /// Where the plan of each job right after its submission is recorded; none: plans are not recorded.
    fn plans(&mut self) -> Option<&mut Vec<PlannedJob>> {
        None
    }
}

/// An observer that ignores all reports.
pub struct NoObserver;

impl Observer for NoObserver {
    fn progress(&mut self, _: usize, _: usize, _: Time) -> bool {
        true
    }
}

/// A reason why a run cannot be simulated.
#[derive(Clone, PartialEq, Debug)]
pub enum SimError {
    /// A cluster names a batch policy that is not registered.
    Batch(pliant_policy::UnknownName),
    /// A batch policy that folds jobs needs walltimes for its shapes but should plan by something else.
    Folding {
        /// The policy.
        batch: &'static str,
        /// The requested basis of plans.
        plan_by: Basis,
    },
    /// A batch policy that folds jobs should run a job whose assumed speedup is wrong.
    FoldingMisjudged {
        /// The policy.
        batch: &'static str,
    },
    /// The workload is not sorted by submission: the job at this position comes before its predecessor.
    Unsorted(usize),
    /// The observer stopped the run.
    Stopped,
    /// The protocol speed does not support this.
    Protocol(protocol::Unsupported),
    /// The hierarchy of agents does not match the platform's clusters.
    Hierarchy(protocol::HierarchyError),
    /// A custom policy failed, or decided what is impossible.
    Custom {
        /// The error.
        error: PolicyError,
        /// The number of its job in the log, if it is about one.
        log_id: Option<u64>,
    },
    /// A reallocation algorithm that tries cycles and discards them should run with a custom batch policy, which would get submissions and
    /// cancellations that do not happen.
    CustomOnTrial,
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
            Self::Hierarchy(error) => write!(f, "{error}"),
            Self::Custom { error, log_id: Some(job) } => write!(f, "job {job}: {error}"),
            Self::Custom { error, log_id: None } => write!(f, "{error}"),
            Self::CustomOnTrial => write!(
                f,
                "expected another reallocation algorithm with a batch policy of the caller, found `no-worse`: it tries moves and \
                 discards them"
            ),
        }
    }
}

impl std::error::Error for SimError {}

/// Simulates `jobs` (sorted by submission) on `platform`.
///
/// Jobs are read from the iterator when their submission is due and dropped when they start: memory grows with the waiting
/// jobs and with one [`pliant_model::JobOutcome`] per job. [`simulate_stream`] accepts jobs whose reading may fail.
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
    simulate_custom(platform, jobs, policies, &CustomPolicies::default(), observer)
}

/// The same with policies of the caller in place of some of the others.
///
/// # Errors
///
/// Those of [`simulate`], and the first error of a custom policy.
pub fn simulate_custom<I>(
    platform: &Platform,
    jobs: I,
    policies: &Policies,
    custom: &CustomPolicies,
    observer: &mut dyn Observer,
) -> Result<Run, SimError>
where
    I: IntoIterator,
    I::Item: Borrow<SimJob>,
{
    let jobs = jobs.into_iter();
    engine::Engine::new(platform, jobs, Cow::Borrowed(policies), custom.clone())?.run(observer)
}
