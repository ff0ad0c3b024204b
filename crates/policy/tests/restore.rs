//! A scheduler that is restored from its dump goes on like the one that was dumped: both are driven in lock
//! step, under every policy, with early and late ends, a driver that wakes up late, cancellations and
//! questions.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::BTreeSet;

use pliant_model::{Estimate, JobId, Owner, Procs, Request, Span, Speed, Speedup, Time};
use pliant_policy::batch::{
    self, BatchScheduler, Dump, LocalPolicy, RestoreError, RunningJob, Start, Submission, Waiting,
};
use pliant_policy::tuning::Tuner;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

/// What happens to the cluster from outside.
#[derive(Clone, Debug)]
enum Action {
    /// A job that ends after that share of its walltime, or after it.
    Submit { procs: u32, walltime: i64, percent: i64 },
    /// The jobs whose number has that remainder (or those whose number has not) are withdrawn in one call.
    Cancel { divisor: u32, remainder: u32, others: bool },
    /// A request is tuned.
    Ask { procs: u32, walltime: i64, speedup: Speedup, tuner: Tuner },
    /// The waiting jobs are listed.
    List,
    /// The cluster is dumped, and another one restored.
    Restore,
}

/// An action, so many seconds after the one before.
#[derive(Clone, Debug)]
struct Step {
    gap: i64,
    /// The driver sleeps until then: starts and ends in the meantime are reported late.
    oversleeps: bool,
    /// Before the ends of this instant are reported, not after them.
    first: bool,
    action: Action,
}

/// What the restored dumps held: tests make sure that they saw what they are about.
#[derive(Default, Debug)]
struct Tally {
    running: usize,
    overdue: usize,
    placed_later: usize,
    due: usize,
    line: usize,
    heads: usize,
    folded: usize,
}

/// Policies with a reservation for every waiting job.
const RESERVING: [&str; 3] = ["cbf", "cbf-replan", "h3"];

/// Every local policy, some with an aging that matters within a script.
fn policies() -> Vec<String> {
    let aging = ["fcfs/shortest/20s", "easy/f1/20s", "easy/wfp3/none", "backfill/fair-share/20s"];
    batch::local_names().into_iter().chain(aging.map(str::to_owned)).collect()
}

fn scheduler(policy: &str, procs: u32, now: i64) -> Box<dyn BatchScheduler> {
    policy.parse::<LocalPolicy>().unwrap().scheduler(Procs(procs), Time(now))
}

/// The original and its restored copies, fed with the same events.
struct World<'a> {
    policy: &'a str,
    procs: u32,
    /// The original, the copy restored first and the one restored last.
    clusters: Vec<Box<dyn BatchScheduler>>,
    /// Processors, walltime and share of it that passes, of each job.
    jobs: Vec<(u32, i64, i64)>,
    /// (when, the how-manieth start it ends, job).
    finishes: BTreeSet<(i64, usize, u32)>,
    starts: usize,
    tally: &'a mut Tally,
}

