//! Every formula on runs made by hand.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod support;

use pliant_model::{ClusterId, MapReason, Reason, RefusalCause, Run, Time};
use pliant_report::{Comparison, ComparisonError, JobGain, compare, gained_before, summarize};
use support::{job, platform, run_of};

fn two_jobs() -> Run {
    // 4 processors: 2 x 20 s from 0, then 4 x 30 s submitted at 5 and started at 20.
    run_of(platform(&[("a", 4, 1.0)]), vec![job(1, 0, 0, 20, 2), job(2, 5, 20, 50, 4)])
}

#[test]
fn makespan_utilization_and_idle_time_count_from_zero() {
    let found = summarize(&two_jobs());
    assert_eq!((found.jobs, found.makespan_s), (2, 50));
    assert_eq!(found.utilization, 160.0 / 200.0);
    assert_eq!(found.idle_proc_s, 40);
}

#[test]
fn waits_and_responses() {
    let found = summarize(&two_jobs());
    assert_eq!((found.mean_wait_s, found.median_wait_s, found.max_wait_s), (7.5, 7.5, 15.0));
    assert_eq!(found.p90_wait_s, 13.5);
    assert_eq!(found.mean_response_s, (20.0 + 45.0) / 2.0);
    assert_eq!(found.max_response_s, 45.0);
    assert_eq!(found.managed_mean_response_s, 32.5);
}

#[test]
fn bounded_slowdown_counts_short_runs_as_ten_seconds() {
    // Response 30 over max(2, 10); response 5 over 10 is raised to 1.
    let run = run_of(platform(&[("a", 4, 1.0)]), vec![job(1, 0, 28, 30, 1), job(2, 0, 0, 5, 1)]);
    let found = summarize(&run);
    assert_eq!((found.mean_bounded_slowdown, found.max_bounded_slowdown), (2.0, 3.0));
}

#[test]
fn clusters_are_distinguished() {
    let mut run = two_jobs();
    run.platform = platform(&[("a", 4, 1.0), ("b", 8, 1.4)]);
    run.jobs[1].cluster = ClusterId(1);
    run.jobs[1].moves = 3;
    run.jobs[0].managed = false;
    run.reallocations = 3;
    let found = summarize(&run);
    let rows: Vec<_> = found
        .clusters
        .iter()
        .map(|row| (row.name.as_str(), row.procs, row.speed, row.jobs, row.utilization, row.mean_wait_s))
        .collect();
    assert_eq!(rows, [("a", 4, 1.0, 1, 40.0 / 200.0, 0.0), ("b", 8, 1.4, 1, 120.0 / 400.0, 15.0)]);
    assert_eq!((found.managed_jobs, found.jobs_moved, found.reallocations), (1, 1, 3));
    assert_eq!(found.managed_mean_response_s, 45.0);
}

#[test]
fn runs_without_jobs_have_zeros() {
    let mut run = run_of(platform(&[("a", 4, 1.0)]), Vec::new());
    run.refused.push((
        1,
        RefusalCause::LargerThanAll { requested: pliant_model::Procs(9), available: pliant_model::Procs(4) },
    ));
    let found = summarize(&run);
    assert_eq!((found.jobs, found.refused, found.makespan_s, found.idle_proc_s), (0, 1, 0, 0));
    let zeros = [found.mean_wait_s, found.p99_response_s, found.mean_bounded_slowdown, found.utilization];
    assert_eq!(zeros, [0.0; 4]);
}

/// Four jobs against a reference: one earlier, one later, one equal, one local and earlier.
fn pair() -> (Run, Run) {
    let jobs =
        vec![job(1, 0, 0, 100, 1), job(2, 10, 20, 110, 1), job(3, 20, 20, 60, 1), job(4, 30, 40, 80, 1)];
    let mut reference = run_of(platform(&[("a", 4, 1.0)]), jobs);
    reference.jobs[3].managed = false;
    reference.jobs[3].reason = Reason::Mapped(MapReason::Local);
    let mut run = reference.clone();
    run.jobs[0].end = Time(50);
    run.jobs[1].end = Time(120);
    run.jobs[3].end = Time(79);
    run.reallocations = 6;
    (run, reference)
}

#[test]
fn paper_000_metrics_count_managed_jobs_only() {
    let (run, reference) = pair();
    let expected = Comparison {
        managed_jobs: 3,
        impacted: 2,
        impacted_percent: 200.0 / 3.0,
        reallocations: 6,
        reallocations_percent: 200.0,
        early: 1,
        early_percent: Some(50.0),
        relative_mean_response: Some((50.0 + 110.0) / (100.0 + 100.0)),
        mean_response_ratio: Some((0.5 + 1.1) / 2.0),
    };
    assert_eq!(compare(&run, &reference).unwrap(), expected);
}

#[test]
fn nothing_impacted_has_no_ratio() {
    let (_, reference) = pair();
    let found = compare(&reference, &reference).unwrap();
    assert_eq!((found.impacted, found.impacted_percent), (0, 0.0));
    assert_eq!(
        (found.early_percent, found.relative_mean_response, found.mean_response_ratio),
        (None, None, None)
    );
    let empty = run_of(platform(&[("a", 4, 1.0)]), Vec::new());
    assert_eq!(compare(&empty, &empty).unwrap().impacted_percent, 0.0);
}

#[test]
fn paper_001_metrics_count_all_jobs() {
    let (run, reference) = pair();
    let expected = JobGain { jobs_earlier: 2, gained_s: 51, jobs_later: 1, lost_s: 10, makespan_gain_s: -10 };
    assert_eq!(gained_before(&run, &reference).unwrap(), expected);
}

#[test]
fn a_job_refused_by_one_run_is_left_out() {
    let (mut run, mut reference) = pair();
    let cause =
        RefusalCause::LargerThanAll { requested: pliant_model::Procs(9), available: pliant_model::Procs(4) };
    run.jobs.remove(1);
    run.refused.push((2, cause));
    reference.jobs.remove(2);
    reference.refused.push((3, cause));
    assert_eq!(compare(&run, &reference).unwrap().managed_jobs, 1);
}

#[test]
fn other_workloads_are_reported() {
    let (mut run, reference) = pair();
    run.jobs[2].submit = Time(19);
    let found = compare(&run, &reference).unwrap_err();
    assert_eq!(found, ComparisonError::DifferentJob { position: 2, expected: (3, 20), found: (3, 19) });
    run.jobs.truncate(2);
    let found = gained_before(&run, &reference).unwrap_err();
    assert_eq!(found, ComparisonError::DifferentCount { expected: 4, found: 2 });
    assert!(found.to_string().contains("same workload"), "{found}");
}
