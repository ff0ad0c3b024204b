//! The waiting line of the policies that decide at events: jobs in order of submission, or in a queue order.

mod by_rank;
mod by_submission;

use pliant_model::{JobId, Procs, Span, Time};

use super::Submission;
use super::order::{Ranking, Shares};

pub(super) use by_rank::RankedLine;
pub(super) use by_submission::SubmissionLine;

/// The position of a job in the line. Removed jobs leave gaps. Never given twice in order of submission; in another
/// order it holds until the line is arranged again.
pub(super) type Slot = u64;

/// The jobs that wait.
#[derive(Clone, Debug)]
pub(super) enum WaitingQueue {
    /// First come, first served.
    BySubmission(SubmissionLine),
    /// In a queue order.
    ByRank(Box<RankedLine>),
}

impl WaitingQueue {
    pub(super) fn by_submission() -> WaitingQueue {
        WaitingQueue::BySubmission(SubmissionLine::default())
    }

    pub(super) fn by_rank(ranking: Ranking) -> WaitingQueue {
        WaitingQueue::ByRank(Box::new(RankedLine::new(ranking)))
    }

    /// The jobs as a queue order ranks them, if it is not that of submission.
    pub(super) fn ranked(&self) -> Option<&RankedLine> {
        match self {
            WaitingQueue::BySubmission(_) => None,
            WaitingQueue::ByRank(line) => Some(line),
        }
    }

    /// The same, to be changed.
    pub(super) fn ranked_mut(&mut self) -> Option<&mut RankedLine> {
        match self {
            WaitingQueue::BySubmission(_) => None,
            WaitingQueue::ByRank(line) => Some(line),
        }
    }

    /// An empty line in the same order.
    pub(super) fn emptied(&self) -> WaitingQueue {
        match self {
            WaitingQueue::BySubmission(_) => WaitingQueue::by_submission(),
            WaitingQueue::ByRank(line) => WaitingQueue::ByRank(Box::new(line.emptied())),
        }
    }

    /// Puts the jobs in their order at `now`.
    pub(super) fn arrange(&mut self, now: Time) {
        if let Some(line) = self.ranked_mut() {
            line.arrange(now);
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            WaitingQueue::BySubmission(line) => line.len(),
            WaitingQueue::ByRank(line) => line.len(),
        }
    }

    /// Adds a job that was submitted at or before `now`.
    pub(super) fn push(&mut self, now: Time, job: Submission) {
        match self {
            WaitingQueue::BySubmission(line) => line.push(job),
            WaitingQueue::ByRank(line) => line.push(now, job),
        }
    }

    /// The job at the head of the line.
    pub(super) fn head(&self) -> Option<(Slot, Submission)> {
        match self {
            WaitingQueue::BySubmission(line) => line.head(),
            WaitingQueue::ByRank(line) => line.head(),
        }
    }

    /// The job that was submitted last, if the line is in that order and the job has not left it.
    pub(super) fn last(&self) -> Option<(Slot, Submission)> {
        match self {
            WaitingQueue::BySubmission(line) => line.last(),
            WaitingQueue::ByRank(_) => None,
        }
    }

    /// Where a job waits.
    pub(super) fn slot(&self, job: JobId) -> Option<Slot> {
        match self {
            WaitingQueue::BySubmission(line) => line.slot(job),
            WaitingQueue::ByRank(line) => line.slot(job),
        }
    }

    /// Takes a job out.
    pub(super) fn remove(&mut self, slot: Slot) -> Option<Submission> {
        match self {
            WaitingQueue::BySubmission(line) => line.remove(slot),
            WaitingQueue::ByRank(line) => line.remove(slot),
        }
    }

    /// The jobs in the order in which they are served.
    pub(super) fn iter(&self) -> impl Iterator<Item = Submission> + '_ {
        let (submitted, ranked) = match self {
            WaitingQueue::BySubmission(line) => (Some(line.iter()), None),
            WaitingQueue::ByRank(line) => (None, Some(line.iter())),
        };
        submitted.into_iter().flatten().chain(ranked.into_iter().flatten())
    }

    /// The jobs in order of submission.
    pub(super) fn submissions(&self) -> Vec<Submission> {
        match self {
            WaitingQueue::BySubmission(line) => line.iter().collect(),
            WaitingQueue::ByRank(line) => line.by_arrival(),
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
            WaitingQueue::BySubmission(line) => line.next_where(from, admits),
            WaitingQueue::ByRank(line) => line.next_where(from, admits),
        }
    }

    /// What the order remembers beside the jobs in line.
    pub(super) fn shares(&self) -> Option<Shares> {
        Some(self.ranked()?.ranking().dump())
    }
}
