//! A tiny driver for one cluster: delivers submissions, cancellations and terminations by hand and checks
//! what no policy may do. Independent of the simulator.
#![allow(dead_code, reason = "every test binary uses its part")]

pub(crate) mod reference;
pub(crate) mod table;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use pliant_model::{JobId, Owner, Procs, Span, Time};
use pliant_policy::batch::{BatchScheduler, LocalPolicy, Submission};

/// A job of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TestJob {
    pub(crate) submit: i64,
    pub(crate) procs: u32,
    pub(crate) walltime: i64,
    pub(crate) runtime: i64,
    /// When its user withdraws it, if it still waits then.
    pub(crate) cancel: Option<i64>,
}

/// How a job ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ran {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) procs: u32,
}

/// Which events of an instant come first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ties {
    FinishFirst,
    SubmitFirst,
}

/// When a test may look at the scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Moment {
    BeforeSubmit(Submission),
    AfterSubmit(Submission),
    /// All events of the instant were delivered and what was due has started.
    Settled,
}

/// Runs `jobs` (sorted by submission); none for those that were withdrawn.
pub(crate) fn replay(policy: &str, procs: u32, jobs: &[TestJob], ties: Ties) -> Vec<Option<Ran>> {
    replay_watched(policy, procs, jobs, ties, &mut |_, _, _| {})
}

pub(crate) fn replay_watched(
    policy: &str,
    procs: u32,
    jobs: &[TestJob],
    ties: Ties,
    watch: &mut dyn FnMut(&mut dyn BatchScheduler, Time, Moment),
) -> Vec<Option<Ran>> {
    let policy_of: LocalPolicy = policy.parse().unwrap();
    let scheduler = policy_of.scheduler(Procs(procs), Time(jobs[0].submit));
    let cancels = jobs.iter().enumerate().filter_map(|(id, job)| Some((job.cancel?, id)));
    let mut driver = Driver {
        jobs,
        scheduler,
        free: procs,
        next: 0,
        finishes: BinaryHeap::new(),
        cancels: cancels.collect(),
        ran: vec![None; jobs.len()],
        withdrawn: vec![false; jobs.len()],
        sequence: 0,
    };
    while let Some(now) = driver.next_instant() {
        match ties {
            Ties::FinishFirst => {
                driver.finish(now);
                driver.submit(now, watch);
            }
            Ties::SubmitFirst => {
                driver.submit(now, watch);
                driver.finish(now);
            }
        }
        driver.cancel(now);
        driver.start(now);
        watch(driver.scheduler.as_mut(), Time(now), Moment::Settled);
    }
    for (id, job) in jobs.iter().enumerate() {
        assert!(driver.ran[id].is_some() != driver.withdrawn[id], "{policy}: job {id} is lost: {job:?}");
    }
    driver.ran
}

/// The user whose job that is: of three who take turns.
pub(crate) fn owner_of(job: usize) -> Owner {
    Owner(job as u64 % 3)
}

struct Driver<'a> {
    jobs: &'a [TestJob],
    scheduler: Box<dyn BatchScheduler>,
    free: u32,
    next: usize,
    finishes: BinaryHeap<Reverse<(i64, u64, usize)>>,
    cancels: BTreeSet<(i64, usize)>,
    ran: Vec<Option<Ran>>,
    withdrawn: Vec<bool>,
    sequence: u64,
}

impl Driver<'_> {
    fn next_instant(&self) -> Option<i64> {
        let submission = self.jobs.get(self.next).map(|job| job.submit);
        let finish = self.finishes.peek().map(|Reverse((at, ..))| *at);
        let cancel = self.cancels.first().map(|(at, _)| *at);
        let start = self.scheduler.next_start().map(|at| at.0);
        [submission, finish, cancel, start].into_iter().flatten().min()
    }

    fn finish(&mut self, now: i64) {
        while let Some(Reverse((at, _, id))) = self.finishes.peek().copied()
            && at == now
        {
            self.finishes.pop();
            self.free += self.ran[id].unwrap().procs;
            self.scheduler.finish(Time(now), JobId(id as u32));
        }
    }

    fn submit(&mut self, now: i64, watch: &mut dyn FnMut(&mut dyn BatchScheduler, Time, Moment)) {
        while let Some(job) = self.jobs.get(self.next)
            && job.submit == now
        {
            let (procs, walltime) = (Procs(job.procs), Span(job.walltime));
            let (submit, owner) = (Time(now), owner_of(self.next));
            let job = JobId(self.next as u32);
            let submission = Submission { submit, owner, ..Submission::new(job, procs, walltime) };
            self.next += 1;
            watch(self.scheduler.as_mut(), Time(now), Moment::BeforeSubmit(submission.clone()));
            self.scheduler.submit(Time(now), submission.clone());
            watch(self.scheduler.as_mut(), Time(now), Moment::AfterSubmit(submission));
        }
    }

    fn cancel(&mut self, now: i64) {
        while let Some((at, id)) = self.cancels.first().copied()
            && at == now
        {
            self.cancels.pop_first();
            let waits =
                self.scheduler.plan(Time(now), JobId(id as u32)).is_some_and(|plan| plan.start.0 > now);
            let cancelled = self.scheduler.cancel(Time(now), &[JobId(id as u32)]);
            assert!(cancelled == 1 || !waits, "job {id} waits and cannot be cancelled");
            self.withdrawn[id] = cancelled == 1;
        }
    }

    fn start(&mut self, now: i64) {
        let mut started = Vec::new();
        self.scheduler.start_due(Time(now), &mut started);
        for start in started {
            let (id, job) = (start.job.index(), &self.jobs[start.job.index()]);
            assert!(!self.withdrawn[id], "job {id} starts though it was cancelled");
            assert!(self.ran[id].is_none(), "job {id} starts twice");
            assert!(start.procs.0 <= self.free, "job {id} takes {} of {}", start.procs, self.free);
            let rounds = i64::from(job.procs.div_ceil(start.procs.0));
            assert_eq!(start.walltime.0, job.walltime * rounds, "walltime of job {id}");
            let end = now + job.runtime * rounds;
            self.free -= start.procs.0;
            self.finishes.push(Reverse((end, self.sequence, id)));
            self.sequence += 1;
            self.ran[id] = Some(Ran { start: now, end, procs: start.procs.0 });
        }
    }
}
