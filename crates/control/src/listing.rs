//! Listings of a batch system: its nodes and everybody's jobs, as plain data that fits Slurm and OAR.
//!
//! The adapters in `site` parse the output of Slurm or OAR into a [`Listing`], which feeds the mirror of an external batch
//! system. Successive listings of a busy cluster are long and similar, so only the difference is journaled ([`Changes`]).

mod changes;
mod partition;
mod reservation;
mod resources;
#[cfg(test)]
mod tests;

use pliant_model::{Mebibytes, Span, Time};
use serde::{Deserialize, Serialize};

use crate::job::Exit;

pub use changes::{ChangedStart, Changes};
pub use partition::Partition;
pub use reservation::Reservation;
pub use resources::{CountedResources, DefaultMemory, RequestedResources};

/// The state of a batch system at one moment.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Listing {
    /// When the batch system was queried.
    pub at: Time,
    /// Nodes, sorted by name, without duplicates ([`Listing::new`]).
    pub nodes: Vec<Node>,
    /// Jobs, sorted by ID as text, without duplicates.
    pub jobs: Vec<ListedJob>,
    /// Partitions, sorted by name, if known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<Partition>,
    /// What is counted besides cores.
    #[serde(default, skip_serializing_if = "is_default")]
    pub counted: CountedResources,
    /// Reservations that have not ended, sorted by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reservations: Vec<Reservation>,
    /// The names of reservations that the server's jobs are to have their nodes of, and that are not there: too early, ended or misspelt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_reservations: Vec<String>,
}

fn is_default<A: Default + PartialEq>(value: &A) -> bool {
    *value == A::default()
}

/// A node of a cluster.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Name in the batch system.
    pub name: String,
    /// Number of cores in the batch system.
    pub cores: u32,
    /// Partitions (queues) of the node, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<String>,
    /// Why no job starts on it; none if jobs do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
    /// True if that is only for as long as a reservation keeps it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reserved: bool,
    /// Its memory.
    #[serde(default, skip_serializing_if = "is_default")]
    pub memory: Mebibytes,
    /// Its GPUs that jobs can have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gpus: u32,
    /// The kind of its GPUs, if all are of one kind that has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_kind: Option<String>,
    /// Its local disk space.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scratch: Mebibytes,
    /// Its features, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
}

/// A job in a listing.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ListedJob {
    /// ID in the batch system.
    pub id: String,
    /// The number of this server's job, by its tag; none for other jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_number: Option<u32>,
    /// Owner in the batch system; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// State of the job.
    pub state: State,
    /// Partition (queue); several, separated by commas, if it may start in any of them.
    pub partition: String,
    /// Cores that it requests, or has if it runs.
    pub shape: CoreLayout,
    /// Number of further waiting jobs of the same kind: tasks of an array that have not started.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub more_tasks: u32,
    /// The most tasks of its array that run at once, if limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_running_tasks: Option<u32>,
    /// Its nodes, once it has started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<NodeAllocation>,
    /// Its time limit; none if unlimited or unknown.
    pub walltime: Option<Span>,
    /// Submission time.
    pub submitted: Time,
    /// Start time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// The published start, if the batch system publishes one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<PlannedStart>,
    /// End time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// Exit status, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Priority: higher first.
    pub priority: u64,
    /// Why it waits, other than for priority and resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_reason: Option<WaitReason>,
    /// What it requests besides cores.
    #[serde(default, skip_serializing_if = "is_default")]
    pub requested: RequestedResources,
    /// The reservation of which it has its nodes, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// Further requirements in the batch system's words, such as nodes. The mirror does not plan by these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<String>,
}

/// Number and layout of cores.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct CoreLayout {
    /// Cores. An exclusive job may have more: all cores of its nodes.
    pub cores: u32,
    /// Nodes; none if the batch system chooses. Of a waiting job, the batch system's minimum, which may be exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Its nodes run no other jobs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}

/// The cores of a job on one node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeAllocation {
    /// The node.
    pub node: String,
    /// Number of cores; none if the distribution over nodes is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// All GPUs that it has there, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
}

