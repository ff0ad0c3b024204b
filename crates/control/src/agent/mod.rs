//! The agent finds servers and knows where every job of the federation is (paper 000, section 3.1; the agents of paper 004,
//! Figure 3).
//!
//! Agents form a hierarchy whose leaves are servers. A discovery query goes down to every child that is up. Estimation
//! vectors come up, and each level keeps the best ([`crate::estimation_vector::keep_best`]), so the root never handles
//! every server (`discovery`). Status updates of jobs go up, from the journal of one daemon into that of the next
//! (`index`).

mod below;
mod child_bounds;
mod departed;
mod discovery;
mod event;
mod index;
mod known_jobs;
mod lost_journals;
mod offers;
mod promise_days;
mod reallocation;
mod recent_changes;
mod reports;
mod runtimes;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pliant_model::{Span, Time};
use pliant_policy::runtimes::CalibratedRuntimes;
use serde::{Deserialize, Serialize};

use crate::access::Caller;
use crate::audit::{Actor, AuditAct, AuditRecord};
use crate::estimation_vector::EstimationVector;
use crate::handoff::{MoveOutcome, MoveProposal, ServerSnapshot};
use crate::job::{JobRecord, Work};
use crate::masters::MasterShare;
use crate::names::Token;
use crate::names::{Handle, Name};
use crate::reason::Reason;
use crate::server_info::ServerInfo;
use crate::shared_folder::SharedFolder;

pub use event::{Command, Event};
pub use index::ReportedMove;
pub use known_jobs::JobCounts;
pub use offers::ExplorationServer;
pub use promise_days::{DayErrors, PROMISE_DAYS, PromiseDay};
pub use reallocation::{ProposedMove, ReallocationChange, ReallocationConfig, ReallocationReport};
pub use reports::Contradiction;
pub use runtimes::{CALIBRATED, RuntimeSummary};
pub use snapshot::AgentState;

/// The configuration of an agent.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentConfig {
    /// The agent's name.
    pub name: Name,
    /// True if the agent has no parent: the master agent.
    pub root: bool,
    /// The time within which children have to answer.
    pub timeout: Span,
    /// The reallocation of waiting jobs unless an operator changes it; none if the agent reallocates none.
    pub reallocation: Option<ReallocationConfig>,
}

/// The kind of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChildKind {
    /// The server of a cluster.
    Server,
    /// A local agent.
    Agent,
}

/// The subject of a discovery query.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiscoverySubject {
    /// Work of a given shape: a user's own script.
    Work(Work),
    /// The same in a folder of the user's own: for servers that share its file system.
    InPlace {
        /// The shape of the work.
        work: Work,
        /// The folder in which it runs.
        folder: SharedFolder,
    },
    /// A service with arguments; each server that offers it knows its shape.
    Service {
        /// The service's name.
        name: String,
        /// The service's arguments.
        arguments: BTreeMap<String, String>,
    },
    /// The queue of every server, for a reallocation cycle.
    Snapshots,
    /// A move: the asked server hands a waiting job over to another server. Answered when the handoff has ended.
    Move(Box<MoveProposal>),
}

/// A query to the federation: which servers complete this work first?
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DiscoveryQuery {
    /// What the query asks for.
    pub subject: DiscoverySubject,
    /// The user who asks.
    pub caller: Caller,
    /// The number of best answers to return.
    pub best: u32,
    /// The only server to ask, if the user chose one.
    pub only: Option<Name>,
    /// The time limit of the requester, if there is one.
    pub timeout: Option<Span>,
    /// Estimates that complete later are of no use to the requester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<Time>,
}

/// The requester that waits for the answer to a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requester {
    /// A client.
    Client(Token),
    /// The parent, with its number of the discovery.
    Parent(u64),
    /// This agent itself, in a reallocation cycle.
    ReallocationCycle,
}

/// The result of a discovery.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct DiscoveryResult {
    /// The best servers, best first.
    pub vectors: Vec<EstimationVector>,
    /// Servers that refuse the work, each with its reason.
    pub refusals: Vec<(Name, Reason)>,
    /// Children that did not answer in time.
    pub silent: Vec<Name>,
    /// The number of further refusals and silent children: each level passes on the first few.
    pub more: u32,
    /// Known servers that were down, the first few.
    pub down: Vec<Name>,
    /// The number of known servers that could be asked, up or down; 0 if that is not known.
    pub servers: u32,
    /// The number of servers that answered, by an estimate or a refusal.
    pub answered: u32,
    /// The number of servers that were not asked: by their summaries none of them is among the best.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub not_asked: u32,
    /// The queues of servers, if the query asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<ServerSnapshot>,
    /// The outcome of a move, if the query ordered one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<MoveOutcome>,
}

