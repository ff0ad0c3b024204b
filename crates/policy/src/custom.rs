//! Custom policies: decisions of the caller of a simulation in place of those of the registries.
//!
//! A custom policy gets the view that registered policies have and returns its decision as data. What applies the decision checks it
//! first. A policy that fails, or decides what is impossible, ends the simulation: [`Failure`] keeps the first error, and no custom
//! policy is called after it.
//!
//! [`CustomPolicies`] is the only way in. Built-in policies do not pass through it.

mod sized;

use std::fmt;
use std::sync::{Arc, OnceLock};

use pliant_model::{ClusterId, Estimate, JobId, Platform, Procs, Request, Time};

use crate::UnknownName;
use crate::batch::order::{Aging, CustomOrder};
use crate::batch::{self, BatchView, LocalPolicy, Submission};
use crate::federation::Federation;

/// A batch policy: which waiting jobs start.
pub trait BatchPolicy: Send + Sync {
    /// A job has been queued on a cluster.
    ///
    /// # Errors
    ///
    /// The policy failed.
    fn submitted(&self, now: Time, cluster: ClusterId, job: &Submission) -> Result<(), PolicyError>;

    /// A running job has ended.
    ///
    /// # Errors
    ///
    /// The policy failed.
    fn ended(&self, now: Time, cluster: ClusterId, job: JobId) -> Result<(), PolicyError>;

    /// The jobs that start now, in starting order. Called after each submission, end and cancellation if a waiting job fits on the free
    /// processors.
    ///
    /// # Errors
    ///
    /// The policy failed.
    fn schedule(&self, view: &BatchView<'_>) -> Result<Vec<JobId>, PolicyError>;
}

/// A queue order: which waiting job is served first.
pub trait QueueOrder: Send + Sync {
    /// The rank of each of these jobs, of which the lowest is served first. Ties go by submission. The rank of a job must not depend on
    /// the other jobs: the rank of a request that is only estimated is computed alone.
    ///
    /// # Errors
    ///
    /// The order failed.
    fn ranks(&self, view: &QueueView<'_>) -> Result<Vec<f64>, PolicyError>;
}

/// A mapping: which cluster takes an arriving request.
pub trait MappingRule: Send + Sync {
    /// The position of the offer that the request takes. There is at least one offer.
    ///
    /// # Errors
    ///
    /// The mapping failed.
    fn choose(
        &self,
        now: Time,
        request: &Request,
        offers: &[(ClusterId, Estimate)],
    ) -> Result<usize, PolicyError>;
}

/// A sizing rule: how many processors a moldable request gets on a cluster.
pub trait SizingRule: Send + Sync {
    /// The position of the chosen size. `sizes` are all that the request can have, from the smallest on, each with its estimate; there
    /// are at least two. `waiting` is the number of waiting jobs.
    ///
    /// # Errors
    ///
    /// The rule failed.
    fn choose(&self, now: Time, sizes: &[Estimate], waiting: usize) -> Result<usize, PolicyError>;
}

/// A heuristic of reallocation: which waiting job a cycle considers next.
pub trait HeuristicRule: Send + Sync {
    /// The urgency of each of these jobs, of which the highest is considered next. Ties go to the oldest job.
    ///
    /// # Errors
    ///
    /// The heuristic failed.
    fn urgencies(&self, now: Time, jobs: &[JobOptions]) -> Result<Vec<f64>, PolicyError>;
}

/// The waiting jobs of a cluster, as a queue order sees them.
#[derive(Clone, Copy, Debug)]
pub struct QueueView<'a> {
    /// The present time.
    pub now: Time,
    /// The cluster.
    pub cluster: ClusterId,
    /// Its processors.
    pub procs: Procs,
    /// The jobs to rank.
    pub jobs: &'a [Submission],
}

/// A waiting job, as a heuristic of reallocation sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct JobOptions {
    /// The job.
    pub job: JobId,
    /// Its requested processors.
    pub procs: Procs,
    /// The cluster where it waits, or waited before it was cancelled.
    pub home: ClusterId,
    /// Its completion there; [`Time::MAX`] without a plan.
    pub current: Time,
    /// The best other cluster with its estimate, or the best cluster if the job was cancelled; none if no cluster accepts it.
    pub best: Option<(ClusterId, Estimate)>,
    /// The earliest completion of all, the present one included if the job may stay; [`Time::MAX`] if there is none.
    pub first: Time,
    /// The second-earliest; [`Time::MAX`] if there is none.
    pub second: Time,
}

/// Why a custom policy ends the simulation.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum PolicyError {
    /// The policy failed by itself: its message.
    #[error("{0}")]
    Failed(String),
    /// The policy starts a job that does not fit on the free processors.
    #[error("expected a start of at most {} free processors at {now} s, found one of {}", free.0, procs.0)]
    Overbooked {
        /// The time of the decision.
        now: Time,
        /// The job.
        job: JobId,
        /// The processors that it needs.
        procs: Procs,
        /// The processors that are free, after the starts before this one.
        free: Procs,
    },
    /// The policy starts a job that does not wait, perhaps because it starts it twice.
    #[error("expected starts of waiting jobs, each once, at {now} s, found one of a job that does not wait")]
    NotWaiting {
        /// The time of the decision.
        now: Time,
        /// The job.
        job: JobId,
    },
    /// The policy chooses a position that does not exist.
    #[error("expected {what} from 0 to {most} at {now} s, found {found}")]
    Position {
        /// What is chosen.
        what: &'static str,
        /// The time of the decision.
        now: Time,
        /// The last position.
        most: usize,
        /// What was chosen.
        found: i64,
    },
    /// The policy returns another number of values than it got jobs.
    #[error("expected {expected} {what}, one for each job, at {now} s, found {found}")]
    Count {
        /// What is returned.
        what: &'static str,
        /// The time of the decision.
        now: Time,
        /// The number of jobs.
        expected: usize,
        /// The number of values.
        found: usize,
    },
    /// The policy returns a value that is not a number.
    #[error("expected numbers as {what} at {now} s, found NaN")]
    NotANumber {
        /// What is returned.
        what: &'static str,
        /// The time of the decision.
        now: Time,
        /// The job.
        job: JobId,
    },
}

