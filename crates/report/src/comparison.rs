//! A run against its reference run: paper 000's four metrics (section 4.4) and paper 001's
//! count and gain of the jobs that ended earlier (slide "Metrics used"). One pass over both, `O(n)`.
//!
//! Two runs of one workload list their jobs in the workload's order, so they are matched by walking both
//! lists. A job that one run refused is skipped in the other; any other difference is an error.

use std::collections::BTreeSet;

use pliant_model::{JobOutcome, Run};
use serde::{Deserialize, Serialize};

/// Paper 000's metrics of a run against its reference, over the jobs that came through the federation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// Jobs that came through the federation and ran in both.
    pub managed_jobs: u64,
    /// Those whose completion differs.
    pub impacted: u64,
    /// `100 impacted / managed_jobs`; 0 without jobs.
    pub impacted_percent: f64,
    /// Moves in the run.
    pub reallocations: u64,
    /// `100 reallocations / managed_jobs` (can exceed 100); 0 without jobs.
    pub reallocations_percent: f64,
    /// Impacted jobs that ended earlier.
    pub early: u64,
    /// `100 early / impacted`; none if nothing is impacted.
    pub early_percent: Option<f64>,
    /// Mean response of the impacted jobs in the run over their mean response in the reference (below 1 is
    /// better); none if nothing is impacted.
    pub relative_mean_response: Option<f64>,
    /// Mean over the impacted jobs of response in the run over response in the reference; none if nothing
    /// is impacted.
    pub mean_response_ratio: Option<f64>,
}

/// Paper 001's metrics of a run against its reference, over all jobs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobGain {
    /// Jobs that ended earlier than in the reference.
    pub jobs_earlier: u64,
    /// The seconds that these jobs gained together.
    pub gained_s: i64,
    /// Jobs that ended later than in the reference.
    pub jobs_later: u64,
    /// The seconds that those jobs lost together.
    pub lost_s: i64,
    /// Makespan of the reference minus makespan of the run.
    pub makespan_gain_s: i64,
}

/// Two runs that are not of the same workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ComparisonError {
    /// The jobs at one position of the two lists differ.
    #[error(
        "expected job {} submitted at {} at position {position}, as in the reference, found job {} submitted \
         at {} (compare runs of the same workload and seed)",
        expected.0, expected.1, found.0, found.1
    )]
    DifferentJob {
        /// Position in the run, from 0.
        position: usize,
        /// Number and submission of the reference's job.
        expected: (u64, i64),
        /// Number and submission of the run's job.
        found: (u64, i64),
    },
    /// One list is longer.
    #[error(
        "expected {expected} jobs, as in the reference, found {found} (compare runs of the same workload and seed)"
    )]
    DifferentCount {
        /// Jobs in the reference.
        expected: usize,
        /// Jobs in the run.
        found: usize,
    },
}

/// Paper 000's metrics of `run` against `reference`.
pub fn compare(run: &Run, reference: &Run) -> Result<Comparison, ComparisonError> {
    let (mut managed_jobs, mut impacted, mut early) = (0_u64, 0_u64, 0_u64);
    let (mut response, mut reference_response, mut ratios) = (0_i128, 0_i128, 0.0);
    for_each_pair(run, reference, |job, before| {
        if !(job.managed && before.managed) {
            return;
        }
        managed_jobs += 1;
        if job.end == before.end {
            return;
        }
        impacted += 1;
        early += u64::from(job.end < before.end);
        response += i128::from(job.response().0);
        reference_response += i128::from(before.response().0);
        // A response is at least one second wherever a job runs at all.
        ratios += job.response().0 as f64 / before.response().0.max(1) as f64;
    })?;
    let percent = |part: u64, whole: u64| (whole > 0).then(|| 100.0 * part as f64 / whole as f64);
    Ok(Comparison {
        managed_jobs,
        impacted,
        impacted_percent: percent(impacted, managed_jobs).unwrap_or(0.0),
        reallocations: run.reallocations,
        reallocations_percent: percent(run.reallocations, managed_jobs).unwrap_or(0.0),
        early,
        early_percent: percent(early, impacted),
        relative_mean_response: (reference_response > 0).then(|| response as f64 / reference_response as f64),
        mean_response_ratio: (impacted > 0).then(|| ratios / impacted as f64),
    })
}

/// Paper 001's metrics of `run` against `reference` (there: FIFO).
pub fn gained_before(run: &Run, reference: &Run) -> Result<JobGain, ComparisonError> {
    let makespan = |run: &Run| run.jobs.iter().map(|job| job.end.0).max().unwrap_or(0);
    let makespan_gain_s = makespan(reference) - makespan(run);
    let mut gained = JobGain { jobs_earlier: 0, gained_s: 0, jobs_later: 0, lost_s: 0, makespan_gain_s };
    for_each_pair(run, reference, |job, before| {
        let gain = (before.end - job.end).0;
        if gain > 0 {
            gained.jobs_earlier += 1;
            gained.gained_s += gain;
        } else if gain < 0 {
            gained.jobs_later += 1;
            gained.lost_s -= gain;
        }
    })?;
    Ok(gained)
}

/// Calls `visit` with each job of `run` and the same job of `reference`.
fn for_each_pair(
    run: &Run,
    reference: &Run,
    mut visit: impl FnMut(&JobOutcome, &JobOutcome),
) -> Result<(), ComparisonError> {
    let refused = |run: &Run| run.refused.iter().map(|(log_id, _)| *log_id).collect::<BTreeSet<u64>>();
    let (refused_here, refused_there) = (refused(run), refused(reference));
    let (mut here, mut there) = (0, 0);
    loop {
        match (run.jobs.get(here), reference.jobs.get(there)) {
            (None, None) => return Ok(()),
            (Some(job), Some(before)) if (job.log_id, job.submit) == (before.log_id, before.submit) => {
                visit(job, before);
                here += 1;
                there += 1;
            }
            (Some(job), _) if refused_there.contains(&job.log_id) => here += 1,
            (_, Some(before)) if refused_here.contains(&before.log_id) => there += 1,
            (Some(job), Some(before)) => {
                let (expected, found) = ((before.log_id, before.submit.0), (job.log_id, job.submit.0));
                return Err(ComparisonError::DifferentJob { position: here, expected, found });
            }
            (None, Some(_)) | (Some(_), None) => {
                let (expected, found) = (reference.jobs.len(), run.jobs.len());
                return Err(ComparisonError::DifferentCount { expected, found });
            }
        }
    }
}
