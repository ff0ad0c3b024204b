//! Aggressive backfilling, the part that EASY and paper 001's backfilling share: heads start while they fit;
//! then any job may overtake as long as the job at the head is not delayed by the walltimes.
//!
//! The *shadow* is the first time at which the expected releases free enough for the head, *extra* what is
//! free then beyond its need. A job overtakes if it fits now and either ends by the shadow or needs no more
//! than extra. Cost: one pass over the releases, and over the line in chunks; nothing when nothing is free.

use pliant_model::{Procs, Span, Time};

use super::Submission;
use super::event_driven::Occupied;
use super::occupancy::Occupancy;

/// The processors and the walltime that the head of the line gets.
pub(super) type Shape = (Procs, Span);

/// The shape that was asked for.
pub(super) fn as_submitted(_now: Time, _cluster: &Occupied, job: Submission) -> Shape {
    (job.procs, job.walltime)
}

/// Starts heads while they fit, in the shape that `shape` gives them, then whoever may overtake the head,
/// in order.
pub(super) fn serve(now: Time, cluster: &mut Occupied, shape: impl Fn(Time, &Occupied, Submission) -> Shape) {
    let (slot, needed) = loop {
        let Some((slot, head)) = cluster.line.head() else { return };
        let (procs, walltime) = shape(now, cluster, head);
        if procs > cluster.processors.free(now) {
            break (slot, procs);
        }
        cluster.start(now, slot, procs, walltime);
    };
    if cluster.processors.free(now) == Procs(0) || cluster.line.len() == 1 {
        return;
    }
    let mut room = Room::behind(now, &cluster.processors, needed);
    let mut next = slot + 1;
    while let Some((slot, job)) = cluster.line.next_where(next, |procs, span| room.admits(procs, span)) {
        cluster.start(now, slot, job.procs, job.walltime);
        room.take(job.procs, job.walltime);
        next = slot + 1;
    }
}

/// As [`serve`] when nothing has changed but that a job was submitted: nobody in front of it can start,
/// since nobody could after the last change and time only brings the shadow nearer.
pub(super) fn serve_last(now: Time, cluster: &mut Occupied) {
    let (Some((slot, job)), Some((_, head))) = (cluster.line.last(), cluster.line.head()) else { return };
    if cluster.line.len() == 1 {
        serve(now, cluster, as_submitted);
    } else if job.procs <= cluster.processors.free(now)
        && Room::behind(now, &cluster.processors, head.procs).admits(job.procs, job.walltime)
    {
        cluster.start(now, slot, job.procs, job.walltime);
    }
}

/// What a job may take without delaying the head.
struct Room {
    free: Procs,
    /// Free at the shadow beyond the head's need.
    extra: Procs,
    /// Time until the shadow.
    spare: Span,
}

impl Room {
    fn behind(now: Time, processors: &Occupancy, needed: Procs) -> Room {
        let (shadow, free) = processors.when_free(now, needed);
        let extra = Procs(free.0.saturating_sub(needed.0));
        Room { free: processors.free(now), extra, spare: shadow - now }
    }

    fn admits(&self, procs: Procs, walltime: Span) -> bool {
        procs <= self.free && (walltime <= self.spare || procs <= self.extra)
    }

    /// A job was let through. The shadow stays, since nothing is given back earlier than before.
    fn take(&mut self, procs: Procs, walltime: Span) {
        self.free.0 -= procs.0;
        if walltime > self.spare {
            self.extra.0 -= procs.0;
        }
    }
}
