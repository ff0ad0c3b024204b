//! Builds the snapshot that plans are made from, from a listing.

use pliant_model::{JobId, Procs, Span, Time};
use pliant_policy::batch::Submission;
use pliant_policy::nodes::{AllocatedJob, ClusterSnapshot, KindSet, Pending, PublishedStart, Rules, Shape};

use super::node_resources::NodeResources;
use super::target_partition::TargetPartition;
use crate::listing::{ListedJob, Listing, Phase, State, WaitReason};

/// The walltime of a job without a time limit.
pub const WITHOUT_LIMIT: Span = Span(365 * 86_400);
/// The most waiting tasks of an array that are planned.
const TASKS_MAX: u32 = 1_000;

/// A snapshot, and the positions of its waiting jobs in the listing. Of an array only the first task is in `ids`.
pub(super) struct ListedSnapshot {
    pub(super) snapshot: ClusterSnapshot,
    pub(super) ids: Vec<(JobId, usize)>,
}

/// Whose waiting jobs a snapshot has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WaitingOf {
    /// Of the partition alone, with its nodes alone: what is shown of it.
    Partition,
    /// Of all partitions that have nodes in common with it: what is planned.
    Competing,
}

/// Builds the snapshot of a listing, with jobs that it does not show yet at the end of the queue. Our jobs keep their
/// numbers; others get the highest numbers. `expected` predicts the runtime of a job that has run for a given time, if that
/// is known better than by its walltime.
pub(super) fn listed_snapshot(
    listing: &Listing,
    rules: &Rules,
    (target, waiting_of): (TargetPartition<'_>, WaitingOf),
    expected: &dyn Fn(&ListedJob, Span) -> Option<Span>,
    unlisted: impl Iterator<Item = Submission>,
) -> ListedSnapshot {
    let resources = match waiting_of {
        WaitingOf::Partition => target.resources(),
        WaitingOf::Competing => target.competing_resources(),
    };
    let mut external_numbers = (0..=u32::MAX).rev();
    let mut seen = std::collections::BTreeSet::new();
    let mut number = |listed: &ListedJob| match listed.job_number {
        Some(number) if seen.insert(number) => JobId(number),
        // A duplicate of our job takes resources, too, and counts as an external job.
        _ => JobId(external_numbers.next().unwrap_or(u32::MAX)),
    };
    let mut running = Vec::new();
    for job in listing.jobs.iter().filter(|job| job.phase() == Phase::Running) {
        let (on, needs) = resources.allocation(job);
        let started = job.started.unwrap_or(listing.at);
        let end = started + job.walltime.unwrap_or(WITHOUT_LIMIT);
        // What it has of a reservation's nodes is part of what is reserved.
        let within = target.reservation(job).filter(|one| end <= one.until);
        let on = match within {
            Some(reservation) => resources.outside(on, reservation),
            None if target.shares_reservation(job) => on,
            None => resources.of_whole_nodes(on, listing),
        };
        // On nodes that are not planned here it may have licences that are.
        let cores = if on.is_empty() { 0 } else { job.shape.cores };
        if !on.is_empty() || !needs.licences.is_empty() {
            let elapsed = Span((listing.at - started).0.max(0));
            let expected = expected(job, elapsed).map(|runtime| started + runtime);
            let allocated = AllocatedJob::of(number(job), Procs(cores), end);
            running.push(AllocatedJob { on, expected, needs, ..allocated });
        }
    }
    let empty = ClusterSnapshot { rules: rules.clone(), ..resources.snapshot.clone() };
    let kinds_of = |job: &ListedJob| resources.partitions.kinds_in(&job.partition);
    let is_known = |job: &ListedJob| match resources.partitions.is_empty() {
        true => target.takes(&job.partition),
        false => kinds_of(job) != KindSet(0),
    };
    let may_start = |job: &ListedJob| job.shape.cores > 0 && is_known(job) && target.shares_reservation(job);
    // On nodes that are not planned here it will have licences that are.
    let takes_licences = |job: &ListedJob| {
        waiting_of == WaitingOf::Competing
            && !is_blocked(job, target)
            && !resources.licences(&job.requested).is_empty()
    };
    let all = listing.jobs.iter().enumerate().filter(|(_, job)| job.phase() == Phase::Waiting);
    let mut waiting: Vec<(usize, &ListedJob)> =
        all.filter(|(_, job)| may_start(job) || takes_licences(job)).collect();
    waiting.sort_by(|(_, a), (_, b)| {
        let key = |job: &ListedJob| {
            (std::cmp::Reverse((target.tier(job), job.priority)), job.submitted, job.id.len())
        };
        key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
    });
    let largest = largest(target);
    let (mut pending, mut ids) = (Vec::new(), Vec::new());
    for (index, job) in waiting {
        for task in 0..tasks(job) {
            let expected = expected(job, Span::ZERO).filter(|expected| *expected > Span::ZERO);
            let mut one = Pending { expected, ..pending_job(job, number(job), target, largest) };
            if !may_start(job) {
                // Its nodes are unknown here, so that it starts when the batch system expects it to, or as soon as it can have
                // its licences.
                let planned = one.published.take().map(|published| published.start);
                let begin = one.begin.into_iter().chain(planned).max();
                pending.push(Pending {
                    begin,
                    shape: Shape::elsewhere(resources.licences(&job.requested)),
                    ..one
                });
                continue;
            }
            one.shape.needs = resources.needs(&job.requested);
            one.shape.per_node = one.shape.needs.cores_per_task.unwrap_or(Procs::ONE);
            one.shape.needs.kinds = one.shape.needs.kinds.and(kinds_of(job));
            if task == 0 {
                ids.push((one.job, index));
            }
            pending.push(one);
        }
    }
    pending.extend(unlisted.map(|Submission { job, procs, walltime, resources, .. }| Pending {
        blocked: target.is_stopped(),
        ..Pending::of(job, empty.shape(procs, resources.as_deref()), walltime)
    }));
    let rules = Rules { whole_nodes: rules.whole_nodes || target.is_exclusive(), ..rules.clone() };
    ListedSnapshot { snapshot: ClusterSnapshot { running, pending, rules, ..empty }, ids }
}

/// The number of cores of the largest node.
pub(super) fn largest(target: TargetPartition<'_>) -> u32 {
    target.nodes().map(|node| node.cores).max().unwrap_or(1).max(1)
}

/// The number of jobs that a listed entry stands for, as far as they are planned.
pub(super) fn tasks(job: &ListedJob) -> usize {
    1 + job.more_tasks.min(TASKS_MAX) as usize
}

/// Whether a job is on a node of the target partition.
pub(super) fn is_on(job: &ListedJob, target: TargetPartition<'_>) -> bool {
    job.allocations.iter().any(|allocation| target.nodes().any(|node| node.name == allocation.node))
}

/// Whether a listed waiting job can have a plan on these nodes of its partition.
pub(super) fn may_be_planned(
    job: &ListedJob,
    target: TargetPartition<'_>,
    nodes: &NodeResources<'_>,
) -> bool {
    !is_blocked(job, target) && nodes.could_start(job)
}

fn is_blocked(job: &ListedJob, target: TargetPartition<'_>) -> bool {
    let wait_reason = job.wait_reason.as_ref().is_some_and(|what| !matches!(what, WaitReason::Time(_)));
    let of_reservation = target.reservation(job).is_some();
    job.state == State::Held || wait_reason || of_reservation || target.stops(job)
}

fn pending_job(job: &ListedJob, number: JobId, target: TargetPartition<'_>, largest: u32) -> Pending {
    let begin: Option<Time> = match job.wait_reason {
        Some(WaitReason::Time(begin)) => Some(begin),
        _ => None,
    };
    let blocked = is_blocked(job, target);
    // Published nodes may be outside of the partition, so only the start is used.
    let published = job.planned.as_ref().map(|plan| PublishedStart { start: plan.start, nodes: Vec::new() });
    let mut shape = shape(job, largest);
    shape.exclusive |= target.is_alone(job);
    Pending { begin, blocked, published, ..Pending::of(number, shape, bounded(job.walltime)) }
}

/// The cores and nodes that a job requests, on nodes of at most `largest` cores.
pub(super) fn shape(job: &ListedJob, largest: u32) -> Shape {
    Shape {
        // The listing gives the least number of nodes. A higher one than its cores need was requested.
        nodes: job.shape.nodes.filter(|nodes| *nodes > job.shape.cores.div_ceil(largest)),
        exclusive: job.shape.exclusive || job.requested.all_memory,
        ..Shape::of(Procs(job.shape.cores))
    }
}

/// The walltime for plans.
pub(super) fn bounded(walltime: Option<Span>) -> Span {
    walltime.unwrap_or(WITHOUT_LIMIT).clamp(Span(1), WITHOUT_LIMIT)
}
