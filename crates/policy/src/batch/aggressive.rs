//! Aggressive backfilling, the common part of EASY and paper 001's backfilling: heads start while they fit; then any job
//! may overtake that does not delay the head by its walltime.
//!
//! The *shadow* is the first time at which the expected releases free enough processors for the head, *extra* the
//! processors free then beyond its need. A job overtakes if it fits now and either ends by the shadow or needs at most
//! extra. Cost: one pass over the releases, and over the queue in chunks; nothing when no processor is free.
//!
//! Jobs overtake in the order of the queue ([`serve`]), or the shortest first ([`serve_shortest_behind_head`], SJBF of
//! Tsafrir, Etsion and Feitelson, IEEE TPDS 18(6), 2007): then the jobs that may overtake are sorted as well.

use pliant_model::{Procs, Span, Time};

use super::Submission;
use super::event_driven::EventDrivenCluster;
use super::occupancy::Occupancy;
use super::queue::Slot;

/// Processors and walltime of the head of the queue.
pub(super) type Shape = (Procs, Span);

/// The requested shape.
pub(super) fn as_submitted(_now: Time, _cluster: &EventDrivenCluster, job: Submission) -> Shape {
    (job.procs, job.walltime)
}

/// Starts heads in the shape returned by `shape` while they fit, then the jobs that may overtake the head, in order.
pub(super) fn serve(
    now: Time,
    cluster: &mut EventDrivenCluster,
    shape: impl Fn(Time, &EventDrivenCluster, Submission) -> Shape,
) {
    let Some((head, mut window)) = start_heads(now, cluster, shape) else { return };
    let mut next = head + 1;
    while let Some((slot, job)) = cluster.queue.next_where(next, |procs, span| window.admits(procs, span)) {
        cluster.start(now, slot, job.procs, job.walltime);
        window.take(job.procs, job.walltime);
        next = slot + 1;
    }
}

/// Like [`serve`] in the requested shapes, but the shortest of the jobs that may overtake goes first; of equally long ones
/// the first in the queue.
pub(super) fn serve_shortest_behind_head(now: Time, cluster: &mut EventDrivenCluster) {
    let Some((head, mut window)) = start_heads(now, cluster, as_submitted) else { return };
    let mut candidates: Vec<(Slot, Submission)> = Vec::new();
    let mut next = head + 1;
    while let Some(candidate) = cluster.queue.next_where(next, |procs, span| window.admits(procs, span)) {
        next = candidate.0 + 1;
        candidates.push(candidate);
    }
    candidates.sort_by_key(|(_, job)| job.walltime);
    for (slot, job) in candidates {
        if window.admits(job.procs, job.walltime) {
            cluster.start(now, slot, job.procs, job.walltime);
            window.take(job.procs, job.walltime);
        }
    }
}

/// Starts heads while they fit. Returns the position of the first one that does not, with what a job behind it may take;
/// none if no job can overtake.
fn start_heads(
    now: Time,
    cluster: &mut EventDrivenCluster,
    shape: impl Fn(Time, &EventDrivenCluster, Submission) -> Shape,
) -> Option<(Slot, BackfillWindow)> {
    let (slot, needed) = loop {
        let (slot, head) = cluster.queue.head()?;
        let (procs, walltime) = shape(now, cluster, head);
        if procs > cluster.processors.free(now) {
            break (slot, procs);
        }
        cluster.start(now, slot, procs, walltime);
    };
    let may_overtake = cluster.processors.free(now) > Procs(0) && cluster.queue.len() > 1;
    may_overtake.then(|| (slot, BackfillWindow::behind(now, &cluster.processors, needed)))
}

/// Like [`serve`] and [`serve_shortest_behind_head`] after a submission and no other change: no job ahead of the submitted
/// one can start, since none could after the last change and the shadow only comes nearer.
pub(super) fn serve_last(now: Time, cluster: &mut EventDrivenCluster) {
    let (Some((slot, job)), Some((_, head))) = (cluster.queue.last(), cluster.queue.head()) else { return };
    if cluster.queue.len() == 1 {
        serve(now, cluster, as_submitted);
    } else if job.procs <= cluster.processors.free(now)
        && BackfillWindow::behind(now, &cluster.processors, head.procs).admits(job.procs, job.walltime)
    {
        cluster.start(now, slot, job.procs, job.walltime);
    }
}

/// The processors and the time available to a job that must not delay the head.
pub(super) struct BackfillWindow {
    free: Procs,
    /// Free at the shadow beyond the head's need.
    extra: Procs,
    /// Time until the shadow.
    spare: Span,
}

impl BackfillWindow {
    pub(super) fn behind(now: Time, processors: &Occupancy, needed: Procs) -> BackfillWindow {
        let (shadow, free) = processors.when_free(now, needed);
        let extra = Procs(free.0.saturating_sub(needed.0));
        BackfillWindow { free: processors.free(now), extra, spare: shadow - now }
    }

    pub(super) fn admits(&self, procs: Procs, walltime: Span) -> bool {
        procs <= self.free && (walltime <= self.spare || procs <= self.extra)
    }

    /// Takes processors for a job that overtakes. The shadow stays, since no release becomes earlier.
    pub(super) fn take(&mut self, procs: Procs, walltime: Span) {
        self.free.0 -= procs.0;
        if walltime > self.spare {
            self.extra.0 -= procs.0;
        }
    }
}
