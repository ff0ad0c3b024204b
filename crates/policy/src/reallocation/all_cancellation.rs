//! All-cancellation: every waiting job of every cluster is cancelled, then each is submitted again to the
//! cluster that completes it first, its own included and without a threshold (paper 000, section 3.2.2).
//! Heuristics other than MCT order the window of the oldest; the rest follow in order of
//! submission.

use pliant_model::{JobId, MoveReason, Time};

use super::order::{Candidate, take_next};
use super::{Move, Reallocation, Urgency, move_job};
use crate::federation::Federation;

pub(super) fn reallocate(
    policy: &Reallocation,
    by: Urgency<'_>,
    federation: &mut Federation,
    now: Time,
) -> Vec<Move> {
    let jobs: Vec<JobId> = federation.waiting().keys().copied().collect();
    resubmit(policy, by, federation, now, &jobs)
}

/// Cancels `jobs` (in order of submission) and submits them again.
pub(super) fn resubmit(
    policy: &Reallocation,
    by: Urgency<'_>,
    federation: &mut Federation,
    now: Time,
    jobs: &[JobId],
) -> Vec<Move> {
    let mut moves = Vec::new();
    let mut taken = federation.cancel_all(now, jobs).into_iter();
    let reason = MoveReason::Resubmitted;
    if !by.is_by_submission() {
        let mut held = std::collections::BTreeMap::new();
        let mut window = Vec::new();
        for (tracked, before) in taken.by_ref().take(policy.window) {
            // A job without a plan has no completion to return to.
            let elsewhere = before == Time::MAX;
            window.push(Candidate::new(tracked.request.clone(), tracked.cluster, before, elsewhere));
            held.insert(tracked.request.id, tracked);
        }
        while let Some((candidate, best)) = take_next(by, &mut window, federation, now) {
            if let (Some(target), Some(tracked)) = (best, held.remove(&candidate.request.id)) {
                move_job(federation, now, tracked, candidate.current, target, reason, &mut moves);
            }
        }
    }
    for (tracked, before) in taken {
        let home = Some(tracked.cluster).filter(|_| before == Time::MAX);
        if let Some(target) = federation.earliest(now, &tracked.request, home, Time::MAX) {
            move_job(federation, now, tracked, before, target, reason, &mut moves);
        }
    }
    moves
}
