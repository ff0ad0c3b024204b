//! Co-allocation: launches an application of communicating tasks on several clusters at once (paper 003, whose authors left
//! the launch to others). All of its machines are reserved or none. Then every task starts with the addresses of its
//! neighbours, and when one fails all are ended.
//!
//! An agent *coordinates* ([`Coordinator`]): it maps the tasks with `pliant_tig::wase` on the machines that servers report,
//! and makes one [`Subjob`] for each machine it uses. A server *participates* (`server/subjobs.rs`): it queues its subjob
//! as one tentative job of its batch system ([`crate::batch::BatchSystem::submit_tentatively`]). When the tentative job is
//! ready to start, it has its processors and starts nothing. This is two-phase commit with presumed abort (Mohan and
//! Lindsay 1983):
//!
//! 1. *prepare*: the server queues the subjob or refuses it. The subjob is *prepared* when it has its processors and its
//!    tasks have their addresses.
//! 2. *commit*: when all subjobs of a group are prepared, the coordinator journals that they are to run, and then sends the
//!    decision. At the deadline, or when a subjob is refused or lost or the owner cancels, it journals the *end*: no subjob
//!    runs.
//!
//! Both sides repeat their messages until they are answered. Each message carries the complete state of its sender: the
//! subjob's state ([`SubjobState`]) one way, the decision ([`SubjobDecision`]) the other. Both only progress, so late,
//! duplicate or reordered messages change nothing. A server without a decision asks. The decision about an unknown launch is the
//! end, so a coordinator may forget ended launches. A server remembers a subjob that ended before it was prepared, and a
//! later preparation does nothing.
//!
//! No task runs unless all subjobs of its group have reported that they are prepared, and no subjob starts twice. Once
//! the end is decided, a subjob stays prepared or running only while its server and the agent cannot reach each other. As
//! in any two-phase commit, a server whose coordinator stays down keeps a prepared subjob: its vote binds it.
//!
//! Two launches that wait for each other's processors both give up at their deadlines. In an external batch system a
//! prepared job gives up by itself after the launch's timeout and almost [`crate::batch::external::RELEASE_TIMEOUT`]. If
//! that happens before the decision, the group does not run; after it, the launch is ended.
//!
//! Tasks that are *spawned* later form a group of their own, mapped on the remaining machines and committed on their own.
//! If they cannot be mapped, only the spawn fails.

mod client;
mod commitments;
mod coordinator;
mod links;
mod man_grouping;
mod platform;
mod probing;
mod record;

use crate::payload::Payload;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use pliant_model::{Procs, Span};
use pliant_tig::{Edge, GraphError, Task, TaskGraph, TaskId};
use serde::{Deserialize, Serialize};

use crate::handoff::Peer;
use crate::job::Exit;
use crate::names::{Key, Name, ParseIdError, User, parse_id_error};

pub use client::{ClientAction, LaunchClient, LaunchOutcome, LaunchUpdate};
pub use coordinator::{
    Answer, Command, Coordinator, CoordinatorConfig, CoordinatorState, Event, LaunchSpec, SpawnSpec,
    SpawnedTask,
};
pub use links::{Link, LinkQuality, Links, ServerPair, server_pair};
pub use platform::{Machine, Site};
pub use probing::{Probe, ProbeOutcome, Prober};
pub use record::{LaunchEnd, LaunchRecord, LaunchState, OpenSubjob, TaskRecord};

/// The ID of a launch: its coordinating agent and the key that its client drew.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct LaunchId {
    /// The coordinating agent.
    pub agent: Name,
    /// The launch's key.
    pub key: Key,
}

impl fmt::Display for LaunchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.agent, self.key)
    }
}

impl FromStr for LaunchId {
    type Err = ParseIdError;
    fn from_str(text: &str) -> Result<LaunchId, ParseIdError> {
        let parse = || {
            let (agent, key) = text.split_once('/')?;
            Some(LaunchId { agent: agent.parse().ok()?, key: key.parse().ok()? })
        };
        parse().ok_or_else(|| parse_id_error("a launch like `master/0f` with 32 hexadecimal digits", text))
    }
}

/// The ID of a subjob: the part of a launch that runs on one machine of a server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SubjobId {
    /// The launch.
    pub launch: LaunchId,
    /// The subjob's number in the launch.
    pub number: u32,
}

impl fmt::Display for SubjobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} subjob {}", self.launch, self.number)
    }
}

/// A subjob, with all that its server needs to know of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Subjob {
    /// The subjob's ID.
    pub id: SubjobId,
    /// The agent that decides about it.
    pub coordinator: Peer,
    /// The launch's owner.
    pub owner: User,
    /// The launch's name.
    pub name: String,
    /// The tasks.
    pub tasks: Vec<PlacedTask>,
    /// The processors for all tasks.
    pub procs: Procs,
    /// The walltime of the tasks.
    pub walltime: Span,
    /// How long the subjob may stay prepared before it runs.
    pub timeout: Span,
    /// The user's signature for the tasks, as its driver describes it.
    #[serde(default)]
    pub signed: Payload,
}

/// A task with its machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlacedTask {
    /// Its name.
    pub name: String,
    /// The machine, by its server's name for it.
    pub machine: String,
    /// The neighbours: tasks that it communicates with.
    pub neighbours: Vec<String>,
    /// The program, as its driver describes it.
    pub payload: Payload,
}

/// The address of each task, `host:port`, by the task's name.
pub type Addresses = BTreeMap<String, String>;

