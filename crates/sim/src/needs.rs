//! What jobs of a workload need besides processors, in simulations of both speeds.

use std::sync::Arc;

use pliant_model::{Job, Mebibytes, Memory, Platform, Resources};

use crate::{MoldableMemory, Policies};

/// How the needs of jobs follow from a workload.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    /// Whether a cluster distinguishes its nodes. Else only processors count.
    has_nodes: bool,
    memory: MoldableMemory,
}

impl Needs {
    /// On the clusters of a platform.
    pub(crate) fn on(platform: &Platform, policies: &Policies) -> Needs {
        let has_nodes = platform.clusters().iter().any(|cluster| cluster.nodes.is_some());
        Needs { has_nodes, memory: policies.memory }
    }

    /// What a job needs: what its source says, with the memory that its user requested, else what it used.
    pub(crate) fn of(self, job: &Job) -> Option<Arc<Resources>> {
        if !self.has_nodes {
            return None;
        }
        let logged = || {
            let each = job.memory.requested.or(job.memory.used)?;
            Some(match self.memory {
                MoldableMemory::PerProcessor => Memory::PerProc(each),
                MoldableMemory::Total => Memory::Total(Mebibytes(each.0.saturating_mul(job.procs.0))),
            })
        };
        match &job.resources {
            Some(resources) if resources.memory.is_some() => Some(resources.clone()),
            Some(resources) => Some(Arc::new(Resources { memory: logged(), ..Resources::clone(resources) })),
            None => Some(Arc::new(Resources { memory: Some(logged()?), ..Resources::default() })),
        }
    }
}
