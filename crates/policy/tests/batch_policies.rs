//! What holds of the local batch policies on any workload.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod driver;

use driver::reference::{self, Fold, Rule};
use driver::{Moment, Ran, TestJob, Ties, replay, replay_watched, table};
use pliant_model::{Estimate, JobId, Owner, Procs, Request, Span, Speed, Speedup, Time};
use pliant_policy::batch::{self, BatchScheduler, Waiting};
use pliant_policy::tuning::Tuner;
use proptest::prelude::*;

/// The reference implementation of a policy.
enum Comparison {
    /// Decided at events.
    Events(Rule),
    /// H1 with backfilling, in a table of reservations.
    Table,
    /// In `cbf_reference.rs`, after every event.
    OtherTest,
}

/// Every registered policy has one: a new one fails here until it has. Queue orders have theirs in `orders.rs`.
fn comparison(policy: &str) -> Comparison {
    Comparison::Events(match policy {
        ordered if ordered.contains('/') => return Comparison::OtherTest,
        "fcfs" => Rule::InOrder(Fold::Never),
        "easy" => Rule::Easy,
        "easy-sjbf" => Rule::EasyShortest,
        "backfill" => Rule::AtReleases(Fold::Never),
        "h1" => Rule::InOrder(Fold::H1Literal),
        "h1-completion" => Rule::InOrder(Fold::H1Completion),
        "h2" => Rule::InOrder(Fold::H2),
        "h3-head" => Rule::AtReleases(Fold::H1Literal),
        "h3" => return Comparison::Table,
        "cbf" | "cbf-replan" => return Comparison::OtherTest,
        other => panic!("no reference implementation of `{other}` to compare it with"),
    })
}

/// Policies in which no job starts before one that was submitted earlier.
fn in_order() -> impl Iterator<Item = &'static str> {
    batch::names()
        .into_iter()
        .filter(|policy| matches!(comparison(policy), Comparison::Events(Rule::InOrder(_))))
}

/// Policies whose estimates are what to expect, not a promise.
const NO_PROMISE: [&str; 3] = ["easy", "easy-sjbf", "h3-head"];

/// A cluster's processors and a workload for it: many equal times, many jobs that run their full walltime.
fn workloads() -> impl Strategy<Value = (u32, Vec<TestJob>)> {
    (1..=16_u32).prop_flat_map(|procs| {
        let gap = prop_oneof![2 => Just(0_i64), 3 => 1..6_i64, 1 => 6..60_i64];
        let job = (
            gap,
            1..=procs,
            1..30_i64,
            prop_oneof![Just(1.0), 0.0..1.0],
            prop::option::weighted(0.1, 0..60_i64),
        );
        prop::collection::vec(job, 1..60).prop_map(move |drawn| {
            let mut submit = 0;
            let job = |(gap, procs, walltime, share, cancel): (i64, u32, i64, f64, Option<i64>)| {
                submit += gap;
                let runtime = ((walltime as f64 * share).ceil() as i64).clamp(1, walltime);
                TestJob { submit, procs, walltime, runtime, cancel: cancel.map(|after| submit + after) }
            };
            (procs, drawn.into_iter().map(job).collect())
        })
    })
}

fn ties() -> impl Strategy<Value = Ties> {
    prop_oneof![Just(Ties::FinishFirst), Just(Ties::SubmitFirst)]
}

fn without_cancels(jobs: &[TestJob]) -> Vec<TestJob> {
    jobs.iter().map(|job| TestJob { cancel: None, ..*job }).collect()
}

fn all(ran: Vec<Option<Ran>>) -> Vec<Ran> {
    ran.into_iter().map(Option::unwrap).collect()
}

fn estimate(
    scheduler: &mut dyn BatchScheduler,
    now: Time,
    shape: (Procs, Span),
    cluster: u32,
) -> Option<Estimate> {
    moldable(scheduler, now, shape, Speedup::Rigid, cluster, Owner::UNKNOWN)
}

fn moldable(
    scheduler: &mut dyn BatchScheduler,
    now: Time,
    (procs, walltime): (Procs, Span),
    speedup: Speedup,
    cluster: u32,
    owner: Owner,
) -> Option<Estimate> {
    let request = Request::new(JobId(0), now, procs, walltime, speedup).owned_by(owner);
    scheduler.estimate(now, &request.on(Procs(cluster), Speed::REFERENCE)?, Tuner::Exhaustive)
}

