//! What the nodes of an external cluster have besides cores, and what jobs get of it, as Slurm hands it out.

use std::collections::BTreeMap;

use pliant_control::listing::{CountedResources, DefaultMemory, Node, NodeAllocation, RequestedResources};
use pliant_model::{ClusterNodes, GpuCount, Mebibytes, NodeGroup, Procs, Resources};

/// What nodes and licences have for jobs.
#[derive(Clone, Debug)]
pub(super) struct NodeResources {
    /// The nodes, by position.
    nodes: Vec<NodeGroup>,
    /// The licences.
    licences: BTreeMap<String, u32>,
    /// None if the cluster counts cores alone.
    default_memory: Option<Mebibytes>,
}

/// What a job asks for, on so many cores.
#[derive(Clone, Default, Debug)]
pub(super) struct RequestedNodes {
    pub(super) cores: u32,
    pub(super) exclusive: bool,
    pub(super) resources: RequestedResources,
}

/// What is left of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FreeNode {
    cores: u32,
    memory: u32,
    gpus: u32,
}

/// What is left of all nodes and licences.
pub(super) struct Free {
    nodes: Vec<FreeNode>,
    licences: BTreeMap<String, u32>,
}

impl NodeResources {
    /// Nodes with these cores, and with what they have besides if that is counted: a group for each node.
    pub(super) fn new(cores: &[u32], counted: Option<&ClusterNodes>) -> NodeResources {
        match counted {
            Some(ClusterNodes { groups, licences, default_memory }) => NodeResources {
                nodes: groups.clone(),
                licences: licences.clone(),
                default_memory: Some(*default_memory),
            },
            None => {
                let nodes = cores.iter().map(|cores| NodeGroup::of(1, Procs(*cores))).collect();
                NodeResources { nodes, licences: BTreeMap::new(), default_memory: None }
            }
        }
    }

    /// The nodes as they are listed.
    pub(super) fn listed(&self) -> Vec<Node> {
        let node = |(index, group): (usize, &NodeGroup)| Node {
            name: format!("n{index}"),
            cores: group.procs.0,
            partitions: vec!["main".to_owned()],
            memory: group.memory,
            gpus: group.gpus,
            gpu_kind: group.gpu_kind.clone(),
            scratch: group.scratch,
            features: group.features.clone(),
            ..Node::default()
        };
        self.nodes.iter().enumerate().map(node).collect()
    }

    /// What is counted besides cores, as it is listed.
    pub(super) fn counted(&self) -> CountedResources {
        let Some(default_memory) = self.default_memory else { return CountedResources::default() };
        let default_memory = DefaultMemory::PerCore(default_memory);
        CountedResources { memory: true, default_memory, licences: self.licences.clone() }
    }

    /// What a job with these needs asks for, as the options of sbatch say it.
    pub(super) fn requested(&self, cores: u32, needed: Option<&Resources>) -> RequestedNodes {
        let cores_per_task = needed.and_then(|needed| needed.procs_per_task).map(|task| task.0);
        let mut resources = RequestedResources { cores_per_task, ..RequestedResources::default() };
        let plain = RequestedNodes { cores, ..RequestedNodes::default() };
        let Some(default_memory) = self.default_memory else { return RequestedNodes { resources, ..plain } };
        let Some(needed) = needed else {
            resources.memory_per_core = default_memory;
            return RequestedNodes { resources, ..plain };
        };
        let largest = self.nodes.iter().map(|node| node.procs).max().unwrap_or(Procs::ONE);
        let of_node = needed.memory_of_whole_node(Procs(cores), largest).filter(|_| needed.exclusive);
        match (of_node, needed.memory) {
            (Some(of_node), _) => resources.memory_per_node = of_node,
            (None, memory) => {
                resources.memory_per_core =
                    memory.map_or(default_memory, |memory| memory.per_proc(Procs(cores)));
            }
        }
        match needed.gpus.as_ref().map(|gpus| gpus.count) {
            Some(GpuCount::PerProc(each)) => resources.gpus_per_core = each,
            Some(GpuCount::Total(all)) => resources.gpus = all,
            None => {}
        }
        resources.gpu_kind = needed.gpus.as_ref().and_then(|gpus| gpus.kind.clone());
        resources.scratch_size = needed.scratch;
        resources.constraint = needed.constraint.clone();
        resources.licences = needed.licences.clone();
        RequestedNodes { cores, exclusive: needed.exclusive, resources }
    }

