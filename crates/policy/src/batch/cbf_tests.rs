//! Compares conservative backfilling event by event with a reference implementation that counts free
//! processors second by second, and its profile with one built from scratch. Beyond `tests/cbf_reference.rs`: clusters of
//! any size, comparison orders of simultaneous events, and queues of hundreds of jobs of which most are cancelled at once.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{Estimate, JobId, Procs, Request, Span, Speed, Speedup, Time};
use proptest::prelude::*;

use super::super::{BatchScheduler, Submission, Waiting};
use super::{ConservativeBackfilling, Gaps};
use crate::profile::Profile;
use crate::tuning::Tuner;

/// An event from outside.
#[derive(Clone, Debug)]
enum Action {
    /// Submits a job that runs for this share of its walltime.
    Submit { procs: u32, walltime: i64, percent: i64 },
    /// Cancels in one call the waiting jobs whose ID has that remainder (or has not).
    Cancel { divisor: u32, remainder: u32, others: bool },
    /// Estimates a request.
    Ask { procs: u32, walltime: i64, speedup: Speedup },
}

/// Actions, each some seconds after the previous one.
type Script = Vec<(i64, Action)>;

/// A reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reservation {
    job: u32,
    procs: u32,
    start: i64,
    end: i64,
}

/// The reference implementation.
struct ReferenceBackfilling {
    procs: u32,
    gaps: Gaps,
    running: Vec<Reservation>,
    /// In order of submission.
    waiting: Vec<Reservation>,
}

impl ReferenceBackfilling {
    /// Free processors in each second from `now` on; all processors are free after that.
    fn seconds(&self, now: i64) -> Vec<i64> {
        let held = || self.running.iter().chain(&self.waiting);
        let end = held().map(|reservation| reservation.end).max().unwrap_or(now);
        let mut free = vec![i64::from(self.procs); (end - now).max(0) as usize];
        held().for_each(|reservation| take(&mut free, now, *reservation, -1));
        assert!(free.iter().all(|free| *free >= 0), "more processors are taken than there are");
        free
    }

    fn submit(&mut self, now: i64, job: u32, procs: u32, walltime: i64) {
        let start = now + earliest(&self.seconds(now), procs, walltime);
        self.waiting.push(Reservation { job, procs, start, end: start + walltime });
    }

    fn cancel(&mut self, now: i64, jobs: &[u32]) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|reservation| reservation.start <= now || !jobs.contains(&reservation.job));
        let cancelled = before - self.waiting.len();
        if cancelled > 0 {
            self.fill_gaps(now);
        }
        cancelled
    }

    fn finish(&mut self, now: i64, job: u32) {
        self.running.retain(|reservation| reservation.job != job);
        self.fill_gaps(now);
    }

    fn fill_gaps(&mut self, now: i64) {
        match self.gaps {
            Gaps::Compressed => self.compress(now),
            Gaps::PlannedAnew => self.plan_anew(now),
        }
    }

    fn plan_anew(&mut self, now: i64) {
        let mut waiting = std::mem::take(&mut self.waiting);
        // Jobs that are due stay.
        self.waiting = waiting.extract_if(.., |reservation| reservation.start <= now).collect();
        for Reservation { job, procs, start, end } in waiting {
            self.submit(now, job, procs, end - start);
        }
        self.waiting.sort_by_key(|reservation| reservation.job);
    }

    fn compress(&mut self, now: i64) {
        let mut free = self.seconds(now);
        for reservation in self.waiting.iter_mut().filter(|reservation| reservation.start > now) {
            take(&mut free, now, *reservation, 1);
            let walltime = reservation.end - reservation.start;
            let start = now + earliest(&free, reservation.procs, walltime);
            assert!(start <= reservation.start, "job {} would be delayed", reservation.job);
            (reservation.start, reservation.end) = (start, start + walltime);
            take(&mut free, now, *reservation, -1);
        }
    }

    fn start_due(&mut self, now: i64) -> Vec<u32> {
        let (mut due, waiting): (Vec<Reservation>, Vec<Reservation>) =
            self.waiting.iter().copied().partition(|reservation| reservation.start <= now);
        due.sort_by_key(|reservation| reservation.start);
        self.waiting = waiting;
        self.running.extend(&due);
        due.iter().map(|reservation| reservation.job).collect()
    }
}

