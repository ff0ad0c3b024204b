//! Launching an application of communicating tasks on several clusters at once (paper 003, whose authors left the launch to
//! others): all of its machines are reserved or none, then every task is started with the addresses of those that it talks
//! to, and when one fails all are ended.
//!
//! An agent *coordinates* ([`Coordinator`]): it maps the tasks with `pliant_tig::wase` on what servers have just said of their
//! machines, and makes one [`Subjob`] per machine of them. A server *participates* (`server/subjobs.rs`): it takes its subjob in as
//! one tentative job of its batch system ([`crate::batch::BatchSystem::submit_tentatively`]), so that when the turn of the
//! job comes it has its processors and starts nothing. That is two-phase commit with presumed abort (Mohan and Lindsay 1983):
//!
//! 1. *prepare*: the subjob is queued, or refused. When it has its processors and its tasks have their addresses, it is
//!    *held*.
//! 2. When all subjobs of a group are held the coordinator journals that they are to run, and only then says so: *commit*. At
//!    the deadline, or when a subjob is refused or lost, or its owner cancels, it journals that none is: *end*.
//!
//! Both sides repeat themselves until they are answered, and each message carries all that its sender has to say: how a subjob
//! stands ([`SubjobState`]) one way, what is to become of it ([`SubjobDecision`]) the other. Both only ever go forwards, so what
//! is late, doubled or out of order is old and changes nothing. A server that hears nothing asks; of a launch that the
//! coordinator does not know, the decision is the end, so that a coordinator may forget what is over. A subjob that was ended
//! before it was prepared is remembered as ended: a preparation that arrives later takes nothing.
//!
//! So no task runs unless all subjobs of its group have said that they are held, no subjob is started twice, and
//! nothing stays held or running for longer than its server and the agent do not reach each other. As in any two-phase
//! commit a server whose coordinator stays away keeps what it holds: its vote binds it.
//!
//! Two launches that hold what each other wait for both give up at their deadlines. In a batch system that is not Pliant's
//! what waits to be let go gives up by itself when it has been held for the launch's timeout, and almost
//! [`crate::batch::external::RELEASE_TIMEOUT`] longer: a subjob that is lost so before the decision keeps the others from running, one
//! that is lost after it ends them.
//!
//! Tasks that are *spawned* later, one or several, are a group of their own: mapped on what is left, held, and committed for
//! themselves. If they find no place, only the spawn has failed.

mod client;
mod coordinator;
mod links;
mod nearness;
mod platform;
mod probing;
mod record;
mod taken;

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

pub use client::{Client, ClientAction, LaunchUpdate, Outcome};
pub use coordinator::{
    Answer, Command, Coordinator, CoordinatorConfig, CoordinatorState, Event, LaunchSpec, Spawn, Spawned,
};
pub use links::{Link, LinkQuality, Links, Pair, pair};
pub use platform::{Machine, Site};
pub use probing::{Probe, ProbeOutcome, Prober};
pub use record::{End, LaunchRecord, LaunchState, TaskRecord};

/// A launch: the agent that coordinates it, and the key that its client drew.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct LaunchId {
    /// The agent.
    pub agent: Name,
    /// The key.
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

/// What of a launch runs on one machine of a server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct SubjobId {
    /// The launch.
    pub launch: LaunchId,
    /// Its number in the launch.
    pub number: u32,
}

impl fmt::Display for SubjobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} subjob {}", self.launch, self.number)
    }
}

/// All that a server needs to know of its subjob.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Subjob {
    /// Which.
    pub id: SubjobId,
    /// The agent that decides about it.
    pub coordinator: Peer,
    /// Whose it is.
    pub owner: User,
    /// What it is called.
    pub name: String,
    /// The tasks.
    pub tasks: Vec<PlacedTask>,
    /// Processors for all of them.
    pub procs: Procs,
    /// How long they may run.
    pub walltime: Span,
    /// How long the subjob may be held before they do.
    pub timeout: Span,
}

/// A task with its machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlacedTask {
    /// Its name.
    pub name: String,
    /// The machine, as its server calls it.
    pub machine: String,
    /// The tasks that it talks to.
    pub neighbours: Vec<String>,
    /// What to run: as its driver describes it.
    pub payload: Payload,
}

/// Where a task listens, `host:port`, by its name.
pub type Addresses = BTreeMap<String, String>;

