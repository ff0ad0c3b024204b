//! What requests name, kinds of nodes and licences, and what is reserved.

use pliant_model::{
    ClusterNodes, Constraint, GpuCount, Gpus, Mebibytes, Memory, NodeGroup, Procs, Resources,
};

use super::needs::{KindSet, Needs};
use super::snapshot::{AdvanceReservation, ClusterSnapshot, Licence, Node, NodeKind, Shape};

/// What a cluster has by name, what a request gets that names nothing, and what is reserved.
#[derive(Clone, Default, Debug)]
pub(super) struct Catalogue {
    pub(super) kinds: Vec<NodeKind>,
    /// Those that requests can have.
    pub(super) own_kinds: KindSet,
    pub(super) licences: Vec<Licence>,
    pub(super) default_memory: Mebibytes,
    pub(super) default_memory_per_node: Mebibytes,
    pub(super) takes_all_memory: bool,
    /// The processors of the largest node, if memory is requested in parts ([`super::Rules::memory_in_parts`]).
    pub(super) memory_in_parts: Option<Procs>,
    pub(super) resources_by_node: bool,
    pub(super) scratch_by_size: bool,
    pub(super) reserved: Vec<AdvanceReservation>,
}

impl Catalogue {
    pub(super) fn of(snapshot: &ClusterSnapshot) -> Catalogue {
        Catalogue {
            kinds: snapshot.kinds.clone(),
            own_kinds: snapshot.own_kinds,
            licences: snapshot.licences.clone(),
            default_memory: snapshot.default_memory,
            default_memory_per_node: snapshot.default_memory_per_node,
            takes_all_memory: snapshot.takes_all_memory,
            reserved: snapshot.reserved.clone(),
            resources_by_node: snapshot.rules.resources_by_node,
            scratch_by_size: snapshot.rules.scratch_by_size,
            memory_in_parts: snapshot
                .rules
                .memory_in_parts
                .then(|| snapshot.nodes.iter().map(|node| node.cores).max().unwrap_or(Procs::ONE)),
        }
    }

    /// The nodes of a declared cluster, which was checked. Groups with the same features and kind of GPU are of one kind.
    pub(super) fn declared(cluster: &ClusterNodes) -> (Vec<Node>, Catalogue) {
        let ClusterNodes { groups, licences, default_memory } = cluster;
        let (mut nodes, mut kinds) = (Vec::new(), Vec::new());
        for group in groups {
            let NodeGroup { procs, memory, gpus, scratch, .. } = *group;
            let of_group = NodeKind { features: group.features.clone(), gpu_kind: group.gpu_kind.clone() };
            let known = kinds.iter().position(|kind| *kind == of_group);
            let kind = known.unwrap_or(kinds.len()) as u8;
            if known.is_none() {
                kinds.push(of_group);
            }
            let alike = (0..group.count).map(|_| Node { memory, gpus, scratch, kind, ..Node::of("", procs) });
            nodes.extend(alike);
        }
        let count = |(name, count): (&String, &u32)| Licence { name: name.clone(), count: *count };
        let licences = licences.iter().map(count).collect();
        let catalogue =
            Catalogue { kinds, licences, default_memory: *default_memory, ..Catalogue::default() };
        (nodes, catalogue)
    }

