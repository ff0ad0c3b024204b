//! Conservative backfilling against a reference that tries every waiting job at every pass, on one array entry
//! per second: every plan must be equal after every event (rules: Mu'alem and Feitelson 2001).
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeMap;

use insta::assert_snapshot;
use pliant_model::{JobId, Procs, Span, Time};
use pliant_policy::batch::{self, BatchScheduler, Start, Submission, Waiting};
use proptest::prelude::*;

/// The reference implementation.
struct Reference {
    procs: i64,
    free: Vec<i64>,
    waiting: Vec<(JobId, i64, i64, i64)>,
    running: BTreeMap<JobId, (i64, i64)>,
}

impl Reference {
    fn new(procs: u32, horizon: usize) -> Reference {
        let procs = i64::from(procs);
        Reference { procs, free: vec![procs; horizon], waiting: Vec::new(), running: BTreeMap::new() }
    }

    fn take(&mut self, from: i64, until: i64, procs: i64) {
        for second in &mut self.free[from as usize..until as usize] {
            *second -= procs;
            assert!(*second >= 0, "overbooked");
        }
    }

    fn earliest(&self, now: i64, procs: i64, walltime: i64) -> i64 {
        (now..)
            .find(|start| {
                self.free[*start as usize..(start + walltime) as usize].iter().all(|free| *free >= procs)
            })
            .expect("the horizon is long enough")
    }

    fn submit(&mut self, now: i64, submission: Submission) {
        let (procs, walltime) = (i64::from(submission.procs.0), submission.walltime.0);
        let start = self.earliest(now, procs, walltime);
        self.take(start, start + walltime, procs);
        self.waiting.push((submission.job, procs, walltime, start));
    }

    fn compress(&mut self, now: i64) {
        for index in 0..self.waiting.len() {
            let (_, procs, walltime, start) = self.waiting[index];
            if start > now {
                self.take(start, start + walltime, -procs);
                let earlier = self.earliest(now, procs, walltime);
                assert!(earlier <= start, "a reservation moved later");
                self.take(earlier, earlier + walltime, procs);
                self.waiting[index].3 = earlier;
            }
        }
    }

    fn cancel(&mut self, now: i64, jobs: &[JobId]) -> usize {
        let before = self.waiting.len();
        let (gone, kept): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|(job, _, _, start)| jobs.contains(job) && *start > now);
        self.waiting = kept;
        for (_, procs, walltime, start) in gone {
            self.take(start, start + walltime, -procs);
        }
        let cancelled = before - self.waiting.len();
        if cancelled > 0 {
            self.compress(now);
        }
        cancelled
    }

    fn finish(&mut self, now: i64, job: JobId) {
        let (procs, end) = self.running.remove(&job).expect("it runs");
        self.take(now, end.max(now), -procs);
        self.compress(now);
    }

    /// A running job is planned to end later; if others were to have its processors by then, every waiting job is planned again.
    fn extend_running(&mut self, now: i64, job: JobId, later: i64) {
        let (procs, end) = self.running.insert(job, (self.running[&job].0, later)).expect("it runs");
        if self.free[end as usize..later as usize].iter().all(|free| *free >= procs) {
            self.take(end, later, procs);
            return;
        }
        let running: Vec<(i64, i64)> = self.running.values().copied().collect();
        self.free.fill(self.procs);
        running.into_iter().for_each(|(procs, end)| self.take(now, end, procs));
        for index in 0..self.waiting.len() {
            let (_, procs, walltime, _) = self.waiting[index];
            let start = self.earliest(now, procs, walltime);
            self.take(start, start + walltime, procs);
            self.waiting[index].3 = start;
        }
    }

    fn start_due(&mut self, now: i64) -> Vec<JobId> {
        let (due, kept): (Vec<_>, Vec<_>) =
            self.waiting.drain(..).partition(|(_, _, _, start)| *start <= now);
        self.waiting = kept;
        for (job, procs, walltime, start) in &due {
            self.running.insert(*job, (*procs, start + walltime));
        }
        due.into_iter().map(|(job, ..)| job).collect()
    }
}

