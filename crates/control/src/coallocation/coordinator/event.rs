//! The events and commands of a coordinator.

use pliant_model::Span;
use pliant_tig::{GraphError, TaskGraph};
use serde::{Deserialize, Serialize};

use super::launch::Launch;
use super::{
    Caller, LaunchId, LaunchRecord, Site, SubjobId, SubjobState, TASKS_EVER_MAX, TASKS_MAX, TIMEOUT_MAX,
    TaskEdge, Token,
};
use super::{SubjobDecision, WALLTIME_MAX};
use crate::audit::AuditRecord;
use crate::coallocation::{Application, Call, Mapping, TaskSpec};
use crate::handoff::Peer;
use crate::names::{Key, Name, User};
use crate::payload::Payload;

/// An event that changes a coordinator's state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A user launches an application, perhaps repeatedly. If the archive has a launch with that key, the driver answers
    /// from there.
    Launch {
        /// The caller to answer.
        reply: Token,
        /// The launch.
        spec: Box<LaunchSpec>,
    },
    /// A user adds tasks to a running launch, perhaps repeatedly.
    Spawn {
        /// The caller to answer.
        reply: Token,
        /// The launch.
        launch: LaunchId,
        /// The user.
        caller: Caller,
        /// The tasks.
        spawn: Box<SpawnSpec>,
    },
    /// A user cancels a launch.
    Cancel {
        /// The caller to answer.
        reply: Token,
        /// The launch.
        launch: LaunchId,
        /// The user.
        caller: Caller,
    },
    /// The servers below have reported their machines. Silent servers are left out.
    MachinesListed {
        /// The launch.
        launch: LaunchId,
        /// The group of the launch.
        group: u32,
        /// The servers and machines.
        sites: Vec<Site>,
    },
    /// The bandwidth between two servers was measured.
    Measured {
        /// The servers.
        between: [Name; 2],
        /// The bandwidth in the slower direction, in Mb/s, above 0.
        mbps: f64,
        /// The round-trip time, in microseconds.
        round_trip_us: u32,
    },
    /// A server reports the state of its subjob.
    SubjobStatus {
        /// The server.
        from: Name,
        /// The subjob.
        id: SubjobId,
        /// The state.
        state: SubjobState,
        /// The caller that waits for the decision; none if this is an answer itself.
        reply: Option<Token>,
    },
    /// A point in time of [`Coordinator::next_due`](super::Coordinator::next_due) has come.
    Due,
}

/// A command of a coordinator to its driver.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Answer a user.
    Answer {
        /// The caller.
        to: Token,
        /// The answer.
        answer: Answer,
    },
    /// Send the decision to a server that reported its subjob.
    SubjobDecision {
        /// The caller.
        to: Token,
        /// The decision.
        decision: SubjobDecision,
        /// True if the coordinator knows that the subjob has ended: the server need not report it again.
        end_acknowledged: bool,
    },
    /// Ask the servers below for their machines. The coordinator asks again if it gets no result.
    ListMachines {
        /// The launch.
        launch: LaunchId,
        /// The group of the launch.
        group: u32,
    },
    /// Call a server. The coordinator repeats the call if it gets no answer.
    Call {
        /// The server.
        to: Peer,
        /// The subjob.
        id: SubjobId,
        /// The call.
        call: Call,
    },
    /// Keep the record of an ended launch for good.
    Archive(Box<LaunchRecord>),
    /// Add a record to the audit trail of the agent.
    Audit(Box<AuditRecord>),
}

/// The answer to a user.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The launch.
    Launch(Box<LaunchRecord>),
    /// The call is refused; the reason.
    Refused(String),
    /// There is no such launch that the caller may see.
    NoSuchLaunch,
}

