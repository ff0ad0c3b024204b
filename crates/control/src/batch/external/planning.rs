//! Plans of the mirror, and when they are computed.
//!
//! A plan holds for the present state at one second. Jobs that no listing shows yet are planned behind all others, in the
//! order of their numbers. A job that is submitted in the same second is appended to the plan, so that a burst of jobs costs
//! one search each. Any other change invalidates the plan. So plans do not depend on when they were queried, and a replay of
//! the journal gives the same answers.

use std::collections::BTreeSet;

use pliant_model::{Estimate, JobId, Span, Time};
use pliant_policy::batch::{BatchScheduler, Submission, Waiting};
use pliant_policy::nodes::{ClusterSnapshot, Nodes};
use pliant_policy::runtimes::limit_usage::Expect;

use super::cluster_snapshot::{self, ListedSnapshot};
use super::job::Job;
use super::target_partition::TargetPartition;
use super::{Event, External};
use crate::listing::{ListedJob, Phase};

impl External {
    /// The partition to which jobs are submitted.
    pub(super) fn target(&self) -> TargetPartition<'_> {
        TargetPartition::of(&self.mirror, self.partition.as_deref())
    }

    /// The present plan; none if the snapshot is inconsistent.
    pub(super) fn current_plan(&mut self, now: Time) -> Option<&mut Nodes> {
        if self.plan.as_ref().is_none_or(|(at, _)| *at != now) {
            let mut nodes = Nodes::from_snapshot(now, &self.listed_snapshot(&[]).snapshot).ok()?;
            // Listed jobs are planned first.
            nodes.next_start();
            self.unlisted().into_iter().for_each(|job| nodes.submit(now, as_planned(job.submission.clone())));
            self.plan = Some((now, nodes));
            #[cfg(test)]
            {
                self.plans += 1;
            }
        }
        self.plan.as_mut().map(|(_, nodes)| nodes)
    }

    /// Appends a submitted job to the plan, if it changes nothing else.
    pub(super) fn append_to_plan(&mut self, now: Time, submission: Submission) {
        let number = submission.job;
        let numbers = self.numbers_with(number);
        let is_ours = |range: Option<(JobId, JobId)>, number: JobId| {
            range.is_some_and(|(lowest, highest)| (lowest..=highest).contains(&number))
        };
        // From now on a listed job that was external may count as this one, or as an ended job of this server.
        let shown = self.mirror.jobs.iter().filter_map(|job| job.job_number.map(JobId));
        let changes = |shown: &JobId| {
            *shown == number || (is_ours(Some(numbers), *shown) && !is_ours(self.numbers, *shown))
        };
        let mut others = shown.filter(changes);
        let is_last = self.jobs.keys().next_back().is_none_or(|last| *last < number);
        match &mut self.plan {
            Some((at, nodes)) if *at == now && is_last && others.next().is_none() => {
                nodes.submit(now, as_planned(submission));
            }
            _ => self.plan = None,
        }
    }

    /// The lowest and the highest submitted number, including this one.
    pub(super) fn numbers_with(&self, number: JobId) -> (JobId, JobId) {
        let (lowest, highest) = self.numbers.unwrap_or((number, number));
        (lowest.min(number), highest.max(number))
    }

    /// Invalidates the plan after an event that changes the snapshot.
    pub(super) fn invalidate_plan(&mut self, event: &Event) {
        if !matches!(event, Event::Queued { .. } | Event::Terminated { .. } | Event::Removed { .. }) {
            self.plan = None;
        }
    }

    /// The snapshot, with these jobs at the end of the queue.
    pub(super) fn listed_snapshot(&self, unlisted: &[&Job]) -> ListedSnapshot {
        match self.expect {
            Expect::Limits => self.listed_snapshot_with(unlisted, &|_, _| None),
            Expect::History => self.listed_snapshot_with(unlisted, &|job, elapsed| {
                self.limit_usage.expected(&job.owner, &job.partition, job.walltime?, elapsed)
            }),
        }
    }

    fn listed_snapshot_with(
        &self,
        unlisted: &[&Job],
        expected: &dyn Fn(&ListedJob, Span) -> Option<Span>,
    ) -> ListedSnapshot {
        let unlisted = unlisted.iter().map(|job| as_planned(job.submission.clone()));
        cluster_snapshot::listed_snapshot(
            &self.current_listing(),
            &self.rules,
            self.target(),
            expected,
            unlisted,
        )
    }

    /// Our waiting jobs that are not in the listing. A listed job may still be unconfirmed.
    pub(super) fn unlisted(&self) -> Vec<&Job> {
        let is_planned = |job: &&Job| !job.is_listed && job.is_waiting() && job.limited.is_none();
        let waiting = self.jobs.values().filter(is_planned);
        let mut unlisted: Vec<&Job> = waiting.collect();
        if !unlisted.is_empty() {
            let is_there = |job: &&ListedJob| job.phase() != Phase::Ended;
            let shown: BTreeSet<u32> =
                self.mirror.jobs.iter().filter(is_there).filter_map(|job| job.job_number).collect();
            unlisted.retain(|job| !shown.contains(&job.submission.job.0));
        }
        unlisted
    }

    /// The expected start of each planned job of the listing, by its ID in the batch system: to assess plans.
    pub fn starts(&self, now: Time) -> Vec<(String, Time)> {
        self.planned_starts(now, self.listed_snapshot(&self.unlisted()))
    }

    /// Like [`Self::starts`], with `expected` as the runtime of a job that has run for a given time.
    pub fn starts_if(
        &self,
        now: Time,
        expected: &dyn Fn(&ListedJob, Span) -> Option<Span>,
    ) -> Vec<(String, Time)> {
        self.planned_starts(now, self.listed_snapshot_with(&self.unlisted(), expected))
    }

    fn planned_starts(
        &self,
        now: Time,
        ListedSnapshot { snapshot, ids }: ListedSnapshot,
    ) -> Vec<(String, Time)> {
        let Ok(mut nodes) = Nodes::from_snapshot(now, &snapshot) else { return Vec::new() };
        let mut waiting: Vec<Waiting> = Vec::new();
        nodes.list(now, &mut waiting);
        let listing = self.current_listing();
        let start = |one: Waiting| {
            let Waiting { job, plan: Estimate { start, .. } } = one;
            let (_, index) = ids.iter().find(|(one, _)| *one == job)?;
            Some((listing.jobs.get(*index)?.id.clone(), start))
        };
        waiting.into_iter().filter_map(start).collect()
    }

    pub(super) fn snapshot(&self) -> ClusterSnapshot {
        self.listed_snapshot(&self.unlisted()).snapshot
    }
}

/// A job that is not listed yet, as it is planned.
fn as_planned(submission: Submission) -> Submission {
    Submission { walltime: cluster_snapshot::bounded(Some(submission.walltime)), ..submission }
}
