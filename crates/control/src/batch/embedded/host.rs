//! What the nodes of an embedded batch system have besides processors, and what its jobs have of that. A live server has one node, its
//! host; a simulated one has the nodes that its cluster declares.
//!
//! The policy plans with them. A job that outlives its planned end has its part still, as it has its processors: so it is counted again
//! before the next job runs. What a job has is decided when it starts, and stays when the nodes are declared otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use pliant_model::{ClusterNodes, JobId, Procs, Resources, Time};
use pliant_policy::batch::{Dump, JobOnNodes};
use pliant_policy::nodes::{
    AllocatedJob, Amounts, ClusterSnapshot, DeclaredNodes, Needs, NodeShare, Part, Pending,
};
use serde::{Deserialize, Serialize};

use super::Started;
use crate::batch::HeldResources;
use crate::explain::Shortage;

/// What the nodes have, as they are declared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostResources {
    /// The nodes, and licences. They were checked.
    pub nodes: ClusterNodes,
    /// The names of their GPUs, in the order of the nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
}

/// What a job has besides its processors.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    /// On all nodes.
    amounts: Amounts,
    /// It shares its nodes with no other job.
    #[serde(default, skip_serializing_if = "crate::job::is_false")]
    exclusive: bool,
    /// Units of licences.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    licences: BTreeMap<String, u32>,
    /// On each of its nodes; empty if that is the first one alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<Part>,
}

impl Taken {
    /// On each of its nodes.
    fn parts(&self) -> Vec<Part> {
        match self.nodes.is_empty() {
            true => vec![Part { node: 0, taken: self.amounts }],
            false => self.nodes.clone(),
        }
    }
}

/// What a job gets when it starts.
pub(super) struct Given {
    pub(super) cores: Vec<u32>,
    pub(super) gpus: Vec<String>,
}

/// Nodes whose resources are counted.
pub(super) struct CountedHost {
    declared: Arc<HostResources>,
    nodes: DeclaredNodes,
    /// The same without jobs.
    empty: ClusterSnapshot,
    /// The numbers of the processors and the positions of the names of the GPUs of each node.
    numbers: Vec<(Range<u32>, Range<usize>)>,
}

impl CountedHost {
    pub(super) fn new(declared: Arc<HostResources>) -> CountedHost {
        let nodes = DeclaredNodes::new(&declared.nodes);
        let (mut core, mut gpu) = (0_u32, 0_usize);
        let number = |node: &Amounts| {
            let (first_core, first_gpu) = (core, gpu);
            (core, gpu) =
                (core.saturating_add(node.cores), declared.gpus.len().min(gpu + node.gpus as usize));
            (first_core..core, first_gpu..gpu)
        };
        let mut numbers: Vec<_> = nodes.nodes().iter().map(number).collect();
        // Processors that the cluster does not have belong to the last node.
        if let Some((cores, _)) = numbers.last_mut() {
            cores.end = u32::MAX;
        }
        CountedHost { empty: ClusterSnapshot::declared(&declared.nodes), nodes, numbers, declared }
    }

    /// As it was declared.
    pub(super) fn declared(&self) -> &Arc<HostResources> {
        &self.declared
    }

