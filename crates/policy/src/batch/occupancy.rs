//! The processors of a cluster as policies without reservations see them: how many are free now, and when
//! the running jobs will give theirs back by their walltimes.
//!
//! A job whose walltime ends at the present instant counts as gone, even before its termination is
//! delivered: it will be before anything starts, and decisions must not depend on which of several
//! terminations of an instant comes first (docs/validation.md). A job that is overdue does not.

use std::collections::BTreeMap;

use pliant_model::{JobId, Procs, Time};

use super::RunningJob;
use super::running::{Running, RunningShape};

/// Free processors and the expected releases.
#[derive(Clone, Debug)]
pub(super) struct Occupancy {
    capacity: Procs,
    /// Negative while processors are handed on within an instant.
    idle: i64,
    running: Running,
    /// Processors given back at each expected end.
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

    /// Processors that a job may take now.
    pub(super) fn free(&self, now: Time) -> Procs {
        let ending = self.releases.get(&now).copied().unwrap_or(0);
        Procs((self.idle + i64::from(ending)).max(0) as u32)
    }

    /// True if the walltime of a job ends at this instant and its termination was not yet delivered.
    pub(super) fn awaits_end(&self, now: Time) -> bool {
        self.releases.contains_key(&now)
    }

    /// A job takes processors that are free.
    pub(super) fn start(&mut self, job: JobId, procs: Procs, end: Time) {
        self.idle -= i64::from(procs.0);
        self.running.start(job, procs, end);
        *self.releases.entry(end).or_default() += procs.0;
    }

    /// A job gives its processors back; none if it was not running.
    pub(super) fn finish(&mut self, job: JobId) -> Option<RunningShape> {
        let held = self.running.finish(job)?;
        self.idle += i64::from(held.procs.0);
        self.forget_release(held);
        Some(held)
    }

    /// A job is expected to give its processors back at `end` only.
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

    /// How many jobs hold processors.
    pub(super) fn jobs(&self) -> usize {
        self.running.len()
    }

    /// What the jobs hold that run, in no particular order: only for sums.
    pub(super) fn held(&self) -> impl Iterator<Item = RunningShape> + '_ {
        self.running.held()
    }

    /// The jobs that hold processors, by number.
    pub(super) fn running(&self) -> Vec<RunningJob> {
        self.running.by_number()
    }

    /// The expected releases in order of time, as (time, processors). A job that should have ended is in
    /// the past.
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
