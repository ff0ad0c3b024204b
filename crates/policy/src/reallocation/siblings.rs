//! Sibling jobs: every waiting job is also queued on every other cluster that accepts it. The first one to start runs; the
//! others are cancelled at that moment. Slurm federations do the same; here it is the baseline for moves.
//!
//! Heuristic, threshold and window have no effect. Each cluster sizes its sibling job. The driver of the federation makes sure
//! that only one of them starts: at once in a direct simulation, by asking the job's server in a live federation
//! (`pliant_control::handoff`).
//!
//! Cost: one estimate and one submission per cluster and job.

use pliant_model::{ClusterId, JobId, MoveReason, Time};

use super::Move;
use crate::federation::Federation;

/// Submits missing sibling jobs of all waiting jobs.
pub(super) fn reallocate(federation: &mut Federation, now: Time) -> Vec<Move> {
    let jobs: Vec<JobId> = federation.waiting().keys().copied().collect();
    jobs.into_iter().flat_map(|job| submit_siblings(federation, now, job)).collect()
}

/// Submits a sibling job on every cluster that accepts the job and has none, in the order of the clusters. Returns them as
/// the moves that they may become.
pub fn submit_siblings(federation: &mut Federation, now: Time, job: JobId) -> Vec<Move> {
    let before = federation.plan(now, job).map_or(Time::MAX, |plan| plan.completion());
    let Some(tracked) = federation.waiting().get(&job) else { return Vec::new() };
    let (from, request) = (tracked.cluster, tracked.request.clone());
    let is_new = |to: &ClusterId| *to != from && !federation.siblings(job).contains(to);
    let clusters: Vec<ClusterId> = federation.ids().filter(is_new).collect();
    let sibling = |to: ClusterId| {
        let estimate = federation.estimate(now, &request, to)?;
        federation.submit_sibling(now, job, to, estimate);
        Some(Move { job, from, to, before, estimate, reason: MoveReason::FirstStart })
    };
    clusters.into_iter().filter_map(sibling).collect()
}