/// The state of a subjob, as its server reports it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjobState {
    /// The server does not know it.
    Unknown,
    /// It is queued in the batch system.
    Queued,
    /// It is prepared: it has its processors, and nothing runs.
    Prepared {
        /// The addresses of its tasks.
        addresses: Addresses,
    },
    /// It was committed and runs as soon as the batch system has learned that.
    Committed,
    /// It runs.
    Runs {
        /// Its tasks that have ended.
        ended: BTreeMap<String, Exit>,
    },
    /// It has ended, whether it ran or not.
    Over {
        /// Its tasks that ended by themselves.
        ended: BTreeMap<String, Exit>,
        /// The exit of the whole subjob.
        exit: Exit,
    },
}

impl SubjobState {
    /// The rank of the state: a state with a lower rank is older.
    pub(crate) fn rank(&self) -> (u8, usize) {
        match self {
            Self::Unknown => (0, 0),
            Self::Queued => (1, 0),
            Self::Prepared { .. } => (2, 0),
            Self::Committed => (3, 0),
            Self::Runs { ended } => (4, ended.len()),
            Self::Over { .. } => (5, 0),
        }
    }

    /// The name in user interfaces and files.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Queued => "queued",
            Self::Prepared { .. } => "prepared",
            Self::Committed => "committed",
            Self::Runs { .. } => "runs",
            Self::Over { .. } => "over",
        }
    }

    /// True if the subjob has ended.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Over { .. })
    }
}

/// The coordinator's decision about a subjob.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjobDecision {
    /// No decision yet: keep the subjob.
    Undecided,
    /// Run it.
    Commit {
        /// The addresses of its tasks' neighbours.
        peers: Addresses,
    },
    /// End the subjob, whatever its state.
    End,
}

/// A coordinator's call to a server. A call without an answer is repeated.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// Prepare this subjob.
    Prepare(Box<Subjob>),
    /// Carry out this decision.
    Decide(SubjobDecision),
}

/// An application as its user describes it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Application {
    /// The power that a task of RCR 1 needs, in MFlop/s.
    pub mcr_mflops: f64,
    /// The bandwidth that an edge of RQoC 1 needs, in Mb/s, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_mbps: Option<f64>,
    /// The tasks.
    pub tasks: Vec<TaskSpec>,
    /// The edges between communicating tasks.
    pub edges: Vec<TaskEdge>,
}

/// The algorithm that maps tasks to machines.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// WASE: by clusters and traffic.
    #[default]
    Wase,
    /// Each task on the machine with the least sufficient power, regardless of traffic: the paper's baseline.
    BestFit,
    /// Each task on a random machine with sufficient power, drawn by the launch's key.
    Random,
    /// WASE, then local search that brings communicating tasks closer together.
    Refined,
}

impl Mapping {
    /// Every algorithm.
    pub const ALL: [Mapping; 4] = [Self::Wase, Self::BestFit, Self::Random, Self::Refined];

    /// The name in options and files.
    pub fn word(self) -> &'static str {
        match self {
            Self::Wase => "wase",
            Self::BestFit => "best-fit",
            Self::Random => "random",
            Self::Refined => "refined",
        }
    }
}

/// A task as its user describes it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Its name, unique in the application.
    pub name: String,
    /// Relative computational requirement, above 0.
    pub rcr: f64,
    /// The program, as its driver describes it.
    pub payload: Payload,
}

/// An edge between two communicating tasks, by their positions.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskEdge {
    /// The tasks.
    pub between: [u32; 2],
    /// Relative quality of communication, above 0.
    pub rqoc: f64,
}

impl Application {
    /// The checked task graph of the application.
    ///
    /// # Errors
    /// The application cannot be mapped.
    pub fn graph(&self) -> Result<TaskGraph, GraphError> {
        let task = |wish: &TaskSpec| Task { name: wish.name.clone(), rcr: wish.rcr };
        let edge = |edge: &TaskEdge| Edge { ends: edge.between.map(TaskId), rqoc: edge.rqoc };
        let tasks = self.tasks.iter().map(task).collect();
        TaskGraph::new(self.mcr_mflops, self.bandwidth_mbps, tasks, self.edges.iter().map(edge).collect())
    }

    /// The task graph of some tasks, in that order, with the edges between them.
    ///
    /// # Errors
    /// These tasks cannot be mapped.
    fn among(&self, tasks: &[u32]) -> Result<TaskGraph, GraphError> {
        let positions: BTreeMap<u32, u32> = tasks.iter().copied().zip(0..).collect();
        let at = |task: &u32| positions.get(task).copied().map(TaskId);
        let edge = |edge: &TaskEdge| {
            let [one, other] = &edge.between;
            Some(Edge { ends: [at(one)?, at(other)?], rqoc: edge.rqoc })
        };
        let task = |task: &u32| {
            let wish = &self.tasks[*task as usize];
            Task { name: wish.name.clone(), rcr: wish.rcr }
        };
        let edges = self.edges.iter().filter_map(edge).collect();
        TaskGraph::new(self.mcr_mflops, self.bandwidth_mbps, tasks.iter().map(task).collect(), edges)
    }

    /// The neighbours of a task, each with the RQoC of their edge.
    fn neighbours(&self, task: u32) -> impl Iterator<Item = (&TaskSpec, f64)> {
        let other = move |edge: &TaskEdge| match edge.between {
            [one, other] if one == task => Some((other, edge.rqoc)),
            [other, one] if one == task => Some((other, edge.rqoc)),
            _ => None,
        };
        let neighbours = self.edges.iter().filter_map(other);
        neighbours.filter_map(|(at, rqoc)| Some((self.tasks.get(at as usize)?, rqoc)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launch_ids_round_trip_as_text() {
        let id = LaunchId { agent: "master".parse().unwrap(), key: Key([0xa7; 16]) };
        assert_eq!(id.to_string().parse(), Ok(id));
        for none in ["master", "master/", "/a7", "master/a7", "Master/a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7"] {
            assert!(none.parse::<LaunchId>().is_err(), "{none}");
        }
    }
}
