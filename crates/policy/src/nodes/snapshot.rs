//! What is known of a foreign cluster at one moment, as plain data: what a listing said, what a snapshot of
//! a server carries, what a journal keeps.

use std::collections::BTreeSet;

use pliant_model::{JobId, Procs, Span, Time};

/// A cluster with its queue.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClusterSnapshot {
    /// The nodes, in the batch system's order: it prefers neighbours.
    pub nodes: Vec<Node>,
    /// The jobs that hold cores.
    pub running: Vec<AllocatedJob>,
    /// The waiting jobs, the one with the highest priority first.
    pub pending: Vec<Pending>,
    /// How the batch system plans.
    pub rules: Rules,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Node {
    /// Its name, for people.
    pub name: String,
    /// Its cores.
    pub cores: Procs,
    /// False if nothing may start on it: down, drained, draining, reserved for others.
    pub up: bool,
    /// How many of its cores are taken, where the batch system says so: it narrows what is not known of
    /// the running jobs.
    pub taken: Option<Procs>,
}

/// A running job, and all that is known of where.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct AllocatedJob {
    /// The job.
    pub job: JobId,
    /// Its cores, on all nodes together.
    pub cores: Procs,
    /// Its nodes.
    pub on: Vec<NodeShare>,
    /// When its walltime ends.
    pub end: Time,
    /// When it is expected to end, if that is better known than by its walltime.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub expected: Option<Time>,
}

/// A job's part of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeShare {
    /// Position of the node in [`ClusterSnapshot::nodes`].
    pub node: u32,
    /// How many of its cores, if known.
    pub cores: Option<Procs>,
}

/// What a job asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Shape {
    /// Cores, on all nodes together.
    pub cores: Procs,
    /// Exactly so many nodes; as many as it takes if none.
    pub nodes: Option<u32>,
    /// At least so many cores of each node.
    pub per_node: Procs,
    /// Nodes that nobody else uses.
    pub exclusive: bool,
}

impl Shape {
    /// That many cores, wherever they are.
    pub const fn of(cores: Procs) -> Shape {
        Shape { cores, nodes: None, per_node: Procs::ONE, exclusive: false }
    }
}

/// A waiting job.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pending {
    /// The job.
    pub job: JobId,
    /// What it asks for.
    pub shape: Shape,
    /// Walltime asked for.
    pub walltime: Span,
    /// How long it is expected to run, if that is better known than by its walltime.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub expected: Option<Span>,
    /// It does not start before this.
    pub begin: Option<Time>,
    /// True if the batch system does not plan it: held, or waiting for other jobs.
    pub blocked: bool,
    /// The batch system's own plan for it, if there is one.
    pub published: Option<PublishedStart>,
}

impl Pending {
    /// A job of which nothing else is known.
    pub fn of(job: JobId, shape: Shape, walltime: Span) -> Pending {
        Pending { job, shape, walltime, expected: None, begin: None, blocked: false, published: None }
    }
}

/// A start that the batch system has announced.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PublishedStart {
    /// When; in the past, it is stale and means nothing.
    pub start: Time,
    /// On which nodes, if it says so.
    pub nodes: Vec<u32>,
}

crate::named_enum! {
    /// What a planned start keeps other jobs, planned after it, from doing.
    Reserve, "kind of reservation", {
        /// Using its nodes at all: what Slurm's announced starts come from.
        Nodes = "nodes",
        /// Holding any core of its nodes when it starts; from then on it has its cores only. That is what
        /// Slurm's passes amount to, one after the other, if walltimes are true.
        Start = "start",
        /// Using its cores.
        Cores = "cores",
    }
}

/// How a batch system plans.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rules {
    /// Times reserved by [`Reserve::Nodes`] are rounded down to multiples of this (Slurm's `bf_resolution`).
    pub resolution: Span,
    /// Starts farther away are not announced (Slurm's `bf_window`).
    pub window: Span,
    /// A job that could start now, or at the end of a planned one, must end *before* the next reservation
    /// begins.
    pub strict_holes: bool,
    /// What a planned start reserves.
    pub reserve: Reserve,
    /// Every job has its nodes to itself, asked for or not.
    pub whole_nodes: bool,
    /// Walltimes are rounded up to multiples of this.
    pub walltime_unit: Span,
    /// How long after its walltime a job is stopped.
    pub grace: Span,
    /// How long its cores are kept free after each job's walltime (OAR's SCHEDULER_JOB_SECURITY_TIME).
    #[cfg_attr(feature = "serde", serde(default))]
    pub pause: Span,
    /// Time from one backfill pass to the next (Slurm's `bf_interval`).
    pub interval: Span,
    /// Under [`Reserve::Start`]: how many passes are played through before the rest is planned in one go.
    pub passes: u32,
    /// Whether announced starts are taken over.
    pub published: bool,
}

