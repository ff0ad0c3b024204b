//! From what a batch system lists to the picture that its plans are made from.

use pliant_model::{JobId, Procs, Span, Time};
use pliant_policy::batch::Submission;
use pliant_policy::nodes::{Holder, Node, Pending, Picture, Rules, Shape, Share};

use crate::listing::{self, Listed, Listing, Phase, State, WaitsFor};

/// What a job without a limit is taken to need.
pub const WITHOUT_LIMIT: Span = Span(365 * 86_400);
/// Of the waiting tasks of one array so many are planned: the others come behind these.
const TASKS_MAX: u32 = 1_000;

/// The nodes that jobs of a partition may have.
pub(super) fn nodes<'a>(
    listing: &'a Listing,
    partition: Option<&'a str>,
) -> impl Iterator<Item = &'a listing::Node> {
    let is_ours = move |node: &&listing::Node| {
        partition.is_none_or(|name| node.partitions.iter().any(|one| one == name))
    };
    listing.nodes.iter().filter(is_ours)
}

/// The picture of a listing, with jobs that it does not show yet at the end of the queue. Our jobs have their own
/// numbers, others the highest there are.
pub(super) fn draw(
    listing: &Listing,
    rules: &Rules,
    partition: Option<&str>,
    unlisted: impl Iterator<Item = Submission>,
) -> Picture {
    let ours: Vec<&listing::Node> = nodes(listing, partition).collect();
    let mut strangers = (0..=u32::MAX).rev();
    let mut seen = std::collections::BTreeSet::new();
    let mut number = |listed: &Listed| match listed.ours {
        Some(number) if seen.insert(number) => JobId(number),
        // A job of ours that is there twice counts twice, and is ours once.
        _ => JobId(strangers.next().unwrap_or(u32::MAX)),
    };
    let mut running = Vec::new();
    for job in listing.jobs.iter().filter(|job| job.phase() == Phase::Runs) {
        let on = shares(job, &ours);
        if !on.is_empty() {
            let end = job.started.unwrap_or(listing.at) + job.walltime.unwrap_or(WITHOUT_LIMIT);
            running.push(Holder { job: number(job), cores: Procs(job.shape.cores), on, end });
        }
    }
    let mut waiting: Vec<&Listed> = listing
        .jobs
        .iter()
        .filter(|job| job.phase() == Phase::Waits && may_start(job, partition) && job.shape.cores > 0)
        .collect();
    waiting.sort_by(|a, b| {
        let key = |job: &Listed| (std::cmp::Reverse(job.priority), job.submitted, job.id.len());
        key(a).cmp(&key(b)).then_with(|| a.id.cmp(&b.id))
    });
    let largest = largest(ours.iter().copied());
    let mut pending = Vec::new();
    for job in waiting {
        for _ in 0..tasks(job) {
            pending.push(waits(job, number(job), largest));
        }
    }
    pending.extend(unlisted.map(|Submission { job, procs, walltime }| Pending {
        job,
        shape: Shape::of(procs),
        walltime: bounded(Some(walltime)),
        begin: None,
        blocked: false,
        published: None,
    }));
    let node = |node: &&listing::Node| Node {
        name: node.name.clone(),
        cores: Procs(node.cores),
        up: node.unusable.is_none(),
        taken: None,
    };
    Picture { nodes: ours.iter().map(node).collect(), running, pending, rules: rules.clone() }
}

fn shares(job: &Listed, nodes: &[&listing::Node]) -> Vec<Share> {
    let share = |place: &listing::Place| {
        let node = nodes.iter().position(|node| node.name == place.node)?;
        let whole = || job.shape.exclusive.then(|| nodes[node].cores);
        Some(Share { node: node as u32, cores: place.cores.or_else(whole).map(Procs) })
    };
    job.places.iter().filter_map(share).collect()
}

/// The cores of the largest of these nodes.
pub(super) fn largest<'a>(nodes: impl Iterator<Item = &'a listing::Node>) -> u32 {
    nodes.map(|node| node.cores).max().unwrap_or(1).max(1)
}

/// How many jobs a listed one stands for, as far as they are planned.
pub(super) fn tasks(job: &Listed) -> usize {
    1 + job.further.min(TASKS_MAX) as usize
}

/// Whether a job is on a node that jobs of a partition may have.
pub(super) fn is_on(job: &Listed, listing: &Listing, partition: Option<&str>) -> bool {
    job.places.iter().any(|place| nodes(listing, partition).any(|node| node.name == place.node))
}

pub(super) fn may_start(job: &Listed, partition: Option<&str>) -> bool {
    partition.is_none_or(|name| job.partition.split(',').any(|one| one == name))
}

fn waits(job: &Listed, number: JobId, largest: u32) -> Pending {
    let begin: Option<Time> = match job.waits_for {
        Some(WaitsFor::Time(begin)) => Some(begin),
        _ => None,
    };
    Pending {
        job: number,
        shape: shape(job, largest),
        walltime: bounded(job.walltime),
        begin,
        blocked: job.state == State::Held || (job.waits_for.is_some() && begin.is_none()),
        published: None,
    }
}

/// What a job asks for, on nodes of at most `largest` cores.
pub(super) fn shape(job: &Listed, largest: u32) -> Shape {
    Shape {
        // What is listed is the least number that will do. More than its cores need were asked for.
        nodes: job.shape.nodes.filter(|nodes| *nodes > job.shape.cores.div_ceil(largest)),
        exclusive: job.shape.exclusive,
        ..Shape::of(Procs(job.shape.cores))
    }
}

fn bounded(walltime: Option<Span>) -> Span {
    walltime.unwrap_or(WITHOUT_LIMIT).clamp(Span(1), WITHOUT_LIMIT)
}
