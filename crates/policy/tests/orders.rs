//! Queue orders against a reference that sorts everything at every event, and that no job starves.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod driver;

use std::collections::BTreeSet;

use driver::{Ran, TestJob, Ties, owner_of, replay};
use pliant_model::{Estimate, JobId, Owner, Procs, Request, Span, Speed, Speedup, Time};
use pliant_policy::batch::order::{Aging, Candidate, Entitlement, ORDERS, Order, Weights};
use pliant_policy::batch::{LocalPolicy, Submission};
use pliant_policy::tuning::Tuner;
use proptest::prelude::*;
use proptest::sample::select;

/// Strict service or EASY in a queue order, backfilled in that order or the shortest first.
struct Reference<'a> {
    backfills: bool,
    /// The shortest is backfilled first, whatever the order.
    shortest_first: bool,
    order: &'static Order,
    aging: Option<i64>,
    procs: u32,
    jobs: &'a [TestJob],
    line: Vec<usize>,
    ran: Vec<Option<Ran>>,
    /// Running jobs.
    running: Vec<usize>,
}

impl Reference<'_> {
    /// Processor seconds of the user's jobs until `now`; everything happens within the first hour, when nothing decays.
    fn used(&self, now: i64, by: impl Fn(usize) -> bool) -> f64 {
        let of = |(id, ran): (usize, &Option<Ran>)| {
            let ran = ran.filter(|_| by(id))?;
            Some(i64::from(ran.procs) * (ran.end.min(now) - ran.start))
        };
        self.ran.iter().enumerate().filter_map(of).sum::<i64>() as f64
    }

    fn candidate(&self, now: i64, id: usize) -> Candidate {
        let job = self.jobs[id];
        let users = (0..3).filter(|user| self.used(now, |other| other % 3 == *user) > 0.0).count();
        Candidate {
            procs: Procs(job.procs),
            walltime: Span(job.walltime),
            waited: Span(now - job.submit),
            since: Span((job.submit - self.jobs[0].submit).max(1)),
            capacity: Procs(self.procs),
            user: Entitlement {
                used: self.used(now, |other| owner_of(other) == owner_of(id)),
                used_by_all: self.used(now, |_| true),
                shares: 1.0,
                shares_of_all: users.max(1) as f64,
                bonus: 0,
            },
            weights: Weights::EQUAL,
            age_max: Span(7 * 86_400),
        }
    }

    fn sort(&mut self, now: i64) {
        let mut keyed: Vec<(bool, f64, usize)> = Vec::new();
        for id in &self.line {
            let aged = self.aging.is_some_and(|bound| now - self.jobs[*id].submit > bound);
            let rank = if aged { 0.0 } else { self.order.rank(&self.candidate(now, *id)) };
            keyed.push((!aged, rank, *id));
        }
        keyed.sort_by(|a, b| a.partial_cmp(b).unwrap());
        self.line = keyed.into_iter().map(|(_, _, id)| id).collect();
    }

    fn free(&self, at: i64, now: i64) -> u32 {
        let ends = |id: &usize| self.ran[*id].unwrap().start + self.jobs[*id].walltime;
        // What ends now has ended, whether it was delivered or not.
        let held = self.running.iter().filter(|id| ends(id) > at.max(now));
        self.procs - held.map(|id| self.jobs[*id].procs).sum::<u32>()
    }

    fn start(&mut self, now: i64, position: usize) {
        let id = self.line.remove(position);
        let job = self.jobs[id];
        self.ran[id] = Some(Ran { start: now, end: now + job.runtime, procs: job.procs });
        self.running.push(id);
    }

    fn decide(&mut self, now: i64) {
        self.sort(now);
        while let Some(head) = self.line.first()
            && self.jobs[*head].procs <= self.free(now, now)
        {
            self.start(now, 0);
        }
        if !self.backfills || self.line.is_empty() {
            return;
        }
        let needed = self.jobs[self.line[0]].procs;
        let mut behind = self.line[1..].to_vec();
        if self.shortest_first {
            behind.sort_by_key(|id| self.jobs[*id].walltime);
        }
        for id in behind {
            let job = self.jobs[id];
            let shadow = (now..).find(|at| self.free(*at, now) >= needed).unwrap();
            let extra = self.free(shadow, now) - needed;
            if job.procs <= self.free(now, now) && (now + job.walltime <= shadow || job.procs <= extra) {
                let position = self.line.iter().position(|other| *other == id).unwrap();
                self.start(now, position);
            }
        }
    }

    fn finish(&mut self, now: i64) {
        let ended = |id: &usize| self.ran[*id].unwrap().end == now;
        for id in self.running.iter().copied().filter(|id| ended(id)).collect::<Vec<_>>() {
            self.running.retain(|other| *other != id);
            self.decide(now);
        }
    }

    fn run(mut self, ties: Ties) -> Vec<Option<Ran>> {
        let mut next = 0;
        let cancels = self.jobs.iter().enumerate().filter_map(|(id, job)| Some((job.cancel?, id)));
        let mut cancels: BTreeSet<(i64, usize)> = cancels.collect();
        loop {
            let submission = self.jobs.get(next).map(|job| job.submit);
            let finish = self.running.iter().map(|id| self.ran[*id].unwrap().end).min();
            let cancel = cancels.first().map(|(at, _)| *at);
            let Some(now) = submission.into_iter().chain(finish).chain(cancel).min() else { return self.ran };
            if ties == Ties::FinishFirst {
                self.finish(now);
            }
            while self.jobs.get(next).is_some_and(|job| job.submit == now) {
                self.line.push(next);
                next += 1;
                self.decide(now);
            }
            if ties == Ties::SubmitFirst {
                self.finish(now);
            }
            while let Some((at, id)) = cancels.first().copied()
                && at == now
            {
                cancels.pop_first();
                if let Some(position) = self.line.iter().position(|waiting| *waiting == id) {
                    self.line.remove(position);
                    self.decide(now);
                }
            }
        }
    }
}

