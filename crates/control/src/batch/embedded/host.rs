//! What the host of an embedded batch system has besides processors, and what its jobs have of that.
//!
//! The policy plans with it. A job that outlives its planned end has it still, as it has its processors: so it is counted again before
//! the next job runs. What a job has is decided when it starts, and stays when the host is declared otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pliant_model::{ClusterNodes, JobId, Procs, Resources};
use pliant_policy::batch::{Dump, JobOnNodes};
use pliant_policy::nodes::{AllocatedJob, Amounts, ClusterSnapshot, Needs, NodeShare, Part, Pending, Shape};
use serde::{Deserialize, Serialize};

use super::Started;
use crate::batch::HeldResources;

/// What a host has, as it is declared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct HostResources {
    /// The host as one node, with licences. It was checked.
    pub nodes: ClusterNodes,
    /// The names of its GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
}

/// What a job has of the host besides its processors.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    amounts: Amounts,
    /// The host is its alone.
    #[serde(default, skip_serializing_if = "crate::job::is_false")]
    exclusive: bool,
    /// Units of licences.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    licences: BTreeMap<String, u32>,
}

/// A host whose resources are counted.
pub(super) struct CountedHost {
    declared: Arc<HostResources>,
    /// The same without jobs.
    empty: ClusterSnapshot,
}

impl CountedHost {
    pub(super) fn new(declared: Arc<HostResources>) -> CountedHost {
        CountedHost { empty: ClusterSnapshot::declared(&declared.nodes), declared }
    }

    /// As it was declared.
    pub(super) fn declared(&self) -> &Arc<HostResources> {
        &self.declared
    }

    fn all(&self) -> Amounts {
        self.empty.nodes.iter().map(Amounts::on).fold(Amounts::default(), Amounts::with)
    }

    /// What a job on so many processors is to have.
    pub(super) fn taken(&self, procs: Procs, resources: Option<&Resources>) -> Taken {
        let Shape { exclusive, needs, .. } = self.empty.shape(procs, resources);
        let anywhere = Amounts { gpus: needs.gpus, ..Amounts::default() };
        let amounts = if exclusive { self.all() } else { needs.on(procs.0).with(anywhere) };
        let licences = resources.map(|resources| resources.licences.clone()).unwrap_or_default();
        Taken { amounts, exclusive, licences }
    }

    /// Whether a job on so many processors could run if there were no others.
    pub(super) fn could_run(&self, procs: Procs, resources: Option<&Resources>) -> bool {
        let Shape { nodes, needs, .. } = self.empty.shape(procs, resources);
        let needed = needs.on(procs.0).with(Amounts { gpus: needs.gpus, ..Amounts::default() });
        let licences = resources.map(|resources| &resources.licences);
        needs.kinds.has(0)
            && nodes.is_none_or(|nodes| nodes == 1)
            && needs.most_per_node.is_none_or(|most| most >= procs)
            && self.all().covers(needed)
            && licences.is_none_or(|licences| self.lacking(licences, &[]).is_none())
    }

    /// A licence of which others leave too few units.
    fn lacking(&self, needed: &BTreeMap<String, u32>, others: &[&Taken]) -> Option<String> {
        let lacks = |(name, count): &(&String, &u32)| {
            let units = others.iter().filter_map(|other| other.licences.get(*name));
            let taken: u64 = units.chain([*count]).map(|count| u64::from(*count)).sum();
            let all = self.declared.nodes.licences.get(*name).copied().unwrap_or(0);
            taken > u64::from(all)
        };
        needed.iter().find(lacks).map(|(name, _)| name.clone())
    }

    /// The GPUs that a job gets if it starts beside others; none if they leave it too little.
    pub(super) fn gpus_for<'a>(
        &self,
        needed: &Taken,
        others: impl Iterator<Item = &'a Started>,
    ) -> Option<Vec<String>> {
        let others: Vec<&Started> = others.collect();
        let taken: Vec<&Taken> = others.iter().filter_map(|other| other.taken.as_ref()).collect();
        if needed.exclusive && !others.is_empty() || taken.iter().any(|other| other.exclusive) {
            return None;
        }
        let sum = taken.iter().map(|other| other.amounts).fold(needed.amounts, Amounts::with);
        let (all, own) = (self.all(), needed.amounts);
        // What a job does not need keeps it from nothing: a host may have less than when others started.
        let is_enough = |own: u32, sum: u32, all: u32| own == 0 || sum <= all;
        let has_all = is_enough(own.memory.0, sum.memory.0, all.memory.0)
            && is_enough(own.scratch.0, sum.scratch.0, all.scratch.0)
            && self.lacking(&needed.licences, &taken).is_none();
        let gpus: Vec<String> = self.free_gpus(&others).into_iter().take(own.gpus as usize).collect();
        (has_all && gpus.len() == own.gpus as usize).then_some(gpus)
    }

    /// The GPUs of a job that has run for an unknown time, if it needs some: each that no other job has may be one of its own.
    pub(super) fn gpus_of_running<'a>(
        &self,
        needed: &Taken,
        others: impl Iterator<Item = &'a Started>,
    ) -> Vec<String> {
        if needed.amounts.gpus == 0 { Vec::new() } else { self.free_gpus(&others.collect::<Vec<_>>()) }
    }

    fn free_gpus(&self, others: &[&Started]) -> Vec<String> {
        let in_use: BTreeSet<&String> = others.iter().flat_map(|other| &other.gpus).collect();
        self.declared.gpus.iter().filter(|gpu| !in_use.contains(gpu)).cloned().collect()
    }

    /// What a running job has, for the policy.
    pub(super) fn on_nodes(&self, job: JobId, started: &Started) -> JobOnNodes {
        let Taken { amounts, licences, .. } = started.taken.clone().unwrap_or_default();
        let cores = started.procs.0.max(amounts.cores);
        // Of those that are declared now.
        let gpus = self.declared.gpus.iter().filter(|gpu| started.gpus.contains(gpu)).count() as u32;
        let mut on = vec![Part { node: 0, taken: Amounts { cores, gpus, ..amounts } }];
        for (position, licence) in (1..).zip(&self.empty.licences) {
            if let Some(units) = licences.get(&licence.name) {
                on.push(Part { node: position, taken: Amounts { cores: *units, ..Amounts::default() } });
            }
        }
        JobOnNodes { job, on, resources: started.resources.clone() }
    }

    /// The host with the jobs of a plan; `started` are those that run.
    pub(super) fn snapshot<'a>(
        &self,
        plan: &Dump,
        started: impl Fn(JobId) -> Option<&'a Started>,
    ) -> ClusterSnapshot {
        let running = plan.running.iter().map(|one| {
            let JobOnNodes { on, .. } = match started(one.job) {
                Some(started) => self.on_nodes(one.job, started),
                None => JobOnNodes { job: one.job, on: Vec::new(), resources: None },
            };
            let (nodes, licences): (Vec<Part>, Vec<Part>) = on.into_iter().partition(|part| part.node == 0);
            let taken = nodes.first().map(|part| part.taken).unwrap_or_default();
            let needs = Needs {
                memory_per_node: taken.memory,
                gpus_per_node: taken.gpus,
                scratch_per_node: taken.scratch,
                licences: licences.iter().map(|part| (part.node - 1, part.taken.cores)).collect(),
                ..Needs::NONE
            };
            let cores = Procs(taken.cores.max(one.procs.0));
            let on = vec![NodeShare { node: 0, cores: Some(cores), gpus: 0 }];
            AllocatedJob { on, needs, ..AllocatedJob::of(one.job, cores, one.end) }
        });
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