    /// The shape of a request on so many processors. One whose licences are not there, that has fewer tasks than nodes, or whose
    /// processors are not those of whole tasks, fits on nodes of no kind.
    pub(super) fn shape(&self, procs: Procs, resources: Option<&Resources>) -> Shape {
        let Some(resources) = resources else {
            let needs = Needs { kinds: self.own_kinds, ..Needs::NONE };
            return self.without_memory(Shape { needs, ..Shape::of(procs) });
        };
        // What it says to a batch system is decided before it is planned.
        let Resources {
            memory, gpus, scratch, nodes, procs_per_node, exclusive, constraint, licences, ..
        } = resources;
        let (gpus_per_core, gpus_per_node, anywhere) = match (gpus.as_ref().map(|gpus| gpus.count), *nodes) {
            (Some(GpuCount::PerProc(each)), _) => (each, 0, 0),
            (Some(GpuCount::Total(all)), Some(nodes)) => (0, all.div_ceil(nodes.max(1)), 0),
            (Some(GpuCount::Total(all)), None) => (0, 0, all),
            (None, _) => (0, 0, 0),
        };
        let counted = licences.iter().map(|(name, count)| {
            let position = self.licences.iter().position(|licence| licence.name == *name)?;
            Some((position as u32, *count))
        });
        let counted: Option<Vec<(u32, u32)>> = counted.collect();
        let task = resources.task_procs();
        let is_possible = counted.is_some()
            && procs.0.is_multiple_of(task.0)
            && nodes.is_none_or(|nodes| nodes <= procs.0 / task.0);
        let kinds = if is_possible { self.kinds(constraint.as_ref(), gpus.as_ref()) } else { KindSet(0) };
        let kinds = kinds.and(self.own_kinds);
        let of_whole_node = self.memory_in_parts.filter(|_| *exclusive);
        let of_whole_node = of_whole_node.and_then(|largest| resources.memory_of_whole_node(procs, largest));
        let in_parts = memory.filter(|_| of_whole_node.is_none());
        let needs = Needs {
            memory_per_core: in_parts.map_or(Mebibytes::ZERO, |memory| memory.per_proc(procs)),
            // Equal parts are rounded up.
            memory_max: in_parts.and_then(|memory| match memory {
                Memory::Total(all) if self.memory_in_parts.is_none() => Some(all),
                Memory::PerProc(_) | Memory::Total(_) => None,
            }),
            memory_per_node: of_whole_node.unwrap_or(Mebibytes::ZERO),
            gpus_per_core,
            gpus_per_node,
            gpus: anywhere,
            scratch_per_node: if self.scratch_by_size { Mebibytes::ZERO } else { *scratch },
            scratch_size: if self.scratch_by_size { *scratch } else { Mebibytes::ZERO },
            most_per_node: *procs_per_node,
            cores_per_task: Some(task).filter(|task| *task > Procs::ONE),
            kinds,
            licences: counted.unwrap_or_default(),
        };
        let has_part = memory.is_some() || gpus.is_some() || *scratch > Mebibytes::ZERO;
        let exclusive = *exclusive || self.resources_by_node && has_part;
        let shape = Shape { nodes: *nodes, per_node: task, exclusive, needs, ..Shape::of(procs) };
        if memory.is_none() { self.without_memory(shape) } else { shape }
    }

    /// The shape of a request that does not mention memory.
    fn without_memory(&self, shape: Shape) -> Shape {
        let needs = Needs {
            memory_per_core: self.default_memory,
            memory_per_node: self.default_memory_per_node,
            ..shape.needs
        };
        Shape { needs, exclusive: shape.exclusive || self.takes_all_memory, ..shape }
    }

    fn kinds(&self, constraint: Option<&Constraint>, gpus: Option<&Gpus>) -> KindSet {
        kinds_with(&self.kinds, constraint, gpus.and_then(|gpus| gpus.kind.as_deref()))
    }
}

/// Those of all kinds that have these features and GPUs of that kind.
pub(super) fn kinds_with(
    all: &[NodeKind],
    constraint: Option<&Constraint>,
    gpu_kind: Option<&str>,
) -> KindSet {
    if constraint.is_none() && gpu_kind.is_none() {
        return KindSet::ALL;
    }
    let will_do = |one: &NodeKind| {
        constraint.is_none_or(|constraint| constraint.admits(&one.features))
            && gpu_kind.is_none_or(|kind| one.gpu_kind.as_deref() == Some(kind))
    };
    let unnamed = [NodeKind::default()];
    let all = if all.is_empty() { &unnamed[..] } else { all };
    let bits = all.iter().enumerate().filter(|(_, one)| will_do(one)).map(|(index, _)| 1 << index);
    KindSet(bits.sum())
}

/// Whether what a request can have of a node is the same at each size, and any nodes will do: then the largest size that
/// can start on free nodes is the sum of what it can have of each.
pub(super) fn is_sum_of_nodes(resources: Option<&Resources>) -> bool {
    resources.is_none_or(|resources| {
        let Resources { memory, gpus, nodes, .. } = resources;
        let has_total = matches!(memory, Some(Memory::Total(_)))
            || gpus.as_ref().is_some_and(|gpus| matches!(gpus.count, GpuCount::Total(_)));
        !has_total && nodes.is_none() && resources.task_procs() == Procs::ONE
    })
}