    /// What is free while such jobs have these parts of nodes.
    ///
    /// # Errors
    ///
    /// What they have more of than there is.
    pub(super) fn free<'a>(
        &self,
        running: impl Iterator<Item = (&'a RequestedNodes, &'a [NodeAllocation])>,
    ) -> Result<Free, String> {
        let free =
            |group: &NodeGroup| FreeNode { cores: group.procs.0, memory: group.memory.0, gpus: group.gpus };
        let mut free = Free { nodes: self.nodes.iter().map(free).collect(), licences: self.licences.clone() };
        for (requested, on) in running {
            for part in on {
                let index = position(part);
                let node = free.nodes.get_mut(index).ok_or_else(|| format!("there is no {}", part.node))?;
                let cores = part.cores.unwrap_or(self.nodes[index].procs.0);
                let memory = requested.memory_on(cores, self.default_memory.is_some());
                for (what, left, taken) in [
                    ("cores", &mut node.cores, cores),
                    ("MiB of memory", &mut node.memory, memory),
                    ("GPUs", &mut node.gpus, part.gpus.unwrap_or(0)),
                ] {
                    *left = left.checked_sub(taken).ok_or_else(|| {
                        format!("{} has {left} {what} left for a job with {taken}", part.node)
                    })?;
                }
            }
            for (name, count) in &requested.resources.licences {
                let left = free.licences.entry(name.clone()).or_default();
                *left = left
                    .checked_sub(*count)
                    .ok_or_else(|| format!("of the licence {name} {left} are left for a job with {count}"))?;
            }
        }
        Ok(free)
    }

    /// The parts of nodes that a job gets of what is free, which is then taken. None if it does not fit.
    pub(super) fn place(&self, free: &mut Free, requested: &RequestedNodes) -> Option<Vec<NodeAllocation>> {
        let RequestedNodes { cores, exclusive, resources } = requested;
        let has = |(name, count): (&String, &u32)| free.licences.get(name).is_some_and(|left| left >= count);
        if !resources.licences.iter().all(has) {
            return None;
        }
        let counts_memory = self.default_memory.is_some();
        let nodes = self.nodes.iter().zip(&free.nodes);
        let usable: Vec<u32> =
            nodes.map(|(node, free)| requested.usable(node, *free, counts_memory)).collect();
        let spare = |index: usize| free.nodes[index].gpus;
        let mut order: Vec<usize> = (0..usable.len()).filter(|index| usable[*index] > 0).collect();
        // Those with the most GPUs, until there are enough, then those with the most cores.
        let (mut chosen, mut gpus, mut found) = (Vec::new(), 0, 0);
        if resources.gpus > 0 {
            order.sort_by_key(|index| std::cmp::Reverse((spare(*index), usable[*index])));
            while gpus < resources.gpus && !order.is_empty() {
                let index = order.remove(0);
                (gpus, found) = (gpus + spare(index), found + usable[index]);
                chosen.push(index);
            }
            order.sort_by_key(|index| std::cmp::Reverse(usable[*index]));
        }
        while found < *cores && !order.is_empty() {
            let index = order.remove(0);
            found += usable[index];
            chosen.push(index);
        }
        let task = requested.task();
        if found < *cores || gpus < resources.gpus || chosen.len() > (cores / task) as usize {
            return None;
        }
        let (mut cores_left, mut gpus_left, mut nodes_left) = (*cores, resources.gpus, chosen.len() as u32);
        let mut on = Vec::new();
        for index in chosen {
            nodes_left -= 1;
            let taken = usable[index].min(cores_left - nodes_left * task);
            cores_left -= taken;
            let node = &mut free.nodes[index];
            let anywhere = node.gpus.min(gpus_left);
            gpus_left -= anywhere;
            let gpus = if resources.gpus > 0 { anywhere } else { resources.gpus_per_core * taken };
            let cores = (!exclusive).then_some(taken);
            let named = counts_memory.then_some(gpus);
            on.push(NodeAllocation { gpus: named, ..NodeAllocation::new(format!("n{index}"), cores) });
            node.memory -= requested.memory_on(cores.unwrap_or(node.cores), counts_memory);
            node.gpus -= gpus;
            node.cores -= cores.unwrap_or(node.cores);
        }
        for (name, count) in &resources.licences {
            *free.licences.entry(name.clone()).or_default() -= count;
        }
        Some(on)
    }

    /// What a job on these parts of nodes lacks of what it needs.
    pub(super) fn lacks(
        &self,
        needed: Option<&Resources>,
        requested: &RequestedNodes,
        on: &[NodeAllocation],
    ) -> Option<String> {
        let parts = || on.iter().map(|part| (part, &self.nodes[position(part)]));
        let cores: u32 = parts().map(|(part, node)| part.cores.unwrap_or(node.procs.0)).sum();
        if cores < requested.cores {
            return Some(format!("it needs {} cores, and has {cores}", requested.cores));
        }
        let needed = needed?;
        let task = needed.task_procs().0;
        let tasks: u32 = parts().map(|(part, node)| part.cores.unwrap_or(node.procs.0) / task).sum();
        if tasks < requested.cores.div_ceil(task) {
            return Some(format!("a task of {task} cores of {} is split: it has {on:?}", requested.cores));
        }
        self.default_memory?;
        let memory: u32 =
            parts().map(|(part, node)| requested.memory_on(part.cores.unwrap_or(node.procs.0), true)).sum();
        let least = needed.memory.map_or(0, |memory| match memory {
            pliant_model::Memory::PerProc(each) => each.0 * requested.cores,
            pliant_model::Memory::Total(all) => all.0,
        });
        let gpus: u32 = on.iter().filter_map(|part| part.gpus).sum();
        let count = needed.gpus.as_ref().map_or(0, |gpus| match gpus.count {
            GpuCount::PerProc(each) => each * requested.cores,
            GpuCount::Total(all) => all,
        });
        let kind = needed.gpus.as_ref().and_then(|gpus| gpus.kind.as_ref());
        let suits = |(part, node): (&NodeAllocation, &NodeGroup)| {
            needed.constraint.as_ref().is_none_or(|constraint| constraint.admits(&node.features))
                && kind.is_none_or(|kind| node.gpu_kind.as_ref() == Some(kind))
                && needed.scratch <= node.scratch
                && (!needed.exclusive || part.cores.is_none())
        };
        let licences = &requested.resources.licences;
        let has_licence = |(name, count): (&String, &u32)| licences.get(name).is_some_and(|has| has >= count);
        let is_served =
            memory >= least && gpus >= count && parts().all(suits) && needed.licences.iter().all(has_licence);
        (!is_served).then(|| {
            format!("it needs {needed}, and has {memory} MiB, {gpus} GPUs and {licences:?} on {on:?}")
        })
    }
}

