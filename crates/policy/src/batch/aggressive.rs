//! Aggressive backfilling, the common part of EASY and paper 001's backfilling: heads start while they fit; then any job
//! may overtake that does not delay the head by its walltime.
//!
//! The *shadow* is the first time at which the expected releases free enough processors for the head, *extra* the
//! processors free then beyond its need. A job overtakes if it fits now and either ends by the shadow or needs at most
//! extra. Cost: one pass over the releases, and over the queue in chunks; nothing when no processor is free.

use pliant_model::{Procs, Span, Time};

use super::Submission;
use super::event_driven::EventDrivenCluster;
use super::occupancy::Occupancy;

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
    let (slot, needed) = loop {
        let Some((slot, head)) = cluster.queue.head() else { return };
        let (procs, walltime) = shape(now, cluster, head);
        if procs > cluster.processors.free(now) {
            break (slot, procs);
        }
        cluster.start(now, slot, procs, walltime);
    };
    if cluster.processors.free(now) == Procs(0) || cluster.queue.len() == 1 {
        return;
    }
    let mut window = BackfillWindow::behind(now, &cluster.processors, needed);
    let mut next = slot + 1;
    while let Some((slot, job)) = cluster.queue.next_where(next, |procs, span| window.admits(procs, span)) {
        cluster.start(now, slot, job.procs, job.walltime);
        window.take(job.procs, job.walltime);
        next = slot + 1;
    }
}

/// Like [`serve`] after a submission and no other change: no job ahead of the submitted one can start, since none could
/// after the last change and the shadow only comes nearer.
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
struct BackfillWindow {
    free: Procs,
    /// Free at the shadow beyond the head's need.
    extra: Procs,
    /// Time until the shadow.
    spare: Span,
}

impl BackfillWindow {
    fn behind(now: Time, processors: &Occupancy, needed: Procs) -> BackfillWindow {
        let (shadow, free) = processors.when_free(now, needed);
        let extra = Procs(free.0.saturating_sub(needed.0));
        BackfillWindow { free: processors.free(now), extra, spare: shadow - now }
    }

    fn admits(&self, procs: Procs, walltime: Span) -> bool {
        procs <= self.free && (walltime <= self.spare || procs <= self.extra)
    }

    /// Takes processors for a job that overtakes. The shadow stays, since no release becomes earlier.
    fn take(&mut self, procs: Procs, walltime: Span) {
        self.free.0 -= procs.0;
        if walltime > self.spare {
            self.extra.0 -= procs.0;
        }
    }
}