fn reference(policy: &str, procs: u32, jobs: &[TestJob], ties: Ties) -> Vec<Option<Ran>> {
    let local: LocalPolicy = policy.parse().unwrap();
    let (order, Aging(aging)) = (local.ordering().order, local.ordering().aging);
    let reference = Reference {
        backfills: local.batch().name != "fcfs",
        shortest_first: local.batch().name == "easy-sjbf",
        order,
        aging: aging.map(|bound| bound.0),
        procs,
        jobs,
        line: Vec::new(),
        ran: vec![None; jobs.len()],
        running: Vec::new(),
    };
    reference.run(ties)
}

/// A cluster's processors and jobs that are all over within an hour.
fn workloads(gap: i64) -> impl Strategy<Value = (u32, Vec<TestJob>)> {
    (1..=16_u32).prop_flat_map(move |procs| {
        let gap = prop_oneof![2 => Just(0_i64), 3 => 1..gap];
        let job = (gap, 1..=procs, 1..40_i64, prop_oneof![Just(1.0), 0.0..1.0]);
        prop::collection::vec(job, 1..50).prop_map(move |drawn| {
            let mut submit = 0;
            let job = |(gap, procs, walltime, share): (i64, u32, i64, f64)| {
                submit += gap;
                let runtime = ((walltime as f64 * share).ceil() as i64).clamp(1, walltime);
                TestJob { submit, procs, walltime, runtime, cancel: None }
            };
            (procs, drawn.into_iter().map(job).collect())
        })
    })
}

fn ties() -> impl Strategy<Value = Ties> {
    prop_oneof![Just(Ties::FinishFirst), Just(Ties::SubmitFirst)]
}

fn orders() -> impl Iterator<Item = &'static Order> {
    ORDERS.iter().filter(|order| !order.is_first_come())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_a_reference_that_sorts_at_every_event(
        (procs, mut jobs) in workloads(8),
        patience in prop::collection::vec(prop::option::weighted(0.3, 1..60_i64), 50),
        ties in ties(),
        aging in select(&["none", "15s", "60s"][..]),
    ) {
        for (job, patience) in jobs.iter_mut().zip(patience) {
            job.cancel = patience.map(|patience| job.submit + patience);
        }
        for batch in ["fcfs", "easy", "easy-sjbf"] {
            for order in orders() {
                let policy = format!("{batch}/{}/{aging}", order.name);
                let ran = replay(&policy, procs, &jobs, ties);
                prop_assert_eq!(ran, reference(&policy, procs, &jobs, ties), "{}", policy);
            }
        }
    }

    /// Whatever else arrives, the first job starts when it has aged and the jobs that run then have ended: the event
    /// at which that is noticed comes within a walltime, and they end within another one.
    #[test]
    fn no_job_starves_with_aging(
        (procs, jobs) in workloads(4),
        walltime in 1..200_i64,
        aging in 0..100_i64,
    ) {
        let first = TestJob { submit: 0, procs, walltime, runtime: 1, cancel: None };
        // Something runs when it comes.
        let before = TestJob { procs: 1, walltime: 20, runtime: 20, ..first };
        let jobs: Vec<TestJob> = [before, first].into_iter().chain(jobs).collect();
        for batch in ["fcfs", "easy", "easy-sjbf", "backfill"] {
            for order in orders() {
                let policy = format!("{batch}/{}/{aging}s", order.name);
                let start = replay(&policy, procs, &jobs, Ties::FinishFirst)[1].unwrap().start;
                prop_assert!(start <= aging + 2 * 40, "{}: {}", policy, start);
            }
        }
    }

    /// Aged jobs start strictly in order of submission.
    #[test]
    fn aged_jobs_go_by_submission((procs, jobs) in workloads(4), aging in 0..60_i64) {
        for order in orders() {
            let policy = format!("fcfs/{}/{aging}s", order.name);
            let ran: Vec<Ran> = replay(&policy, procs, &jobs, Ties::FinishFirst).into_iter().flatten().collect();
            for (earlier, later) in (0..jobs.len()).flat_map(|e| (e + 1..jobs.len()).map(move |l| (e, l))) {
                let aged_at = jobs[earlier].submit + aging;
                let overtaken = ran[later].start < ran[earlier].start && ran[later].start > aged_at;
                prop_assert!(!overtaken, "{}: {} overtook {}", policy, later, earlier);
            }
        }
    }
}