impl<'a> World<'a> {
    fn new(policy: &'a str, procs: u32, tally: &'a mut Tally) -> World<'a> {
        World {
            policy,
            procs,
            clusters: vec![scheduler(policy, procs, 0)],
            jobs: Vec::new(),
            finishes: BTreeSet::new(),
            starts: 0,
            tally,
        }
    }

    /// The answer of all clusters to one call.
    fn each<T: PartialEq + std::fmt::Debug>(
        &mut self,
        now: i64,
        call: impl Fn(&mut dyn BatchScheduler) -> T,
    ) -> T {
        let policy = self.policy;
        let mut answers = self.clusters.iter_mut().map(|cluster| call(cluster.as_mut()));
        let answer = answers.next().unwrap();
        answers.for_each(|other| assert_eq!(other, answer, "{policy} restored, at {now}"));
        answer
    }

    fn act(&mut self, now: i64, action: &Action) {
        match action {
            Action::Submit { procs, walltime, percent } => {
                let job = JobId(self.jobs.len() as u32);
                self.jobs.push((*procs, *walltime, *percent));
                let (submit, owner) = (Time(now), Owner(u64::from(job.0 % 3)));
                let submission =
                    Submission { submit, owner, ..Submission::new(job, Procs(*procs), Span(*walltime)) };
                self.each(now, |cluster| cluster.submit(Time(now), submission.clone()));
            }
            Action::Cancel { divisor, remainder, others } => {
                let jobs = (0..self.jobs.len() as u32).filter(|job| (job % divisor == *remainder) != *others);
                let jobs: Vec<JobId> = jobs.map(JobId).collect();
                self.each(now, |cluster| cluster.cancel(Time(now), &jobs));
            }
            Action::Ask { procs, walltime, speedup, tuner } => {
                let (procs, walltime, speedup) = (Procs(*procs), Span(*walltime), speedup.clone());
                let request = Request::new(JobId(0), Time(now), procs, walltime, speedup);
                let Some(walltimes) = request.on(Procs(self.procs), Speed::REFERENCE) else { return };
                self.each(now, |cluster| cluster.estimate(Time(now), &walltimes, *tuner));
            }
            Action::List => {
                let waiting = self.each(now, |cluster| {
                    let mut waiting = Vec::new();
                    cluster.list(Time(now), &mut waiting);
                    waiting
                });
                for one in waiting {
                    self.each(now, |cluster| cluster.plan(Time(now), one.job));
                }
            }
            Action::Restore => self.restore(now),
        }
        self.compare(now);
    }

    fn restore(&mut self, now: i64) {
        let dump = self.clusters[0].dump();
        self.tally.running += usize::from(!dump.running.is_empty());
        self.tally.overdue += usize::from(dump.running.iter().any(|one| one.end.0 < now));
        self.tally.placed_later += usize::from(dump.planned.iter().any(|one| one.plan.start.0 > now));
        self.tally.due += usize::from(dump.planned.iter().any(|one| one.plan.start.0 <= now));
        self.tally.line += usize::from(!dump.queued.is_empty());
        self.tally.heads += usize::from(dump.head.is_some());
        let folded = |head: Start| dump.queued[0].procs > head.procs;
        self.tally.folded += usize::from(dump.head.is_some_and(folded));
        // What it held before does not matter.
        let mut restored = scheduler(self.policy, self.procs, now);
        restored.submit(Time(now), Submission::new(JobId(7), Procs::ONE, Span(9)));
        assert_eq!(restored.restore(Time(now), &dump), Ok(()), "{} at {now}: {dump:?}", self.policy);
        self.clusters.truncate(2);
        self.clusters.push(restored);
    }

    fn finish(&mut self, now: i64) {
        while let Some((at, _, job)) = self.finishes.first().copied()
            && at <= now
        {
            self.finishes.pop_first();
            self.each(now, |cluster| cluster.finish(Time(now), JobId(job)));
            self.compare(now);
        }
    }

    fn start(&mut self, now: i64) {
        let started = self.each(now, |cluster| {
            let mut started = Vec::new();
            cluster.start_due(Time(now), &mut started);
            started
        });
        for start in started {
            let (_, _, percent) = self.jobs[start.job.index()];
            let runtime = (start.walltime.0 * percent / 100).max(1);
            self.finishes.insert((now + runtime, self.starts, start.job.0));
            self.starts += 1;
        }
        self.compare(now);
    }

    /// What can be seen without asking for plans, which would be kept.
    fn compare(&mut self, now: i64) {
        self.each(now, |cluster| (cluster.next_start(), cluster.queue_length(), cluster.dump()));
    }
}

/// Plays a script to its end and until the cluster is empty.
fn play(policy: &str, procs: u32, script: &[Step], tally: &mut Tally) {
    let mut world = World::new(policy, procs, tally);
    let mut steps = script.iter().peekable();
    let mut last = 0;
    loop {
        let step = steps.peek().map(|step| (last + step.gap, step.oversleeps));
        let finish = world.finishes.first().map(|(at, ..)| *at);
        let start = world.clusters[0].next_start().map(|at| at.0);
        let now = match step {
            Some((at, true)) => at,
            _ => {
                let events = [step.map(|(at, _)| at), finish, start];
                let Some(now) = events.into_iter().flatten().min() else { break };
                now.max(last)
            }
        };
        let mut ends_reported = false;
        while let Some(step) = steps.next_if(|step| last + step.gap == now) {
            last = now;
            if !step.first && !ends_reported {
                world.finish(now);
                ends_reported = true;
            }
            world.act(now, &step.action);
        }
        world.finish(now);
        world.start(now);
    }
    let dump = world.clusters[0].dump();
    assert!(
        dump.shares.as_ref().is_none_or(|shares| shares.running.is_empty()),
        "{policy}: a job is charged for"
    );
    assert_eq!(Dump { shares: None, ..dump }, Dump::default(), "{policy}: something is left");
}

