//! A queue in order of submission: jobs in chunks with their smallest size and walltime, so that searches skip chunks.

use std::collections::VecDeque;

use pliant_model::{JobId, Procs, Span};
use rustc_hash::FxHashMap;

use super::{Slot, Submission};

/// Jobs per chunk.
const CHUNK: u64 = 64;

/// Jobs in order of submission.
#[derive(Clone, Default, Debug)]
pub(in crate::batch) struct SubmissionQueue {
    /// The first chunk, if any, has a waiting job.
    chunks: VecDeque<Chunk>,
    /// Number of the first chunk.
    first: u64,
    next: Slot,
    slots: FxHashMap<JobId, Slot>,
}

#[derive(Clone, Debug)]
struct Chunk {
    jobs: Vec<Option<Submission>>,
    waiting: usize,
    least_procs: Procs,
    least_walltime: Span,
}

impl SubmissionQueue {
    pub(in crate::batch) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Appends a job.
    pub(in crate::batch) fn push(&mut self, job: Submission) {
        let slot = self.next;
        self.next += 1;
        if slot / CHUNK - self.first == self.chunks.len() as u64 {
            self.chunks.push_back(Chunk::empty());
        }
        self.slots.insert(job.job, slot);
        self.chunk_mut(slot).push(job);
    }

    /// The job at the head of the queue.
    pub(in crate::batch) fn head(&self) -> Option<(Slot, Submission)> {
        let chunk = self.chunks.front()?;
        let (offset, job) = chunk.iter().next()?;
        Some((self.first * CHUNK + offset, job.clone()))
    }

    /// The job that was appended last, unless it was removed.
    pub(in crate::batch) fn last(&self) -> Option<(Slot, Submission)> {
        let slot = self.next.checked_sub(1)?;
        let job = self.chunks.back()?.jobs.last()?.clone();
        Some((slot, job?))
    }

    /// The position of a job.
    pub(in crate::batch) fn slot(&self, job: JobId) -> Option<Slot> {
        self.slots.get(&job).copied()
    }

    /// Removes a job.
    pub(in crate::batch) fn remove(&mut self, slot: Slot) -> Option<Submission> {
        let job = self.chunk_mut(slot).take(slot)?;
        self.slots.remove(&job.job);
        while self.chunks.front().is_some_and(|chunk| chunk.waiting == 0) {
            self.chunks.pop_front();
            self.first += 1;
        }
        // The last chunk may be gone: the next job opens a new one.
        self.next = self.next.max(self.first * CHUNK);
        Some(job)
    }

    /// The jobs in order.
    pub(in crate::batch) fn iter(&self) -> impl Iterator<Item = Submission> + '_ {
        self.chunks.iter().flat_map(|chunk| chunk.iter().map(|(_, job)| job.clone()))
    }

    /// The first job at or behind `from` for which `admits` is true. If `admits` accepts a size and a walltime, it must accept
    /// smaller and shorter ones, since chunks are judged by their smallest.
    pub(in crate::batch) fn next_where(
        &self,
        from: Slot,
        admits: impl Fn(Procs, Span) -> bool,
    ) -> Option<(Slot, Submission)> {
        let from = from.max(self.first * CHUNK);
        let begin = (from / CHUNK - self.first) as usize;
        for (index, chunk) in self.chunks.iter().enumerate().skip(begin) {
            if chunk.waiting == 0 || !admits(chunk.least_procs, chunk.least_walltime) {
                continue;
            }
            let base = (self.first + index as u64) * CHUNK;
            let found = chunk
                .iter()
                .map(|(offset, job)| (base + offset, job))
                .find(|(slot, job)| *slot >= from && admits(job.procs, job.walltime));
            if let Some((slot, job)) = found {
                return Some((slot, job.clone()));
            }
        }
        None
    }

    fn chunk_mut(&mut self, slot: Slot) -> &mut Chunk {
        &mut self.chunks[(slot / CHUNK - self.first) as usize]
    }
}

impl Chunk {
    fn empty() -> Chunk {
        let jobs = Vec::with_capacity(CHUNK as usize);
        Chunk { jobs, waiting: 0, least_procs: Procs(u32::MAX), least_walltime: Span::MAX }
    }

    fn push(&mut self, job: Submission) {
        self.waiting += 1;
        self.least_procs = self.least_procs.min(job.procs);
        self.least_walltime = self.least_walltime.min(job.walltime);
        self.jobs.push(Some(job));
    }

    fn take(&mut self, slot: Slot) -> Option<Submission> {
        let job = self.jobs[(slot % CHUNK) as usize].take()?;
        self.waiting -= 1;
        if job.procs == self.least_procs || job.walltime == self.least_walltime {
            let (mut procs, mut walltime) = (Procs(u32::MAX), Span::MAX);
            for (_, other) in self.iter() {
                procs = procs.min(other.procs);
                walltime = walltime.min(other.walltime);
            }
            (self.least_procs, self.least_walltime) = (procs, walltime);
        }
        Some(job)
    }

    fn iter(&self) -> impl Iterator<Item = (u64, &Submission)> {
        (0..).zip(&self.jobs).filter_map(|(offset, job)| Some((offset, job.as_ref()?)))
    }
}
