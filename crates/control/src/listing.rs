//! What a batch system lists of itself, whichever it is: its nodes and everybody's jobs, as plain data.
//!
//! The adapters in `site` make a [`Listing`] of what the commands of Slurm or OAR print; the mirror of an external
//! queue is fed with it. A listing of a busy cluster is long and mostly the same as the one before, so what is
//! journaled is the difference ([`Changes`]).

mod changes;
mod partition;
#[cfg(test)]
mod tests;

use pliant_model::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::job::Exit;

pub use changes::{ChangedStart, Changes};
pub use partition::Partition;

/// What a batch system said at one moment.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Listing {
    /// When it was asked.
    pub at: Time,
    /// Its nodes, in the order of their names, each once: [`Listing::new`] sees to that.
    pub nodes: Vec<Node>,
    /// The jobs that it knows, in the order of their ids (as text), each once.
    pub jobs: Vec<ListedJob>,
    /// Its partitions, in the order of their names, if it tells them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<Partition>,
}

/// A node of a cluster.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Its name in the batch system.
    pub name: String,
    /// Its cores, as the batch system counts them.
    pub cores: u32,
    /// The partitions (queues) it belongs to, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<String>,
    /// Why no job is started on it; none if jobs are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
}

/// A job in a listing.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct ListedJob {
    /// What the batch system calls it.
    pub id: String,
    /// The number of the job that this server submitted so, by the tag it carries; none if it is somebody else's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<u32>,
    /// Whose it is, in the batch system's words; empty if that is not told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub owner: String,
    /// Where it is.
    pub state: State,
    /// The partition (queue); several with commas between if it may start in any of them.
    pub partition: String,
    /// What it asks for, or has if it runs.
    pub shape: CoreLayout,
    /// How many more waiting jobs it stands for, each like this one (tasks of an array that have not started).
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub further: u32,
    /// How many of an array's tasks may run at once, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// Where it runs or ran; empty before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<NodeAllocation>,
    /// Its limit; none if it has none, or one that is not told.
    pub walltime: Option<Span>,
    /// When it was submitted.
    pub submitted: Time,
    /// When it started, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// When and where the batch system means to start it, if it publishes that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<PlannedStart>,
    /// When it ended, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// How its process ended, if that is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The higher, the earlier its turn.
    pub priority: u64,
    /// What it waits for, other than its turn and its cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitReason>,
    /// What else it needs, in the batch system's words: features, a reservation, certain nodes. A mirror cannot
    /// know what that leaves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
}

/// How many cores, and how they lie.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct CoreLayout {
    /// Cores. An exclusive job may have more: all of its nodes.
    pub cores: u32,
    /// On so many nodes; none if that is left to the batch system. Of a listed job that waits it is the number that
    /// the batch system reckons with, which may rise if cores are taken on more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Its nodes run nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
}

/// The cores of one node that a job has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeAllocation {
    /// The node.
    pub node: String,
    /// How many of its cores; none if it is not told how the job's cores are spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
}

/// A start that is planned.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlannedStart {
    /// When. A plan that was not looked at for a while lies in the past.
    pub start: Time,
    /// On which nodes, if that is told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

/// The state of a listed job, in words of no batch system.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Waits for its turn, its cores, or what [`ListedJob::waits_for`] says.
    #[default]
    Pending,
    /// Waits until somebody releases it.
    Held,
    /// Its nodes are made ready; they are its own already.
    Configuring,
    /// Runs.
    Running,
    /// Stopped in its tracks, and its cores are given to others meanwhile.
    Suspended,
    /// Stopped in its tracks, and keeps its cores.
    Stopped,
    /// Its processes are going; it still has its nodes.
    Completing,
    /// Ended by itself with code 0.
    Completed,
    /// Ended by itself otherwise, or could not be launched.
    Failed,
    /// Cancelled, before or after it started.
    Cancelled,
    /// Ended at its walltime.
    TimedOut,
    /// Given up because it would not have ended by its deadline.
    Expired,
    /// A node of its own failed.
    NodeFailed,
    /// Ended for using too much memory.
    OutOfMemory,
    /// Ended to make room for another.
    Preempted,
    /// Ran, was stopped, and waits again.
    Requeued,
    /// A state that is not known here, in the batch system's word.
    Unknown(String),
}

