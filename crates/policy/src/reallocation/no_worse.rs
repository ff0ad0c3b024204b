//! All-cancellation that gives no job a later ECT than it had: the guard against starvation that the paper
//! leaves open (section 5.3). Ours.
//!
//! The event is tried on a copy. Jobs that would come out later keep their place and the rest is tried
//! again, until nobody loses. Each try keeps more jobs than the one before, so it ends; after
//! [`TRIES`] everybody keeps their place until the next event. By induction over the events a job's ECT
//! never grows after its first submission, so no job starves, on non-dedicated platforms too: jobs of local
//! users only ever slide forward. That needs plans that are promises, which those of `easy` and `h3-head`
//! are not.

use std::collections::BTreeSet;

use pliant_model::{JobId, Time};

use super::all_cancellation::resubmit;
use super::{Move, Reallocation};
use crate::federation::Federation;

/// How often an event is tried before it is given up.
const TRIES: usize = 8;

pub(super) fn reallocate(policy: &Reallocation, federation: &mut Federation, now: Time) -> Vec<Move> {
    let jobs: Vec<JobId> = federation.waiting().keys().copied().collect();
    let before: Vec<Time> = jobs.iter().map(|job| completion(federation, now, *job)).collect();
    let mut keeping: BTreeSet<JobId> = BTreeSet::new();
    for _ in 0..TRIES {
        let free: Vec<JobId> = jobs.iter().copied().filter(|job| !keeping.contains(job)).collect();
        if free.is_empty() {
            break;
        }
        let mut trial = federation.clone();
        let mut moves = resubmit(policy, &mut trial, now, &free);
        let losing = jobs.iter().zip(&before).filter(|(job, had)| completion(&mut trial, now, **job) > **had);
        let losing: Vec<JobId> = losing.map(|(job, _)| *job).collect();
        if losing.is_empty() {
            // Under policies whose estimates are no promises a place may change while others are resubmitted.
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