/// A planned start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlannedStart {
    /// The start. In the past if the plan is out of date.
    pub start: Time,
    /// The nodes, if known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// The state of a listed job, independent of the batch system.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Waits for priority, resources, or what [`ListedJob::wait_reason`] says.
    #[default]
    Pending,
    /// Held: waits until it is released.
    Held,
    /// Its nodes are allocated and are being prepared.
    Configuring,
    /// Runs.
    Running,
    /// Suspended; other jobs use its cores meanwhile.
    Suspended,
    /// Stopped, and keeps its cores.
    Stopped,
    /// Its processes are ending; it still has its nodes.
    Completing,
    /// Ended by itself with exit code 0.
    Completed,
    /// Ended by itself with another status, or could not be launched.
    Failed,
    /// Cancelled, before or after its start.
    Cancelled,
    /// Ended at its time limit.
    TimedOut,
    /// Removed because it could not end by its deadline.
    Expired,
    /// One of its nodes failed.
    NodeFailed,
    /// Ended for exceeding its memory.
    OutOfMemory,
    /// Preempted by another job.
    Preempted,
    /// Ran, was stopped, and waits again.
    Requeued,
}

/// The phase of a job, by the use of cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Has no cores yet.
    Waiting,
    /// Has cores.
    Running,
    /// Has ended, and gets no cores again.
    Ended,
}

/// The exit status of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Exit code.
    Code(i32),
    /// Signal that ended it.
    Signal(i32),
}

/// Why a job waits, other than for priority and resources.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitReason {
    /// For other jobs, in the batch system's words.
    Jobs(String),
    /// For a begin time that its owner set.
    Time(Time),
    /// For a limit on its owner, account or array, in the batch system's word.
    Limit(String),
    /// It can never start, in the batch system's word.
    Never(String),
    /// For another reason, in the batch system's word.
    Other(String),
}

impl NodeAllocation {
    /// A job's cores on a node, whatever else it has there.
    pub fn new(node: impl Into<String>, cores: Option<u32>) -> NodeAllocation {
        NodeAllocation { node: node.into(), cores, gpus: None }
    }
}

impl State {
    /// The phase of this state.
    pub fn phase(&self) -> Phase {
        match self {
            State::Pending | State::Held | State::Requeued => Phase::Waiting,
            State::Configuring | State::Running | State::Suspended | State::Stopped | State::Completing => {
                Phase::Running
            }
            State::Completed
            | State::Failed
            | State::Cancelled
            | State::TimedOut
            | State::Expired
            | State::NodeFailed
            | State::OutOfMemory
            | State::Preempted => Phase::Ended,
        }
    }
}

impl ListedJob {
    /// The phase of the job.
    pub fn phase(&self) -> Phase {
        self.state.phase()
    }

    /// Whether it has started. A job that has not can run elsewhere.
    pub fn ever_started(&self) -> bool {
        self.phase() == Phase::Running || !self.allocations.is_empty()
    }

    /// Its exit by the batch system; none if it has not ended.
    pub fn exit(&self) -> Option<Exit> {
        if self.phase() != Phase::Ended {
            return None;
        }
        let lost = |why: &str| Exit::Lost(format!("the batch system says: {why}"));
        Some(match (&self.state, self.status) {
            (State::Cancelled, _) => Exit::Cancelled,
            (State::TimedOut, _) => Exit::OverWalltime,
            (State::Expired, _) => Exit::NotStarted("its deadline could not be kept".to_owned()),
            (State::NodeFailed, _) => lost("a node failed"),
            (State::OutOfMemory, _) => Exit::OverLimit("memory, the batch system says".to_owned()),
            (State::Preempted, _) => lost("preempted"),
            (State::Completed, None) => Exit::Code(0),
            (_, Some(Status::Code(code))) => Exit::Code(code),
            (_, Some(Status::Signal(signal))) => Exit::Signal(signal),
            (_, None) => lost("failed"),
        })
    }
}

impl Listing {
    /// The jobs that wait.
    pub fn waiting(&self) -> impl Iterator<Item = &ListedJob> {
        self.jobs.iter().filter(|job| job.phase() == Phase::Waiting)
    }

    /// A sorted listing of these nodes and jobs. Of duplicates the last one counts.
    pub fn new(at: Time, mut nodes: Vec<Node>, mut jobs: Vec<ListedJob>) -> Listing {
        // Stable sorts of the reversed lists: the last duplicate comes first and stays.
        nodes.reverse();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes.dedup_by(|later, first| later.name == first.name);
        jobs.reverse();
        jobs.sort_by(|a, b| a.id.cmp(&b.id));
        jobs.dedup_by(|later, first| later.id == first.id);
        Listing { at, nodes, jobs, ..Listing::default() }
    }

    /// The job with that ID.
    pub fn job(&self, id: &str) -> Option<&ListedJob> {
        self.jobs.binary_search_by(|job| job.id.as_str().cmp(id)).ok().map(|index| &self.jobs[index])
    }

    /// The node with that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.binary_search_by(|node| node.name.as_str().cmp(name)).ok().map(|index| &self.nodes[index])
    }
}
