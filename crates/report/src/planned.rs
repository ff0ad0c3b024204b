//! A run against the plans that its jobs had right after their submission. One pass over both and one sort, `O(n log n)`.

use pliant_model::{JobOutcome, PlannedJob, Run};
use serde::{Deserialize, Serialize};

use crate::metrics::ratio;
use crate::quantile::quantile_of;

/// How far planned starts and responses were from the real ones. Means over no jobs are 0.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PlannedStarts {
    /// Jobs that ran and had a plan when they were submitted.
    pub planned_jobs: u64,
    /// The share of them that started later than planned, in percent.
    pub late_start_percent: f64,
    /// How much later than planned they started: the mean over all planned jobs, where others count as 0.
    pub mean_late_start_s: f64,
    /// 95th percentile of the same.
    pub p95_late_start_s: f64,
    /// 99th percentile of the same.
    pub p99_late_start_s: f64,
    /// The most.
    pub max_late_start_s: f64,
    /// The share of the planned jobs that started earlier than planned, in percent.
    pub early_start_percent: f64,
    /// How much earlier than planned they started: the mean over all planned jobs, where others count as 0.
    pub mean_early_start_s: f64,
    /// Mean time from submission to the planned start.
    pub mean_planned_wait_s: f64,
    /// Mean wait of the same jobs.
    pub planned_jobs_mean_wait_s: f64,
    /// Mean time from submission to the planned completion, which is the end of what the plan expects the job to run.
    pub mean_planned_response_s: f64,
    /// Mean response of the same jobs.
    pub planned_jobs_mean_response_s: f64,
}

/// Compares the jobs of a run with their plans. Both are in the order of the workload; a job without a plan is left out.
pub fn compare_with_plans(run: &Run, plans: &[PlannedJob]) -> PlannedStarts {
    let mut left = plans.iter().peekable();
    let planned =
        run.jobs.iter().filter_map(|job| Some((job, left.next_if(|one| one.log_id == job.log_id)?)));
    let pairs: Vec<(&JobOutcome, &PlannedJob)> = planned.collect();
    let mut late: Vec<i64> = pairs.iter().map(|(job, one)| (job.start - one.plan.start).0.max(0)).collect();
    late.sort_unstable();
    let early = |(job, one): &(&JobOutcome, &PlannedJob)| (one.plan.start - job.start).0.max(0);
    let mean = |of: &dyn Fn(&(&JobOutcome, &PlannedJob)) -> i64| {
        let sum: i128 = pairs.iter().map(|pair| i128::from(of(pair))).sum();
        ratio(sum as f64, pairs.len() as f64)
    };
    let share = |count: usize| 100.0 * ratio(count as f64, pairs.len() as f64);
    let at = |q| quantile_of(&late, q).unwrap_or(0.0);
    PlannedStarts {
        planned_jobs: pairs.len() as u64,
        late_start_percent: share(late.iter().filter(|late| **late > 0).count()),
        mean_late_start_s: ratio(late.iter().map(|late| *late as f64).sum(), late.len() as f64),
        p95_late_start_s: at(0.95),
        p99_late_start_s: at(0.99),
        max_late_start_s: at(1.0),
        early_start_percent: share(pairs.iter().filter(|pair| early(pair) > 0).count()),
        mean_early_start_s: mean(&early),
        mean_planned_wait_s: mean(&|(job, one)| (one.plan.start - job.submit).0),
        planned_jobs_mean_wait_s: mean(&|(job, _)| job.wait().0),
        mean_planned_response_s: mean(&|(job, one)| (one.plan.completion() - job.submit).0),
        planned_jobs_mean_response_s: mean(&|(job, _)| job.response().0),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a panic is how a test fails")]
mod tests {
    use pliant_model::{Cluster, ClusterId, Estimate, MapReason, Platform, Procs, Reason, Span, Speed, Time};

    use super::*;

    fn run(starts: &[(u64, i64)]) -> Run {
        let job = |(log_id, start): &(u64, i64)| JobOutcome {
            log_id: *log_id,
            cluster: ClusterId(0),
            submit: Time(10),
            start: Time(*start),
            end: Time(start + 50),
            procs: Procs(1),
            walltime: Span(100),
            moves: 0,
            managed: true,
            reason: Reason::Mapped(MapReason::Given),
        };
        let cluster = Cluster {
            name: "a".to_owned(),
            procs: Procs(1),
            speed: Speed::REFERENCE,
            batch: "cbf".to_owned(),
            nodes: None,
        };
        Run {
            platform: Platform::new(vec![cluster]).unwrap(),
            jobs: starts.iter().map(job).collect(),
            refused: Vec::new(),
            moves: Vec::new(),
            reallocations: 0,
        }
    }

    #[test]
    fn late_and_early_starts_are_counted_apart() {
        let planned = |log_id, start| PlannedJob {
            log_id,
            plan: Estimate { procs: Procs(1), walltime: Span(100), start: Time(start) },
        };
        // The second job of the run had no plan.
        let found = compare_with_plans(
            &run(&[(1, 10), (2, 500), (3, 40), (4, 30), (5, 110)]),
            &[planned(1, 10), planned(3, 10), planned(4, 50), planned(5, 20)],
        );
        assert_eq!(found.planned_jobs, 4);
        assert_eq!((found.late_start_percent, found.early_start_percent), (50.0, 25.0));
        assert_eq!((found.mean_late_start_s, found.max_late_start_s), (30.0, 90.0));
        assert_eq!(found.mean_early_start_s, 5.0);
        assert_eq!((found.mean_planned_wait_s, found.planned_jobs_mean_wait_s), (12.5, 37.5));
        assert_eq!((found.mean_planned_response_s, found.planned_jobs_mean_response_s), (112.5, 87.5));
    }

    #[test]
    fn no_jobs_give_zeros() {
        let found = compare_with_plans(&run(&[]), &[]);
        assert_eq!((found.planned_jobs, found.late_start_percent, found.p99_late_start_s), (0, 0.0, 0.0));
    }
}
