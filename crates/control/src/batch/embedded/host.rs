//! What the host of an embedded batch system has besides processors, and what its jobs have of that.
//!
//! The policy plans with it. A job that outlives its planned end has it still, as it has its processors: so it is counted again before
//! the next job runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use pliant_model::{ClusterNodes, JobId, Procs, Resources};
use pliant_policy::batch::Dump;
use pliant_policy::nodes::{AllocatedJob, Amounts, ClusterSnapshot, NodeShare, Pending, Shape};

use super::Started;
use crate::batch::HeldResources;

/// The host as one node, with licences.
pub(super) struct Host {
    nodes: Arc<ClusterNodes>,
    /// The same without jobs.
    empty: ClusterSnapshot,
}

impl Host {
    pub(super) fn new(nodes: Arc<ClusterNodes>) -> Host {
        Host { empty: ClusterSnapshot::declared(&nodes), nodes }
    }

    /// As it was declared.
    pub(super) fn nodes(&self) -> &Arc<ClusterNodes> {
        &self.nodes
    }

    fn all(&self) -> Amounts {
        self.empty.nodes.iter().map(Amounts::on).fold(Amounts::default(), Amounts::with)
    }

    fn shape(&self, started: &Started) -> Shape {
        self.empty.shape(started.procs, started.resources.as_deref())
    }

    /// What a job has of the host.
    fn amounts(&self, shape: &Shape) -> Amounts {
        if shape.exclusive {
            return self.all();
        }
        shape.needs.on(shape.cores.0).with(Amounts { gpus: shape.needs.gpus, ..Amounts::default() })
    }

    /// The GPUs of a job that starts beside others; none if they leave too little of something.
    pub(super) fn room_for<'a>(
        &self,
        started: &Started,
        others: impl Iterator<Item = &'a Started> + Clone,
    ) -> Option<Vec<u32>> {
        let shape = self.shape(started);
        let needed = self.amounts(&shape);
        let shapes: Vec<Shape> = others.clone().map(|other| self.shape(other)).collect();
        let taken = shapes.iter().map(|shape| self.amounts(shape)).fold(needed, Amounts::with);
        let units = |licence: u32, shape: &Shape| {
            let counts = shape.needs.licences.iter().filter(|(other, _)| *other == licence);
            counts.map(|(_, count)| u64::from(*count)).sum::<u64>()
        };
        let has_licences = shape.needs.licences.iter().all(|(licence, _)| {
            let taken: u64 = shapes.iter().chain([&shape]).map(|shape| units(*licence, shape)).sum();
            self.empty.licences.get(*licence as usize).is_some_and(|one| taken <= one.count.into())
        });
        if !self.all().covers(taken) || !has_licences {
            return None;
        }
        let in_use: BTreeSet<u32> = others.flat_map(|other| other.gpus.iter().copied()).collect();
        let free = (0..self.all().gpus).filter(|gpu| !in_use.contains(gpu));
        let gpus: Vec<u32> = free.take(needed.gpus as usize).collect();
        (gpus.len() == needed.gpus as usize).then_some(gpus)
    }

    /// What a job has that runs.
    pub(super) fn held(&self, started: &Started) -> HeldResources {
        let memory = self.amounts(&self.shape(started)).memory;
        HeldResources { memory, gpus: started.gpus.clone() }
    }

    /// The host with the jobs of a plan; `resources` of those that run.
    pub(super) fn snapshot(
        &self,
        plan: &Dump,
        resources: impl Fn(JobId) -> Option<Arc<Resources>>,
    ) -> ClusterSnapshot {
        let shape = |procs: Procs, resources: Option<&Resources>| self.empty.shape(procs, resources);
        let running = plan.running.iter().map(|one| {
            let Shape { cores, exclusive, needs, .. } = shape(one.procs, resources(one.job).as_deref());
            let cores_there = if exclusive { self.nodes.procs() } else { cores };
            let on = vec![NodeShare { node: 0, cores: Some(cores_there), gpus: needs.gpus }];
            AllocatedJob { on, needs, ..AllocatedJob::of(one.job, cores_there, one.end) }
        });
        let asked = |job: JobId| plan.on_nodes.iter().find(|one| one.job == job)?.resources.clone();
        let planned = plan.planned.iter().map(|one| {
            let shape = shape(one.plan.procs, asked(one.job).as_deref());
            Pending::of(one.job, shape, one.plan.walltime)
        });
        let queued = plan
            .queued
            .iter()
            .map(|one| Pending::of(one.job, shape(one.procs, one.resources.as_deref()), one.walltime));
        ClusterSnapshot {
            running: running.collect(),
            pending: planned.chain(queued).collect(),
            ..self.empty.clone()
        }
    }
}