/// A launch, as its user requests it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LaunchSpec {
    /// The key that its client drew.
    pub key: Key,
    /// The owner.
    pub owner: User,
    /// The name.
    pub name: String,
    /// The application.
    pub application: Application,
    /// The walltime of the tasks.
    pub walltime: Span,
    /// How long prepared subjobs may wait for the others.
    pub timeout: Span,
    /// The server that is the user's LAN; none takes the first.
    pub user_lan: Option<Name>,
    /// The threshold of the clustering, in (0, 1): a higher one makes larger clusters.
    pub threshold: f64,
    /// The mapping algorithm. SpawnedTask tasks are always mapped by WASE.
    pub mapping: Mapping,
    /// Only map the application, and reserve nothing.
    pub dry_run: bool,
    /// The user's signature for the tasks, as the driver describes it: servers verify it.
    #[serde(default)]
    pub signed: Payload,
}

/// Tasks to add to a launch, all of them or none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SpawnSpec {
    /// The key that its client drew.
    pub key: Key,
    /// The tasks.
    pub tasks: Vec<SpawnedTask>,
    /// The user's signature for the tasks, as the driver describes it: servers verify it.
    #[serde(default)]
    pub signed: Payload,
}

/// A task to add to a launch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SpawnedTask {
    /// The task.
    pub task: TaskSpec,
    /// The neighbours, of the launch or of the same spawn, and the RQoC. Each edge is listed once.
    pub neighbours: Vec<(String, f64)>,
}

impl LaunchSpec {
    /// Checks the request.
    pub(super) fn check(&self) -> Result<(), String> {
        self.application.check()?;
        let within = |what: &str, found: Span, most: Span| match (1..=most.0).contains(&found.0) {
            true => Ok(()),
            false => Err(format!("expected a {what} of 1 to {} s, found {} s", most.0, found.0)),
        };
        within("walltime", self.walltime, WALLTIME_MAX)?;
        within("timeout", self.timeout, TIMEOUT_MAX)?;
        match self.threshold > 0.0 && self.threshold < 1.0 {
            true => Ok(()),
            false => Err(format!("expected a threshold between 0 and 1, found {}", self.threshold)),
        }
    }
}

impl Application {
    fn check(&self) -> Result<(), String> {
        checked(self.graph())
    }
}

/// Checks that an application can be mapped.
fn checked(graph: Result<TaskGraph, GraphError>) -> Result<(), String> {
    let graph = graph.map_err(|error| format!("{error}: {}", error.hint()))?;
    match graph.tasks().len() {
        found if found > TASKS_MAX => Err(format!("expected at most {TASKS_MAX} tasks, found {found}")),
        _ => Ok(()),
    }
}

impl SpawnSpec {
    /// The application of a launch with these tasks added, whose neighbours are each other and running tasks. Tasks that
    /// were not mapped keep only their positions: their names are free, and they have no neighbours.
    pub(super) fn extend(&self, launch: &Launch) -> Result<Application, String> {
        if self.tasks.is_empty() {
            return Err("expected tasks to spawn, found none".to_owned());
        }
        let mut extended = launch.application.clone();
        let first = extended.tasks.len() as u32;
        extended.tasks.extend(self.tasks.iter().map(|spawned| spawned.task.clone()));
        if extended.tasks.len() > TASKS_EVER_MAX {
            return Err(format!(
                "expected at most {TASKS_EVER_MAX} tasks of a launch, unmapped ones included, found {}",
                extended.tasks.len()
            ));
        }
        let all = 0..extended.tasks.len() as u32;
        let candidates: Vec<u32> = all.filter(|task| !launch.is_given_up(*task)).collect();
        for (own, SpawnedTask { task, neighbours }) in (first..).zip(&self.tasks) {
            for (other, rqoc) in neighbours {
                let is_it = |at: &&u32| extended.tasks[**at as usize].name == *other;
                let at = *candidates.iter().find(is_it).ok_or_else(|| {
                    format!("expected neighbours of `{}` in the launch, found `{other}`", task.name)
                })?;
                if at < first && !launch.runs(at) {
                    return Err(format!(
                        "expected running neighbours of `{}`, found `{other}`, which waits for its machine",
                        task.name
                    ));
                }
                extended.edges.push(TaskEdge { between: [at, own], rqoc: *rqoc });
            }
        }
        checked(extended.among(&candidates))?;
        Ok(extended)
    }
}