/// What a state means for the cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Has no cores yet.
    Waits,
    /// Has been given cores: it runs, or began to.
    Runs,
    /// Has none any more, and gets none again.
    Over,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// What a waiting job waits for, other than its turn and its cores.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitReason {
    /// Other jobs, in the batch system's words.
    Jobs(String),
    /// A time that its owner set.
    Time(Time),
    /// A limit on its owner, account or array, in the batch system's word.
    Limit(String),
    /// It never starts as it is, in the batch system's word.
    Never(String),
    /// Something else, in the batch system's word.
    Other(String),
}

impl State {
    /// What it means for the cores; none if the state is not known.
    pub fn phase(&self) -> Option<Phase> {
        Some(match self {
            State::Pending | State::Held | State::Requeued => Phase::Waits,
            State::Configuring | State::Running | State::Suspended | State::Stopped | State::Completing => {
                Phase::Runs
            }
            State::Completed
            | State::Failed
            | State::Cancelled
            | State::TimedOut
            | State::Expired
            | State::NodeFailed
            | State::OutOfMemory
            | State::Preempted => Phase::Over,
            State::Unknown(_) => return None,
        })
    }
}

impl ListedJob {
    /// What its state means for the cores. A job in a state that is not known runs if it has a place.
    pub fn phase(&self) -> Phase {
        self.state.phase().unwrap_or(match self.places.is_empty() {
            true => Phase::Waits,
            false => Phase::Runs,
        })
    }

    /// Whether it has, or had, cores. A job that never had any can be run elsewhere.
    pub fn ever_started(&self) -> bool {
        self.phase() == Phase::Runs || !self.places.is_empty()
    }

    /// How it ended, as far as the batch system knows; none if it has not.
    pub fn exit(&self) -> Option<Exit> {
        if self.phase() != Phase::Over {
            return None;
        }
        let lost = |why: &str| Exit::Lost(format!("the batch system says: {why}"));
        Some(match (&self.state, self.status) {
            (State::Cancelled, _) => Exit::Cancelled,
            (State::TimedOut, _) => Exit::OverWalltime,
            (State::Expired, _) => Exit::NotStarted("its deadline could not be kept".to_owned()),
            (State::NodeFailed, _) => lost("a node failed"),
            (State::OutOfMemory, _) => lost("out of memory"),
            (State::Preempted, _) => lost("preempted"),
            (State::Completed, None) => Exit::Code(0),
            (_, Some(Status::Code(code))) => Exit::Code(code),
            (_, Some(Status::Signal(signal))) => Exit::Signal(signal),
            (_, None) => lost("failed"),
        })
    }
}

impl Listing {
    /// A listing of these nodes and jobs, put in order. Of two with the same name the later one counts.
    pub fn new(at: Time, mut nodes: Vec<Node>, mut jobs: Vec<ListedJob>) -> Listing {
        // Stable sorts of the reverse: of equals the last comes first, and stays.
        nodes.reverse();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes.dedup_by(|later, first| later.name == first.name);
        jobs.reverse();
        jobs.sort_by(|a, b| a.id.cmp(&b.id));
        jobs.dedup_by(|later, first| later.id == first.id);
        Listing { at, nodes, jobs, partitions: Vec::new() }
    }

    /// The job of that id.
    pub fn job(&self, id: &str) -> Option<&ListedJob> {
        self.jobs.binary_search_by(|job| job.id.as_str().cmp(id)).ok().map(|index| &self.jobs[index])
    }

    /// The node of that name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.binary_search_by(|node| node.name.as_str().cmp(name)).ok().map(|index| &self.nodes[index])
    }
}