fn listed(scheduler: &mut dyn BatchScheduler, now: Time) -> Vec<Waiting> {
    let mut waiting = Vec::new();
    scheduler.list(now, &mut waiting);
    waiting
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_job_runs_once_or_was_withdrawn((procs, jobs) in workloads(), ties in ties()) {
        for policy in &batch::local_names() {
            // The driver checks sizes, walltimes, overbooking, second starts and lost jobs.
            let ran = replay(policy, procs, &jobs, ties);
            for (job, ran) in jobs.iter().zip(ran) {
                prop_assert!(ran.is_none_or(|ran| ran.start >= job.submit));
            }
        }
    }

    #[test]
    fn equals_the_reference_implementation((procs, jobs) in workloads(), ties in ties()) {
        let jobs = without_cancels(&jobs);
        for policy in batch::names() {
            if let Comparison::Events(rule) = comparison(policy) {
                let ran = all(replay(policy, procs, &jobs, ties));
                prop_assert_eq!(ran, reference::replay(rule, procs, &jobs, ties), "{}", policy);
            }
        }
        let starts: Vec<i64> = all(replay("fcfs", procs, &jobs, ties)).iter().map(|ran| ran.start).collect();
        prop_assert_eq!(starts, reference::fcfs(procs, &jobs));
    }

    #[test]
    fn h3_equals_the_reference_implementation((procs, jobs) in workloads(), ties in ties()) {
        let jobs = &without_cancels(&jobs)[..jobs.len().min(30)];
        for policy in batch::names().into_iter().filter(|policy| matches!(comparison(policy), Comparison::Table)) {
            prop_assert_eq!(all(replay(policy, procs, jobs, ties)), table::replay(procs, jobs, ties));
        }
    }

    #[test]
    fn order_of_submission_is_kept((procs, jobs) in workloads(), ties in ties()) {
        for policy in in_order() {
            let starts = replay(policy, procs, &jobs, ties).into_iter().flatten().map(|ran| ran.start);
            prop_assert!(starts.is_sorted(), "{}", policy);
        }
    }

    #[test]
    fn questions_change_nothing((procs, jobs) in workloads(), ties in ties()) {
        for policy in &batch::local_names() {
            let asked = replay_watched(policy, procs, &jobs, ties, &mut |scheduler, now, _| {
                let before = listed(scheduler, now);
                for size in 1..=procs {
                    estimate(scheduler, now, (Procs(size), Span(7)), procs);
                }
                assert_eq!(listed(scheduler, now), before, "{policy}");
            });
            prop_assert_eq!(asked, replay(policy, procs, &jobs, ties), "{}", policy);
        }
    }

    #[test]
    fn plans_fit_the_cluster((procs, jobs) in workloads(), ties in ties()) {
        for policy in &batch::local_names() {
            let mut plans = Vec::new();
            let ran = replay_watched(policy, procs, &jobs, ties, &mut |scheduler, now, moment| {
                let waiting = listed(scheduler, now);
                assert_eq!(waiting.len(), scheduler.queue_length(), "{policy}");
                for one in &waiting {
                    assert_eq!(scheduler.plan(now, one.job), Some(one.plan), "{policy}");
                    assert!(one.plan.start >= now, "{policy}: planned for the past");
                }
                if moment == Moment::Settled {
                    plans.push((now, waiting));
                }
            });
            for (now, waiting) in plans {
                let running = jobs.iter().zip(&ran).filter_map(|(job, ran)| {
                    let ran = (*ran)?;
                    let walltime = Span(job.walltime * i64::from(job.procs.div_ceil(ran.procs)));
                    (ran.start <= now.0 && now.0 < ran.end)
                        .then_some(Estimate { procs: Procs(ran.procs), walltime, start: Time(ran.start) })
                });
                let held: Vec<Estimate> = running.chain(waiting.iter().map(|one| one.plan)).collect();
                for at in held.iter().map(|one| one.start.max(now)) {
                    let there = held.iter().filter(|one| one.start <= at && at < one.completion());
                    let taken: u32 = there.map(|one| one.procs.0).sum();
                    prop_assert!(taken <= procs, "{}: {} of {} processors taken at {}", policy, taken, procs, at);
                }
            }
        }
    }

    #[test]
    fn a_submission_gets_what_was_estimated((procs, jobs) in workloads(), ties in ties()) {
        let promises = |policy: &&String| !NO_PROMISE.contains(&policy.split('/').next().unwrap());
        for policy in batch::local_names().iter().filter(promises) {
            let mut expected = None;
            replay_watched(policy, procs, &jobs, ties, &mut |scheduler, now, moment| match moment {
                Moment::BeforeSubmit(next) => {
                    let shape = (next.procs, next.walltime);
                    let estimate = moldable(scheduler, now, shape, Speedup::Rigid, procs, next.owner).unwrap();
                    assert_eq!((estimate.procs, estimate.walltime), (next.procs, next.walltime), "{policy}");
                    expected = Some(estimate.completion());
                }
                Moment::AfterSubmit(next) => {
                    let planned = scheduler.plan(now, next.job).map(|plan| plan.completion());
                    assert_eq!(planned, expected, "{policy}");
                }
                Moment::Settled => {}
            });
        }
    }

    #[test]
    fn plans_in_order_come_true((procs, jobs) in workloads(), ties in ties()) {
        let on_time = |job: TestJob| TestJob { runtime: job.walltime, ..job };
        let jobs: Vec<TestJob> = without_cancels(&jobs).into_iter().map(on_time).collect();
        for policy in in_order() {
            let mut planned = vec![None; jobs.len()];
            let ran = replay_watched(policy, procs, &jobs, ties, &mut |scheduler, now, moment| {
                if let Moment::AfterSubmit(next) = moment {
                    let plan = scheduler.plan(now, next.job).unwrap();
                    let (start, end) = (plan.start.0, plan.completion().0);
                    planned[next.job.index()] = Some(Ran { start, end, procs: plan.procs.0 });
                }
            });
            prop_assert_eq!(ran, planned, "{}", policy);
        }
    }

    #[test]
    fn the_best_size_is_found((procs, jobs) in workloads(), ties in ties()) {
        let speedup = Speedup::Amdahl { parallel: 0.9, limit: Procs(12) };
        for policy in &batch::local_names() {
            replay_watched(policy, procs, &jobs, ties, &mut |scheduler, now, moment| {
                let Moment::BeforeSubmit(next) = moment else { return };
                let shape = (next.procs, next.walltime);
                let request =
                    Request::new(next.job, now, shape.0, shape.1, speedup.clone());
                let walltimes = request.on(Procs(procs), Speed::REFERENCE).unwrap();
                let sizes = (1..=walltimes.most().0).map(Procs);
                let each = sizes.filter_map(|n| estimate(scheduler, now, (n, walltimes.at(n)), procs));
                let best = each.min_by_key(|one| (one.completion(), one.procs));
                let found = moldable(scheduler, now, shape, speedup.clone(), procs, Owner::UNKNOWN);
                assert_eq!(found, best, "{policy}");
            });
        }
    }
}