/// How a subjob stands, as its server says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjobState {
    /// The server knows nothing of it.
    Unknown,
    /// It is in the queue of the batch system.
    Queued,
    /// It has its processors, and nothing runs.
    Prepared {
        /// Where its tasks will listen.
        addresses: Addresses,
    },
    /// It is to run, and does as soon as the batch system has heard of that.
    Committed,
    /// It runs.
    Runs {
        /// The tasks of it that have ended.
        ended: BTreeMap<String, Exit>,
    },
    /// It is over, whether it ever ran or not.
    Over {
        /// The tasks of it that ended by themselves.
        ended: BTreeMap<String, Exit>,
        /// How it ended as a whole.
        exit: Exit,
    },
}

impl SubjobState {
    /// How far it is: a state of a lower rank is an older one.
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

    /// The stable word.
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

    /// True if nothing of the subjob is left.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Over { .. })
    }
}

/// What is to become of a subjob, as its coordinator says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SubjobDecision {
    /// Not decided yet: keep it.
    Undecided,
    /// Run it.
    Commit {
        /// Where the tasks listen that those of the subjob talk to.
        peers: Addresses,
    },
    /// End it, in whatever state it is.
    End,
}

/// What a coordinator asks of a server. A call that is not answered is made again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// Take this subjob in.
    Prepare(Box<Subjob>),
    /// This is decided.
    Decide(SubjobDecision),
}

/// An application as its user describes it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Application {
    /// What a task of RCR 1 needs of its machine, in MFlop/s.
    pub mcr_mflops: f64,
    /// What an edge of RQoC 1 needs of a link, in Mb/s, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_mbps: Option<f64>,
    /// The tasks.
    pub tasks: Vec<TaskSpec>,
    /// Who talks to whom.
    pub edges: Vec<TaskEdge>,
}

/// How tasks get their machines.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// By clusters and traffic: WASE.
    #[default]
    Wase,
    /// Each on the machine with the least power that is enough, blind to traffic: the paper's baseline.
    BestFit,
    /// Each on any machine with enough power, drawn by the launch's key.
    Random,
    /// By WASE, and then moved while that brings tasks that talk closer together.
    Refined,
}

impl Mapping {
    /// All of them.
    pub const ALL: [Mapping; 4] = [Self::Wase, Self::BestFit, Self::Random, Self::Refined];

    /// The stable word.
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
    /// What to run: as its driver describes it.
    pub payload: Payload,
}

/// Two tasks that talk, by their positions.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct TaskEdge {
    /// The tasks.
    pub between: [u32; 2],
    /// Relative quality of communication, above 0.
    pub rqoc: f64,
}

impl Application {
    /// The application, checked.
    ///
    /// # Errors
    /// It is none that could be mapped.
    pub fn graph(&self) -> Result<TaskGraph, GraphError> {
        let task = |wish: &TaskSpec| Task { name: wish.name.clone(), rcr: wish.rcr };
        let edge = |talk: &TaskEdge| Edge { ends: talk.between.map(TaskId), rqoc: talk.rqoc };
        let tasks = self.tasks.iter().map(task).collect();
        TaskGraph::new(self.mcr_mflops, self.bandwidth_mbps, tasks, self.edges.iter().map(edge).collect())
    }

    /// Tasks alone, in that order, with those of their edges that join two of them.
    ///
    /// # Errors
    /// They are no application that could be mapped.
    fn among(&self, tasks: &[u32]) -> Result<TaskGraph, GraphError> {
        let places: BTreeMap<u32, u32> = tasks.iter().copied().zip(0..).collect();
        let at = |task: &u32| places.get(task).copied().map(TaskId);
        let edge = |talk: &TaskEdge| {
            let [one, other] = &talk.between;
            Some(Edge { ends: [at(one)?, at(other)?], rqoc: talk.rqoc })
        };
        let task = |task: &u32| {
            let wish = &self.tasks[*task as usize];
            Task { name: wish.name.clone(), rcr: wish.rcr }
        };
        let edges = self.edges.iter().filter_map(edge).collect();
        TaskGraph::new(self.mcr_mflops, self.bandwidth_mbps, tasks.iter().map(task).collect(), edges)
    }

    /// The tasks that one talks to, and the RQoC.
    fn neighbours(&self, task: u32) -> impl Iterator<Item = (&TaskSpec, f64)> {
        let other = move |talk: &TaskEdge| match talk.between {
            [one, other] if one == task => Some((other, talk.rqoc)),
            [other, one] if one == task => Some((other, talk.rqoc)),
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
    fn a_launch_is_read_as_it_is_written() {
        let id = LaunchId { agent: "master".parse().unwrap(), key: Key([0xa7; 16]) };
        assert_eq!(id.to_string().parse(), Ok(id));
        for none in ["master", "master/", "/a7", "master/a7", "Master/a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7a7"] {
            assert!(none.parse::<LaunchId>().is_err(), "{none}");
        }
    }
}
