//! The partition to which jobs are submitted: the configured one, else the default one.

use std::collections::BTreeSet;

use pliant_model::Procs;
use pliant_policy::nodes::KINDS_MAX;

use super::competing::{competing, is_in};
use super::node_resources::NodeResources;
use super::own_reservation::{OwnReservations, shares_own};
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

    /// The nodes that jobs may use: if our jobs have a reservation of their own, only those of it.
    pub(super) fn nodes(self) -> impl Iterator<Item = &'a Node> {
        let own = OwnReservations::of(self.listing);
        let is_ours = move |node: &&Node| {
            !self.is_missing()
                && self.name().is_none_or(|name| node.partitions.iter().any(|one| one == name))
                && own.as_ref().is_none_or(|own| own.has(node))
        };
        self.listing.nodes.iter().filter(is_ours)
    }

    /// What these nodes have.
    pub(super) fn resources(self) -> NodeResources<'a> {
        self.resources_with(&BTreeSet::new())
    }

    /// The same with the nodes of all partitions whose waiting jobs compete for these; or of this one alone, if there are too many
    /// kinds of nodes to tell them apart.
    pub(super) fn competing_resources(self) -> NodeResources<'a> {
        let is_alone = self.is_missing() || OwnReservations::of(self.listing).is_some();
        let Some(own) = self.name().filter(|_| !is_alone) else { return self.resources() };
        let partitions = competing(self.listing, own);
        if partitions.len() < 2 {
            return self.resources();
        }
        let mut resources = self.resources_with(&partitions);
        if resources.snapshot.kinds.len() == KINDS_MAX {
            return self.resources();
        }
        resources.snapshot.own_kinds = resources.partitions.kinds_in(own);
        resources
    }

    fn resources_with(self, partitions: &BTreeSet<&'a str>) -> NodeResources<'a> {
        let nodes: Vec<&Node> = match partitions.is_empty() {
            true => self.nodes().collect(),
            false => self.listing.nodes.iter().filter(|node| is_in(node, partitions)).collect(),
        };
        let own = self.partition.and_then(|partition| partition.default_memory);
        let default_memory = own.unwrap_or(self.listing.counted.default_memory);
        NodeResources::new(&nodes, self.listing, default_memory, partitions)
    }

    /// The processors of these nodes.
    pub(super) fn capacity(self) -> Procs {
        let own = OwnReservations::of(self.listing);
        let cores = |node: &Node| own.as_ref().map_or(node.cores, |own| own.cores(node));
        Procs(self.nodes().map(cores).sum())
    }

    /// Whether jobs of these partitions, separated by commas, may start in this one.
    pub(super) fn takes(self, partitions: &str) -> bool {
        self.name().is_none_or(|name| partitions.split(',').any(|one| one == name))
    }

    /// Whether a job may have nodes that ours may have.
    pub(super) fn shares_reservation(self, job: &ListedJob) -> bool {
        shares_own(self.listing, job)
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
        if let Some(name) = self.listing.missing_reservations.first() {
            return Some(format!(
                "the batch system has no reservation {name}, which the server's file names"
            ));
        }
        let partition = self.partition?;
        let why = partition.closed.as_ref()?;
        Some(format!("partition {} is {why}", partition.name))
    }

    /// Whether waiting jobs do not start at the moment.
    pub(super) fn is_stopped(&self) -> bool {
        self.partition.is_some_and(|partition| partition.stopped)
    }

    /// The same of a job of any partition: it starts in none of those that it names.
    pub(super) fn stops(&self, job: &ListedJob) -> bool {
        let mut named = self.named_by(job).peekable();
        if named.peek().is_none() { self.is_stopped() } else { named.all(|partition| partition.stopped) }
    }

    /// Whether a job has its nodes to itself wherever it runs.
    pub(super) fn is_alone(&self, job: &ListedJob) -> bool {
        let mut named = self.named_by(job).peekable();
        named.peek().is_some() && named.all(|partition| partition.exclusive)
    }

    /// The highest tier of the partitions that a job names.
    pub(super) fn tier(&self, job: &ListedJob) -> u32 {
        self.named_by(job).map(|partition| partition.tier).max().unwrap_or(0)
    }

    fn named_by(&self, job: &ListedJob) -> impl Iterator<Item = &'a Partition> {
        let partitions = &self.listing.partitions;
        job.partition.split(',').filter_map(|name| partitions.iter().find(|one| one.name == name))
    }

    /// The largest job that can start.
    pub(super) fn bounds(self) -> Bounds {
        let largest = |most: u32| {
            let mut cores: Vec<u32> = self.nodes().map(|node| node.cores).collect();
            cores.sort_unstable_by(|a, b| b.cmp(a));
            Procs(cores.iter().take(most as usize).sum())
        };
        let procs = self.partition.and_then(|partition| partition.nodes).map(largest);
        let of_partition = self.partition.and_then(|partition| partition.walltime);
        let reserved = OwnReservations::of(self.listing).and_then(|own| own.longest(self.listing.at));
        let walltime = of_partition.into_iter().chain(reserved).min();
        Bounds { procs, walltime }
    }
}