/// A child as the agent knows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Child {
    kind: ChildKind,
    servers: Vec<ServerInfo>,
    /// True while it is up.
    attached: bool,
    /// When it connected or disconnected last.
    since: Time,
    journal: u64,
    /// The sequence number of its last status update.
    sequence: u64,
    /// A server's jobs in an earlier journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost: Option<lost_journals::LostJournal>,
}

/// An agent.
pub struct Agent {
    config: AgentConfig,
    /// The users whose jobs it has, if it is one of several masters.
    share: MasterShare,
    children: BTreeMap<Name, Child>,
    /// The children by the servers below them.
    below: below::ChildrenOfServers,
    discoveries: BTreeMap<u64, discovery::OpenDiscovery>,
    /// The summaries of children.
    bounds: child_bounds::ChildBounds,
    next_discovery: u64,
    jobs: known_jobs::KnownJobs,
    changes: recent_changes::RecentChanges,
    /// Jobs that have ended, by when the agent learned that; forgotten in that order.
    ended: VecDeque<(Time, Handle)>,
    /// Ended jobs that were moved, which are kept longer.
    ended_moved: VecDeque<(Time, Handle)>,
    /// Jobs that have gone to servers below other agents.
    departed: departed::DepartedJobs,
    /// Since when any job has been waiting.
    waits_since: Time,
    /// An operator's last change of the reallocation.
    operator_change: Option<ReallocationChange>,
    /// The current reallocation cycle.
    cycle: Option<reallocation::ReallocationCycle>,
    /// When the last reallocation cycle began.
    last_cycle: Option<Time>,
    /// A cluster has become free early since then.
    freed: bool,
    /// A job has been queued since then.
    arrived: bool,
    /// The last moves, oldest first.
    moves: VecDeque<ReportedMove>,
    /// The runtimes of jobs.
    learned: CalibratedRuntimes,
    /// How promises were kept.
    promise_days: promise_days::PromiseDays,
}

impl Agent {
    /// Makes an agent without children.
    pub fn new(config: AgentConfig) -> Agent {
        Agent {
            config,
            share: MasterShare::default(),
            children: BTreeMap::new(),
            below: below::ChildrenOfServers::default(),
            discoveries: BTreeMap::new(),
            bounds: child_bounds::ChildBounds::default(),
            next_discovery: 1,
            jobs: known_jobs::KnownJobs::default(),
            ended: VecDeque::new(),
            ended_moved: VecDeque::new(),
            departed: departed::DepartedJobs::default(),
            waits_since: Time(i64::MIN),
            operator_change: None,
            cycle: None,
            last_cycle: None,
            freed: false,
            arrived: false,
            moves: VecDeque::new(),
            learned: runtimes::empty(),
            promise_days: promise_days::PromiseDays::default(),
            changes: recent_changes::RecentChanges::default(),
        }
    }

    /// The agent as one of several masters, which has the jobs of a share of the users. Forgets jobs of others, which it had with other
    /// masters: their servers report them to the masters of their users.
    #[must_use]
    pub fn with_share(mut self, share: MasterShare) -> Agent {
        let is_foreign = |job: &&JobRecord| !share.has(job.owner.owner());
        let foreign: Vec<Handle> = self.jobs.all().filter(is_foreign).map(|job| job.handle.clone()).collect();
        for job in &foreign {
            self.jobs.remove(job);
        }
        self.share = share;
        self
    }

    /// The agent's configuration.
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// Handles an event and appends the commands that follow.
    pub fn on(&mut self, now: Time, event: Event, commands: &mut Vec<Command>) {
        match event {
            Event::Attached { child, kind, journal, servers } => {
                self.attach(now, child, kind, journal, servers, commands);
            }
            Event::Announced { child, servers } => self.announced(&child, servers, commands),
            Event::Detached { child } => self.detach(now, &child, commands),
            Event::Queried { requester, query } => self.start_discovery(now, requester, *query, commands),
            Event::Answered { child, discovery, found } => {
                self.answered(now, &child, discovery, found, commands);
            }
            Event::Summarised { child, summary } => self.summarised(child, summary, commands),
            Event::Freed { child } => self.record_freed(&child, commands),
            Event::Reallocate { reply, dry_run, policy } => {
                self.request_cycle(now, reply, dry_run, policy, commands);
            }
            Event::Configure { reply, change, by } => {
                self.configure(now, change, by, commands);
                commands.push(Command::Configured { to: reply });
            }
            Event::StatusUpdate { child, sequence, record } => {
                self.record_status(now, &child, sequence, *record, commands)
            }
            Event::StatusRefused { child, sequence } => self.skip_status(&child, sequence, commands),
            Event::StatusAgain { child, record } => self.record_again(now, &child, *record, commands),
            Event::Forget { reply, server, by, why } => {
                let ended = self.forget_server(now, &server, by, &why, commands);
                commands.push(Command::Forgotten { to: reply, ended });
            }
            Event::Audited { by, act, why } => audit(now, by, act, why, commands),
            Event::Due => {
                self.conclude_overdue(now, commands);
                self.end_lost_jobs(now, commands);
                self.start_due_cycle(now, commands);
                self.forget(now);
            }
        }
    }

