//! Conservative backfilling (Mu'alem and Feitelson 2001): every job gets a reservation at submission, at the
//! earliest time that delays no other job, and keeps it or gets an earlier one.
//!
//! At every termination and cancellation the plan is *compressed*: each waiting job, in order of submission, gives up its
//! reservation and takes the earliest free one, while the others stay. One pass is not a fixpoint: a job can use
//! processors released by a later job only in the next pass.
//!
//! # Efficient passes
//!
//! Reservations only narrow the profile, so a job that could not move in its last try can only move with the help of
//! processors freed since. There are two cases: a reservation that ends before the present one begins, or *sliding* the
//! present one left into processors that are free just before it.
//!
//! In the first case the new reservation lies in a run of free processors that meets a freed interval. [`Touched`] keeps the
//! lengths of such runs per class of sizes and stretch of time. Jobs longer than all runs of their class are skipped, as
//! are chunks of the queue with only such jobs; for the others only matching stretches are searched. If the search fails
//! for the smallest size of a class, the recorded length of its runs is reduced for the following jobs.
//!
//! In the second case the instant before the reservation was freed, so it lies between the first and the last freed
//! interval, and a freed run is wide enough for the job's class; one look at the profile decides.
//!
//! A job gains from an interval only if it requests more processors than were free there before ([`Freed`]). Processors
//! freed during a pass count at once for the jobs behind, and again in the next pass for the jobs ahead, unless all of
//! these begin earlier. The tests compare with a reference implementation that tries every job in every pass.
//!
//! Freed intervals are not part of a dump: a restored cluster tries every job once, with the same result.

use pliant_model::{ClusterNodes, Estimate, JobId, Procs, Span, Time, Walltimes};

use super::nodes::NodeReservations;
use super::reservation_queue::{Entry, Movable, ReservationQueue, Slot};
use super::running::Running;
use super::{BatchScheduler, Dump, PlanBounds, RestoreError, RunningJob, Start, Submission, Waiting};
use crate::profile::{FreePlan, Freed, Profile, StartBounds, Touched};
use crate::tuning::{self, OtherJobs, Present, Tuner};

/// A cluster under conservative backfilling.
#[derive(Clone, Debug)]
pub(super) struct ConservativeBackfilling {
    profile: Profile,
    running: Running,
    queue: ReservationQueue,
    /// Intervals freed and not yet seen by every waiting job.
    freed: Vec<Freed>,
    /// Intervals freed by moves in the present pass.
    vacated: Vec<Freed>,
    /// Intervals freed in the present pass behind the start of every job ahead in the queue. A job can only use processors
    /// before its own reservation, so none of these jobs gains.
    beyond: Vec<Freed>,
    ahead: PassedJobs,
    touched: Touched,
    /// Kept after the first estimate of a moldable request.
    bounds: Option<StartBounds>,
    gaps: Gaps,
    /// Changes when processors become free earlier than planned.
    releases: u64,
}

/// How the gaps are filled that early ends and cancellations leave in the plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gaps {
    /// The plan is compressed: no job gets a later reservation.
    Compressed,
    /// All waiting jobs are planned anew ([`super::cbf_replan`]).
    PlannedAnew,
}

/// The jobs that the present pass has passed.
#[derive(Clone, Copy, Debug)]
struct PassedJobs {
    /// The first job not counted yet.
    next: Slot,
    /// No job before it starts later.
    latest_start: Time,
}

impl PassedJobs {
    /// False if all jobs ahead of `slot` start by `time`.
    fn any_starts_after(&mut self, time: Time, queue: &ReservationQueue, slot: Slot) -> bool {
        if self.latest_start <= time {
            self.latest_start = self.latest_start.max(queue.latest_start(self.next, slot));
            self.next = slot;
        }
        self.latest_start > time
    }
}

pub(super) fn new(procs: Procs, now: Time) -> Box<dyn BatchScheduler> {
    Box::new(ConservativeBackfilling::new(procs, now))
}

pub(super) fn on_nodes(cluster: &ClusterNodes, now: Time) -> Box<dyn BatchScheduler> {
    Box::new(NodeReservations::new(cluster, now, Gaps::Compressed))
}

impl ConservativeBackfilling {
    pub(super) fn new(procs: Procs, now: Time) -> Self {
        Self::with_gaps(procs, now, Gaps::Compressed)
    }

