//! The priorities that operators give to waiting jobs.

use std::cmp::Reverse;

use pliant_model::{JobId, Time};
use pliant_policy::batch::order::JobPriority;

use super::Embedded;
use crate::batch::BatchSystem;

impl Embedded {
    /// Gives a waiting job a priority, and makes the plan again. False if the job does not wait.
    pub(super) fn prioritise(&mut self, now: Time, job: JobId, priority: i64) -> bool {
        let Embedded { queued, held, too_large, priorities, .. } = self;
        let waits =
            |job: &JobId| queued.contains_key(job) || held.contains_key(job) || too_large.contains_key(job);
        if !waits(&job) {
            return false;
        }
        priorities.insert(job, priority);
        priorities.retain(|job, priority| *priority != 0 && waits(job));
        if self.queued.contains_key(&job) {
            self.plan_again_with(now, Some(job));
        }
        true
    }

    /// Moves a waiting job to its place by priority and number; the others keep their order.
    pub(super) fn place(&self, waiting: &mut Vec<JobId>, job: JobId) {
        let Some(at) = waiting.iter().position(|other| *other == job) else { return };
        waiting.remove(at);
        let key = |job: JobId| (Reverse(self.job_priority(job)), job);
        let place = waiting.iter().position(|other| key(*other) > key(job)).unwrap_or(waiting.len());
        waiting.insert(place, job);
    }

    /// The priorities of the jobs in the queue.
    pub(super) fn given_to_waiting(&self) -> Vec<JobPriority> {
        let given = self.priorities.iter().filter(|(job, _)| self.queued.contains_key(job));
        given.map(|(job, priority)| JobPriority { job: *job, priority: *priority }).collect()
    }
}
