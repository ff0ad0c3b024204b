//! A cluster that goes on with another size or under another policy plans like a new one with the same jobs.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use pliant_model::{JobId, Procs, Span, Time};
use pliant_policy::batch::{self, BatchScheduler, LocalPolicy, PresentJobs, RunningJob, Submission, Waiting};
use proptest::prelude::*;

const NOW: Time = Time(1_000);

fn policy(name: &str) -> LocalPolicy {
    name.parse().unwrap()
}

/// Policies with a reservation for every waiting job.
const RESERVING: [&str; 3] = ["cbf", "cbf-replan", "h3"];

/// The policies whose plans do not depend on who owns the running jobs.
fn policies() -> Vec<String> {
    let is_by_usage = |name: &String| name.ends_with("/multifactor") || name.ends_with("/fair-share");
    batch::local_names().into_iter().filter(|name| !is_by_usage(name)).collect()
}

/// A new cluster that has started the running jobs. Under policies without reservations the waiting jobs come while one more
/// job has the other processors, and that job ends at the same instant: the policy chooses among all of them.
fn fresh(name: &str, procs: u32, present: &PresentJobs) -> Box<dyn BatchScheduler> {
    let mut cluster = policy(name).scheduler(Procs(procs), NOW);
    let left = procs - present.running.iter().map(|one| one.procs.0).sum::<u32>();
    for one in &present.running {
        cluster.submit(NOW, Submission::new(one.job, one.procs, one.end - NOW));
    }
    let is_filled = left > 0 && !RESERVING.contains(&name);
    if is_filled {
        cluster.submit(NOW, Submission::new(JobId(99), Procs(left), Span(9)));
    }
    cluster.start_due(NOW, &mut Vec::new());
    present.waiting.iter().for_each(|job| cluster.submit(NOW, job.clone()));
    if is_filled {
        cluster.finish(NOW, JobId(99));
    }
    cluster
}

fn jobs(running: &[(u32, i64)], waiting: &[(u32, i64, i64)], procs: u32) -> PresentJobs {
    let running = running.iter().zip(1..).map(|((procs, left), job)| RunningJob {
        job: JobId(job),
        procs: Procs(*procs),
        end: NOW + Span(*left),
    });
    let waiting = waiting.iter().zip(100..).map(|((wanted, walltime, age), job)| Submission {
        submit: NOW - Span(*age),
        ..Submission::new(JobId(job), Procs(*wanted.min(&procs)), Span(*walltime))
    });
    PresentJobs { running: running.collect(), waiting: waiting.collect(), ..PresentJobs::default() }
}

fn plans(scheduler: &mut dyn BatchScheduler) -> Vec<Waiting> {
    let mut waiting = Vec::new();
    scheduler.list(NOW, &mut waiting);
    waiting
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_cluster_plans_like_a_new_one_with_the_same_jobs(
        running in prop::collection::vec((1..4_u32, 1..200_i64), 0..5),
        waiting in prop::collection::vec((1..9_u32, 1..200_i64, 0..500_i64), 0..8),
        more in 0..4_u32,
    ) {
        let procs = (running.iter().map(|(procs, _)| procs).sum::<u32>() + more).max(1);
        // A policy that folds the head of the queue chooses its shape when it becomes the head, here among other jobs.
        let folds = |name: &String| !RESERVING.contains(&name.as_str()) && batch::by_name(name).is_ok_and(|one| one.folds);
        for name in policies().into_iter().filter(|name| !folds(name)) {
            let present = jobs(&running, &waiting, procs);
            let mut fresh = fresh(&name, procs, &present);
            let mut changed = policy(&name).scheduler_with(Procs(procs), NOW, present);
            prop_assert_eq!(plans(changed.as_mut()), plans(fresh.as_mut()), "{} on {}", name, procs);
        }
    }

    #[test]
    fn no_job_is_planned_on_processors_that_running_jobs_keep(
        running in prop::collection::vec((1..4_u32, 1..200_i64), 1..6),
        waiting in prop::collection::vec((1..9_u32, 1..200_i64, 0..500_i64), 1..8),
        procs in 1..6_u32,
    ) {
        for name in policies() {
            let present = jobs(&running, &waiting, procs);
            let mut changed = policy(&name).scheduler_with(Procs(procs), NOW, present.clone());
            let plans = plans(changed.as_mut());
            prop_assert_eq!(plans.len(), waiting.len());
            for at in plans.iter().map(|one| one.plan.start) {
                let is_on = |one: &&Waiting| one.plan.start <= at && at < one.plan.completion();
                let planned: u32 = plans.iter().filter(is_on).map(|one| one.plan.procs.0).sum();
                let kept = present.running.iter().filter(|one| one.end > at);
                let kept: u32 = kept.map(|one| one.procs.0).sum();
                prop_assert!(planned + kept <= procs, "{name} at {at}: {planned} planned, {kept} kept");
            }
        }
    }
}

#[test]
fn jobs_wait_until_those_that_run_have_left_enough_processors() {
    // Three jobs of one processor on two; the last two to end hold both until 1,020.
    let present = jobs(&[(1, 10), (1, 20), (1, 30)], &[(1, 5, 0), (2, 5, 0)], 2);
    let mut cluster = policy("cbf").scheduler_with(Procs(2), NOW, present);
    let starts: Vec<Time> = plans(cluster.as_mut()).iter().map(|one| one.plan.start).collect();
    assert_eq!(starts, [Time(1_020), Time(1_030)]);
}
