//! All-cancellation that gives no job a later ECT than before: the guard against starvation that the paper leaves open
//! (section 5.3). Not in the paper.
//!
//! A cycle is tried on a clone of the federation. Jobs that would complete later keep their position and the rest is tried
//! again, until no job loses. Each try keeps more jobs, so the loop ends; after [`TRIES`] all jobs stay until the next
//! cycle. By induction the ECT of a job never grows after its first submission, so no job starves. This requires plans
//! that are promises, unlike those of `easy` and `h3-head`.

use std::collections::BTreeSet;

use pliant_model::{JobId, Time};

use super::all_cancellation::resubmit;
use super::{Move, Reallocation, Urgency};
use crate::federation::Federation;

/// The largest number of tries of a cycle.
const TRIES: usize = 8;

pub(super) fn reallocate(
    policy: &Reallocation,
    by: Urgency<'_>,
    federation: &mut Federation,
    now: Time,
) -> Vec<Move> {
    let jobs: Vec<JobId> = federation.waiting().keys().copied().collect();
    let before: Vec<Time> = jobs.iter().map(|job| completion(federation, now, *job)).collect();
    let mut keeping: BTreeSet<JobId> = BTreeSet::new();
    for _ in 0..TRIES {
        let free: Vec<JobId> = jobs.iter().copied().filter(|job| !keeping.contains(job)).collect();
        if free.is_empty() {
            break;
        }
        let mut trial = federation.clone();
        let mut moves = resubmit(policy, by, &mut trial, now, &free);
        let losing =
            jobs.iter().zip(&before).filter(|(job, before)| completion(&mut trial, now, **job) > **before);
        let losing: Vec<JobId> = losing.map(|(job, _)| *job).collect();
        if losing.is_empty() {
            // Under policies whose estimates are not promises, a position may change while other jobs are resubmitted.
            for one in &mut moves {
                one.estimate = trial.plan(now, one.job).unwrap_or(one.estimate);
            }
            *federation = trial;
            return moves;
        }
        keeping.extend(losing);
    }
    Vec::new()
}

fn completion(federation: &mut Federation, now: Time, job: JobId) -> Time {
    federation.plan(now, job).map_or(Time::MAX, |plan| plan.completion())
}
