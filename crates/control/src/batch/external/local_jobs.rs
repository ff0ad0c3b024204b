//! The jobs of local users by the listings, for replays.
//!
//! A run has ended if a listing says so, if the job waits again, or if it is no longer listed. An unknown end is the time of
//! the listing, or the job's time limit if that came first. Jobs that never ran, or on nodes that ours cannot use, are left
//! out.

use pliant_model::Time;

use super::cluster_snapshot;
use super::target_partition::TargetPartition;
use crate::listing::{Changes, ListedJob, Listing, Phase};
use crate::local::LocalJob;

/// The runs that have ended by these `changes` to a listing.
pub(super) fn ended(before: &Listing, changes: &Changes, partition: Option<&str>) -> Vec<LocalJob> {
    let changed = changes.jobs.iter().filter_map(|job| {
        let known = before.job(&job.id);
        let ran = known.filter(|known| known.phase() == Phase::Running);
        match (job.phase(), known.map(ListedJob::phase)) {
            (Phase::Ended, Some(Phase::Ended)) | (Phase::Running, _) => None,
            (Phase::Ended, _) => Some((ran.unwrap_or(job), job.ended)),
            // It was requeued.
            (Phase::Waiting, _) => Some((ran?, None)),
        }
    });
    let gone =
        changes.gone.iter().filter_map(|id| before.job(id)).filter(|job| job.phase() == Phase::Running);
    let runs = changed.chain(gone.map(|job| (job, None)));
    let run = |(job, ended): (&ListedJob, Option<Time>)| {
        let started = job.started?;
        let latest = job.walltime.map_or(changes.at, |walltime| changes.at.min(started + walltime));
        let ended = ended.unwrap_or(latest).max(started);
        takes_ours(before, changes, job, partition)
            .then(|| LocalJob { ended: Some(ended), ..local(before, job, partition) })
    };
    runs.filter(|(job, _)| job.job_number.is_none()).filter_map(run).collect()
}

/// The jobs that run or wait.
pub(super) fn current(listing: &Listing, partition: Option<&str>) -> Vec<LocalJob> {
    let target = TargetPartition::of(listing, partition);
    let concerns_ours = |job: &&ListedJob| match job.phase() {
        Phase::Running => job.started.is_some() && cluster_snapshot::is_on(job, target),
        Phase::Waiting => target.takes(&job.partition) && job.shape.cores > 0,
        Phase::Ended => false,
    };
    let locals = listing.jobs.iter().filter(|job| job.job_number.is_none()).filter(concerns_ours);
    let tasks =
        |job: &ListedJob| std::iter::repeat_n(local(listing, job, partition), cluster_snapshot::tasks(job));
    locals.flat_map(tasks).collect()
}

/// Whether a job has cores that ours could use.
fn takes_ours(before: &Listing, changes: &Changes, job: &ListedJob, partition: Option<&str>) -> bool {
    // The first listing brings its nodes with it.
    let mut after = Listing::default();
    after.apply(&Changes {
        nodes: changes.nodes.clone(),
        partitions: changes.partitions.clone(),
        ..Changes::default()
    });
    let is_on = |listing| cluster_snapshot::is_on(job, TargetPartition::of(listing, partition));
    job.shape.cores > 0 && (is_on(before) || is_on(&after))
}

fn local(listing: &Listing, job: &ListedJob, partition: Option<&str>) -> LocalJob {
    let largest = cluster_snapshot::largest(TargetPartition::of(listing, partition));
    let ListedJob { walltime, partition, submitted, started, .. } = job;
    LocalJob {
        shape: cluster_snapshot::shape(job, largest),
        walltime: *walltime,
        partition: partition.clone(),
        submitted: *submitted,
        started: started.filter(|_| job.phase() != Phase::Waiting),
        ended: None,
    }
}
