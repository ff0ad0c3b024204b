//! The summary of one run: the published metrics under stable names, units last.
//!
//! Wait, response and bounded slowdown are those of Feitelson and Rudolph ("Metrics and benchmarking for
//! parallel job scheduling", 1998), the slowdown with a bound of 10 s; makespan, utilization and idle time
//! as in paper 001. One pass over the jobs and one sort per distribution: `O(n log n)`.

use std::collections::BTreeMap;

use pliant_model::{JobOutcome, Run};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::quantile::{Sample, quantile_of};

/// The version of the summary's names and meanings.
pub const SUMMARY_SCHEMA: &str = "pliant.summary/1";

/// Shorter runs count as this long in the bounded slowdown.
const SLOWDOWN_BOUND_S: i64 = 10;

/// The metrics of a run. Means over no jobs are 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// [`SUMMARY_SCHEMA`].
    pub schema: String,
    /// Jobs that ran.
    pub jobs: u64,
    /// Jobs that no cluster could take.
    pub refused: u64,
    /// Jobs that ran and came through the federation.
    pub managed_jobs: u64,
    /// The last end, from time 0 (the first submission).
    pub makespan_s: i64,
    /// Mean wait (submission to start).
    pub mean_wait_s: f64,
    /// Median wait.
    pub median_wait_s: f64,
    /// 90th percentile of the wait.
    pub p90_wait_s: f64,
    /// 95th percentile of the wait.
    pub p95_wait_s: f64,
    /// 99th percentile of the wait.
    pub p99_wait_s: f64,
    /// Longest wait.
    pub max_wait_s: f64,
    /// Mean response time (submission to end).
    pub mean_response_s: f64,
    /// Median response time.
    pub median_response_s: f64,
    /// 90th percentile of the response time.
    pub p90_response_s: f64,
    /// 95th percentile of the response time.
    pub p95_response_s: f64,
    /// 99th percentile of the response time.
    pub p99_response_s: f64,
    /// Longest response time.
    pub max_response_s: f64,
    /// Mean bounded slowdown: `max(1, response / max(runtime, 10 s))`.
    pub mean_bounded_slowdown: f64,
    /// Median bounded slowdown.
    pub median_bounded_slowdown: f64,
    /// 90th percentile of the bounded slowdown.
    pub p90_bounded_slowdown: f64,
    /// 95th percentile of the bounded slowdown.
    pub p95_bounded_slowdown: f64,
    /// 99th percentile of the bounded slowdown.
    pub p99_bounded_slowdown: f64,
    /// Largest bounded slowdown.
    pub max_bounded_slowdown: f64,
    /// Mean response time of the jobs that came through the federation.
    pub managed_mean_response_s: f64,
    /// Used processor time over all processor time from 0 to the makespan.
    pub utilization: f64,
    /// Processor seconds from 0 to the makespan in which nothing ran.
    pub idle_proc_s: i64,
    /// Moves of waiting jobs between clusters.
    pub reallocations: u64,
    /// Jobs that were moved at least once.
    pub jobs_moved: u64,
    /// The platform and what each cluster did, by cluster number.
    pub clusters: Vec<ClusterRow>,
    /// Settings of the run from the caller: policies, seed, workload, repairs.
    pub run: BTreeMap<String, Value>,
}

/// A cluster of the platform and its metrics.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ClusterRow {
    /// Its name.
    pub name: String,
    /// Its processors.
    pub procs: u32,
    /// Its speed relative to the reference.
    pub speed: f64,
    /// Its local batch policy.
    pub batch: String,
    /// Jobs that ran there.
    pub jobs: u64,
    /// Used processor time over its processor time from 0 to the makespan of the whole run.
    pub utilization: f64,
    /// Mean wait of the jobs that ran there.
    pub mean_wait_s: f64,
}