    /// When the agent needs the next [`Event::Due`].
    pub fn next_due(&self) -> Option<Time> {
        let timeout = self.discoveries.values().map(discovery::OpenDiscovery::due);
        let forget = self.next_forgotten();
        timeout.chain(forget).chain(self.next_lost()).chain(self.next_cycle()).min()
    }

    fn attach(
        &mut self,
        now: Time,
        child: Name,
        kind: ChildKind,
        journal: u64,
        servers: Vec<ServerInfo>,
        commands: &mut Vec<Command>,
    ) {
        self.remove_from_detached(&child, &servers);
        // A new journal starts its sequence numbers again.
        let (sequence, lost) = self.journals_of(now, &child, kind, journal);
        let before = self.children.get(&child);
        let changed = before.is_none_or(|before| !before.attached || before.servers != servers);
        self.below.remove(&child, before.into_iter().flat_map(|before| &before.servers));
        commands.push(Command::Acknowledge { child: child.clone(), sequence });
        // A query sent over an earlier connection is not answered over this one.
        self.stop_waiting_for(now, &child, commands);
        self.bounds.forget(&child);
        self.below.add(&child, &servers);
        let present = Child { kind, servers, attached: true, since: now, journal, sequence, lost };
        self.children.insert(child, present);
        if changed && !self.config.root {
            commands.push(Command::Announce);
        }
    }

    /// Removes servers that have connected below another child from the children that are down.
    fn remove_from_detached(&mut self, child: &Name, servers: &[ServerInfo]) {
        let mut taken_from: BTreeMap<Name, BTreeSet<&Name>> = BTreeMap::new();
        for server in servers {
            for other in self.below.of(&server.name).filter(|other| *other != child) {
                taken_from.entry(other.clone()).or_default().insert(&server.name);
            }
        }
        for (name, taken) in taken_from {
            let Some(other) = self.children.get_mut(&name).filter(|other| !other.attached) else { continue };
            let gone = other.servers.extract_if(.., |server| taken.contains(&server.name));
            self.below.remove(&name, &gone.collect::<Vec<_>>());
        }
    }

    fn announced(&mut self, child: &Name, servers: Vec<ServerInfo>, commands: &mut Vec<Command>) {
        self.remove_from_detached(child, &servers);
        let Some(known) = self.children.get_mut(child) else { return };
        let changed = known.servers != servers;
        self.below.remove(child, &known.servers);
        self.below.add(child, &servers);
        known.servers = servers;
        self.bounds.servers_changed(child);
        if changed && !self.config.root {
            commands.push(Command::Announce);
        }
    }

    fn detach(&mut self, now: Time, child: &Name, commands: &mut Vec<Command>) {
        let Some(known) = self.children.get_mut(child) else { return };
        if !known.attached {
            return;
        }
        known.attached = false;
        known.since = now;
        self.bounds.forget(child);
        self.stop_waiting_for(now, child, commands);
        if !self.config.root {
            commands.push(Command::Announce);
        }
    }

    /// Every server below this agent, with the child that it is or is attached to, and whether that child is up.
    pub fn servers(&self) -> impl Iterator<Item = (&ServerInfo, &Name, bool)> {
        self.children
            .iter()
            .flat_map(|(name, child)| child.servers.iter().map(move |server| (server, name, child.attached)))
    }

    /// A server below this agent, and whether it is up.
    pub fn server(&self, name: &Name) -> Option<(&ServerInfo, bool)> {
        let below = self.below.of(name).filter_map(|child| self.children.get(child));
        let known = below.flat_map(|child| {
            child.servers.iter().filter(|server| server.name == *name).map(|server| (server, child.attached))
        });
        known.max_by_key(|(_, attached)| *attached)
    }

    /// The journal of a child's status updates, if the child ever connected.
    pub fn journal_of(&self, child: &Name) -> Option<u64> {
        self.children.get(child).map(|known| known.journal)
    }

    /// The children: name, kind, whether each is up, and since when.
    pub fn children(&self) -> impl Iterator<Item = (&Name, ChildKind, bool, Time)> {
        self.children.iter().map(|(name, child)| (name, child.kind, child.attached, child.since))
    }
}

/// Adds a record to the audit trail.
fn audit(at: Time, by: Actor, act: AuditAct, why: String, commands: &mut Vec<Command>) {
    let record = AuditRecord { at, by, act, job: None, user: None, why };
    commands.push(Command::Audit(Box::new(record)));
}
