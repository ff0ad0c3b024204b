//! What a coordinator is told, and what it wants done.

use pliant_model::Span;
use pliant_tig::{GraphError, TaskGraph};
use serde::{Deserialize, Serialize};

use super::launch::Launch;
use super::{
    Caller, LaunchId, LaunchRecord, Site, SubjobId, SubjobState, TASKS_EVER_MAX, TASKS_MAX, TIMEOUT_MAX,
    TaskEdge, Token,
};
use super::{SubjobDecision, WALLTIME_MAX};
use crate::coallocation::{Application, Call, Mapping, TaskSpec};
use crate::handoff::Peer;
use crate::names::{Key, Name, User};

/// What changes a coordinator's state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Somebody launches an application, now or again. A driver that has a launch of that key in its archive answers from
    /// there.
    Launch {
        /// Whom to answer.
        reply: Token,
        /// What.
        wanted: Box<LaunchSpec>,
    },
    /// Somebody adds tasks to a launch that runs, now or again.
    Spawn {
        /// Whom to answer.
        reply: Token,
        /// The launch.
        launch: LaunchId,
        /// Who.
        caller: Caller,
        /// The tasks.
        spawn: Box<Spawn>,
    },
    /// Somebody cancels a launch.
    Cancel {
        /// Whom to answer.
        reply: Token,
        /// The launch.
        launch: LaunchId,
        /// Who.
        caller: Caller,
    },
    /// The servers below have said what machines they have; those that did not answer are left out.
    Surveyed {
        /// For which launch.
        launch: LaunchId,
        /// For which of its groups.
        group: u32,
        /// What they said.
        sites: Vec<Site>,
    },
    /// The bandwidth between two servers was measured.
    Measured {
        /// The servers.
        between: [Name; 2],
        /// In Mb/s, above 0: the slower of both ways.
        mbps: f64,
        /// From a question to its answer, in microseconds.
        round_trip_us: u32,
    },
    /// A server says how its subjob stands.
    Stands {
        /// The server.
        from: Name,
        /// The subjob.
        id: SubjobId,
        /// How.
        state: SubjobState,
        /// Whom to tell what is to become of it; none if this is an answer itself.
        reply: Option<Token>,
    },
    /// Time has passed.
    Due,
}

/// What is to be done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Answer a user.
    Answer {
        /// Whom.
        to: Token,
        /// What.
        answer: Answer,
    },
    /// Tell a server that said how its subjob stands what is to become of it.
    SubjobDecision {
        /// Whom.
        to: Token,
        /// What is to become of it.
        decision: SubjobDecision,
        /// It is known here that nothing of the subjob is left: the server need not say it again.
        heard: bool,
    },
    /// Ask the servers below what machines they have. Asked again if nothing is told.
    Survey {
        /// For which launch.
        launch: LaunchId,
        /// For which of its groups.
        group: u32,
    },
    /// Ask something of a server. Made again if no answer is told.
    Call {
        /// Whom.
        to: Peer,
        /// About which subjob.
        id: SubjobId,
        /// What.
        call: Call,
    },
    /// A launch is over: keep its record for good.
    Archive(Box<LaunchRecord>),
}

/// The answer to a user.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The launch as it stands.
    Launch(Box<LaunchRecord>),
    /// It is not accepted, and why.
    Refused(String),
    /// There is no such launch, as far as this caller may know.
    NoSuchLaunch,
}

/// A launch as its user wants it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct LaunchSpec {
    /// The key that its client drew.
    pub key: Key,
    /// Whose it is.
    pub owner: User,
    /// What it is called.
    pub name: String,
    /// What is launched.
    pub application: Application,
    /// How long the tasks may run.
    pub walltime: Span,
    /// How long subjobs may be held until all are.
    pub timeout: Span,
    /// The server that is the user's LAN; none takes the first.
    pub user_lan: Option<Name>,
    /// The threshold of the clustering, in (0, 1): more makes larger clusters.
    pub threshold: f64,
    /// How the tasks get their machines. One that is spawned is mapped by WASE.
    pub mapping: Mapping,
    /// Only map it, and reserve nothing.
    pub dry_run: bool,
}

/// Tasks that are added to a launch, all of them or none.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spawn {
    /// The key that its client drew.
    pub key: Key,
    /// The tasks.
    pub tasks: Vec<Spawned>,
}

/// A task that is added to a launch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Spawned {
    /// The task.
    pub task: TaskSpec,
    /// The tasks that it talks to, of the launch or beside it, and the RQoC. Who talks to whom is said once.
    pub talks: Vec<(String, f64)>,
}

impl LaunchSpec {
    /// What is wrong with it, if something is.
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

/// What is wrong with an application that is to be mapped, if something is.
fn checked(graph: Result<TaskGraph, GraphError>) -> Result<(), String> {
    let graph = graph.map_err(|error| format!("{error}: {}", error.hint()))?;
    match graph.tasks().len() {
        found if found > TASKS_MAX => Err(format!("expected at most {TASKS_MAX} tasks, found {found}")),
        _ => Ok(()),
    }
}

impl Spawn {
    /// The application of a launch with these tasks, which talk to each other and to tasks that run. Tasks that found no
    /// place keep their positions, and that is all: their names are free, and nobody talks to them.
    pub(super) fn extend(&self, launch: &Launch) -> Result<Application, String> {
        if self.tasks.is_empty() {
            return Err("expected tasks to spawn, found none".to_owned());
        }
        let mut extended = launch.application.clone();
        let first = extended.tasks.len() as u32;
        extended.tasks.extend(self.tasks.iter().map(|spawned| spawned.task.clone()));
        if extended.tasks.len() > TASKS_EVER_MAX {
            return Err(format!(
                "expected at most {TASKS_EVER_MAX} tasks of a launch, those that found no machine among them, found {}",
                extended.tasks.len()
            ));
        }
        let all = 0..extended.tasks.len() as u32;
        let there: Vec<u32> = all.filter(|task| !launch.is_given_up(*task)).collect();
        for (own, Spawned { task, talks }) in (first..).zip(&self.tasks) {
            for (other, rqoc) in talks {
                let is_it = |at: &&u32| extended.tasks[**at as usize].name == *other;
                let at = *there.iter().find(is_it).ok_or_else(|| {
                    format!("expected tasks of the launch that `{}` talks to, found `{other}`", task.name)
                })?;
                if at < first && !launch.runs(at) {
                    return Err(format!(
                        "expected tasks that run that `{}` talks to, found `{other}`, which waits for its machine",
                        task.name
                    ));
                }
                extended.edges.push(TaskEdge { between: [at, own], rqoc: *rqoc });
            }
        }
        checked(extended.among(&there))?;
        Ok(extended)
    }
}
