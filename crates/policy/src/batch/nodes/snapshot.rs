//! The state of an external cluster at one moment, as plain data: from a listing, in a server's snapshot, in a journal.

use std::collections::BTreeSet;

use pliant_model::{
    ClusterNodes, Constraint, JobId, Mebibytes, NodeGroup, NodesError, Procs, Resources, Span, Time,
};

use super::catalogue::{self, Catalogue};
use super::needs::{KindSet, Needs};
use super::rules::Rules;

/// A cluster with its queue.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClusterSnapshot {
    /// The nodes, in the batch system's order: it prefers neighbours.
    pub nodes: Vec<Node>,
    /// The running jobs.
    pub running: Vec<AllocatedJob>,
    /// The waiting jobs in order of priority.
    pub pending: Vec<Pending>,
    /// The batch system's rules.
    pub rules: Rules,
    /// The kinds of the nodes; if there are none, all nodes are of one kind without features.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub kinds: Vec<NodeKind>,
    /// The kinds of nodes that requests and submissions can have; waiting jobs may have others.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub own_kinds: KindSet,
    /// What all jobs of the cluster share besides nodes.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub licences: Vec<Licence>,
    /// The memory for each processor of a request that does not mention memory.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub default_memory: Mebibytes,
    /// The memory that it has on each of its nodes besides.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub default_memory_per_node: Mebibytes,
    /// True if it gets all memory of its nodes, so that no other job with memory runs there.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub takes_all_memory: bool,
    /// What no waiting job gets for some time.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub reserved: Vec<AdvanceReservation>,
}

/// Nodes and licences that the waiting jobs get nothing of for some time. What running jobs have of them until later is theirs.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AdvanceReservation {
    /// When it begins.
    pub from: Time,
    /// When it ends.
    pub until: Time,
    /// Its part of each node: all of a node of which the cores are not known.
    pub on: Vec<NodeShare>,
    /// Positions of licences in [`ClusterSnapshot::licences`], with its units of them.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub licences: Vec<(u32, u32)>,
}

#[cfg(feature = "serde")]
pub(super) fn is_default<A: Default + PartialEq>(value: &A) -> bool {
    *value == A::default()
}

/// What nodes have in common that jobs ask for by name.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeKind {
    /// Their features.
    pub features: Vec<String>,
    /// The kind of their GPUs, such as `a100`.
    pub gpu_kind: Option<String>,
}

/// The most kinds of nodes of a cluster.
pub const KINDS_MAX: usize = 64;

/// A licence, of which jobs may hold so many units at once.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Licence {
    /// Its name.
    pub name: String,
    /// The units that there are for the jobs of this cluster.
    pub count: u32,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Node {
    /// Its name, for messages.
    pub name: String,
    /// Its cores.
    pub cores: Procs,
    /// False if no job may start on it: down, drained, draining, reserved.
    pub up: bool,
    /// Its allocated cores, if the batch system reports them: bounds the unknown shares of running jobs.
    pub taken: Option<Procs>,
    /// Its memory.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub memory: Mebibytes,
    /// Its GPUs.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub gpus: u32,
    /// Its local disk space.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub scratch: Mebibytes,
    /// Position of its kind in [`ClusterSnapshot::kinds`].
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub kind: u8,
}

impl Node {
    /// A node that is up, with cores alone.
    pub fn of(name: &str, cores: Procs) -> Node {
        Node { name: name.to_owned(), cores, up: true, ..Node::default() }
    }
}

/// A running job with its known allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AllocatedJob {
    /// The job.
    pub job: JobId,
    /// Its cores on all nodes.
    pub cores: Procs,
    /// Its nodes.
    pub on: Vec<NodeShare>,
    /// When its walltime ends.
    pub end: Time,
    /// Its expected end, if known better than by its walltime.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub expected: Option<Time>,
    /// What it has of its nodes besides cores.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub needs: Needs,
}

impl AllocatedJob {
    /// A job whose nodes are not known yet.
    pub fn of(job: JobId, cores: Procs, end: Time) -> AllocatedJob {
        AllocatedJob { job, cores, on: Vec::new(), end, expected: None, needs: Needs::NONE }
    }
}

/// A job's part of a node.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeShare {
    /// Position of the node in [`ClusterSnapshot::nodes`].
    pub node: u32,
    /// Its cores on the node, if known.
    pub cores: Option<Procs>,
    /// Its share of [`Needs::gpus`].
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub gpus: u32,
}

/// The shape of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Shape {
    /// Cores on all nodes. A job without any runs on nodes that are not in the snapshot, and has licences that are.
    pub cores: Procs,
    /// The exact number of nodes; none for any number.
    pub nodes: Option<u32>,
    /// The smallest number of cores per node.
    pub per_node: Procs,
    /// True for exclusive nodes.
    pub exclusive: bool,
    /// What it needs of its nodes besides cores.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_default"))]
    pub needs: Needs,
}

