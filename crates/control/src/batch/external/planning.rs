//! Plans of the mirror, and when they are computed.
//!
//! A plan holds for the present state at one second. Jobs that no listing shows yet are planned behind all others, in the
//! order of their numbers. A job that is submitted in the same second is appended to the plan, so that a burst of jobs costs
//! one search each. Any other change invalidates the plan. So plans do not depend on when they were queried, and a replay of
//! the journal gives the same answers.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{Estimate, JobId, Span, Time};
use pliant_policy::batch::{BatchScheduler, Submission, Waiting};
use pliant_policy::nodes::{ClusterSnapshot, Nodes};
use pliant_policy::runtimes::limit_usage::Expect;

use super::cluster_snapshot::{self, ListedSnapshot, WaitingOf};
use super::job::Job;
use super::{Event, External};
use crate::listing::{ListedJob, Phase};

/// Plans of one second, by the partitions of their jobs; none is the server's own.
#[derive(Default)]
pub(super) struct Plans {
    at: Time,
    of: BTreeMap<Option<String>, Nodes>,
}

impl Plans {
    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.of.clear();
    }
}

impl External {
    /// The present plan of a partition, of the server's own if none is named; none if the snapshot is inconsistent.
    pub(super) fn current_plan(&mut self, now: Time, partition: Option<&str>) -> Option<&mut Nodes> {
        if self.plans.at != now {
            self.plans.clear();
            self.plans.at = now;
        }
        let key = partition.map(str::to_owned);
        if !self.plans.of.contains_key(&key) {
            let mut nodes = Nodes::from_snapshot(
                now,
                &self.listed_snapshot((partition, WaitingOf::Competing), &[]).snapshot,
            )
            .ok()?;
            // Listed jobs are planned first.
            nodes.next_start();
            let unlisted = self.unlisted(partition);
            unlisted.into_iter().for_each(|job| nodes.submit(now, as_planned(job.submission.clone())));
            self.plans.of.insert(key.clone(), nodes);
            #[cfg(test)]
            {
                self.planned += 1;
            }
        }
        self.plans.of.get_mut(&key)
    }

    /// Appends a submitted job to the plan, if it changes nothing else.
    pub(super) fn append_to_plan(&mut self, now: Time, partition: Option<&str>, submission: Submission) {
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
        if self.plans.at != now || !is_last || others.next().is_some() {
            return self.plans.clear();
        }
        // Plans of other partitions do not know it.
        if let Some(nodes) = self.plans.of.get_mut(&partition.map(str::to_owned)) {
            nodes.submit(now, as_planned(submission));
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
            self.plans.clear();
        }
    }

    /// The snapshot, with these jobs at the end of the queue.
    pub(super) fn listed_snapshot(&self, of: (Option<&str>, WaitingOf), unlisted: &[&Job]) -> ListedSnapshot {
        match self.expect {
            Expect::Limits => self.listed_snapshot_with(of, unlisted, &|_, _| None),
            Expect::History => self.listed_snapshot_with(of, unlisted, &|job, elapsed| {
                self.limit_usage.expected(&job.owner, &job.partition, job.walltime?, elapsed)
            }),
        }
    }

    fn listed_snapshot_with(
        &self,
        (partition, waiting_of): (Option<&str>, WaitingOf),
        unlisted: &[&Job],
        expected: &dyn Fn(&ListedJob, Span) -> Option<Span>,
    ) -> ListedSnapshot {
        let unlisted = unlisted.iter().map(|job| as_planned(job.submission.clone()));
        cluster_snapshot::listed_snapshot(
            &self.current_listing(),
            &self.rules,
            (self.target(partition), waiting_of),
            expected,
            unlisted,
        )
    }

    /// Our waiting jobs of a partition, of the server's own if none is named, that are not in the listing. A listed job may still be
    /// unconfirmed.
    pub(super) fn unlisted(&self, partition: Option<&str>) -> Vec<&Job> {
        let is_planned = |job: &&Job| {
            !job.is_listed
                && job.is_waiting()
                && job.limited.is_none()
                && job.partition.as_deref() == partition
        };
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

    /// How many of our waiting jobs are not in the listing.
    pub(super) fn unlisted_anywhere(&self) -> usize {
        let own = self.jobs.values().filter_map(|job| job.partition.as_deref());
        let named: BTreeSet<&str> = own.collect();
        let of_named: usize = named.into_iter().map(|name| self.unlisted(Some(name)).len()).sum();
        self.unlisted(None).len() + of_named
    }

    /// The partition of one of our jobs, if it is not the server's own.
    pub(super) fn partition_of(&self, job: JobId) -> Option<String> {
        self.jobs.get(&job)?.partition.clone()
    }

    /// The waiting jobs of a partition and those that compete with them, in order, each with its plan; none of ours in another
    /// partition.
    pub(super) fn waiting_in(&mut self, now: Time, partition: Option<&str>) -> Vec<Waiting> {
        let mut waiting = Vec::new();
        if let Some(nodes) = self.current_plan(now, partition) {
            nodes.list(now, &mut waiting);
        }
        let is_there = |one: &Waiting| self.jobs.get(&one.job).map(|job| job.partition.as_deref());
        waiting.retain(|one| is_there(one).is_none_or(|of| of == partition));
        waiting
    }

    /// The expected start of each planned job of the listing, by its ID in the batch system: to assess plans.
    pub fn starts(&self, now: Time) -> Vec<(String, Time)> {
        self.planned_starts(now, self.listed_snapshot((None, WaitingOf::Competing), &self.unlisted(None)))
    }

    /// Like [`Self::starts`], with `expected` as the runtime of a job that has run for a given time.
    pub fn starts_if(
        &self,
        now: Time,
        expected: &dyn Fn(&ListedJob, Span) -> Option<Span>,
    ) -> Vec<(String, Time)> {
        self.planned_starts(
            now,
            self.listed_snapshot_with((None, WaitingOf::Competing), &self.unlisted(None), expected),
        )
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

    /// The server's own partition.
    pub(super) fn snapshot(&self, waiting_of: WaitingOf) -> ClusterSnapshot {
        self.listed_snapshot((None, waiting_of), &self.unlisted(None)).snapshot
    }
}

/// A job that is not listed yet, as it is planned.
fn as_planned(submission: Submission) -> Submission {
    Submission { walltime: cluster_snapshot::bounded(Some(submission.walltime)), ..submission }
}