fn speedup() -> impl Strategy<Value = Speedup> {
    prop_oneof![
        Just(Speedup::Rigid),
        Just(Speedup::Folding),
        (0.5..=1.0, 1..20_u32)
            .prop_map(|(parallel, limit)| Speedup::Amdahl { parallel, limit: Procs(limit) }),
    ]
}

/// Scripts for a cluster of `procs` in which actions are mostly at most `gap` seconds apart.
fn script(
    procs: u32,
    gap: i64,
    length: impl Into<prop::collection::SizeRange>,
) -> impl Strategy<Value = Vec<Step>> {
    let percent = prop_oneof![2 => Just(100_i64), 3 => 1..100_i64, 2 => 101..250_i64];
    let submit = (1..=procs, 1..20_i64, percent).prop_map(|(procs, walltime, percent)| Action::Submit {
        procs,
        walltime,
        percent,
    });
    let cancel =
        (1..20_u32, 0..20_u32, prop::bool::weighted(0.2)).prop_map(|(divisor, remainder, others)| {
            Action::Cancel { divisor, remainder: remainder % divisor, others }
        });
    let ask = (1..=procs, 1..40_i64, speedup(), prop::sample::select(&Tuner::ALL[..3]))
        .prop_map(|(procs, walltime, speedup, tuner)| Action::Ask { procs, walltime, speedup, tuner });
    let action = prop_oneof![
        20 => submit, 1 => cancel, 2 => ask, 2 => Just(Action::List), 3 => Just(Action::Restore),
    ];
    let gap = prop_oneof![4 => Just(0_i64), 4 => 0..=gap, 1 => 0..=gap * 8];
    let step = (gap, prop::bool::weighted(0.1), any::<bool>(), action)
        .prop_map(|(gap, oversleeps, first, action)| Step { gap, oversleeps, first, action });
    prop::collection::vec(step, length)
}

