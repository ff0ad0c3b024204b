//! A queue in a queue order: a vector that is sorted before decisions. If ranks change with time, all jobs are ranked and
//! sorted again; the vector stays nearly sorted, so that this usually costs O(jobs). Otherwise only new jobs are sorted in, and
//! all jobs only when one has aged.

use pliant_model::{JobId, Procs, Span, Time};

use super::{Slot, Submission};
use crate::batch::order::{PriorityParts, Ranking, Standing};

/// Jobs by rank.
#[derive(Clone, Debug)]
pub(in crate::batch) struct RankedQueue {
    ranking: Ranking,
    /// In the order of the last [`RankedQueue::arrange`], with later jobs behind; none for removed jobs.
    jobs: Vec<Option<Ranked>>,
    waiting: usize,
    arrivals: u64,
    /// Jobs before this position are sorted.
    sorted: usize,
    /// No standing changes before this time.
    changes_at: Time,
}

#[derive(Clone, Debug)]
struct Ranked {
    job: Submission,
    standing: Standing,
}

/// The order of two waiting jobs.
fn compare(a: &Option<Ranked>, b: &Option<Ranked>) -> std::cmp::Ordering {
    match (a, b) {
        (Some(a), Some(b)) => a.standing.compare(&b.standing),
        _ => std::cmp::Ordering::Equal,
    }
}

impl RankedQueue {
    pub(super) fn new(ranking: Ranking) -> RankedQueue {
        RankedQueue { ranking, jobs: Vec::new(), waiting: 0, arrivals: 0, sorted: 0, changes_at: Time::MAX }
    }

    /// An empty queue with the same ranking.
    pub(super) fn emptied(&self) -> RankedQueue {
        RankedQueue::new(self.ranking.clone())
    }

    pub(super) fn ranking(&self) -> &Ranking {
        &self.ranking
    }

    /// The ranking.
    pub(in crate::batch) fn ranking_mut(&mut self) -> &mut Ranking {
        &mut self.ranking
    }

    /// Sorts the jobs for `now`.
    pub(super) fn arrange(&mut self, now: Time) {
        self.ranking.settle(now);
        self.close_gaps();
        if now < self.changes_at {
            for index in self.sorted..self.jobs.len() {
                let (before, new) = self.jobs.split_at(index);
                let position = before.partition_point(|one| compare(one, &new[0]).is_le());
                self.jobs[position..=index].rotate_right(1);
            }
        } else {
            let ranking = &self.ranking;
            self.changes_at = Time::MAX;
            for one in self.jobs.iter_mut().flatten() {
                one.standing = ranking.standing(now, &one.job, one.standing.arrival(), Some(&one.standing));
                self.changes_at = self.changes_at.min(ranking.changes_at(&one.standing));
            }
            self.rank_by_custom(now);
            self.jobs.sort_by(compare);
        }
        self.sorted = self.jobs.len();
    }

    /// Replaces the ranks by those of the custom order, if there is one.
    fn rank_by_custom(&mut self, now: Time) {
        let Some(custom) = self.ranking.by_custom() else { return };
        let jobs: Vec<Submission> = self.jobs.iter().flatten().map(|one| one.job.clone()).collect();
        let ranks = custom.ranks(now, self.ranking.capacity(), &jobs);
        for (one, rank) in self.jobs.iter_mut().flatten().zip(ranks) {
            one.standing = one.standing.ranked(rank);
        }
    }

    fn close_gaps(&mut self) {
        if self.jobs.len() > self.waiting {
            let unsorted = self.jobs[self.sorted..].iter().flatten().count();
            self.jobs.retain(Option::is_some);
            self.sorted = self.jobs.len() - unsorted;
        }
    }

    /// Number of jobs served before one that is submitted now; the queue must be arranged for `now`.
    pub(in crate::batch) fn position_of(&self, now: Time, job: &Submission) -> usize {
        let mut standing = self.ranking.standing(now, job, self.arrivals, None);
        if let Some(custom) = self.ranking.by_custom() {
            let ranks = custom.ranks(now, self.ranking.capacity(), std::slice::from_ref(job));
            standing = standing.ranked(ranks[0]);
        }
        let is_before =
            |one: &Option<Ranked>| one.as_ref().is_none_or(|one| one.standing.compare(&standing).is_lt());
        self.jobs.partition_point(is_before)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    pub(super) fn push(&mut self, now: Time, job: Submission) {
        let standing = self.ranking.standing(now, &job, self.arrivals, None);
        self.arrivals += 1;
        self.waiting += 1;
        self.changes_at = self.changes_at.min(self.ranking.changes_at(&standing));
        self.jobs.push(Some(Ranked { job, standing }));
    }

    pub(super) fn head(&self) -> Option<(Slot, Submission)> {
        self.next_where(0, |_, _| true)
    }

    pub(super) fn slot(&self, job: JobId) -> Option<Slot> {
        let is_it = |one: &Option<Ranked>| one.as_ref().is_some_and(|one| one.job.job == job);
        Some(self.jobs.iter().position(is_it)? as Slot)
    }

    /// The parts of the priority of a job, as of the last [`RankedQueue::arrange`].
    pub(in crate::batch) fn parts(&self, now: Time, job: JobId) -> Option<PriorityParts> {
        let waiting = self.jobs.iter().flatten().find(|one| one.job.job == job)?;
        self.ranking.parts(now, &waiting.job)
    }

    pub(super) fn remove(&mut self, slot: Slot) -> Option<Submission> {
        let Ranked { job, .. } = self.jobs.get_mut(slot as usize)?.take()?;
        self.waiting -= 1;
        Some(job)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Submission> + '_ {
        self.jobs.iter().flatten().map(|one| one.job.clone())
    }

    pub(super) fn by_arrival(&self) -> Vec<Submission> {
        let mut jobs: Vec<&Ranked> = self.jobs.iter().flatten().collect();
        jobs.sort_unstable_by_key(|one| one.standing.arrival());
        jobs.into_iter().map(|one| one.job.clone()).collect()
    }

    pub(super) fn next_where(
        &self,
        from: Slot,
        admits: impl Fn(Procs, Span) -> bool,
    ) -> Option<(Slot, Submission)> {
        let behind = self.jobs.iter().enumerate().skip(from as usize);
        let waiting = behind.filter_map(|(slot, one)| Some((slot as Slot, &one.as_ref()?.job)));
        let found = waiting.into_iter().find(|(_, job)| admits(job.procs, job.walltime));
        found.map(|(slot, job)| (slot, job.clone()))
    }
}