    /// What a job on so many processors is to have: what the policy has planned for it, or else what is free beside `others`, or else what
    /// there is.
    pub(super) fn taken<'a>(
        &self,
        procs: Procs,
        resources: Option<&Resources>,
        planned: Option<&[Part]>,
        others: impl Iterator<Item = &'a Started>,
    ) -> Taken {
        let nodes = self.nodes.nodes().len();
        let unplanned = || {
            let free = self.free(others);
            let free = self.nodes.allocate(&free, procs, resources);
            free.or_else(|| self.nodes.allocate(self.nodes.all(), procs, resources))
        };
        let parts = planned.map(<[Part]>::to_vec).or_else(unplanned);
        let parts: Option<Vec<Part>> = parts.map(|mut parts| {
            parts.retain(|part| (part.node as usize) < nodes);
            parts
        });
        let needs = || {
            let needs = self.empty.shape(procs, resources).needs;
            needs.on(procs.0).with(Amounts { gpus: needs.gpus, ..Amounts::default() })
        };
        let sum =
            |parts: &Vec<Part>| parts.iter().map(|part| part.taken).fold(Amounts::default(), Amounts::with);
        // What fits nowhere counts on the first node.
        let amounts = parts.as_ref().map_or_else(needs, sum);
        let is_first = |parts: &Vec<Part>| matches!(parts[..], [Part { node: 0, .. }]);
        let exclusive = resources.is_some_and(|resources| resources.exclusive);
        let licences = resources.map(|resources| resources.licences.clone()).unwrap_or_default();
        let nodes = parts.filter(|parts| !is_first(parts)).unwrap_or_default();
        Taken { amounts, exclusive, licences, nodes }
    }

    /// What other jobs leave of the nodes and the licences.
    fn free<'a>(&self, others: impl Iterator<Item = &'a Started>) -> Vec<Amounts> {
        let mut free = self.nodes.all().to_vec();
        for taken in others.filter_map(|other| other.taken.as_ref()) {
            for part in taken.parts() {
                if let Some(free) = free.get_mut(part.node as usize) {
                    *free = free.without(part.taken);
                }
            }
            let (_, licences) = free.split_at_mut(self.nodes.nodes().len());
            for ((name, _), free) in self.nodes.licences().zip(licences) {
                let units = taken.licences.get(name).copied().unwrap_or(0);
                *free = free.without(Amounts { cores: units, ..Amounts::default() });
            }
        }
        free
    }

    /// What others leave too little of for a job on so many processors to start, in all nodes together.
    pub(super) fn shortages<'a>(
        &self,
        procs: Procs,
        resources: Option<&Resources>,
        others: impl Iterator<Item = &'a Started>,
    ) -> Vec<Shortage> {
        let free = self.free(others);
        if self.nodes.allocate(&free, procs, resources).is_some() {
            return Vec::new();
        }
        let Some(needed) = self.nodes.allocate(self.nodes.all(), procs, resources) else { return Vec::new() };
        let (free_nodes, free_licences) = free.split_at(self.nodes.nodes().len());
        let (parts, licences): (Vec<Part>, Vec<Part>) =
            needed.into_iter().partition(|part| (part.node as usize) < free_nodes.len());
        let needed = parts.iter().map(|part| part.taken).fold(Amounts::default(), Amounts::with);
        let free = free_nodes.iter().copied().fold(Amounts::default(), Amounts::with);
        let counted = [
            Shortage::of("processors", needed.cores, free.cores),
            Shortage::of("memory", needed.memory.0, free.memory.0),
            Shortage::of("gpus", needed.gpus, free.gpus),
            Shortage::of("scratch", needed.scratch.0, free.scratch.0),
        ];
        let licence = |((row, (name, _)), free): ((u32, (&str, &Amounts)), &Amounts)| {
            let units = licences.iter().filter(|part| part.node == row).map(|part| part.taken.cores).sum();
            Shortage::of(format!("licences:{name}"), units, free.cores)
        };
        let rows = (self.nodes.nodes().len() as u32..).zip(self.nodes.licences());
        counted.into_iter().flatten().chain(rows.zip(free_licences).filter_map(licence)).collect()
    }

    /// Whether a job on so many processors could run if there were no others.
    pub(super) fn could_run(&self, procs: Procs, resources: Option<&Resources>) -> bool {
        self.nodes.allocate(self.nodes.all(), procs, resources).is_some()
    }

    /// Whether others leave enough units of each licence.
    fn has_licences(&self, needed: &BTreeMap<String, u32>, others: &[&Taken]) -> bool {
        needed.iter().all(|(name, count)| {
            let units = others.iter().filter_map(|other| other.licences.get(name));
            let taken: u64 = units.chain([count]).map(|count| u64::from(*count)).sum();
            taken <= u64::from(self.declared.nodes.licences.get(name).copied().unwrap_or(0))
        })
    }

    /// The processors and GPUs that a job gets if it starts with what is free; none if others leave it too little.
    pub(super) fn give<'a>(
        &self,
        procs: Procs,
        needed: &Taken,
        free: &BTreeSet<u32>,
        others: impl Iterator<Item = &'a Started>,
    ) -> Option<Given> {
        let others: Vec<&Started> = others.collect();
        let taken: Vec<&Taken> = others.iter().filter_map(|other| other.taken.as_ref()).collect();
        if !self.has_licences(&needed.licences, &taken) {
            return None;
        }
        let mut on_nodes = vec![Amounts::default(); self.numbers.len()];
        let mut is_exclusive = vec![false; self.numbers.len()];
        for other in &taken {
            for part in other.parts() {
                let node = part.node as usize;
                if node < on_nodes.len() {
                    on_nodes[node] = on_nodes[node].with(part.taken);
                    is_exclusive[node] |= other.exclusive;
                }
            }
        }
        let parts = needed.parts();
        let in_use: BTreeSet<&String> = others.iter().flat_map(|other| &other.gpus).collect();
        let mut gpus = Vec::new();
        for Part { node, taken: own } in &parts {
            let node = *node as usize;
            let (cores, _) = self.numbers.get(node)?;
            let is_here = |other: &&&Started| other.cores.iter().any(|core| cores.contains(core));
            if is_exclusive[node] || needed.exclusive && others.iter().any(|other| is_here(&other)) {
                return None;
            }
            let (all, sum) = (self.nodes.nodes()[node], on_nodes[node].with(*own));
            // What a job does not need keeps it from nothing: a node may have less than when others started.
            let is_enough = |own: u32, sum: u32, all: u32| own == 0 || sum <= all;
            let has_all = is_enough(own.memory.0, sum.memory.0, all.memory.0)
                && is_enough(own.scratch.0, sum.scratch.0, all.scratch.0);
            let before = gpus.len();
            gpus.extend(
                self.gpus_of(node).filter(|gpu| !in_use.contains(gpu)).take(own.gpus as usize).cloned(),
            );
            if !has_all || gpus.len() - before < own.gpus as usize {
                return None;
            }
        }
        Some(Given { cores: self.cores(procs, needed, &parts, free)?, gpus })
    }

    /// Free processors of the nodes of a job.
    fn cores(&self, procs: Procs, needed: &Taken, parts: &[Part], free: &BTreeSet<u32>) -> Option<Vec<u32>> {
        let of_node = |part: &Part| free.range(self.numbers[part.node as usize].0.clone()).copied();
        let mut cores = Vec::new();
        if let [one] = parts {
            cores.extend(of_node(one).take(procs.0 as usize));
        } else if needed.exclusive {
            // It has whole nodes: equally many of each, as far as they have them.
            let mut left: Vec<_> = parts.iter().map(of_node).collect();
            while cores.len() < procs.0 as usize && !left.is_empty() {
                left.retain_mut(|node| match node.next() {
                    Some(core) => {
                        cores.push(core);
                        true
                    }
                    None => false,
                });
            }
            cores.truncate(procs.0 as usize);
            cores.sort_unstable();
        } else {
            cores.extend(parts.iter().flat_map(|part| of_node(part).take(part.taken.cores as usize)));
        }
        (cores.len() == procs.0 as usize).then_some(cores)
    }

    /// The GPUs of a job that has run for an unknown time, if it needs some: each of its nodes that no other job has may be one of its
    /// own.
    pub(super) fn gpus_of_running<'a>(
        &self,
        needed: &Taken,
        others: impl Iterator<Item = &'a Started>,
    ) -> Vec<String> {
        if needed.amounts.gpus == 0 {
            return Vec::new();
        }
        let in_use: BTreeSet<&String> = others.flat_map(|other| &other.gpus).collect();
        let of_nodes = needed.parts().into_iter().flat_map(|part| self.gpus_of(part.node as usize));
        of_nodes.filter(|gpu| !in_use.contains(gpu)).cloned().collect()
    }

    /// The names of the GPUs of a node.
    fn gpus_of(&self, node: usize) -> std::slice::Iter<'_, String> {
        let of_node = self.numbers.get(node).map_or(0..0, |(_, gpus)| gpus.clone());
        self.declared.gpus[of_node].iter()
    }

    /// What a running job has, for the policy.
    pub(super) fn on_nodes(&self, job: JobId, started: &Started) -> JobOnNodes {
        let taken = started.taken.clone().unwrap_or_default();
        let mut on = taken.parts();
        if taken.nodes.is_empty() {
            on.iter_mut().for_each(|part| part.taken.cores = part.taken.cores.max(started.procs.0));
        }
        for part in &mut on {
            // Of those that are declared now.
            let here = self.gpus_of(part.node as usize).filter(|gpu| started.gpus.contains(gpu));
            part.taken.gpus = here.count() as u32;
        }
        for (row, (name, _)) in (self.numbers.len() as u32..).zip(self.nodes.licences()) {
            if let Some(units) = taken.licences.get(name) {
                on.push(Part { node: row, taken: Amounts { cores: *units, ..Amounts::default() } });
            }
        }
        JobOnNodes { job, on, resources: started.resources.clone() }
    }

    /// A running job, for agents.
    fn allocated(&self, job: JobId, procs: Procs, end: Time, started: Option<&Started>) -> AllocatedJob {
        let on = started.map(|started| self.on_nodes(job, started).on).unwrap_or_default();
        let resources = started.and_then(|started| started.resources.as_deref());
        let first_licence = self.numbers.len() as u32;
        let (nodes, licences): (Vec<Part>, Vec<Part>) =
            on.into_iter().partition(|part| part.node < first_licence);
        let units = licences.iter().map(|part| (part.node - first_licence, part.taken.cores)).collect();
        let needs = match &nodes[..] {
            [] => Needs { licences: units, ..Needs::NONE },
            [Part { taken, .. }] => Needs {
                memory_per_node: taken.memory,
                gpus_per_node: taken.gpus,
                scratch_per_node: taken.scratch,
                licences: units,
                ..Needs::NONE
            },
            _ => Needs { licences: units, ..self.empty.shape(procs, resources).needs },
        };
        let share = |Part { node, taken }: &Part| NodeShare {
            node: *node,
            cores: Some(Procs(taken.cores)),
            gpus: taken.gpus.saturating_sub(needs.on(taken.cores).gpus),
        };
        let on: Vec<NodeShare> = nodes.iter().map(share).collect();
        let cores = Procs(nodes.iter().map(|part| part.taken.cores).sum()).max(procs);
        AllocatedJob { on, needs, ..AllocatedJob::of(job, cores, end) }
    }

    /// The nodes with the jobs of a plan; `started` are those that run.
    pub(super) fn snapshot<'a>(
        &self,
        plan: &Dump,
        started: impl Fn(JobId) -> Option<&'a Started>,
    ) -> ClusterSnapshot {
        let running =
            plan.running.iter().map(|one| self.allocated(one.job, one.procs, one.end, started(one.job)));
        let asked = |job: JobId| plan.on_nodes.iter().find(|one| one.job == job)?.resources.clone();
        let planned = plan.planned.iter().map(|one| {
            let shape = self.empty.shape(one.plan.procs, asked(one.job).as_deref());
            Pending::of(one.job, shape, one.plan.walltime)
        });
        let queued = plan.queued.iter().map(|one| {
            Pending::of(one.job, self.empty.shape(one.procs, one.resources.as_deref()), one.walltime)
        });
        ClusterSnapshot {
            running: running.collect(),
            pending: planned.chain(queued).collect(),
            ..self.empty.clone()
        }
    }
}

/// What a job has that runs.
pub(super) fn held(started: &Started) -> Option<HeldResources> {
    let taken = started.taken.as_ref()?;
    Some(HeldResources { memory: taken.amounts.memory, gpus: started.gpus.clone() })
}