fn scripts() -> impl Strategy<Value = (u32, Vec<Step>)> {
    (1..=16_u32).prop_flat_map(|procs| (Just(procs), script(procs, 6, 1..120)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_restored_scheduler_goes_on_like_the_original((procs, script) in scripts()) {
        for policy in &policies() {
            play(policy, procs, &script, &mut Tally::default());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_restored_scheduler_with_a_long_queue_goes_on_like_the_original(script in script(12, 1, 350..450)) {
        for policy in &policies() {
            play(policy, 12, &script, &mut Tally::default());
        }
    }
}

/// The scripts above restore schedulers in every state that matters.
#[test]
fn the_scripts_restore_every_kind_of_state() {
    let mut runner = TestRunner::deterministic();
    let scripts: Vec<(u32, Vec<Step>)> =
        (0..60).map(|_| scripts().new_tree(&mut runner).unwrap().current()).collect();
    for policy in &policies() {
        let reserves = RESERVING.contains(&policy.as_str());
        let folds = ["h1", "h1-completion", "h2"].contains(&policy.as_str());
        let mut tally = Tally::default();
        scripts.iter().for_each(|(procs, script)| play(policy, *procs, script, &mut tally));
        assert!(tally.running > 50 && tally.overdue > 10 && tally.due > 10, "{policy}: {tally:?}");
        assert_eq!(tally.placed_later > 50, reserves, "{policy}: {tally:?}");
        assert_eq!(tally.line > 50, !reserves, "{policy}: {tally:?}");
        assert_eq!(tally.heads > 50, folds, "{policy}: {tally:?}");
        assert_eq!(tally.folded > 0, folds, "{policy}: {tally:?}");
    }
}

fn placed(job: u32, procs: u32, start: i64, walltime: i64) -> Waiting {
    let plan = Estimate { procs: Procs(procs), walltime: Span(walltime), start: Time(start) };
    Waiting { job: JobId(job), plan }
}

fn running(job: u32, procs: u32, end: i64) -> RunningJob {
    RunningJob { job: JobId(job), procs: Procs(procs), end: Time(end) }
}

fn submitted(job: u32, procs: u32, walltime: i64) -> Submission {
    Submission::new(JobId(job), Procs(procs), Span(walltime))
}

/// A policy is changed by restoring what runs and submitting the rest again.
#[test]
fn running_jobs_alone_fit_every_policy() {
    // The third one is overdue, and its successor has its processors already.
    let dump =
        Dump { running: vec![running(1, 3, 40), running(2, 5, 30), running(3, 4, 10)], ..Dump::default() };
    for policy in &policies() {
        let mut cluster = scheduler(policy, 8, 0);
        assert_eq!(cluster.restore(Time(20), &dump), Ok(()), "{policy}");
        assert_eq!(Dump { shares: None, ..cluster.dump() }, dump, "{policy}");
        cluster.submit(Time(20), submitted(4, 8, 60));
        assert!(cluster.next_start().is_none_or(|start| start == Time(40)), "{policy}");
        for (end, job) in [(25, 3), (30, 2), (40, 1)] {
            cluster.finish(Time(end), JobId(job));
        }
        let mut started = Vec::new();
        cluster.start_due(Time(40), &mut started);
        assert_eq!(started, [Start { job: JobId(4), procs: Procs(8), walltime: Span(60) }], "{policy}");
    }
}

#[test]
fn invalid_dumps_are_refused() {
    let check = |policies: &[&str], dump: &Dump, expected: &str| {
        for policy in policies {
            let mut cluster = scheduler(policy, 8, 0);
            cluster.submit(Time(20), submitted(77, 8, 60));
            let before = cluster.dump();
            let error: RestoreError = cluster.restore(Time(20), dump).unwrap_err();
            assert_eq!(error.to_string(), expected, "{policy}");
            assert_eq!(cluster.dump(), before, "{policy}: changed by a refused dump");
        }
    };
    let all = policies();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let in_line: Vec<&str> = all.iter().copied().filter(|name| !RESERVING.contains(name)).collect();
    let nothing = Dump::default;
    let dump = Dump { running: vec![running(1, 1, 30)], planned: vec![placed(1, 1, 20, 5)], ..nothing() };
    check(&all, &dump, "expected every job once, found job 1 twice");
    for (dump, found) in [
        (Dump { running: vec![running(1, 0, 30)], ..nothing() }, 0),
        (Dump { planned: vec![placed(1, 9, 20, 30)], ..nothing() }, 9),
        (Dump { queued: vec![submitted(1, 9, 30)], ..nothing() }, 9),
    ] {
        check(&all, &dump, &format!("expected 1 to 8 processors, found {found} for job 1"));
    }
    let dump = Dump { queued: vec![submitted(1, 8, 0)], ..nothing() };
    let longest = Span::MAX;
    check(&all, &dump, &format!("expected a walltime of 1 s to {longest}, found 0 s for job 1"));
    let dump = Dump { running: vec![running(1, 5, 21)], planned: vec![placed(2, 4, 19, 5)], ..nothing() };
    check(&all, &dump, "expected at most 8 processors taken, found 9 at 20 s");
    let hint = "restore only the running jobs and submit the others again if the policy was changed";
    let line = Dump { queued: vec![submitted(1, 8, 5)], ..nothing() };
    let expected = "expected a reservation for every waiting job, found job 1 otherwise";
    check(&RESERVING, &line, &format!("{expected}; {hint}"));
    let later = Dump { planned: vec![placed(1, 8, 21, 5)], ..nothing() };
    let expected = "expected reservations for started jobs only, found job 1 otherwise";
    check(&in_line, &later, &format!("{expected}; {hint}"));
    let head = Start { job: JobId(2), procs: Procs(4), walltime: Span(10) };
    let second = Dump { queued: vec![submitted(1, 8, 5), submitted(2, 8, 5)], head: Some(head), ..nothing() };
    let expected = "expected a kept shape only for the head of a queue that is folded, found job 2";
    check(&in_line, &second, &format!("{expected} otherwise; {hint}"));
    let head = Some(Start { job: JobId(1), ..head });
    let expected = expected.replace("job 2", "job 1");
    check(&["fcfs", "h3-head"], &Dump { head, ..second }, &format!("{expected} otherwise; {hint}"));
}