/// What a request of 80 % parallel work is expected to get at 0 s, behind and before jobs of one processor each and of some
/// walltimes that were submitted then: by bounded slack and in the size that completes first.
fn estimates(policy: &str, procs: u32, walltimes: &[i64], (size, walltime): (u32, i64)) -> [Estimate; 2] {
    let local: LocalPolicy = policy.parse().unwrap();
    let mut scheduler = local.scheduler(Procs(procs), Time::ZERO);
    for (id, walltime) in walltimes.iter().enumerate() {
        let (job, submit, owner) = (JobId(id as u32), Time::ZERO, Owner::UNKNOWN);
        let submission = Submission { submit, owner, ..Submission::new(job, Procs(1), Span(*walltime)) };
        scheduler.submit(Time::ZERO, submission);
        scheduler.start_due(Time::ZERO, &mut Vec::new());
    }
    let speedup = Speedup::Amdahl { parallel: 0.8, limit: Procs(procs) };
    let (id, submit, walltime) = (JobId(u32::MAX - 1), Time::ZERO, Span(walltime));
    let request = Request::new(id, submit, Procs(size), walltime, speedup);
    let sizes = request.on(Procs(procs), Speed::REFERENCE).unwrap();
    [Tuner::default(), Tuner::Exact].map(|tuner| scheduler.estimate(Time::ZERO, &sizes, tuner).unwrap())
}

/// A size that is small enough for all jobs would be served after all of them, and not within the promise.
#[test]
fn bounded_slack_promises_the_same_in_a_queue_order() {
    let walltimes: Vec<i64> = [1_000; 4].into_iter().chain([300; 400]).collect();
    let [slack, exact] = estimates("easy/shortest", 4, &walltimes, (4, 200));
    assert_eq!((exact.procs, exact.completion()), (Procs(4), Time(1_200)));
    // Three processors take 234 s, and go before the others too; two take 300 s and stand behind them.
    assert_eq!((slack.procs, slack.completion()), (Procs(3), Time(1_234)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_estimate_in_a_queue_order_exceeds_the_slack(
        procs in 1..24_u32,
        walltimes in prop::collection::vec(1..2_000_i64, 0..60),
        request in (1..24_u32, 1..2_000_i64),
    ) {
        for batch in ["fcfs", "easy", "easy-sjbf", "backfill"] {
            for order in ORDERS {
                let policy = format!("{batch}/{}", order.name);
                let [slack, exact] = estimates(&policy, procs, &walltimes, (request.0.min(procs), request.1));
                let latest = 3 * exact.completion().0 / 2;
                prop_assert!(slack.completion().0 <= latest, "{}: {:?}, {:?}", policy, slack, exact);
                prop_assert!(slack.completion() >= exact.completion(), "{}: {:?}, {:?}", policy, slack, exact);
            }
        }
    }
}

/// Without aging a wide job waits as long as narrow ones keep coming; with aging it does not.
#[test]
fn jobs_that_others_always_go_before_starve_without_aging() {
    let job = |submit, procs, walltime| TestJob { submit, procs, walltime, runtime: walltime, cancel: None };
    let wide = job(1, 4, 50);
    let stream = (0..1_000).map(|number| job(number * 5, 2, 12));
    let mut jobs: Vec<TestJob> = stream.chain([wide]).collect();
    jobs.sort_by_key(|job| job.submit);
    let start_of_wide = |policy: &str| replay(policy, 4, &jobs, Ties::FinishFirst)[1].unwrap().start;
    for batch in ["fcfs", "easy"] {
        assert!(start_of_wide(&format!("{batch}/shortest/none")) > 5_000, "{batch}");
        let aged = start_of_wide(&format!("{batch}/shortest/300s"));
        assert!((302..302 + 24).contains(&aged), "{batch}: {aged}");
    }
}