impl PolicyError {
    /// The job of the decision, if it is about one.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::Overbooked { job, .. } | Self::NotWaiting { job, .. } | Self::NotANumber { job, .. } => {
                Some(*job)
            }
            Self::Failed(_) | Self::Position { .. } | Self::Count { .. } => None,
        }
    }
}

/// The first error of the custom policies of a simulation. Clones share it.
#[derive(Clone, Default, Debug)]
pub struct Failure(Arc<OnceLock<PolicyError>>);

impl Failure {
    /// The error, if there is one.
    pub fn get(&self) -> Option<&PolicyError> {
        self.0.get()
    }

    /// The decision of `policy`; none if it fails, or if a policy has failed before.
    pub(crate) fn decision<T>(&self, policy: impl FnOnce() -> Result<T, PolicyError>) -> Option<T> {
        if self.get().is_some() {
            return None;
        }
        policy().map_err(|error| self.0.set(error)).ok()
    }
}

/// The custom policies of a simulation. Those that are none are built-in.
#[derive(Clone, Default)]
pub struct CustomPolicies {
    /// The batch policy of every cluster.
    pub batch: Option<Arc<dyn BatchPolicy>>,
    /// The queue order of every cluster, with its aging. The batch policy must be one that serves queue orders.
    pub order: Option<(Arc<dyn QueueOrder>, Aging)>,
    /// The mapping.
    pub mapping: Option<Arc<dyn MappingRule>>,
    /// The sizing rule of every cluster.
    pub sizing: Option<Arc<dyn SizingRule>>,
    /// The heuristic of reallocation.
    pub heuristic: Option<Arc<dyn HeuristicRule>>,
    /// Their first error.
    pub failure: Failure,
}

impl fmt::Debug for CustomPolicies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomPolicies")
            .field("batch", &self.batch.is_some())
            .field("order", &self.order.is_some())
            .field("mapping", &self.mapping.is_some())
            .field("sizing", &self.sizing.is_some())
            .field("heuristic", &self.heuristic.is_some())
            .field("failure", &self.failure)
            .finish()
    }
}

impl CustomPolicies {
    /// Puts the policies of clusters into a federation of this platform that has no jobs yet.
    ///
    /// # Errors
    ///
    /// If a batch policy of the platform cannot serve a custom order, or a cluster distinguishes nodes, which no custom policy does.
    pub fn put_into(
        &self,
        federation: &mut Federation,
        platform: &Platform,
        now: Time,
    ) -> Result<(), UnknownName> {
        for (id, cluster) in federation.ids().zip(platform.clusters()) {
            if cluster.nodes.is_some() && (self.batch.is_some() || self.order.is_some()) {
                return Err(UnknownName {
                    what: "local policy for a cluster with nodes",
                    found: "a custom policy".to_owned(),
                    expected: batch::REGISTRY
                        .iter()
                        .filter(|one| one.on_nodes.is_some())
                        .map(|one| one.name)
                        .collect(),
                });
            }
            if let Some(policy) = &self.batch {
                let policy = batch::custom(cluster.procs, id, Arc::clone(policy), self.failure.clone());
                federation.replace(id, policy);
            } else if let Some((rule, aging)) = &self.order {
                let local: LocalPolicy = cluster.batch.parse()?;
                let order =
                    CustomOrder { rule: Arc::clone(rule), cluster: id, failure: self.failure.clone() };
                federation.replace(id, local.scheduler_by(cluster.procs, now, order, *aging)?);
            }
            if let Some(rule) = &self.sizing {
                let inner = federation.scheduler(id).boxed_clone();
                federation.replace(id, sized::by(Arc::clone(rule), inner, self.failure.clone()));
            }
        }
        Ok(())
    }
}

/// Checks the values that a policy returns for jobs: one for each, all of them numbers.
pub(crate) fn checked(
    what: &'static str,
    now: Time,
    jobs: impl ExactSizeIterator<Item = JobId>,
    values: Vec<f64>,
) -> Result<Vec<f64>, PolicyError> {
    let (expected, found) = (jobs.len(), values.len());
    if expected != found {
        return Err(PolicyError::Count { what, now, expected, found });
    }
    match jobs.zip(&values).find(|(_, value)| value.is_nan()) {
        Some((job, _)) => Err(PolicyError::NotANumber { what, now, job }),
        None => Ok(values),
    }
}

/// Checks a position that a policy chooses.
pub(crate) fn position(
    what: &'static str,
    now: Time,
    choices: usize,
    found: usize,
) -> Result<usize, PolicyError> {
    let most = choices.saturating_sub(1);
    match found < choices {
        true => Ok(found),
        false => {
            Err(PolicyError::Position { what, now, most, found: i64::try_from(found).unwrap_or(i64::MAX) })
        }
    }
}
