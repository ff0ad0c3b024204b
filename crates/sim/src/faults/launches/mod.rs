//! Launches in a schedule: the coordinator at the first agent (`agent`), the subjobs at its servers (`subjobs`), and users
//! who crash, cancel launches and spawn tasks (`users`). Module `checks` checks these invariants in addition to those of jobs:
//!
//! - `alone`: a durable decision to run implies that every subjob of the group is prepared at its server, and no subjob
//!   starts without such a decision;
//! - `once`: a subjob starts once;
//! - `over`: a launch whose durable state is ended has no process and never gets one;
//! - `outcome`: the outcome that the user received is what happened.
//!
//! After the last fault every launch has ended, its user has the outcome, and no server keeps a subjob of it.

mod agent;
mod checks;
mod plan;
mod subjobs;
mod users;

use std::collections::{BTreeMap, BTreeSet};

use pliant_control::coallocation::{
    self, Answer, Coordinator, CoordinatorConfig, LaunchId, LaunchRecord, LaunchSpec, SpawnSpec,
    SubjobDecision, SubjobId, SubjobState,
};
use pliant_control::handoff;
use pliant_control::names::{Key, Name};
use pliant_model::JobId;

use super::daemon::Daemon;
use super::world::{AgentNode, World};
pub(super) use plan::PlannedLaunch;
use users::User;

/// An event of a launch. A number that precedes an id or an event is an incarnation: later ones ignore it.
pub(super) enum LaunchEvent {
    /// A timer of the coordinator may be due.
    Due(u32),
    /// The commit of the coordinator completes.
    Commit(u32),
    /// Servers report their machines to the coordinator.
    MachinesListed(u32, LaunchId, u32),
    /// A server knows the addresses where the tasks of a subjob will listen.
    Located(usize, u32, SubjobId),
    /// A task of a subjob's process at a server ends.
    TaskEnds(usize, JobId, usize),
    /// The coordinator gets an invented answer ([`super::Bug::SilenceIsEnd`]).
    Injected(u32, Box<coallocation::Event>),
    /// A user starts, restarts, or has a timer due.
    User(usize, u32),
    /// A user cancels the launch.
    UserCancels(usize),
}

/// The caller of a call about a launch, with its incarnation.
#[derive(Clone)]
pub(super) enum LaunchCaller {
    /// A user.
    User(u32),
    /// The coordinator, about a subjob.
    Coordinator(u32, SubjobId),
    /// A server, about its subjob.
    Server(u32, SubjobId),
}

/// A request about a launch.
#[derive(Clone)]
pub(super) enum LaunchRequest {
    Launch(Box<LaunchSpec>),
    Status(LaunchId),
    Cancel(LaunchId),
    Spawn(LaunchId, Box<SpawnSpec>),
    Subjob(SubjobId, coallocation::Call),
    Report(Name, SubjobId, SubjobState),
}

/// An answer about a launch.
#[derive(Clone)]
pub(super) enum LaunchAnswer {
    User(Answer),
    SubjobState(SubjobState),
    Decision(SubjobDecision, bool),
}

/// The tasks of a process: name, end in milliseconds, exit code.
type Tasks = Vec<(String, u64, i32)>;

pub(super) struct Launches {
    pub(super) coordinator: Daemon<Coordinator>,
    users: Vec<User>,
    /// Launches whose end is durable.
    archive: BTreeMap<Key, LaunchRecord>,
    /// The launches of status queries that wait for a commit, by call.
    status_queries: BTreeMap<u64, LaunchId>,
    /// The tasks of each process, by its server and its job number there.
    tasks: BTreeMap<(usize, JobId), Tasks>,
    /// Groups of subjobs with a durable decision to run.
    decided: BTreeSet<(Key, usize)>,
    /// The number of starts of each subjob.
    starts: BTreeMap<SubjobId, u32>,
}

impl Launches {
    /// The launches of a plan, coordinated by the first agent.
    pub(super) fn new(agents: &[AgentNode], planned: &[PlannedLaunch]) -> Launches {
        let own = handoff::Peer { name: agents[0].name.clone(), address: String::new() };
        Launches {
            coordinator: Daemon::new(CoordinatorConfig { own }, 0),
            users: planned.iter().map(|_| User::default()).collect(),
            archive: BTreeMap::new(),
            status_queries: BTreeMap::new(),
            tasks: BTreeMap::new(),
            decided: BTreeSet::new(),
            starts: BTreeMap::new(),
        }
    }
}

impl World {
    pub(super) fn handle_launch_event(&mut self, moment: LaunchEvent) {
        match moment {
            LaunchEvent::Due(incarnation) => self.coordinator_due(incarnation),
            LaunchEvent::Commit(incarnation) => self.coordinator_commits(incarnation),
            LaunchEvent::MachinesListed(incarnation, id, group) => {
                self.machines_listed(incarnation, id, group)
            }
            LaunchEvent::Located(server, incarnation, id) => self.located(server, incarnation, id),
            LaunchEvent::TaskEnds(server, job, task) => self.end_task(server, job, task),
            LaunchEvent::Injected(incarnation, event) => {
                if self.launches.coordinator.node.incarnation == incarnation {
                    self.deliver_to_coordinator(*event);
                }
            }
            LaunchEvent::User(number, incarnation) => self.user_due(number, incarnation),
            LaunchEvent::UserCancels(number) => self.user_cancels(number),
        }
    }
}
