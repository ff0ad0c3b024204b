//! The partition to which jobs are submitted: the configured one, else the default one.

use pliant_model::Procs;

use super::node_resources::NodeResources;
use crate::batch::Bounds;
use crate::listing::{ListedJob, Listing, Node, Partition, Reservation};

/// The target partition of a listing.
#[derive(Clone, Copy)]
pub(super) struct TargetPartition<'a> {
    listing: &'a Listing,
    named: Option<&'a str>,
    partition: Option<&'a Partition>,
}

impl<'a> TargetPartition<'a> {
    pub(super) fn of(listing: &'a Listing, named: Option<&'a str>) -> TargetPartition<'a> {
        let is_it = |one: &&Partition| named.map_or(one.is_default, |name| one.name == name);
        TargetPartition { listing, named, partition: listing.partitions.iter().find(is_it) }
    }

    /// Its name; none if jobs may use all nodes.
    pub(super) fn name(&self) -> Option<&'a str> {
        self.named.or(self.partition.map(|partition| partition.name.as_str()))
    }

    /// True if there are partitions, but not this one.
    fn is_missing(&self) -> bool {
        self.partition.is_none() && !self.listing.partitions.is_empty()
    }

    /// The nodes that jobs may use.
    pub(super) fn nodes(self) -> impl Iterator<Item = &'a Node> {
        let is_ours = move |node: &&Node| {
            !self.is_missing() && self.name().is_none_or(|name| node.partitions.iter().any(|one| one == name))
        };
        self.listing.nodes.iter().filter(is_ours)
    }

    /// What these nodes have.
    pub(super) fn resources(self) -> NodeResources<'a> {
        let nodes: Vec<&Node> = self.nodes().collect();
        let own = self.partition.and_then(|partition| partition.default_memory);
        NodeResources::new(&nodes, self.listing, own.unwrap_or(self.listing.counted.default_memory))
    }

    /// The processors of these nodes.
    pub(super) fn capacity(self) -> Procs {
        Procs(self.nodes().map(|node| node.cores).sum())
    }

    /// Whether jobs of these partitions, separated by commas, may start in this one.
    pub(super) fn takes(self, partitions: &str) -> bool {
        self.name().is_none_or(|name| partitions.split(',').any(|one| one == name))
    }

    /// The reservation of which a job has its nodes, if our jobs have none of it.
    pub(super) fn reservation(&self, job: &ListedJob) -> Option<&'a Reservation> {
        let name = job.reservation.as_ref()?;
        self.listing.reservations.iter().find(|one| one.name == *name && !one.ours)
    }

    /// Whether nodes are not shared between jobs.
    pub(super) fn is_exclusive(self) -> bool {
        self.partition.is_some_and(|partition| partition.exclusive)
    }

    /// Why no job is accepted.
    pub(super) fn closed(self) -> Option<String> {
        if self.is_missing() {
            return Some(match self.named {
                Some(name) => format!("the batch system has no partition {name}"),
                None => {
                    "the batch system has no default partition, and the server's file names none".to_owned()
                }
            });
        }
        let partition = self.partition?;
        let why = partition.closed.as_ref()?;
        Some(format!("partition {} is {why}", partition.name))
    }

    /// Whether waiting jobs do not start at the moment.
    pub(super) fn is_stopped(&self) -> bool {
        self.partition.is_some_and(|partition| partition.stopped)
    }

    /// The largest job that can start.
    pub(super) fn bounds(self) -> Bounds {
        let largest = |most: u32| {
            let mut cores: Vec<u32> = self.nodes().map(|node| node.cores).collect();
            cores.sort_unstable_by(|a, b| b.cmp(a));
            Procs(cores.iter().take(most as usize).sum())
        };
        let procs = self.partition.and_then(|partition| partition.nodes).map(largest);
        Bounds { procs, walltime: self.partition.and_then(|partition| partition.walltime) }
    }
}