#[derive(Clone, Debug)]
enum Event {
    Submit {
        procs: u32,
        walltime: i64,
    },
    /// The which-th running job ends now.
    Finish {
        which: usize,
    },
    /// The which-th running job is planned to end so much later than it was.
    Outlive {
        which: usize,
        seconds: i64,
    },
    /// Some of the waiting jobs, chosen by bits, are withdrawn together.
    Cancel {
        bits: u64,
    },
    Wait {
        seconds: i64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        10 => (1..=10_u32, 1..40_i64).prop_map(|(procs, walltime)| Event::Submit { procs, walltime }),
        4 => (0..8_usize).prop_map(|which| Event::Finish { which }),
        1 => (0..8_usize, 1..40_i64).prop_map(|(which, seconds)| Event::Outlive { which, seconds }),
        1 => any::<u64>().prop_map(|bits| Event::Cancel { bits: bits & any_few(bits) }),
        3 => (1..12_i64).prop_map(|seconds| Event::Wait { seconds }),
    ]
}

/// Mostly few bits, sometimes all.
fn any_few(bits: u64) -> u64 {
    if bits.is_multiple_of(5) { u64::MAX } else { 0x0101_0101_0101_0101 }
}

struct Pair {
    fast: Box<dyn BatchScheduler>,
    reference: Reference,
    now: i64,
}

impl Pair {
    fn compare(&mut self) {
        let mut listed: Vec<Waiting> = Vec::new();
        self.fast.list(Time(self.now), &mut listed);
        let fast: Vec<_> = listed.iter().map(|one| (one.job, one.plan.start.0)).collect();
        let reference: Vec<_> =
            self.reference.waiting.iter().map(|(job, _, _, start)| (*job, *start)).collect();
        assert_eq!(fast, reference, "plans at {}", self.now);
        assert_eq!(self.fast.queue_length(), reference.len());
        assert_eq!(self.fast.next_start().map(|at| at.0), reference.iter().map(|(_, start)| *start).min());
    }

    fn start_due(&mut self) {
        let mut started: Vec<Start> = Vec::new();
        self.fast.start_due(Time(self.now), &mut started);
        let mut fast: Vec<JobId> = started.iter().map(|start| start.job).collect();
        let mut reference = self.reference.start_due(self.now);
        fast.sort();
        reference.sort();
        assert_eq!(fast, reference, "starts at {}", self.now);
    }

    /// Lets time pass: jobs start when planned and end at their walltime.
    fn wait(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.start_due();
            self.now += 1;
            let due: Vec<JobId> = self
                .reference
                .running
                .iter()
                .filter(|(_, (_, end))| *end == self.now)
                .map(|(job, _)| *job)
                .collect();
            for job in due {
                self.finish(job);
            }
        }
    }

    fn finish(&mut self, job: JobId) {
        self.fast.finish(Time(self.now), job);
        self.reference.finish(self.now, job);
        self.compare();
    }
}

fn play(events: &[Event], with_estimates: bool) {
    let horizon = events.len() * 85 + 2000;
    let fast = (batch::by_name("cbf").expect("registered").new)(Procs(10), Time::ZERO);
    let mut pair = Pair { fast, reference: Reference::new(10, horizon), now: 0 };
    let mut next = 0;
    for event in events {
        match *event {
            Event::Submit { procs, walltime } => {
                let submission = Submission::new(JobId(next), Procs(procs), Span(walltime));
                next += 1;
                pair.fast.submit(Time(pair.now), submission.clone());
                pair.reference.submit(pair.now, submission);
            }
            Event::Finish { which } => {
                pair.start_due();
                let running: Vec<JobId> = pair.reference.running.keys().copied().collect();
                // A job runs for a second at least.
                if let Some(job) = running.get(which).filter(|job| pair.reference.running[job].1 > pair.now) {
                    pair.finish(*job);
                }
            }
            Event::Outlive { which, seconds } => {
                pair.start_due();
                let running: Vec<JobId> = pair.reference.running.keys().copied().collect();
                if let Some(job) = running.get(which) {
                    let later = pair.reference.running[job].1 + seconds;
                    pair.fast.extend_running(Time(pair.now), &[(*job, Time(later))]);
                    pair.reference.extend_running(pair.now, *job, later);
                }
            }
            Event::Cancel { bits } => {
                let waiting = pair.reference.waiting.iter().enumerate();
                let chosen: Vec<JobId> = waiting
                    .filter(|(index, _)| bits >> (index % 64) & 1 == 1)
                    .map(|(_, entry)| entry.0)
                    .collect();
                let now = pair.now;
                assert_eq!(pair.fast.cancel(Time(now), &chosen), pair.reference.cancel(now, &chosen));
            }
            Event::Wait { seconds } => pair.wait(seconds),
        }
        pair.compare();
        if with_estimates {
            check_estimate(&mut pair);
        }
    }
    pair.wait(horizon as i64 / 4);
}

