//! What requests name: kinds of nodes, licences.

use pliant_model::{
    ClusterNodes, Constraint, GpuCount, Gpus, Mebibytes, Memory, NodeGroup, Procs, Resources,
};

use super::needs::{KindSet, Needs};
use super::snapshot::{ClusterSnapshot, Licence, Node, NodeKind, Shape};

/// What a cluster has by name, and what a request gets that names nothing.
#[derive(Clone, Default, Debug)]
pub(super) struct Catalogue {
    pub(super) kinds: Vec<NodeKind>,
    pub(super) licences: Vec<Licence>,
    pub(super) default_memory: Mebibytes,
}

impl Catalogue {
    pub(super) fn of(snapshot: &ClusterSnapshot) -> Catalogue {
        let ClusterSnapshot { kinds, licences, default_memory, .. } = snapshot;
        Catalogue { kinds: kinds.clone(), licences: licences.clone(), default_memory: *default_memory }
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
        (nodes, Catalogue { kinds, licences, default_memory: *default_memory })
    }

    /// The shape of a request on so many processors. One whose licences are not there, or that has fewer processors than nodes,
    /// fits on nodes of no kind.
    pub(super) fn shape(&self, procs: Procs, resources: Option<&Resources>) -> Shape {
        let Some(resources) = resources else {
            let needs = Needs { memory_per_core: self.default_memory, ..Needs::NONE };
            return Shape { needs, ..Shape::of(procs) };
        };
        let Resources { memory, gpus, scratch, nodes, procs_per_node, exclusive, constraint, licences } =
            resources;
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
        let is_possible = counted.is_some() && nodes.is_none_or(|nodes| nodes <= procs.0);
        let kinds = if is_possible { self.kinds(constraint.as_ref(), gpus.as_ref()) } else { KindSet(0) };
        let needs = Needs {
            memory_per_core: memory.map_or(self.default_memory, |memory| memory.per_proc(procs)),
            // Equal parts are rounded up.
            memory_max: memory.and_then(|memory| match memory {
                Memory::PerProc(_) => None,
                Memory::Total(all) => Some(all),
            }),
            memory_per_node: Mebibytes(0),
            gpus_per_core,
            gpus_per_node,
            gpus: anywhere,
            scratch_per_node: *scratch,
            most_per_node: *procs_per_node,
            kinds,
            licences: counted.unwrap_or_default(),
        };
        Shape { nodes: *nodes, exclusive: *exclusive, needs, ..Shape::of(procs) }
    }

    fn kinds(&self, constraint: Option<&Constraint>, gpus: Option<&Gpus>) -> KindSet {
        let kind = gpus.and_then(|gpus| gpus.kind.as_ref());
        if constraint.is_none() && kind.is_none() {
            return KindSet::ALL;
        }
        let will_do = |one: &NodeKind| {
            constraint.is_none_or(|constraint| constraint.admits(&one.features))
                && kind.is_none_or(|kind| one.gpu_kind.as_ref() == Some(kind))
        };
        let unnamed = [NodeKind::default()];
        let all = if self.kinds.is_empty() { &unnamed[..] } else { &self.kinds };
        let bits = all.iter().enumerate().filter(|(_, one)| will_do(one)).map(|(index, _)| 1 << index);
        KindSet(bits.sum())
    }
}

/// Whether what a request can have of a node is the same at each size, and any nodes will do: then the largest size that
/// can start on free nodes is the sum of what it can have of each.
pub(super) fn is_sum_of_nodes(resources: Option<&Resources>) -> bool {
    resources.is_none_or(|Resources { memory, gpus, nodes, .. }| {
        let has_total = matches!(memory, Some(Memory::Total(_)))
            || gpus.as_ref().is_some_and(|gpus| matches!(gpus.count, GpuCount::Total(_)));
        !has_total && nodes.is_none()
    })
}
