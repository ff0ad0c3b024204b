//! Copies: every waiting job is queued on every other cluster that can take it as well, and whichever starts first
//! runs it; all others are withdrawn at that moment. What Slurm's federation does with the sibling jobs of its
//! clusters, and the baseline that moves are compared with.
//!
//! Nothing is moved here and nothing is compared: heuristic, threshold and window mean nothing. A copy is sized
//! where it waits, as any job that arrives there. Which one starts first is the batch systems' to say, and whoever
//! drives the federation sees to it that no other one starts: at once in a direct simulation, by asking the
//! server that has the job in a live federation (`pliant_control::handoff`).
//!
//! Cost: one estimate and one submission per cluster and job.

use pliant_model::{ClusterId, JobId, MoveReason, Time};

use super::Move;
use crate::federation::Federation;

/// Queues the copies that waiting jobs do not have.
pub(super) fn reallocate(federation: &mut Federation, now: Time) -> Vec<Move> {
    let jobs: Vec<JobId> = federation.waiting().keys().copied().collect();
    jobs.into_iter().flat_map(|job| submit_siblings(federation, now, job)).collect()
}

/// Queues a copy of a waiting job on every cluster that can take it and has none, in the order of the clusters.
/// Returns them as the moves that they would become.
pub fn submit_siblings(federation: &mut Federation, now: Time, job: JobId) -> Vec<Move> {
    let before = federation.plan(now, job).map_or(Time::MAX, |plan| plan.completion());
    let Some(tracked) = federation.waiting().get(&job) else { return Vec::new() };
    let (from, request) = (tracked.cluster, tracked.request.clone());
    let is_new = |to: &ClusterId| *to != from && !federation.siblings(job).contains(to);
    let clusters: Vec<ClusterId> = federation.ids().filter(is_new).collect();
    let copy = |to: ClusterId| {
        let estimate = federation.estimate(now, &request, to)?;
        federation.submit_sibling(now, job, to, estimate);
        Some(Move { job, from, to, before, estimate, reason: MoveReason::FirstStart })
    };
    clusters.into_iter().filter_map(copy).collect()
}
