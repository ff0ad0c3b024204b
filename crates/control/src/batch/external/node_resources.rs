//! What the listed nodes have besides cores, and what listed jobs need of that, in the terms of a snapshot.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{Mebibytes, Procs, Time};
use pliant_policy::nodes::{
    AdvanceReservation, Amounts, ClusterSnapshot, KINDS_MAX, Licence, Needs, Node, NodeKind, NodeShare,
};

use super::competing::PartitionsOfKinds;
use super::own_reservation::OwnReservations;
use crate::listing::{
    self, CountedResources, DefaultMemory, ListedJob, Listing, RequestedResources, Reservation,
};

/// Nodes with all that they have, and the snapshot that names it.
pub(super) struct NodeResources<'a> {
    counted: &'a CountedResources,
    /// The positions of the nodes, by name.
    positions: BTreeMap<&'a str, u32>,
    /// The partitions of the kinds of nodes.
    pub(super) partitions: PartitionsOfKinds<'a>,
    /// Without jobs and rules.
    pub(super) snapshot: ClusterSnapshot,
}

impl<'a> NodeResources<'a> {
    /// `default_memory` is that of the jobs that are to be submitted there. Jobs of several partitions may have these nodes, each those of
    /// its own. O(nodes times kinds, and nodes of reservations).
    pub(super) fn new(
        nodes: &[&'a listing::Node],
        listing: &'a Listing,
        default_memory: DefaultMemory,
        partitions: &BTreeSet<&'a str>,
    ) -> NodeResources<'a> {
        let counted = &listing.counted;
        let partitions = if partitions.len() > 1 { partitions } else { &BTreeSet::new() };
        let mut kinds: Vec<(NodeKind, Vec<&str>)> = Vec::new();
        let mut kind_of = |node: &'a listing::Node| {
            let of = NodeKind { features: node.features.clone(), gpu_kind: node.gpu_kind.clone() };
            let names = node.partitions.iter().map(String::as_str);
            let kind = (of, names.filter(|name| partitions.contains(name)).collect());
            match kinds.iter().position(|known| *known == kind) {
                Some(position) => position as u8,
                None if kinds.len() < KINDS_MAX => {
                    // Of too many kinds the last has no names: then no job that names something is planned there.
                    let is_last = kinds.len() == KINDS_MAX - 1;
                    kinds.push(if is_last { Default::default() } else { kind });
                    (kinds.len() - 1) as u8
                }
                None => (KINDS_MAX - 1) as u8,
            }
        };
        let positions = (0..).zip(nodes).map(|(position, node)| (node.name.as_str(), position)).collect();
        let present = |one: &&Reservation| (one.from..one.until).contains(&listing.at);
        let kept: BTreeSet<&str> = listing
            .reservations
            .iter()
            .filter(present)
            .flat_map(|one| one.nodes.iter().map(|part| part.node.as_str()))
            .collect();
        let own = OwnReservations::of(listing);
        let node = |node: &&'a listing::Node| Node {
            up: node.unusable.is_none() || node.reserved && kept.contains(node.name.as_str()),
            memory: node.memory,
            gpus: node.gpus,
            scratch: node.scratch,
            kind: kind_of(node),
            ..Node::of(&node.name, Procs(own.as_ref().map_or(node.cores, |own| own.cores(node))))
        };
        let planned = nodes.iter().map(node).collect();
        let (of_kinds, in_partitions): (Vec<NodeKind>, Vec<Vec<&str>>) = kinds.into_iter().unzip();
        let partitions = PartitionsOfKinds(if partitions.is_empty() { Vec::new() } else { in_partitions });
        let licence = |(name, count): (&String, &u32)| Licence { name: name.clone(), count: *count };
        let default_memory =
            if counted.memory { default_memory } else { DefaultMemory::PerCore(Mebibytes::ZERO) };
        let (per_core, per_node) = match default_memory {
            DefaultMemory::All => (Mebibytes::ZERO, Mebibytes::ZERO),
            DefaultMemory::PerCore(each) => (each, Mebibytes::ZERO),
            DefaultMemory::PerNode(each) => (Mebibytes::ZERO, each),
        };
        let licences: Vec<Licence> = counted.licences.iter().map(licence).collect();
        let others = listing.reservations.iter().filter(|one| !one.ours);
        let reserved = others.map(|one| reserved(one, &positions, &licences));
        // Of a node with an own reservation of some of its cores there is nothing else.
        let in_part = |share: &NodeShare| {
            let node = nodes[share.node as usize];
            own.as_ref().is_some_and(|own| own.cores(node) < node.cores)
        };
        let reserved = reserved.map(|mut one| {
            one.on.retain(|share| !in_part(share));
            one
        });
        let without_own = own.as_ref().map(|own| outside_own(own, nodes, listing.at));
        let reserved = reserved.chain(without_own.into_iter().flatten());
        let reserved = reserved.filter(|one| !one.on.is_empty() || !one.licences.is_empty()).collect();
        let snapshot = ClusterSnapshot {
            nodes: planned,
            reserved,
            kinds: if of_kinds == [NodeKind::default()] { Vec::new() } else { of_kinds },
            licences,
            default_memory: per_core,
            default_memory_per_node: per_node,
            takes_all_memory: default_memory == DefaultMemory::All,
            ..ClusterSnapshot::default()
        };
        NodeResources { counted, positions, partitions, snapshot }
    }

    /// What a waiting job needs.
    pub(super) fn needs(&self, requested: &RequestedResources) -> Needs {
        if *requested == RequestedResources::default() {
            return Needs::NONE;
        }
        let RequestedResources { gpus_per_core, gpus_per_node, gpus, gpu_kind, constraint, .. } = requested;
        let kinds = self.snapshot.kinds_with(constraint.as_ref(), gpu_kind.as_deref());
        Needs {
            gpus_per_core: *gpus_per_core,
            gpus_per_node: *gpus_per_node,
            gpus: *gpus,
            scratch_size: requested.scratch_size,
            cores_per_task: requested.cores_per_task.map(Procs),
            kinds,
            ..self.held_by_name(requested)
        }
    }

    /// Memory and licences, which do not depend on the nodes.
    fn held_by_name(&self, requested: &RequestedResources) -> Needs {
        let memory = |amount: Mebibytes| if self.counted.memory { amount } else { Mebibytes::ZERO };
        Needs {
            memory_per_core: memory(requested.memory_per_core),
            memory_per_node: memory(requested.memory_per_node),
            licences: self.licences(requested),
            ..Needs::NONE
        }
    }

    /// The licences that the cluster counts, with the requested units of each.
    pub(super) fn licences(&self, requested: &RequestedResources) -> Vec<(u32, u32)> {
        let licences = (0..).zip(&self.snapshot.licences).filter_map(|(position, licence)| {
            requested.licences.get(&licence.name).map(|count| (position, *count))
        });
        licences.filter(|(_, count)| *count > 0).collect()
    }

    /// What a running job has: its part of each node, and its needs for that.
    pub(super) fn allocation(&self, job: &ListedJob) -> (Vec<NodeShare>, Needs) {
        let mut seen = BTreeSet::new();
        let mut shares = Vec::new();
        for allocation in &job.allocations {
            let Some(position) = self.positions.get(allocation.node.as_str()).copied() else { continue };
            if seen.insert(position) {
                let node = &self.snapshot.nodes[position as usize];
                let cores = allocation.cores.or_else(|| job.shape.exclusive.then_some(node.cores.0));
                let gpus = self.gpus(job, allocation, node.gpus);
                shares.push(NodeShare { node: position, cores: cores.map(Procs), gpus });
            }
        }
        (shares, self.held_by_name(&job.requested))
    }

    /// The shares of nodes that are not in a reservation.
    pub(super) fn outside(&self, on: Vec<NodeShare>, reservation: &Reservation) -> Vec<NodeShare> {
        let names = reservation.nodes.iter().map(|part| part.node.as_str());
        let kept: BTreeSet<u32> = names.filter_map(|name| self.positions.get(name).copied()).collect();
        on.into_iter().filter(|share| !kept.contains(&share.node)).collect()
    }

    /// The shares of nodes that are wholly in the plan: of others a job outside our own reservations has other cores.
    pub(super) fn of_whole_nodes(&self, on: Vec<NodeShare>, listing: &Listing) -> Vec<NodeShare> {
        let Some(own) = OwnReservations::of(listing) else { return on };
        let whole = |node: &&listing::Node| own.cores(node) == node.cores;
        let whole = listing.nodes.iter().filter(whole).map(|node| node.name.as_str());
        let whole: BTreeSet<u32> = whole.filter_map(|name| self.positions.get(name).copied()).collect();
        on.into_iter().filter(|share| whole.contains(&share.node)).collect()
    }

    /// The GPUs of a running job on a node with so many, at most.
    fn gpus(&self, job: &ListedJob, allocation: &listing::NodeAllocation, all: u32) -> u32 {
        let RequestedResources { gpus_per_core, gpus_per_node, gpus, .. } = &job.requested;
        let cores = allocation.cores.unwrap_or(job.shape.cores);
        let requested =
            gpus_per_core.saturating_mul(cores).saturating_add(*gpus_per_node).saturating_add(*gpus);
        allocation.gpus.unwrap_or(requested).min(all)
    }

    /// Whether a waiting job could start if no other job ran.
    pub(super) fn could_start(&self, job: &ListedJob) -> bool {
        let needs = self.needs(&job.requested);
        let usable = self.snapshot.nodes.iter().filter(|node| node.up && needs.kinds.has(node.kind));
        let all = usable.map(Amounts::on);
        let (cores, gpus) = all.fold((0_u64, 0_u64), |(cores, gpus), node| {
            (cores + u64::from(needs.cores_of(node)), gpus + u64::from(node.gpus))
        });
        cores >= u64::from(job.shape.cores) && gpus >= u64::from(needs.gpus)
    }
}