/// The summary of a run; [`Summary::run`] is left empty for the caller to fill.
pub fn summarize(run: &Run) -> Summary {
    let makespan_s = run.jobs.iter().map(|job| job.end.0).max().unwrap_or(0).max(0);
    let clusters = cluster_rows(run, makespan_s);
    let managed = run.jobs.iter().filter(|job| job.managed).map(|job| job.response().0 as f64);
    let wait = Distribution::of(run.jobs.iter().map(|job| job.wait().0).collect());
    let response = Distribution::of(run.jobs.iter().map(|job| job.response().0).collect());
    let slowdown = Distribution::of_floats(run.jobs.iter().map(bounded_slowdown).collect());
    let capacity = i128::from(run.platform.total_procs()) * i128::from(makespan_s);
    let used: i128 = run.jobs.iter().map(proc_seconds).sum();
    let managed_jobs = run.jobs.iter().filter(|job| job.managed).count() as u64;
    Summary {
        schema: SUMMARY_SCHEMA.to_owned(),
        jobs: run.jobs.len() as u64,
        refused: run.refused.len() as u64,
        managed_jobs,
        makespan_s,
        mean_wait_s: wait.mean,
        median_wait_s: wait.median,
        p90_wait_s: wait.p90,
        p95_wait_s: wait.p95,
        p99_wait_s: wait.p99,
        max_wait_s: wait.max,
        mean_response_s: response.mean,
        median_response_s: response.median,
        p90_response_s: response.p90,
        p95_response_s: response.p95,
        p99_response_s: response.p99,
        max_response_s: response.max,
        mean_bounded_slowdown: slowdown.mean,
        median_bounded_slowdown: slowdown.median,
        p90_bounded_slowdown: slowdown.p90,
        p95_bounded_slowdown: slowdown.p95,
        p99_bounded_slowdown: slowdown.p99,
        max_bounded_slowdown: slowdown.max,
        managed_mean_response_s: ratio(managed.sum(), managed_jobs as f64),
        utilization: ratio(used as f64, capacity as f64),
        idle_proc_s: i64::try_from(capacity - used).unwrap_or(i64::MAX),
        reallocations: run.reallocations,
        jobs_moved: run.jobs.iter().filter(|job| job.moves > 0).count() as u64,
        clusters,
        run: BTreeMap::new(),
    }
}

fn cluster_rows(run: &Run, makespan_s: i64) -> Vec<ClusterRow> {
    let mut totals = vec![(0_u64, 0_i128, 0_i128); run.platform.clusters().len()];
    for job in &run.jobs {
        let total = &mut totals[job.cluster.index()];
        *total = (total.0 + 1, total.1 + proc_seconds(job), total.2 + i128::from(job.wait().0));
    }
    let row = |(cluster, (jobs, used, waited)): (&pliant_model::Cluster, (u64, i128, i128))| ClusterRow {
        name: cluster.name.clone(),
        procs: cluster.procs.0,
        speed: cluster.speed.get(),
        batch: cluster.batch.clone(),
        jobs,
        utilization: ratio(used as f64, f64::from(cluster.procs.0) * makespan_s as f64),
        mean_wait_s: ratio(waited as f64, jobs as f64),
    };
    run.platform.clusters().iter().zip(totals).map(row).collect()
}

/// Processors times runtime.
pub(crate) fn proc_seconds(job: &JobOutcome) -> i128 {
    i128::from(job.procs.0) * i128::from(job.runtime().0)
}

fn bounded_slowdown(job: &JobOutcome) -> f64 {
    let runtime = job.runtime().0.max(SLOWDOWN_BOUND_S);
    (job.response().0 as f64 / runtime as f64).max(1.0)
}

/// A quotient that is 0 where there is nothing to divide by.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Mean and percentiles; all 0 without values.
struct Distribution {
    mean: f64,
    median: f64,
    p90: f64,
    p95: f64,
    p99: f64,
    max: f64,
}

impl Distribution {
    fn of(mut values: Vec<i64>) -> Distribution {
        values.sort_unstable();
        let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
        Distribution::of_sorted(&values, sum as f64)
    }

    fn of_floats(mut values: Vec<f64>) -> Distribution {
        values.sort_unstable_by(f64::total_cmp);
        let sum = values.iter().sum();
        Distribution::of_sorted(&values, sum)
    }

    fn of_sorted<T: Sample>(sorted: &[T], sum: f64) -> Distribution {
        let at = |q| quantile_of(sorted, q).unwrap_or(0.0);
        Distribution {
            mean: ratio(sum, sorted.len() as f64),
            median: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}
