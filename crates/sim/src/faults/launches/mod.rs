//! Launches among the jobs of a schedule: an agent's coordinator (`agent`), the subjobs at its servers (`subjobs`), and users
//! who crash, cancel, and spawn tasks (`users`). Beside what is checked of jobs (`checks`):
//!
//! - `alone`: when the decision that a subjob runs is durable, every subjob of its group is held at its server; and none
//!   begins before;
//! - `once`: a subjob begins once;
//! - `over`: a launch of which it is durable that it is over has no process, and never gets one;
//! - `told`: what its user is told at last is what happened;
//!
//! and when the faults have stopped, that every launch is over, its user knows, and nothing is `left` of it at any server.

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

/// Something that happens about launches.
pub(super) enum Moment {
    /// The coordinator in that life may want to be told that time has passed.
    Due(u32),
    /// The commit of the coordinator in that life is through.
    Commit(u32),
    /// Servers have answered the coordinator in that life.
    Surveyed(u32, LaunchId, u32),
    /// A server in that life knows where the tasks of a subjob are to listen.
    Located(usize, u32, SubjobId),
    /// A task of a process at a server has ended.
    Task(usize, JobId, usize),
    /// A coordinator that believes in silence takes it for a yes ([`super::Bug::SilenceIsOver`]).
    Late(u32, Box<coallocation::Event>),
    /// A user in that life wants to be told that time has passed, or begins again.
    User(usize, u32),
    /// A user wants the launch to end.
    Cancels(usize),
}

/// Who waits for an answer.
#[derive(Clone)]
pub(super) enum Party {
    /// A user, in that life.
    User(u32),
    /// The coordinator in that life, about a subjob.
    Coordinator(u32, SubjobId),
    /// A server in that life, about its subjob.
    Server(u32, SubjobId),
}

/// What is asked.
#[derive(Clone)]
pub(super) enum Asked {
    Launch(Box<LaunchSpec>),
    Look(LaunchId),
    Cancel(LaunchId),
    Spawn(LaunchId, Box<SpawnSpec>),
    Subjob(SubjobId, coallocation::Call),
    Stands(Name, SubjobId, SubjobState),
}

/// What is answered.
#[derive(Clone)]
pub(super) enum Answered {
    User(Answer),
    SubjobState(SubjobState),
    Decision(SubjobDecision, bool),
}

/// The tasks of a process: when they end, and with which code.
type Tasks = Vec<(String, u64, i32)>;

pub(super) struct Launches {
    pub(super) coordinator: Daemon<Coordinator>,
    users: Vec<User>,
    /// Launches that are over, which is durable.
    archive: BTreeMap<Key, LaunchRecord>,
    /// What users have asked for who wait for an answer, by call.
    looks: BTreeMap<u64, LaunchId>,
    /// The tasks of each process, by its server and its number there.
    tasks: BTreeMap<(usize, JobId), Tasks>,
    /// Groups of which it is durable that they run.
    decided: BTreeSet<(Key, usize)>,
    /// How often each subjob has begun.
    begun: BTreeMap<SubjobId, u32>,
}

impl Launches {
    /// The first agent coordinates.
    pub(super) fn new(agents: &[AgentNode], planned: &[PlannedLaunch]) -> Launches {
        let own = handoff::Peer { name: agents[0].name.clone(), address: String::new() };
        Launches {
            coordinator: Daemon::new(CoordinatorConfig { own }, 0),
            users: planned.iter().map(|_| User::default()).collect(),
            archive: BTreeMap::new(),
            looks: BTreeMap::new(),
            tasks: BTreeMap::new(),
            decided: BTreeSet::new(),
            begun: BTreeMap::new(),
        }
    }
}

impl World {
    pub(super) fn launch_moment(&mut self, moment: Moment) {
        match moment {
            Moment::Due(life) => self.coordinator_due(life),
            Moment::Commit(life) => self.coordinator_commits(life),
            Moment::Surveyed(life, id, group) => self.surveyed(life, id, group),
            Moment::Located(server, life, id) => self.located(server, life, id),
            Moment::Task(server, job, task) => self.task_ends(server, job, task),
            Moment::Late(life, event) => {
                if self.launches.coordinator.node.life == life {
                    self.tell_coordinator(*event);
                }
            }
            Moment::User(number, life) => self.user_due(number, life),
            Moment::Cancels(number) => self.user_cancels(number),
        }
    }
}