/// A moldable estimate equals the best over all sizes, and asking keeps bounds that later submissions use.
fn check_estimate(pair: &mut Pair) {
    use pliant_model::{Request, Speed, Speedup};
    use pliant_policy::tuning::Tuner;
    let speedup = Speedup::Amdahl { parallel: 0.9, limit: Procs(10) };
    let (procs, walltime) = (Procs(1 + pair.now as u32 % 10), Span(3 + pair.now % 37));
    let request = Request::new(JobId(u32::MAX), Time(pair.now), procs, walltime, speedup);
    let walltimes = request.on(Procs(10), Speed::REFERENCE).expect("it fits");
    let found = pair.fast.estimate(Time(pair.now), &walltimes, Tuner::Exact).expect("it fits");
    let best = (1..=10)
        .map(|n| {
            let span = walltimes.at(Procs(n)).0;
            (pair.reference.earliest(pair.now, i64::from(n), span) + span, n)
        })
        .min()
        .expect("ten sizes");
    assert_eq!((found.completion().0, found.procs.0), best, "at {}", pair.now);
}

/// What is planned at `now`.
fn plans(cluster: &mut dyn BatchScheduler, now: i64) -> String {
    let mut waiting: Vec<Waiting> = Vec::new();
    cluster.list(Time(now), &mut waiting);
    let planned = waiting.iter().map(|Waiting { job, plan }| {
        format!("  job {job} on {} from {} to {}\n", plan.procs, plan.start, plan.completion())
    });
    format!("at {now}:\n") + &planned.collect::<String>()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]

    #[test]
    fn every_plan_equals_the_reference(events in prop::collection::vec(event(), 1..120)) {
        play(&events, false);
    }

    #[test]
    fn every_plan_and_every_estimate_equal_the_reference(events in prop::collection::vec(event(), 1..80)) {
        play(&events, true);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// Queues of several hundred jobs: many chunks, many blocks.
    #[test]
    fn long_queues_equal_the_reference(
        burst in prop::collection::vec((1..=10_u32, 1..30_i64), 250..400),
        events in prop::collection::vec(event(), 30..60),
    ) {
        let submissions = burst.into_iter().map(|(procs, walltime)| Event::Submit { procs, walltime });
        let all: Vec<Event> = submissions.chain(events).collect();
        play(&all, true);
    }
}

/// G000-5: a job that ends early lets both waiting jobs start at once.
#[test]
fn g000_5_compression() {
    let mut cluster = (batch::by_name("cbf").expect("registered").new)(Procs(4), Time::ZERO);
    for (job, procs, walltime) in [(1, 4, 10), (2, 2, 10), (3, 2, 3)] {
        let submission = Submission::new(JobId(job), Procs(procs), Span(walltime));
        cluster.submit(Time::ZERO, submission);
    }
    let mut started = Vec::new();
    cluster.start_due(Time::ZERO, &mut started);
    assert_eq!(started.iter().map(|start| start.job).collect::<Vec<_>>(), [JobId(1)]);
    let before = plans(cluster.as_mut(), 1);
    cluster.finish(Time(4), JobId(1));
    assert_snapshot!(before + &plans(cluster.as_mut(), 4), @r"
    at 1:
      job 2 on 2 from 10 to 20
      job 3 on 2 from 10 to 13
    at 4:
      job 2 on 2 from 4 to 14
      job 3 on 2 from 4 to 7
    ");
}
