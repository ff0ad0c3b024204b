//! Learns from listings what share of their walltimes jobs use.
//!
//! A job that is listed as ended gives its end. A job that ran and is no longer listed ended between two listings; it is
//! ignored if these are too far apart, as after an outage of the controller.

use pliant_model::{Span, Time};
use pliant_policy::runtimes::limit_usage::LimitUsage;

use crate::listing::{Changes, ListedJob, Listing, Phase};

/// The most time between two listings, as a fraction of the job's walltime.
const APART: i64 = 4;

/// Records the jobs that have ended, before the changes are applied. O(changes log jobs).
pub(super) fn record_ended(mirror: &Listing, changes: &Changes, used: &mut LimitUsage) {
    let apart = changes.at - changes.since;
    let between = Time(changes.since.0 + apart.0 / 2);
    let mut record = |job: &ListedJob, ended: Time| {
        if let (Some(started), Some(limit)) = (job.started, job.walltime) {
            used.record(&job.owner, &job.partition, limit, (ended - started).max(Span::ZERO));
        }
    };
    let has_run = |id: &String| mirror.job(id).filter(|job| job.phase() == Phase::Running);
    for before in changes.gone.iter().filter_map(has_run) {
        if before.walltime.is_some_and(|limit| apart <= Span(limit.0 / APART)) {
            record(before, between);
        }
    }
    let was_over = |after: &ListedJob| mirror.job(&after.id).is_some_and(|job| job.phase() == Phase::Ended);
    for after in changes.jobs.iter().filter(|after| after.phase() == Phase::Ended && !was_over(after)) {
        if let Some(ended) = after.ended {
            record(after, ended);
        }
    }
}