fn take(free: &mut [i64], now: i64, reservation: Reservation, sign: i64) {
    for second in reservation.start.max(now)..reservation.end {
        free[(second - now) as usize] += sign * i64::from(reservation.procs);
    }
}

/// The number of seconds until `procs` processors are free for `walltime`.
fn earliest(free: &[i64], procs: u32, walltime: i64) -> i64 {
    let mut start = 0;
    for (second, free) in free.iter().enumerate() {
        if second as i64 == start + walltime {
            break;
        }
        if *free < i64::from(procs) {
            start = second as i64 + 1;
        }
    }
    start
}

/// Counts of events in a script: tests check that the relevant cases occurred.
#[derive(Default, Debug)]
struct Tally {
    early_ends: usize,
    ends_on_time: usize,
    moved_up: usize,
    delayed: usize,
    most_cancelled_at_once: usize,
    longest_queue: usize,
}

/// Comparison implementations, driven by the same events.
struct Comparison {
    fast: ConservativeBackfilling,
    reference: ReferenceBackfilling,
    /// Processors, walltime and runtime of each job.
    jobs: Vec<(u32, i64, i64)>,
    /// (end, index of the start, job).
    finishes: BTreeSet<(i64, usize, u32)>,
    /// The latest plan of each waiting job.
    plans: BTreeMap<u32, i64>,
    starts: usize,
    tally: Tally,
}

impl Comparison {
    fn new(procs: u32, gaps: Gaps) -> Comparison {
        Comparison {
            fast: ConservativeBackfilling::with_gaps(Procs(procs), Time::ZERO, gaps),
            reference: ReferenceBackfilling { procs, gaps, running: Vec::new(), waiting: Vec::new() },
            jobs: Vec::new(),
            finishes: BTreeSet::new(),
            plans: BTreeMap::new(),
            starts: 0,
            tally: Tally::default(),
        }
    }

    fn act(&mut self, now: i64, action: &Action) {
        match action {
            Action::Submit { procs, walltime, percent } => {
                let job = self.jobs.len() as u32;
                self.jobs.push((*procs, *walltime, (walltime * percent / 100).max(1)));
                let submission = Submission::new(JobId(job), Procs(*procs), Span(*walltime));
                self.fast.submit(Time(now), submission);
                self.reference.submit(now, job, *procs, *walltime);
            }
            Action::Cancel { divisor, remainder, others } => {
                let jobs = (0..self.jobs.len() as u32).filter(|job| (job % divisor == *remainder) != *others);
                // Includes running, ended and cancelled jobs, which must not be affected.
                let jobs: Vec<u32> = jobs.collect();
                let ids: Vec<JobId> = jobs.iter().copied().map(JobId).collect();
                let cancelled = self.fast.cancel(Time(now), &ids);
                assert_eq!(cancelled, self.reference.cancel(now, &jobs));
                self.tally.most_cancelled_at_once = self.tally.most_cancelled_at_once.max(cancelled);
            }
            Action::Ask { procs, walltime, speedup } => self.ask(now, *procs, *walltime, speedup),
        }
        self.compare(now);
    }

    /// Compares the exact tuner with trying every size on the reference implementation.
    fn ask(&mut self, now: i64, procs: u32, walltime: i64, speedup: &Speedup) {
        let (procs, walltime, speedup) = (Procs(procs), Span(walltime), speedup.clone());
        let request = Request::new(JobId(0), Time(now), procs, walltime, speedup);
        let Some(walltimes) = request.on(Procs(self.reference.procs), Speed::REFERENCE) else { return };
        let free = self.reference.seconds(now);
        let shapes = (walltimes.least().0..=walltimes.most().0).map(|size| {
            let walltime = walltimes.at(Procs(size));
            let start = Time(now + earliest(&free, size, walltime.0));
            Estimate { procs: Procs(size), walltime, start }
        });
        let best = shapes.min_by_key(|shape| (shape.completion(), shape.procs));
        assert_eq!(self.fast.estimate(Time(now), &walltimes, Tuner::Exact), best);
    }

    fn finish(&mut self, now: i64) {
        while let Some((at, _, job)) = self.finishes.first().copied()
            && at == now
        {
            self.finishes.pop_first();
            let end = self.reference.running.iter().find(|reservation| reservation.job == job).unwrap().end;
            self.tally.early_ends += usize::from(now < end);
            self.tally.ends_on_time += usize::from(now == end);
            self.fast.finish(Time(now), JobId(job));
            self.reference.finish(now, job);
            self.compare(now);
        }
    }

