//! The queue of event-driven policies: jobs in order of submission, or in a queue order.

mod by_rank;
mod by_submission;

use pliant_model::{JobId, Procs, Span, Time};

use super::Submission;
use super::order::{Ranking, Shares};

pub(super) use by_rank::RankedQueue;
pub(super) use by_submission::SubmissionQueue;

/// The position of a job in the queue; removed jobs leave gaps. In order of submission positions are not reused; in
/// another order they are valid until the queue is arranged again.
pub(super) type Slot = u64;

/// The waiting jobs.
#[derive(Clone, Debug)]
pub(super) enum WaitingQueue {
    /// First come, first served.
    BySubmission(SubmissionQueue),
    /// In a queue order.
    ByRank(Box<RankedQueue>),
}

impl WaitingQueue {
    pub(super) fn by_submission() -> WaitingQueue {
        WaitingQueue::BySubmission(SubmissionQueue::default())
    }

    pub(super) fn by_rank(ranking: Ranking) -> WaitingQueue {
        WaitingQueue::ByRank(Box::new(RankedQueue::new(ranking)))
    }

    /// The ranked queue, if the order is not that of submission.
    pub(super) fn ranked(&self) -> Option<&RankedQueue> {
        match self {
            WaitingQueue::BySubmission(_) => None,
            WaitingQueue::ByRank(queue) => Some(queue),
        }
    }

    /// The ranked queue, mutable.
    pub(super) fn ranked_mut(&mut self) -> Option<&mut RankedQueue> {
        match self {
            WaitingQueue::BySubmission(_) => None,
            WaitingQueue::ByRank(queue) => Some(queue),
        }
    }

    /// An empty queue in the same order.
    pub(super) fn emptied(&self) -> WaitingQueue {
        match self {
            WaitingQueue::BySubmission(_) => WaitingQueue::by_submission(),
            WaitingQueue::ByRank(queue) => WaitingQueue::ByRank(Box::new(queue.emptied())),
        }
    }

    /// Sorts the jobs for `now`.
    pub(super) fn arrange(&mut self, now: Time) {
        if let Some(queue) = self.ranked_mut() {
            queue.arrange(now);
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            WaitingQueue::BySubmission(queue) => queue.len(),
            WaitingQueue::ByRank(queue) => queue.len(),
        }
    }

    /// Adds a job that was submitted at or before `now`.
    pub(super) fn push(&mut self, now: Time, job: Submission) {
        match self {
            WaitingQueue::BySubmission(queue) => queue.push(job),
            WaitingQueue::ByRank(queue) => queue.push(now, job),
        }
    }

    /// The job at the head of the queue.
    pub(super) fn head(&self) -> Option<(Slot, Submission)> {
        match self {
            WaitingQueue::BySubmission(queue) => queue.head(),
            WaitingQueue::ByRank(queue) => queue.head(),
        }
    }

    /// The job submitted last, if the order is that of submission and the job still waits.
    pub(super) fn last(&self) -> Option<(Slot, Submission)> {
        match self {
            WaitingQueue::BySubmission(queue) => queue.last(),
            WaitingQueue::ByRank(_) => None,
        }
    }

    /// The position of a job.
    pub(super) fn slot(&self, job: JobId) -> Option<Slot> {
        match self {
            WaitingQueue::BySubmission(queue) => queue.slot(job),
            WaitingQueue::ByRank(queue) => queue.slot(job),
        }
    }

    /// Removes a job.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<Submission> {
        match self {
            WaitingQueue::BySubmission(queue) => queue.remove(slot),
            WaitingQueue::ByRank(queue) => queue.remove(slot),
        }
    }

    /// The jobs in serving order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Submission> + '_ {
        let (submitted, ranked) = match self {
            WaitingQueue::BySubmission(queue) => (Some(queue.iter()), None),
            WaitingQueue::ByRank(queue) => (None, Some(queue.iter())),
        };
        submitted.into_iter().flatten().chain(ranked.into_iter().flatten())
    }

    /// The jobs in order of submission.
    pub(super) fn submissions(&self) -> Vec<Submission> {
        match self {
            WaitingQueue::BySubmission(queue) => queue.iter().collect(),
            WaitingQueue::ByRank(queue) => queue.by_arrival(),
        }
    }

    /// The first job at or behind `from` for which `admits` is true. If `admits` accepts a size and a walltime, it must accept
    /// smaller and shorter ones.
    pub(super) fn next_where(
        &self,
        from: Slot,
        admits: impl Fn(Procs, Span) -> bool,
    ) -> Option<(Slot, Submission)> {
        match self {
            WaitingQueue::BySubmission(queue) => queue.next_where(from, admits),
            WaitingQueue::ByRank(queue) => queue.next_where(from, admits),
        }
    }

    /// The state of the order besides the queue.
    pub(super) fn shares(&self) -> Option<Shares> {
        Some(self.ranked()?.ranking().dump())
    }
}