/// When our jobs do not get the nodes of their own reservations: before these begin, and between two of them.
fn outside_own(own: &OwnReservations<'_>, nodes: &[&listing::Node], now: Time) -> Vec<AdvanceReservation> {
    let mut gaps: BTreeMap<(Time, Time), Vec<NodeShare>> = BTreeMap::new();
    for (position, node) in (0..).zip(nodes) {
        for gap in own.gaps(node, now) {
            gaps.entry(gap).or_default().push(NodeShare { node: position, ..NodeShare::default() });
        }
    }
    let gap = |((from, until), on)| AdvanceReservation { from, until, on, licences: Vec::new() };
    gaps.into_iter().map(gap).collect()
}

/// What a reservation keeps of these nodes and licences.
fn reserved(one: &Reservation, positions: &BTreeMap<&str, u32>, licences: &[Licence]) -> AdvanceReservation {
    let share = |part: &listing::NodeAllocation| {
        let node = positions.get(part.node.as_str()).copied()?;
        Some(NodeShare { node, cores: part.cores.map(Procs), gpus: 0 })
    };
    let units = (0..)
        .zip(licences)
        .filter_map(|(position, licence)| one.licences.get(&licence.name).map(|count| (position, *count)));
    AdvanceReservation {
        from: one.from,
        until: one.until,
        on: one.nodes.iter().filter_map(share).collect(),
        licences: units.collect(),
    }
}
