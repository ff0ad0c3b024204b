//! The priorities that operators give to waiting jobs.

use std::cmp::Reverse;

use pliant_model::{JobId, Time};
use pliant_policy::batch::order::JobPriority;

use super::Embedded;
use crate::batch::BatchSystem;

/// The place of a job among the waiting jobs of its priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// By its number.
    ByNumber,
    /// The last one.
    Last,
}

impl Embedded {
    /// Gives a waiting job a priority, and makes the plan again. False if the job does not wait.
    pub(super) fn prioritise(&mut self, now: Time, job: JobId, priority: i64) -> bool {
        if !self.waits(job) {
            return false;
        }
        match priority {
            0 => self.priorities.remove(&job),
            _ => self.priorities.insert(job, priority),
        };
        // Also for a job that is not in the queue: the order still has its former priority.
        self.plan_again_with(now, Some((job, Place::ByNumber)));
        true
    }

    /// True if a job is queued, held, or too large.
    pub(super) fn waits(&self, job: JobId) -> bool {
        [&self.queued, &self.held, &self.too_large].iter().any(|jobs| jobs.contains_key(&job))
    }

    /// True if the place of a new job in the queue is not where the policy has put it. A policy with an order has put a job without a
    /// priority behind those with a higher one and before those with a lower one.
    pub(super) fn has_place_of_its_own(&self, job: JobId) -> bool {
        let own = self.job_priority(job);
        let is_lower = |other: &JobPriority| other.priority < own;
        let is_first_come = self.policy.ordering().order.is_first_come();
        own != 0 || (is_first_come && self.given_to_waiting().iter().any(is_lower))
    }

    /// Moves a waiting job to its place; the others keep their order.
    pub(super) fn place(&self, waiting: &mut Vec<JobId>, job: JobId, place: Place) {
        let Some(at) = waiting.iter().position(|other| *other == job) else { return };
        waiting.remove(at);
        let own = (Reverse(self.job_priority(job)), job);
        let is_behind = |other: &JobId| {
            let other = (Reverse(self.job_priority(*other)), *other);
            if place == Place::Last { other.0 > own.0 } else { other > own }
        };
        let place = waiting.iter().position(is_behind).unwrap_or(waiting.len());
        waiting.insert(place, job);
    }

    /// The priorities of the jobs in the queue.
    pub(super) fn given_to_waiting(&self) -> Vec<JobPriority> {
        let given = self.priorities.iter().filter(|(job, _)| self.queued.contains_key(job));
        given.map(|(job, priority)| JobPriority { job: *job, priority: *priority }).collect()
    }
}
