//! Regular reallocation: a job that another cluster completes earlier by at least the threshold is submitted there, then
//! cancelled at its own (paper 000, section 3.2.2). MCT considers every job once per cycle; the other heuristics consider the
//! window of the oldest. For a job without a plan, or on a drained cluster, any other cluster is better.

use pliant_model::{ClusterId, Estimate, JobId, MoveReason, Reason, Time};

use super::order::{Candidate, take_next};
use super::{Move, Reallocation, Urgency};
use crate::completion::{is_late, latest_with_gain};
use crate::federation::Federation;

pub(super) fn reallocate(
    policy: &Reallocation,
    by: Urgency<'_>,
    federation: &mut Federation,
    now: Time,
) -> Vec<Move> {
    let mut moves = Vec::new();
    let jobs: Vec<JobId> = federation.waiting().keys().copied().collect();
    if by.is_by_submission() {
        for job in jobs {
            consider(policy, federation, now, job, &mut moves);
        }
        return moves;
    }
    // Those that leave drained clusters gain nothing, so no heuristic would consider them before others.
    let (leaving, jobs): (Vec<JobId>, Vec<JobId>) =
        jobs.into_iter().partition(|job| is_leaving(federation, *job));
    for job in leaving {
        consider(policy, federation, now, job, &mut moves);
    }
    let mut window: Vec<Candidate> = jobs
        .into_iter()
        .take(policy.window)
        .filter_map(|job| {
            let current = federation.plan(now, job).map_or(Time::MAX, |plan| plan.completion());
            let tracked = federation.waiting().get(&job)?;
            Some(Candidate::new(tracked.request.clone(), tracked.cluster, current, true))
        })
        .collect();
    while let Some((candidate, best)) = take_next(by, &mut window, federation, now) {
        if let Some((cluster, estimate)) = best
            && !is_late(&estimate, latest_with_gain(candidate.current, policy.threshold))
        {
            go(federation, now, candidate.request.id, candidate.current, (cluster, estimate), &mut moves);
        }
    }
    moves
}

/// True if a job waits on a drained cluster.
fn is_leaving(federation: &Federation, job: JobId) -> bool {
    federation.waiting().get(&job).is_some_and(|tracked| federation.is_drained(tracked.cluster))
}

/// Moves a job if it gains enough elsewhere.
fn consider(
    policy: &Reallocation,
    federation: &mut Federation,
    now: Time,
    job: JobId,
    moves: &mut Vec<Move>,
) {
    let plan = federation.plan(now, job);
    let Some(tracked) = federation.waiting().get(&job) else { return };
    if plan.is_some_and(|plan| plan.start <= now) {
        return;
    }
    let (home, request) = (tracked.cluster, tracked.request.clone());
    let current = plan.map_or(Time::MAX, |plan| plan.completion());
    let latest = latest_with_gain(current, policy.threshold);
    if let Some(target) = federation.earliest(now, &request, Some(home), latest) {
        go(federation, now, job, current, target, moves);
    }
}

/// Executes a move. The job is cancelled before it is tracked at its target, since a federation tracks each job once; no event
/// can occur in between.
fn go(
    federation: &mut Federation,
    now: Time,
    job: JobId,
    before: Time,
    (to, estimate): (ClusterId, Estimate),
    moves: &mut Vec<Move>,
) {
    let Some(tracked) = federation.waiting().get(&job).cloned() else { return };
    let before = federation.completion(now, job).unwrap_or(before);
    if !federation.cancel(now, job) {
        return;
    }
    let reason = if federation.is_drained(tracked.cluster) {
        MoveReason::Drained
    } else {
        MoveReason::EarlierCompletion
    };
    moves.push(Move { job, from: tracked.cluster, to, before, estimate, reason });
    let moved = crate::federation::Tracked {
        cluster: to,
        moves: tracked.moves + 1,
        reason: Reason::Moved(reason),
        ..tracked
    };
    federation.submit(now, moved, estimate.shape());
}