impl Shape {
    /// That many cores on any nodes.
    pub const fn of(cores: Procs) -> Shape {
        Shape { cores, nodes: None, per_node: Procs::ONE, exclusive: false, needs: Needs::NONE }
    }

    /// Licences alone, of a job on nodes that are not in the snapshot: positions in [`ClusterSnapshot::licences`], with the
    /// units of each.
    pub fn elsewhere(licences: Vec<(u32, u32)>) -> Shape {
        Shape { needs: Needs { licences, ..Needs::NONE }, ..Shape::of(Procs(0)) }
    }

    /// Whether it is of a job on nodes that are not in the snapshot.
    pub fn is_elsewhere(&self) -> bool {
        self.cores == Procs(0)
    }
}

/// A waiting job.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pending {
    /// The job.
    pub job: JobId,
    /// The requested shape.
    pub shape: Shape,
    /// The requested walltime.
    pub walltime: Span,
    /// Its expected runtime, if known better than by its walltime.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub expected: Option<Span>,
    /// The earliest start.
    pub begin: Option<Time>,
    /// True if the batch system does not plan it: held, or waiting for other jobs.
    pub blocked: bool,
    /// The start announced by the batch system.
    pub published: Option<PublishedStart>,
}

impl Pending {
    /// A job without further properties.
    pub fn of(job: JobId, shape: Shape, walltime: Span) -> Pending {
        Pending { job, shape, walltime, expected: None, begin: None, blocked: false, published: None }
    }
}

/// A start announced by the batch system.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PublishedStart {
    /// The start; one in the past is stale and ignored.
    pub start: Time,
    /// The nodes, if announced.
    pub nodes: Vec<u32>,
}

/// An invalid [`ClusterSnapshot`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A job appears twice.
    #[error("expected every job once, found job {0} twice")]
    Twice(JobId),
    /// A job is on a node that does not exist.
    #[error("expected one of {nodes} nodes, counted from 0, found {found} for job {job}")]
    Node {
        /// The job.
        job: JobId,
        /// The position found.
        found: u32,
        /// Number of nodes.
        nodes: usize,
    },
    /// A job has an invalid walltime.
    #[error("expected a walltime of 1 s to {}, found {found} for job {job}", Span::MAX)]
    Walltime {
        /// The job.
        job: JobId,
        /// Its walltime.
        found: Span,
    },
    /// The nodes have too many cores.
    #[error("expected at most 4294967295 cores on all nodes, found {0}")]
    Cores(u64),
    /// A job is on a node twice.
    #[error("expected every node of job {job} once, found node {node} twice")]
    NodeTwice {
        /// The job.
        job: JobId,
        /// The position of the node.
        node: u32,
    },
    /// There are too many kinds.
    #[error("expected at most {KINDS_MAX} kinds of nodes, found {0}")]
    Kinds(usize),
    /// A node is of a kind that does not exist.
    #[error("expected one of {kinds} kinds of nodes, counted from 0, found {found} for node {node}")]
    Kind {
        /// The node.
        node: String,
        /// The position found.
        found: u8,
        /// Number of kinds.
        kinds: usize,
    },
    /// A reservation is of something that does not exist.
    #[error(
        "expected reservations of {nodes} nodes and {licences} licences, counted from 0, found {found:?}"
    )]
    Reserved {
        /// The reservation.
        found: AdvanceReservation,
        /// Number of nodes.
        nodes: usize,
        /// Number of licences.
        licences: usize,
    },
    /// A job has a licence that does not exist.
    #[error("expected one of {licences} licences, counted from 0, found {found} for job {job}")]
    Licence {
        /// The job.
        job: JobId,
        /// The position found.
        found: u32,
        /// Number of licences.
        licences: usize,
    },
    /// A job requests neither cores nor licences, or no nodes.
    #[error("expected at least one core on one node, or a licence, found none for job {0}")]
    Nothing(JobId),
    /// A rule has a unit of 0.
    #[error("expected a {rule} of at least 1 s, found {found}")]
    Unit {
        /// The rule.
        rule: &'static str,
        /// Its value.
        found: Span,
    },
}

impl ClusterSnapshot {
    /// A declared cluster without jobs, which was checked.
    pub fn declared(cluster: &ClusterNodes) -> ClusterSnapshot {
        let (nodes, catalogue) = Catalogue::declared(cluster);
        let Catalogue { kinds, licences, default_memory, .. } = catalogue;
        ClusterSnapshot { nodes, kinds, licences, default_memory, ..ClusterSnapshot::default() }
    }

    /// The nodes and licences as they are declared: the inverse of [`ClusterSnapshot::declared`], where neighbours that are alike are one
    /// group.
    ///
    /// # Errors
    ///
    /// No cluster can declare such nodes.
    pub fn to_declared(&self) -> Result<ClusterNodes, NodesError> {
        let mut groups: Vec<NodeGroup> = Vec::new();
        for Node { cores, memory, gpus, scratch, kind, .. } in &self.nodes {
            let NodeKind { features, gpu_kind } =
                self.kinds.get(usize::from(*kind)).cloned().unwrap_or_default();
            let (procs, memory, gpus, scratch) = (*cores, *memory, *gpus, *scratch);
            let group = NodeGroup { count: 1, procs, memory, gpus, gpu_kind, scratch, features };
            match groups.last_mut() {
                Some(last) if (NodeGroup { count: 1, ..last.clone() }) == group => last.count += 1,
                _ => groups.push(group),
            }
        }
        let licences = self.licences.iter().map(|licence| (licence.name.clone(), licence.count)).collect();
        let declared = ClusterNodes { groups, licences, default_memory: self.default_memory };
        declared.check().map(|()| declared)
    }