    fn start(&mut self, now: i64) {
        let mut started = Vec::new();
        self.fast.start_due(Time(now), &mut started);
        let expected = self.reference.start_due(now);
        assert_eq!(started.iter().map(|start| start.job.0).collect::<Vec<_>>(), expected);
        for start in started {
            let (procs, walltime, runtime) = self.jobs[start.job.index()];
            assert_eq!((start.procs, start.walltime), (Procs(procs), Span(walltime)));
            self.finishes.insert((now + runtime, self.starts, start.job.0));
            self.starts += 1;
        }
        let taken: u32 = self.reference.running.iter().map(|reservation| reservation.procs).sum();
        assert!(taken <= self.reference.procs, "{taken} of {} processors run jobs", self.reference.procs);
        self.compare(now);
    }

    /// Checks that the queues are equal and that no plan is later than before, unless all are made anew.
    fn compare(&mut self, now: i64) {
        let mut waiting = Vec::new();
        self.fast.list(Time(now), &mut waiting);
        let reservation = |one: &Waiting| Reservation {
            job: one.job.0,
            procs: one.plan.procs.0,
            start: one.plan.start.0,
            end: one.plan.completion().0,
        };
        let reservations: Vec<Reservation> = waiting.iter().map(reservation).collect();
        assert_eq!(reservations, self.reference.waiting, "at {now}");
        assert_eq!(self.fast.queue_length(), reservations.len());
        assert_eq!(
            self.fast.next_start().map(|at| at.0),
            reservations.iter().map(|reservation| reservation.start).min()
        );
        for reservation in &reservations {
            let before = self.plans.insert(reservation.job, reservation.start).unwrap_or(reservation.start);
            self.tally.moved_up += usize::from(reservation.start < before);
            self.tally.delayed += usize::from(reservation.start > before);
        }
        assert!(
            self.reference.gaps == Gaps::PlannedAnew || self.tally.delayed == 0,
            "a job got later at {now}"
        );
        self.check_profile(now);
        self.tally.longest_queue = self.tally.longest_queue.max(reservations.len());
    }

    /// Checks that the profile equals the running and the waiting jobs.
    fn check_profile(&self, now: i64) {
        assert_eq!(self.fast.profile.check(), Ok(()));
        let mut rebuilt = Profile::new(Procs(self.reference.procs), Time(now));
        for reservation in self.reference.running.iter().chain(&self.reference.waiting) {
            rebuilt.reserve(
                Time(reservation.start.max(now)),
                Time(reservation.end),
                Procs(reservation.procs),
            );
        }
        let mut kept = self.fast.profile.clone();
        kept.advance(Time(now));
        let from_now = |(at, free): (Time, Procs)| (at.max(Time(now)), free);
        assert!(kept.iter().map(from_now).eq(rebuilt.iter()), "the profile at {now}");
    }
}

/// Runs a script until the cluster is empty.
fn play(procs: u32, gaps: Gaps, script: &Script, finish_first: bool) -> Tally {
    let mut comparison = Comparison::new(procs, gaps);
    let mut actions = script.iter().peekable();
    let mut last = 0;
    loop {
        let action = actions.peek().map(|(gap, _)| last + gap);
        let finish = comparison.finishes.first().map(|(at, ..)| *at);
        let start = comparison.fast.next_start().map(|at| at.0);
        let Some(now) = [action, finish, start].into_iter().flatten().min() else { break };
        if finish_first {
            comparison.finish(now);
        }
        while let Some((_, action)) = actions.next_if(|(gap, _)| last + gap == now) {
            last = now;
            comparison.act(now, action);
        }
        if !finish_first {
            comparison.finish(now);
        }
        comparison.start(now);
    }
    assert!(comparison.reference.running.is_empty() && comparison.reference.waiting.is_empty());
    comparison.tally
}

fn speedup() -> impl Strategy<Value = Speedup> {
    prop_oneof![
        Just(Speedup::Rigid),
        Just(Speedup::Folding),
        (0.5..=1.0, 1..20_u32)
            .prop_map(|(parallel, limit)| Speedup::Amdahl { parallel, limit: Procs(limit) }),
    ]
}

