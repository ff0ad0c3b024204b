//! Processors for policies without reservations: those free now, and the expected releases by walltimes.
//!
//! A job whose walltime ends at the present instant counts as ended, even before its termination is delivered, so that
//! decisions do not depend on the order of terminations at one instant (docs/research/validation.md). An overdue job does not.

use std::collections::BTreeMap;

use pliant_model::{JobId, Procs, Time};

use super::RunningJob;
use super::running::{Running, RunningShape};

/// Free processors and the expected releases.
#[derive(Clone, Debug)]
pub(super) struct Occupancy {
    capacity: Procs,
    /// Negative while processors change hands within an instant.
    idle: i64,
    running: Running,
    /// Processors released at each expected end.
    releases: BTreeMap<Time, u32>,
}

impl Occupancy {
    pub(super) fn new(capacity: Procs) -> Occupancy {
        let idle = i64::from(capacity.0);
        Occupancy { capacity, idle, running: Running::default(), releases: BTreeMap::new() }
    }

    pub(super) fn capacity(&self) -> Procs {
        self.capacity
    }

    /// Processors available to a job now.
    pub(super) fn free(&self, now: Time) -> Procs {
        let ending = self.releases.get(&now).copied().unwrap_or(0);
        Procs((self.idle + i64::from(ending)).max(0) as u32)
    }

    /// True if the walltime of a job ends at this instant and its termination was not delivered yet.
    pub(super) fn awaits_end(&self, now: Time) -> bool {
        self.releases.contains_key(&now)
    }

    /// Starts a job on free processors.
    pub(super) fn start(&mut self, job: JobId, procs: Procs, end: Time) {
        self.idle -= i64::from(procs.0);
        self.running.start(job, procs, end);
        *self.releases.entry(end).or_default() += procs.0;
    }

    /// Releases the processors of a job; none if it was not running.
    pub(super) fn finish(&mut self, job: JobId) -> Option<RunningShape> {
        let held = self.running.finish(job)?;
        self.idle += i64::from(held.procs.0);
        self.forget_release(held);
        Some(held)
    }

    /// Sets the expected end of a job.
    pub(super) fn extend(&mut self, job: JobId, end: Time) {
        let Some(held) = self.running.extend(job, end) else { return };
        self.forget_release(held);
        *self.releases.entry(end).or_default() += held.procs.0;
    }

    fn forget_release(&mut self, held: RunningShape) {
        if let Some(procs) = self.releases.get_mut(&held.end) {
            *procs -= held.procs.0;
            if *procs == 0 {
                self.releases.remove(&held.end);
            }
        }
    }

    /// Number of running jobs.
    pub(super) fn jobs(&self) -> usize {
        self.running.len()
    }

    /// The running jobs in undefined order: only for sums.
    pub(super) fn held(&self) -> impl Iterator<Item = RunningShape> + '_ {
        self.running.held()
    }

    /// The running jobs, by ID.
    pub(super) fn running(&self) -> Vec<RunningJob> {
        self.running.by_number()
    }

    /// The expected releases in order of time, as (time, processors). That of an overdue job is in the past.
    pub(super) fn releases(&self) -> impl Iterator<Item = (Time, Procs)> + '_ {
        self.releases.iter().map(|(end, procs)| (*end, Procs(*procs)))
    }

    /// The first time at which `procs` processors will be free, and how many will be free then.
    pub(super) fn when_free(&self, now: Time, procs: Procs) -> (Time, Procs) {
        let (mut at, mut free) = (now, self.free(now));
        for (end, released) in self.releases().filter(|(end, _)| *end != now) {
            if free >= procs {
                break;
            }
            at = end.max(now);
            free.0 += released.0;
        }
        (at, free)
    }
}
