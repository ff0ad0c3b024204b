//! Simulates a log while it is read.

use std::cell::RefCell;
use std::fmt;

use pliant_model::{PlannedJob, Platform, Run, Time};

use crate::{Observer, Policies, SimError, SimJob, simulate};

/// The reason why a streamed run ended early.
#[derive(Debug)]
pub enum StreamError<E> {
    /// The next job could not be read.
    Source(E),
    /// The run cannot be simulated.
    Sim(SimError),
}

impl<E: fmt::Display> fmt::Display for StreamError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => write!(f, "{error}"),
            Self::Sim(error) => write!(f, "{error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for StreamError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Source(error) => Some(error),
            Self::Sim(error) => Some(error),
        }
    }
}

/// Simulates jobs (sorted by submission) while they are read. The first read error ends the run; its partial result is
/// dropped.
pub fn simulate_stream<I, E>(
    platform: &Platform,
    jobs: I,
    policies: &Policies,
    observer: &mut dyn Observer,
) -> Result<Run, StreamError<E>>
where
    I: IntoIterator<Item = Result<SimJob, E>>,
{
    let failed = RefCell::new(None);
    let taken =
        jobs.into_iter().map_while(|job| job.map_err(|error| *failed.borrow_mut() = Some(error)).ok());
    let run = simulate(platform, taken.fuse(), policies, &mut UntilFailed { observer, failed: &failed });
    match failed.into_inner() {
        Some(error) => Err(StreamError::Source(error)),
        None => run.map_err(StreamError::Sim),
    }
}

/// Stops the run after a read error.
struct UntilFailed<'a, E> {
    observer: &'a mut dyn Observer,
    failed: &'a RefCell<Option<E>>,
}

impl<E> Observer for UntilFailed<'_, E> {
    fn progress(&mut self, done: usize, total: usize, now: Time) -> bool {
        self.failed.borrow().is_none() && self.observer.progress(done, total, now)
    }

    fn plans(&mut self) -> Option<&mut Vec<PlannedJob>> {
        self.observer.plans()
    }
}
