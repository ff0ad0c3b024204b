//! The queue of the policies that decide at events: jobs in order of submission, or in a queue order.

mod by_rank;
mod by_submission;

use pliant_model::{JobId, Procs, Span, Time};

use super::Submission;
use super::order::{Ranking, Shares};

pub(super) use by_rank::RankedQueue;
pub(super) use by_submission::SubmissionQueue;

/// The position of a job in the queue. Removed jobs leave gaps. Never given twice in order of submission; in another
/// order it holds until the queue is arranged again.
pub(super) type Slot = u64;

/// The jobs that wait.
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

    /// The jobs as a queue order ranks them, if it is not that of submission.
    pub(super) fn ranked(&self) -> Option<&RankedQueue> {
        match self {
            WaitingQueue::BySubmission(_) => None,
            WaitingQueue::ByRank(queue) => Some(queue),
        }
    }

    /// The same, to be changed.
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

    /// Puts the jobs in their order at `now`.
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

    /// The job that was submitted last, if the queue is in that order and the job has not left it.
    pub(super) fn last(&self) -> Option<(Slot, Submission)> {
        match self {
            WaitingQueue::BySubmission(queue) => queue.last(),
            WaitingQueue::ByRank(_) => None,
        }
    }

    /// Where a job waits.
    pub(super) fn slot(&self, job: JobId) -> Option<Slot> {
        match self {
            WaitingQueue::BySubmission(queue) => queue.slot(job),
            WaitingQueue::ByRank(queue) => queue.slot(job),
        }
    }

    /// Takes a job out.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<Submission> {
        match self {
            WaitingQueue::BySubmission(queue) => queue.remove(slot),
            WaitingQueue::ByRank(queue) => queue.remove(slot),
        }
    }

    /// The jobs in the order in which they are served.
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

    /// The first job at or behind `from` that `admits` lets through. What admits a size and walltime must
    /// admit smaller and shorter ones too.
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

    /// What the order remembers beside the jobs in the queue.
    pub(super) fn shares(&self) -> Option<Shares> {
        Some(self.ranked()?.ranking().dump())
    }
}
