//! What custom policies ([`crate::custom`]) do wrong: the checks of their decisions, and the first error of a simulation.

use std::sync::{Arc, OnceLock};

use pliant_model::{JobId, Procs, Time};

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
    /// The batch policy leaves jobs that never start: no event is left at which it would be called.
    #[error("expected all jobs to start, found {count} that still wait after the last event, at {now} s")]
    NeverStarted {
        /// The time of the last event.
        now: Time,
        /// The first of these jobs.
        job: JobId,
        /// How many they are.
        count: usize,
    },
}

impl PolicyError {
    /// The job of the decision, if it is about one.
    pub fn job(&self) -> Option<JobId> {
        match self {
            Self::Overbooked { job, .. }
            | Self::NotWaiting { job, .. }
            | Self::NotANumber { job, .. }
            | Self::NeverStarted { job, .. } => Some(*job),
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