impl Default for Rules {
    /// As a plain reservation table: every core and second counts.
    fn default() -> Rules {
        Rules {
            resolution: Span(1),
            window: Span::MAX,
            strict_holes: false,
            reserve: Reserve::Cores,
            whole_nodes: false,
            walltime_unit: Span(1),
            grace: Span::ZERO,
            pause: Span::ZERO,
            interval: Span::ZERO,
            passes: 0,
            published: true,
        }
    }
}

impl Rules {
    /// What Slurm does, if its backfill makes a pass every `interval` (`bf_interval`, 30 s by default):
    /// for estimates.
    ///
    /// Announced starts are left aside, since real ones are closer to these rules (docs/validation.md): an
    /// announced start keeps whole nodes and counts ends in groups. A hole as long as the job is of no use when
    /// the next pass comes too late for it; with a pass every few seconds it is, as jobs end a little early.
    pub fn slurm(interval: Span) -> Rules {
        Rules {
            strict_holes: interval >= Span(10),
            reserve: Reserve::Start,
            interval,
            passes: 200,
            walltime_unit: Span(60),
            grace: Span(30),
            published: false,
            ..Rules::default()
        }
    }

    /// What OAR does: conservative backfilling on cores, every job at the earliest place that those before it leave,
    /// with `pause` between two on the same core, all of it published (`scheduledStart`). What is published is taken
    /// over: it knows of limits that no picture shows.
    pub fn oar(pause: Span) -> Rules {
        Rules { grace: Span(30), pause, ..Rules::default() }
    }

    /// What Slurm says it will do: the starts that its backfill announces, with its `bf_resolution` and
    /// `bf_window`. For comparison, and where the announced start itself is wanted.
    pub fn slurm_announced(resolution: Span, window: Span) -> Rules {
        Rules {
            resolution,
            window,
            strict_holes: true,
            reserve: Reserve::Nodes,
            walltime_unit: Span(60),
            grace: Span(30),
            ..Rules::default()
        }
    }
}

/// Why a [`ClusterSnapshot`] is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SnapshotError {
    /// A job appears twice.
    #[error("expected every job once, found job {0} twice")]
    Twice(JobId),
    /// A job is on a node that is not there.
    #[error("expected one of {nodes} nodes, counted from 0, found {found} for job {job}")]
    Node {
        /// The job.
        job: JobId,
        /// The position that was named.
        found: u32,
        /// How many nodes there are.
        nodes: usize,
    },
    /// A job has a walltime that no job can have.
    #[error("expected a walltime of 1 s to {}, found {found} for job {job}", Span::MAX)]
    Walltime {
        /// The job.
        job: JobId,
        /// What it has.
        found: Span,
    },
    /// A job asks for nothing.
    #[error("expected at least one core on one node, found none for job {0}")]
    Nothing(JobId),
    /// A rule is counted in units of nothing.
    #[error("expected a {rule} of at least 1 s, found {found}")]
    Unit {
        /// Which one.
        rule: &'static str,
        /// What it is.
        found: Span,
    },
}

impl ClusterSnapshot {
    /// Cores of all nodes, up or not.
    pub fn cores(&self) -> Procs {
        Procs(self.nodes.iter().map(|node| node.cores.0).sum())
    }

    /// Checks what planning relies on. That running jobs take more cores than there are is no mistake:
    /// listings that are made one after the other say such things. O(jobs log jobs).
    pub fn check(&self) -> Result<(), SnapshotError> {
        for (rule, found) in
            [("resolution", self.rules.resolution), ("walltime unit", self.rules.walltime_unit)]
        {
            if !(Span(1)..=Span::MAX).contains(&found) {
                return Err(SnapshotError::Unit { rule, found });
            }
        }
        let mut seen = BTreeSet::new();
        let jobs = self.running.iter().map(|one| one.job).chain(self.pending.iter().map(|one| one.job));
        for job in jobs {
            if !seen.insert(job) {
                return Err(SnapshotError::Twice(job));
            }
        }
        let held = self.running.iter().flat_map(|one| one.on.iter().map(|share| (one.job, share.node)));
        let published = |one: &Pending| one.published.iter().flat_map(|plan| plan.nodes.clone()).collect();
        let planned = self.pending.iter().map(|one| (one.job, published(one)));
        let planned =
            planned.flat_map(|(job, nodes): (_, Vec<u32>)| nodes.into_iter().map(move |n| (job, n)));
        let nodes = self.nodes.len();
        if let Some((job, found)) = held.chain(planned).find(|(_, node)| *node as usize >= nodes) {
            return Err(SnapshotError::Node { job, found, nodes });
        }
        for Pending { job, shape, walltime, expected, .. } in &self.pending {
            for found in expected.iter().chain([walltime]) {
                if !(Span(1)..=Span::MAX).contains(found) {
                    return Err(SnapshotError::Walltime { job: *job, found: *found });
                }
            }
            if shape.cores == Procs(0) || shape.nodes == Some(0) {
                return Err(SnapshotError::Nothing(*job));
            }
        }
        Ok(())
    }
}
