//! H3, H1 with backfilling (paper 001, "Heuristic H3"; spec A.1.5, variant a): every job is folded by H1 against a
//! table of reservations when it arrives and gets the earliest place in it, delaying nobody. When processors
//! are released the table is compressed: each waiting job, in order of submission and in the shape it has,
//! takes the earliest place.
//!
//! As in the paper's backfilling only a release starts jobs that others wait in front of: the place of a job
//! that arrives at a table with waiting jobs begins at the next expected release, not before. A cancellation
//! counts as a release. Cost: a search per waiting job and release.

use pliant_model::{Estimate, JobId, Procs, Span, Time, Walltimes};

use super::folding::{best_size, folded};
use super::running::Running;
use super::waiting::{Entry, Queue};
use super::{BatchScheduler, Start, Submission, Waiting, h1};
use crate::profile::Profile;
use crate::tuning::Tuner;

#[derive(Clone, Debug)]
struct FoldedTable {
    profile: Profile,
    running: Running,
    queue: Queue,
}

pub(super) fn new(procs: Procs, now: Time) -> Box<dyn BatchScheduler> {
    let profile = Profile::new(procs, now);
    Box::new(FoldedTable { profile, running: Running::default(), queue: Queue::default() })
}

impl FoldedTable {
    /// The place of a job that arrives now.
    fn place(&self, now: Time, procs: Procs, walltime: Span) -> Option<Estimate> {
        let from = if self.queue.is_empty() { now } else { self.next_release(now) };
        self.profile.earliest_fit(from, procs, walltime)?;
        let fit = |procs, walltime| self.profile.earliest_fit(from, procs, walltime).unwrap_or(Time::MAX);
        let chosen = h1::literal(from, &fit, procs, walltime);
        let walltime = folded(procs, walltime, chosen);
        Some(Estimate { procs: chosen, walltime, start: fit(chosen, walltime) })
    }

    /// The first expected end of a running job.
    fn next_release(&self, now: Time) -> Time {
        self.running.held().map(|held| held.end).min().map_or(now, |end| end.max(now))
    }

    /// Gives each waiting job the earliest place, in order of submission.
    fn compress(&mut self, now: Time) {
        let slots: Vec<_> = self.queue.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let Entry { procs, walltime, start, .. } = self.queue.entry(slot);
            if start <= now {
                continue;
            }
            self.profile.release(start, start + walltime, procs);
            let earliest = self.profile.earliest_fit(now, procs, walltime).unwrap_or(start);
            self.profile.reserve(earliest, earliest + walltime, procs);
            if earliest < start {
                self.queue.set_start(slot, earliest);
            }
        }
    }
}

impl BatchScheduler for FoldedTable {
    fn submit(&mut self, now: Time, submission: Submission) {
        self.profile.advance(now);
        let place = self.place(now, submission.procs, submission.walltime);
        let place = place.expect("a submission asks for at most the cluster's processors");
        let Estimate { procs, walltime, start } = place;
        self.profile.reserve(start, place.completion(), procs);
        self.queue.push(Entry { job: submission.job, procs, walltime, start });
    }

    fn cancel(&mut self, now: Time, jobs: &[JobId]) -> usize {
        self.profile.advance(now);
        let before = self.queue.len();
        for job in jobs {
            if let Some(slot) = self.queue.slot(*job)
                && self.queue.entry(slot).start > now
            {
                let entry = self.queue.remove(slot);
                self.profile.release(entry.start, entry.end(), entry.procs);
            }
        }
        let cancelled = before - self.queue.len();
        if cancelled > 0 {
            self.compress(now);
        }
        cancelled
    }

    fn finish(&mut self, now: Time, job: JobId) {
        self.profile.advance(now);
        if let Some(held) = self.running.finish(job) {
            self.profile.release(now, held.end, held.procs);
            self.compress(now);
        }
    }

    fn start_due(&mut self, now: Time, started: &mut Vec<Start>) {
        while let Some((start, slot)) = self.queue.first_start()
            && start <= now
        {
            let entry = self.queue.remove(slot);
            self.running.start(entry.job, entry.procs, entry.end());
            started.push(Start { job: entry.job, procs: entry.procs, walltime: entry.walltime });
        }
    }

    fn next_start(&self) -> Option<Time> {
        self.queue.first_start().map(|(start, _)| start)
    }

    fn estimate(&mut self, now: Time, walltimes: &Walltimes<'_>, _tuner: Tuner) -> Option<Estimate> {
        self.profile.advance(now);
        best_size(walltimes, |procs, walltime| self.place(now, procs, walltime))
    }

    fn list(&mut self, _now: Time, waiting: &mut Vec<Waiting>) {
        waiting.extend(self.queue.iter().map(|(_, entry)| Waiting { job: entry.job, plan: entry.plan() }));
    }

    fn plan(&mut self, _now: Time, job: JobId) -> Option<Estimate> {
        Some(self.queue.entry(self.queue.slot(job)?).plan())
    }

    fn queue_length(&self) -> usize {
        self.queue.len()
    }

    fn boxed_clone(&self) -> Box<dyn BatchScheduler> {
        Box::new(self.clone())
    }
}