impl RequestedNodes {
    /// The cores of each of its tasks.
    fn task(&self) -> u32 {
        self.resources.cores_per_task.unwrap_or(1).max(1)
    }

    /// The same with tasks of one core.
    pub(super) fn without_tasks(&self) -> RequestedNodes {
        let resources = RequestedResources { cores_per_task: None, ..self.resources.clone() };
        RequestedNodes { resources, ..self.clone() }
    }

    /// Its memory on a node with so many cores of it.
    fn memory_on(&self, cores: u32, is_counted: bool) -> u32 {
        let RequestedResources { memory_per_core, memory_per_node, .. } = &self.resources;
        if is_counted { memory_per_core.0 * cores + memory_per_node.0 } else { 0 }
    }

    /// The cores that it can have of a node on which so much is free.
    fn usable(&self, node: &NodeGroup, free: FreeNode, counts_memory: bool) -> u32 {
        let RequestedResources {
            memory_per_core,
            memory_per_node,
            gpus_per_core,
            gpu_kind,
            scratch_size,
            constraint,
            ..
        } = &self.resources;
        let suits = constraint.as_ref().is_none_or(|constraint| constraint.admits(&node.features))
            && gpu_kind.as_ref().is_none_or(|kind| node.gpu_kind.as_ref() == Some(kind))
            && *scratch_size <= node.scratch;
        if !suits || self.exclusive && free.cores < node.procs.0 {
            return 0;
        }
        let by = |free: u32, each: u32| free.checked_div(each).unwrap_or(u32::MAX);
        let memory = match counts_memory {
            true => free.memory.checked_sub(memory_per_node.0).map(|left| by(left, memory_per_core.0)),
            false => Some(u32::MAX),
        };
        let memory = memory.unwrap_or(0);
        // Of a whole node it has all cores, each with its memory. GPUs it has for those that it asks for.
        if self.exclusive && memory < node.procs.0 {
            return 0;
        }
        let cores = free.cores.min(memory).min(by(free.gpus, *gpus_per_core));
        // No task is split.
        cores - cores % self.task()
    }
}

fn position(part: &NodeAllocation) -> usize {
    part.node.trim_start_matches('n').parse().unwrap_or(usize::MAX)
}