/// Scripts for a cluster of `procs` in which actions are mostly `gap` seconds apart.
fn script(
    procs: u32,
    gap: i64,
    length: impl Into<prop::collection::SizeRange>,
    ask: u32,
) -> impl Strategy<Value = Script> {
    let submit = (1..=procs, 1..20_i64, prop_oneof![1 => Just(100_i64), 2 => 1..100_i64])
        .prop_map(|(procs, walltime, percent)| Action::Submit { procs, walltime, percent });
    let cancel =
        (1..20_u32, 0..20_u32, prop::bool::weighted(0.2)).prop_map(|(divisor, remainder, others)| {
            Action::Cancel { divisor, remainder: remainder % divisor, others }
        });
    let ask_one = (1..=procs, 1..40_i64, speedup()).prop_map(|(procs, walltime, speedup)| Action::Ask {
        procs,
        walltime,
        speedup,
    });
    let action = prop_oneof![20 => submit, 1 => cancel, ask => ask_one];
    let gap = prop_oneof![4 => Just(0_i64), 4 => 0..=gap, 1 => 0..=gap * 8];
    prop::collection::vec((gap, action), length)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_reference_implementation(
        (procs, script) in (1..=16_u32).prop_flat_map(|procs| (Just(procs), script(procs, 6, 1..120, 3))),
        finish_first: bool,
    ) {
        play(procs, Gaps::Compressed, &script, finish_first);
        play(procs, Gaps::PlannedAnew, &script, finish_first);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_the_reference_implementation_with_long_queues(
        mut script in script(12, 1, 350..450, 1),
        asked: bool,
        finish_first: bool,
    ) {
        if !asked {
            // Without moldable requests no bounds on starts are kept.
            script.retain(|(_, action)| !matches!(action, Action::Ask { .. }));
        }
        play(12, Gaps::Compressed, &script, finish_first);
        play(12, Gaps::PlannedAnew, &script, finish_first);
    }
}

/// Queues of hundreds of jobs of which most are cancelled in one call, so that the plan is rebuilt and gaps close.
#[test]
fn equals_the_reference_implementation_when_most_of_a_long_queue_is_cancelled() {
    for asked in [false, true] {
        let mut script: Script = Vec::new();
        for job in 0..900_i64 {
            let action = Action::Submit {
                procs: 1 + (job * 7 % 9) as u32,
                walltime: 1 + job * 13 % 17,
                percent: job % 101,
            };
            script.push((0, action));
        }
        for round in 0..4 {
            script.push((3, Action::Cancel { divisor: 3 + round, remainder: round, others: true }));
            if asked {
                let speedup = Speedup::Amdahl { parallel: 0.9, limit: Procs(10) };
                script.push((0, Action::Ask { procs: 5, walltime: 30, speedup }));
            }
            for job in 0..80_i64 {
                let procs = 1 + (job * 5 % 10) as u32;
                script.push((job % 2, Action::Submit { procs, walltime: 1 + job * 11 % 19, percent: 60 }));
            }
        }
        let tally = play(10, Gaps::PlannedAnew, &script, true);
        assert!(tally.moved_up > 100 && tally.delayed > 100, "{tally:?}");
        let tally = play(10, Gaps::Compressed, &script, true);
        assert!(tally.most_cancelled_at_once > 512 && tally.longest_queue > 800, "{tally:?}");
        assert!(tally.early_ends > 50 && tally.ends_on_time > 0 && tally.moved_up > 100, "{tally:?}");
    }
}

/// The same, cancelled little by little: gaps close while some jobs are known to be able to slide.
#[test]
fn equals_the_reference_implementation_when_a_long_queue_is_cancelled_in_steps() {
    for seed in 0..2_i64 {
        let mut script: Script = Vec::new();
        for job in 0..1100_i64 {
            let procs = 1 + ((job * 7 + seed) % 11) as u32;
            script.push((0, Action::Submit { procs, walltime: 1 + (job * 13 + seed) % 17, percent: 50 }));
        }
        for remainder in 0..22 {
            script.push((remainder.into(), Action::Cancel { divisor: 24, remainder, others: false }));
        }
        let tally = play(11, Gaps::Compressed, &script, true);
        assert!((32..=64).contains(&tally.most_cancelled_at_once), "{tally:?}");
    }
}