    pub(super) fn with_gaps(procs: Procs, now: Time, gaps: Gaps) -> Self {
        Self {
            profile: Profile::new(procs, now),
            running: Running::default(),
            queue: ReservationQueue::default(),
            freed: Vec::new(),
            vacated: Vec::new(),
            beyond: Vec::new(),
            ahead: PassedJobs { next: 0, latest_start: now },
            touched: Touched::default(),
            bounds: None,
            gaps,
            releases: 0,
        }
    }

    /// Drops the profile before `now`.
    pub(super) fn advance(&mut self, now: Time) {
        self.profile.advance(now);
    }

    /// Free processors, from the last event on.
    pub(super) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Calls a function with the tuner's view of the other jobs.
    pub(super) fn with_present<R>(&self, now: Time, call: impl FnOnce(&Present<'_>) -> R) -> R {
        with_present(now, &self.running, &self.queue, call)
    }

    /// The first expected end of a running job.
    pub(super) fn next_release(&self, now: Time) -> Time {
        self.running.held().map(|held| held.end).min().map_or(now, |end| end.max(now))
    }

    /// Queues a job with a reservation, the earliest one not before `from`.
    pub(super) fn submit_at(&mut self, now: Time, job: JobId, estimate: Estimate, from: Time) {
        let Estimate { procs, walltime, start } = estimate;
        self.reserve(Entry::new(job, procs, walltime, start));
        if from > now {
            // Processors freed before `from` were not considered for this job.
            self.freed.push(Freed { from: now, until: from, least: Procs::ONE });
        }
    }

    fn reserve(&mut self, entry: Entry) {
        self.profile.reserve(entry.start, entry.end(), entry.procs);
        self.queue.push(entry);
    }

    /// Releases processors and records the interval.
    fn free(&mut self, from: Time, until: Time, procs: Procs) {
        let freed = self.profile.release(from, until, procs);
        self.freed.push(freed);
        self.releases += 1;
    }

    /// Fills the gaps that were freed since the last event.
    fn fill_gaps(&mut self, now: Time) {
        match self.gaps {
            Gaps::Compressed => self.compress(now),
            // Without a freed interval every job would get the same reservation again.
            Gaps::PlannedAnew if self.freed.iter().any(|freed| freed.until > now) => {
                // The driver starts jobs that are due, as if they were running.
                self.replan(now, |entry| entry.start > now);
            }
            Gaps::PlannedAnew => self.freed.clear(),
        }
    }

    /// Compresses the plan: one pass over the queue.
    fn compress(&mut self, now: Time) {
        self.freed.retain(|freed| freed.until > now);
        if self.freed.is_empty() && self.beyond.is_empty() {
            return;
        }
        self.releases += 1;
        join_overlapping(&mut self.freed);
        self.vacated.clear();
        // Due jobs stay.
        if let Some(last_start) = self.queue.last_start().filter(|last_start| *last_start > now) {
            self.move_waiting(now, last_start);
        }
        if let Some(bounds) = &mut self.bounds {
            for freed in self.freed.iter().chain(&self.vacated).chain(&self.beyond) {
                bounds.freed(&self.profile, now, *freed);
            }
        }
        self.beyond.clear();
        std::mem::swap(&mut self.freed, &mut self.vacated);
    }

    /// Moves the waiting jobs into the freed intervals. None of them starts after `last_start`.
    fn move_waiting(&mut self, now: Time, last_start: Time) {
        self.touched.clear(&self.profile, self.queue.shortest_s(), last_start);
        for freed in &self.freed {
            self.touched.add(&self.profile, now, *freed);
        }
        if !self.touched.is_empty() {
            self.ahead = PassedJobs { next: 0, latest_start: now };
            let mut next = 0;
            while let Some(movable) = self.queue.next_movable(next, now, &self.touched, &self.profile) {
                self.try_move(now, movable);
                next = movable.slot + 1;
            }
        }
    }

    /// Moves a waiting job to the earliest reservation, if that is earlier than its own.
    fn try_move(&mut self, now: Time, movable: Movable) {
        let Movable { slot, fits, slides } = movable;
        let Entry { procs, walltime, start, mut hints, .. } = self.queue.entry(slot);
        let estimate =
            if fits { self.touched.earliest_fit(&self.profile, now, procs, walltime, start) } else { None };
        let (earlier, freed) = match estimate {
            Some(earlier) => (earlier, self.profile.shift(start, earlier, walltime, procs)),
            None if slides => self.profile.slide(&mut hints, start, walltime, procs, now),
            None => return,
        };
        self.queue.set_start(slot, earlier, hints);
        if self.queue.any_gains_behind(slot, &freed) {
            self.touched.add(&self.profile, now, freed);
        }
        if self.ahead.any_starts_after(freed.from, &self.queue, slot) {
            self.vacated.push(freed);
        } else if self.bounds.is_some() {
            self.beyond.push(freed);
        }
    }

    /// Rebuilds the plan from the running and the waiting jobs: cheaper than many releases.
    fn rebuild(&mut self, now: Time) {
        self.releases += 1;
        self.profile = Profile::new(self.profile.capacity(), now);
        for held in self.running.held() {
            self.profile.reserve(now, held.end, held.procs);
        }
        for (_, entry) in self.queue.iter() {
            // A due job may not have been started by the driver yet.
            self.profile.reserve(entry.start.max(now), entry.end(), entry.procs);
        }
    }

    /// Plans again, in order of submission, every waiting job of those for which `may_move` is true, at the earliest time left by
    /// the running jobs, the other waiting jobs and the jobs ahead. After this no pass can gain anything.
    fn replan(&mut self, now: Time, may_move: impl Fn(&Entry) -> bool) {
        let mut waiting: Vec<Entry> = self.queue.iter().map(|(_, entry)| entry).collect();
        self.queue = ReservationQueue::default();
        self.rebuild(now);
        for entry in waiting.iter().filter(|entry| !may_move(entry)) {
            self.profile.reserve(entry.start.max(now), entry.end(), entry.procs);
        }
        for entry in &mut waiting {
            if may_move(entry) {
                let start = self.profile.earliest_fit(now, entry.procs, entry.walltime);
                entry.start = start.expect("a waiting job asks for at most the cluster's processors");
                self.profile.reserve(entry.start, entry.end(), entry.procs);
            }
            self.queue.push(*entry);
        }
        self.freed.clear();
        self.vacated.clear();
        if self.bounds.is_some() {
            self.bounds = Some(StartBounds::new(self.profile.capacity()));
        }
    }

    /// Lets the next pass try every waiting job.
    fn try_all(&mut self, now: Time) {
        let Some(latest) = self.queue.last_start() else { return };
        // A job can only use processors before its own reservation.
        self.freed.push(Freed { from: now, until: latest, least: Procs::ONE });
    }
}

/// Calls a function with the tuner's view of the other jobs.
fn with_present<R>(
    now: Time,
    running: &Running,
    queue: &ReservationQueue,
    call: impl FnOnce(&Present<'_>) -> R,
) -> R {
    let shapes = |each: &mut dyn FnMut(Procs, Span)| {
        running.held().for_each(|held| each(held.procs, held.end - now));
        queue.iter().for_each(|(_, entry)| each(entry.procs, entry.walltime));
    };
    let others = OtherJobs { count: running.len() + queue.len(), shapes: &shapes };
    call(&Present { now, others })
}

/// Replaces overlapping intervals by one that covers them.
fn join_overlapping(intervals: &mut Vec<Freed>) {
    if intervals.len() < 2 {
        return;
    }
    intervals.sort_unstable_by_key(|freed| freed.from);
    intervals.dedup_by(|next, kept| {
        let overlaps = next.from < kept.until;
        if overlaps {
            kept.until = kept.until.max(next.until);
            kept.least = kept.least.min(next.least);
        }
        overlaps
    });
}

impl BatchScheduler for ConservativeBackfilling {
    fn submit(&mut self, now: Time, submission: Submission) {
        let Submission { job, procs, walltime, .. } = submission;
        self.profile.advance(now);
        let from = self.bounds.as_ref().map_or(now, |bounds| bounds.at_least(procs, walltime, now));
        let start = self.profile.earliest_fit(from, procs, walltime);
        let start = start.expect("a submission asks for at most the cluster's processors");
        self.reserve(Entry::new(job, procs, walltime, start));
    }

    fn cancel(&mut self, now: Time, jobs: &[JobId]) -> usize {
        self.profile.advance(now);
        let rebuild = jobs.len() > 64 && jobs.len() * 2 > self.queue.len();
        let mut cancelled = 0;
        for job in jobs {
            let Some(slot) = self.queue.slot(*job) else { continue };
            if self.queue.entry(slot).start <= now {
                continue;
            }
            let entry = self.queue.remove(slot);
            cancelled += 1;
            if rebuild {
                self.freed.push(Freed { from: entry.start, until: entry.end(), least: Procs(1) });
            } else {
                self.free(entry.start, entry.end(), entry.procs);
            }
        }
        if rebuild {
            self.rebuild(now);
            if self.bounds.is_some() {
                self.bounds = Some(StartBounds::new(self.profile.capacity()));
            }
            if self.queue.is_empty() {
                self.freed.clear();
            }
        }
        if cancelled > 0 {
            self.fill_gaps(now);
        }
        cancelled
    }

    fn finish(&mut self, now: Time, job: JobId) {
        self.profile.advance(now);
        let Some(held) = self.running.finish(job) else { return };
        if held.end > now {
            self.free(now, held.end, held.procs);
        }
        self.fill_gaps(now);
    }

    fn extend_running(&mut self, now: Time, jobs: &[(JobId, Time)]) {
        self.profile.advance(now);
        let mut has_free_slots = true;
        for (job, end) in jobs {
            let Some(held) = self.running.extend(*job, *end) else { continue };
            let from = held.end.max(now);
            has_free_slots &= from >= *end || self.profile.min_free(from, *end) >= i64::from(held.procs.0);
            if has_free_slots {
                self.profile.reserve(from, *end, held.procs);
            }
        }
        if !has_free_slots {
            self.replan(now, |_| true);
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

    fn estimate(&mut self, now: Time, walltimes: &Walltimes<'_>, tuner: Tuner) -> Option<Estimate> {
        self.estimate_by(now, walltimes, tuner, Time(i64::MAX))
    }

    fn estimate_by(
        &mut self,
        now: Time,
        walltimes: &Walltimes<'_>,
        tuner: Tuner,
        latest: Time,
    ) -> Option<Estimate> {
        self.profile.advance(now);
        if self.bounds.is_none() && walltimes.least() < walltimes.most() {
            self.bounds = Some(StartBounds::new(self.profile.capacity()));
        }
        let Self { profile, running, queue, bounds, .. } = self;
        with_present(now, running, queue, |present| {
            tuning::tune_by(latest, tuner, (profile, bounds.as_mut()), now, present, walltimes)
        })
    }

    fn start_bounds(&self) -> Option<&StartBounds> {
        self.bounds.as_ref()
    }

    fn releases(&self) -> Option<u64> {
        Some(self.releases)
    }

    fn free_steps(&mut self, now: Time, count: usize, steps: &mut Vec<(Time, Procs)>) -> bool {
        self.profile.advance(now);
        steps.clear();
        steps.extend(self.profile.iter().take(count));
        true
    }

    fn plan_bounds(&mut self, now: Time) -> Option<PlanBounds> {
        self.profile.advance(now);
        let free = FreePlan::of_steps(self.profile.capacity(), (now, now), self.profile.iter());
        Some(PlanBounds { free, jobs: Some(self.running.len() + self.queue.len()) })
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

    fn dump(&self) -> Dump {
        let placed = self.queue.iter().map(|(_, entry)| Waiting { job: entry.job, plan: entry.plan() });
        Dump { running: self.running.by_number(), planned: placed.collect(), ..Dump::default() }
    }

    fn restore(&mut self, now: Time, dump: &Dump) -> Result<(), RestoreError> {
        let capacity = self.profile.capacity();
        dump.check(now, capacity)?;
        if let Some(job) = dump.queued.first().map(|one| one.job).or(dump.head.map(|one| one.job)) {
            return Err(RestoreError::OtherPolicy { job, expected: "a reservation for every waiting job" });
        }
        let mut restored = Self::with_gaps(capacity, now, self.gaps);
        for RunningJob { job, procs, end } in &dump.running {
            restored.running.start(*job, *procs, *end);
        }
        for Waiting { job, plan } in &dump.planned {
            let Estimate { procs, walltime, start } = *plan;
            restored.queue.push(Entry::new(*job, procs, walltime, start));
        }
        restored.rebuild(now);
        restored.try_all(now);
        restored.releases += self.releases;
        *self = restored;
        Ok(())
    }

    fn boxed_clone(&self) -> Box<dyn BatchScheduler> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
#[path = "cbf_tests.rs"]
mod tests;
