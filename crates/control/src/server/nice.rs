//! The order that a user gives to jobs of the user's own (`--nice`).
//!
//! A job with a number above 0 is in the queue of Pliant's own batch system only while no job of its owner with a lower number waits at the
//! server. Until then it is in no plan, like a held job: jobs of other users pass it, and none of them starts later. In an external batch
//! system it is that system's own order.
//!
//! Cost: a pass over all jobs in memory after each event, while jobs with such a number wait here.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{Estimate, JobId, Time};

use super::source::OutgoingJob;
use super::{Command, Server, ServerJob};
use crate::job::JobState;
use crate::names::User;

/// Why a job is kept back, for people.
pub(super) const BEHIND_OWN: &str = "jobs of its owner with a lower --nice wait here";

impl Server {
    /// Takes jobs out of the queue behind which their owners let other jobs wait, and puts them back once there are no such jobs. A second
    /// call changes nothing.
    pub(super) fn keep_behind_own(&mut self, now: Time, commands: &mut Vec<Command>) {
        if self.nice.is_empty() || self.is_external() {
            return;
        }
        let (jobs, own) = (&self.jobs, &self.config.name);
        let waits = |number: &u32| {
            let record = jobs.get(number).map(|entry| &entry.record);
            record.is_some_and(|record| record.state == JobState::Queued && record.server() == own)
        };
        self.nice.retain(waits);
        let lowest = self.lowest_nice();
        for number in self.nice.iter().copied().collect::<Vec<u32>>() {
            let Some(entry) = self.jobs.get(&number) else { continue };
            // What waits for something else is looked at when that is over.
            let Some(lowest) = lowest.get(&entry.record.owner).filter(|_| self.competes(entry)) else {
                continue;
            };
            let is_behind = *lowest < entry.record.work.nice;
            if is_behind == entry.is_behind_own {
                continue;
            }
            let owner = entry.record.owner.clone();
            if let Some(entry) = self.jobs.get_mut(&number) {
                entry.is_behind_own = is_behind;
            }
            if is_behind {
                self.keep_back(now, number, commands);
            } else if !self.keeps_back(&owner) {
                self.with_batch(now, commands, |batch, effects| batch.release(now, JobId(number), effects));
            }
        }
    }

    /// The lowest number among the jobs with which one of an owner's jobs competes, of the owners who have given some.
    fn lowest_nice(&self) -> BTreeMap<User, u32> {
        let owners = self.nice.iter().filter_map(|number| self.jobs.get(number));
        let mut lowest: BTreeMap<User, u32> =
            owners.map(|entry| (entry.record.owner.clone(), u32::MAX)).collect();
        let held = self.batch.held_jobs();
        let admitted: BTreeSet<u32> = lowest.keys().flat_map(|user| self.kept_by_limits(user)).collect();
        for entry in self.jobs.values() {
            let Some(least) = lowest.get_mut(&entry.record.owner) else { continue };
            let is_kept = held.contains(&JobId(entry.number)) && !entry.is_behind_own;
            // Not one that may never enter the queue.
            if self.competes(entry) && (!is_kept || admitted.contains(&entry.number)) {
                *least = entry.record.work.nice.min(*least);
            }
        }
        lowest
    }

    /// True if a job waits here for nothing but processors, the limits of its owner, and other jobs of its owner.
    fn competes(&self, entry: &ServerJob) -> bool {
        let ServerJob { number, record, .. } = entry;
        record.state == JobState::Queued
            && *record.server() == self.config.name
            && !(entry.held.is_some() || entry.deferred.is_some() || entry.recalled)
            && entry.started_before.is_none()
            && !self.outgoing.get(number).is_some_and(OutgoingJob::is_withdrawn)
            && !self.banned.contains_key(&record.owner)
            && self.batch.unplanned(JobId(*number)).is_none()
    }

    /// How far a job stands back that waits here, or is prepared here.
    pub fn nice(&self, number: u32) -> u32 {
        let prepared = || {
            let one = self.prepared.values().find(|prepared| prepared.number == number)?;
            Some(one.handoff.work.nice)
        };
        let own = self.jobs.get(&number).map(|entry| entry.record.work.nice);
        own.or_else(prepared).unwrap_or(0)
    }

    /// True if a job is kept back for other jobs of its owner.
    pub(super) fn is_behind_own(&self, number: u32) -> bool {
        self.jobs.get(&number).is_some_and(|entry| entry.is_behind_own)
    }

    /// The same estimate for a job with that number of a user, but not before the jobs start behind which it waits.
    pub(super) fn after_own(&mut self, now: Time, user: &User, nice: u32, estimate: Estimate) -> Estimate {
        if nice == 0 || self.is_external() {
            return estimate;
        }
        let is_before = |job: JobId| {
            let record = self.jobs.get(&job.0).map(|entry| &entry.record);
            record.is_some_and(|record| record.owner == *user && record.work.nice < nice)
        };
        let waiting = self.batch.waiting(now);
        let starts = waiting.iter().filter(|one| is_before(one.job)).map(|one| one.plan.start);
        Estimate { start: starts.fold(estimate.start, Time::max), ..estimate }
    }
}