    /// The kinds of nodes that have these features and GPUs of that kind.
    pub fn kinds_with(&self, constraint: Option<&Constraint>, gpu_kind: Option<&str>) -> KindSet {
        catalogue::kinds_with(&self.kinds, constraint, gpu_kind)
    }

    /// The shape on this cluster of a request on so many processors.
    pub fn shape(&self, procs: Procs, resources: Option<&Resources>) -> Shape {
        Catalogue::of(self).shape(procs, resources)
    }

    /// Cores of all nodes that requests can have, up or not; of a snapshot that was checked.
    pub fn cores(&self) -> Procs {
        let own = self.nodes.iter().filter(|node| self.own_kinds.has(node.kind));
        let cores: u64 = own.map(|node| u64::from(node.cores.0)).sum();
        Procs(u32::try_from(cores).unwrap_or(u32::MAX))
    }

    fn all_cores(&self) -> u64 {
        self.nodes.iter().map(|node| u64::from(node.cores.0)).sum()
    }

    /// Checks the snapshot. More allocated cores than exist are permitted, since listings are not atomic. O(jobs log jobs).
    pub fn check(&self) -> Result<(), SnapshotError> {
        for (rule, found) in
            [("resolution", self.rules.resolution), ("walltime unit", self.rules.walltime_unit)]
        {
            if !(Span(1)..=Span::MAX).contains(&found) {
                return Err(SnapshotError::Unit { rule, found });
            }
        }
        self.check_nodes()?;
        let jobs = self.running.iter().map(|one| (one.job, &one.needs));
        let jobs = jobs.chain(self.pending.iter().map(|one| (one.job, &one.shape.needs)));
        let mut seen = BTreeSet::new();
        for (job, needs) in jobs {
            if !seen.insert(job) {
                return Err(SnapshotError::Twice(job));
            }
            let licences = self.licences.len();
            let unknown = needs.licences.iter().find(|(licence, _)| *licence as usize >= licences);
            if let Some((found, _)) = unknown {
                return Err(SnapshotError::Licence { job, found: *found, licences });
            }
        }
        for AllocatedJob { job, on, .. } in &self.running {
            let mut seen = BTreeSet::new();
            if let Some(NodeShare { node, .. }) = on.iter().find(|share| !seen.insert(share.node)) {
                return Err(SnapshotError::NodeTwice { job: *job, node: *node });
            }
            self.check_position(*job, on.iter().map(|share| share.node))?;
        }
        for Pending { job, shape, walltime, expected, published, .. } in &self.pending {
            self.check_position(*job, published.iter().flat_map(|one| one.nodes.iter().copied()))?;
            for found in expected.iter().chain([walltime]) {
                if !(Span(1)..=Span::MAX).contains(found) {
                    return Err(SnapshotError::Walltime { job: *job, found: *found });
                }
            }
            if shape.is_elsewhere() && shape.needs.licences.is_empty() || shape.nodes == Some(0) {
                return Err(SnapshotError::Nothing(*job));
            }
        }
        Ok(())
    }

    fn check_nodes(&self) -> Result<(), SnapshotError> {
        let cores = self.all_cores();
        if cores > u64::from(u32::MAX) {
            return Err(SnapshotError::Cores(cores));
        }
        if self.kinds.len() > KINDS_MAX {
            return Err(SnapshotError::Kinds(self.kinds.len()));
        }
        let (nodes, licences) = (self.nodes.len(), self.licences.len());
        let is_possible = |one: &&AdvanceReservation| {
            one.on.iter().all(|share| (share.node as usize) < nodes)
                && one.licences.iter().all(|(licence, _)| (*licence as usize) < licences)
        };
        if let Some(found) = self.reserved.iter().find(|one| !is_possible(one)) {
            return Err(SnapshotError::Reserved { found: found.clone(), nodes, licences });
        }
        let kinds = self.kinds.len().max(1);
        match self.nodes.iter().find(|node| usize::from(node.kind) >= kinds) {
            Some(Node { name, kind, .. }) => {
                Err(SnapshotError::Kind { node: name.clone(), found: *kind, kinds })
            }
            None => Ok(()),
        }
    }

    fn check_position(&self, job: JobId, mut on: impl Iterator<Item = u32>) -> Result<(), SnapshotError> {
        let nodes = self.nodes.len();
        match on.find(|node| *node as usize >= nodes) {
            Some(found) => Err(SnapshotError::Node { job, found, nodes }),
            None => Ok(()),
        }
    }
}
