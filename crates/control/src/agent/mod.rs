//! The agent: finds servers and knows where every job of the federation is (paper 000, section 3.1; the agents
//! of paper 004, Figure 3).
//!
//! Agents form a tree whose leaves are servers. A question goes down to every child that is there; estimation
//! vectors come up and are cut to the best at each level ([`crate::vector::cut`]), so the root never handles every server
//! (`discovery`). News of jobs goes up, from the journal of one daemon into that of the next (`index`).

mod discovery;
mod index;
mod offers;
mod rounds;
mod runtimes;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use pliant_model::{Span, Time};
use pliant_policy::reallocation::Reallocation;
use pliant_policy::runtimes::CalibratedRuntimes;
use serde::{Deserialize, Serialize};

use crate::access::Caller;
use crate::handoff::{MoveOutcome, MoveProposal, ServerSnapshot};
use crate::job::{JobRecord, Work};
use crate::names::Token;
use crate::names::{Handle, Name};
use crate::reason::Reason;
use crate::server_info::ServerInfo;
use crate::vector::EstimationVector;

pub use index::ReportedMove;
pub use offers::ExplorationServer;
pub use rounds::{Change, Proposal, ReallocationConfig, Report};
pub use runtimes::{CALIBRATED, RuntimeOf};
pub use snapshot::AgentState;

/// What an agent is.
#[derive(Clone, PartialEq, Debug)]
pub struct AgentConfig {
    /// Its name.
    pub name: Name,
    /// True if it has no parent: the master agent.
    pub root: bool,
    /// How long children may take to answer.
    pub timeout: Span,
    /// How waiting jobs are moved unless an operator says otherwise; none if they are not.
    pub moving: Option<ReallocationConfig>,
}

/// What a child is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChildKind {
    /// The server of a cluster.
    Server,
    /// A local agent.
    Agent,
}

/// What is asked for, in a discovery.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiscoverySubject {
    /// Work of a given shape: a user's own script.
    Work(Work),
    /// A service with arguments; each server that offers it knows its shape.
    Service {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: BTreeMap<String, String>,
    },
    /// Nothing: every server is to show its queue, to an agent that looks for better places.
    Snapshots,
    /// That one server hand a waiting job over to another one: answered when that has come to an end.
    Order(Box<MoveProposal>),
}

/// A question to the federation: who would complete this first?
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct DiscoveryQuery {
    /// What is asked for.
    pub what: DiscoverySubject,
    /// Who asks.
    pub caller: Caller,
    /// How many of the best answers are wanted.
    pub best: u32,
    /// Only this server, if the user chose one.
    pub only: Option<Name>,
    /// How long the answer may take, if whoever asks has set a limit.
    pub timeout: Option<Span>,
}

/// Who waits for the answer to a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requester {
    /// A client.
    Client(Token),
    /// The parent, by its number of the discovery.
    Parent(u64),
    /// This agent itself, which looks for better places for waiting jobs.
    Round,
}

/// What came of a discovery.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
pub struct DiscoveryResult {
    /// The best servers, best first.
    pub vectors: Vec<EstimationVector>,
    /// Why others do not take it, by server.
    pub refusals: Vec<(Name, Reason)>,
    /// Children that did not answer in time.
    pub silent: Vec<Name>,
    /// How many more of both there were: each level passes on the first few.
    pub more: u32,
    /// Servers that are known and were not there to be asked, the first few.
    pub absent: Vec<Name>,
    /// How many servers are known that could be asked, there or not; 0 if that is not known.
    pub servers: u32,
    /// How many of them answered, by an estimate or a refusal.
    pub answered: u32,
    /// The queues of servers, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<ServerSnapshot>,
    /// What came of an order, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<MoveOutcome>,
}

/// What changes an agent's state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A child is there.
    Attached {
        /// The child.
        child: Name,
        /// What it is.
        kind: ChildKind,
        /// The journal that its news come from.
        journal: u64,
        /// The servers it is or has below it.
        servers: Vec<ServerInfo>,
    },
    /// A child says anew which servers it has.
    Announced {
        /// The child.
        child: Name,
        /// The servers it is or has below it.
        servers: Vec<ServerInfo>,
    },
    /// A child is gone.
    Detached {
        /// The child.
        child: Name,
    },
    /// Somebody asks.
    Asked {
        /// Who waits for the answer.
        by: Requester,
        /// What.
        ask: Box<DiscoveryQuery>,
    },
    /// A child answers.
    Answered {
        /// The child.
        child: Name,
        /// Our number of the discovery.
        discovery: u64,
        /// What it found.
        found: DiscoveryResult,
    },
    /// A child tells how a job stands.
    Told {
        /// The child.
        child: Name,
        /// Its number of the news.
        sequence: u64,
        /// The job.
        record: Box<JobRecord>,
    },
    /// Processors below a child are free earlier than planned although no job of the federation has ended.
    Freed {
        /// The child.
        child: Name,
    },
    /// Somebody wants waiting jobs to be looked at now.
    Reallocate {
        /// Whom to answer.
        reply: Token,
        /// Only say what would be done.
        dry_run: bool,
        /// Under this policy; none is the agent's own.
        policy: Option<Reallocation>,
    },
    /// An operator changes how waiting jobs are moved.
    Configure {
        /// Whom to answer.
        reply: Token,
        /// How; none goes back to the configuration.
        change: Option<Change>,
    },
    /// Time has passed.
    Due,
}

/// What is to be done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// DiscoveryQuery a child.
    Ask {
        /// The child.
        child: Name,
        /// Our number of the discovery.
        discovery: u64,
        /// What.
        ask: Box<DiscoveryQuery>,
    },
    /// Answer whoever asked.
    Answer {
        /// Who waits.
        to: Requester,
        /// What was found.
        found: DiscoveryResult,
    },
    /// Answer whoever wanted waiting jobs to be looked at.
    Report {
        /// Whom.
        to: Token,
        /// What came of it.
        report: Box<Report>,
    },
    /// Tell an operator that the change is made.
    Configured {
        /// Whom.
        to: Token,
    },
    /// Tell a child that its news up to there are kept.
    Acknowledge {
        /// The child.
        child: Name,
        /// Its number of the last.
        sequence: u64,
    },
    /// Tell the parent how a job stands. Told until it is acknowledged.
    Tell(Box<JobRecord>),
    /// Tell the parent which servers there are.
    Announce,
    /// Tell the parent that processors are free earlier than planned although no job of the federation has ended. Of use at
    /// once or not at all.
    Freed,
    /// A job has ended, or has gone to a server below another agent: keep its record for good. What is told later and is
    /// not as far ([`JobRecord::progress`]) is old.
    Archive(Box<JobRecord>),
}

/// A child as the agent knows it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct Child {
    kind: ChildKind,
    servers: Vec<ServerInfo>,
    /// True while it is there.
    attached: bool,
    /// When it came or went last.
    since: Time,
    journal: u64,
    /// Its last news.
    sequence: u64,
}

/// An agent.
pub struct Agent {
    config: AgentConfig,
    children: BTreeMap<Name, Child>,
    discoveries: BTreeMap<u64, discovery::OpenDiscovery>,
    next_discovery: u64,
    jobs: BTreeMap<Handle, JobRecord>,
    /// Jobs that have ended, by when that was learnt: forgotten in that order.
    ended: VecDeque<(Time, Handle)>,
    /// Those of them that were moved, which are kept longer.
    ended_moved: VecDeque<(Time, Handle)>,
    /// How many of the jobs in memory wait.
    waiting: usize,
    /// Since when there are any.
    waits_since: Time,
    /// What an operator said of how waiting jobs are moved.
    changed: Option<Change>,
    /// The look at waiting jobs that is under way.
    round: Option<rounds::ReallocationCycle>,
    /// When the last one began.
    last_round: Option<Time>,
    /// A cluster has become free early since then.
    freed: bool,
    /// A job has come to wait since then.
    arrived: bool,
    /// The last moves, oldest first.
    moves: VecDeque<ReportedMove>,
    /// How long jobs run.
    learned: CalibratedRuntimes,
}

impl Agent {
    /// An agent that knows of nobody.
    pub fn new(config: AgentConfig) -> Agent {
        Agent {
            config,
            children: BTreeMap::new(),
            discoveries: BTreeMap::new(),
            next_discovery: 1,
            jobs: BTreeMap::new(),
            ended: VecDeque::new(),
            ended_moved: VecDeque::new(),
            waiting: 0,
            waits_since: Time(i64::MIN),
            changed: None,
            round: None,
            last_round: None,
            freed: false,
            arrived: false,
            moves: VecDeque::new(),
            learned: runtimes::empty(),
        }
    }

    /// What it is.
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// Takes in an event and appends what is to be done.
    pub fn on(&mut self, now: Time, event: Event, commands: &mut Vec<Command>) {
        match event {
            Event::Attached { child, kind, journal, servers } => {
                self.attach(now, child, kind, journal, servers, commands);
            }
            Event::Announced { child, servers } => self.announced(&child, servers, commands),
            Event::Detached { child } => self.detach(now, &child, commands),
            Event::Asked { by, ask } => self.ask(now, by, *ask, commands),
            Event::Answered { child, discovery, found } => {
                self.answered(now, &child, discovery, found, commands);
            }
            Event::Freed { child } => self.freed_below(&child, commands),
            Event::Reallocate { reply, dry_run, policy } => {
                self.reallocate(now, reply, dry_run, policy, commands);
            }
            Event::Configure { reply, change } => {
                self.changed = change;
                commands.push(Command::Configured { to: reply });
            }
            Event::Told { child, sequence, record } => self.told(now, &child, sequence, *record, commands),
            Event::Due => {
                self.give_up_waiting(now, commands);
                self.look_around(now, commands);
                self.forget(now);
            }
        }
    }

    /// When [`Event::Due`] is wanted next.
    pub fn next_due(&self) -> Option<Time> {
        let timeout = self.discoveries.values().map(|open| open.until);
        let forget = self.next_forgotten();
        timeout.chain(forget).chain(self.next_round()).min()
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
        self.taken_from_others(&child, &servers);
        let before = self.children.get(&child);
        // A new journal begins to count anew.
        let sequence = before.filter(|before| before.journal == journal).map_or(0, |before| before.sequence);
        let changed = before.is_none_or(|before| !before.attached || before.servers != servers);
        commands.push(Command::Acknowledge { child: child.clone(), sequence });
        // What was asked over an earlier line is not answered over this one.
        self.no_answer_from(now, &child, commands);
        self.children.insert(child, Child { kind, servers, attached: true, since: now, journal, sequence });
        if changed && !self.config.root {
            commands.push(Command::Announce);
        }
    }

    /// Servers that have come back below another child are not below those that are away.
    fn taken_from_others(&mut self, child: &Name, servers: &[ServerInfo]) {
        for (_, other) in self.children.iter_mut().filter(|(name, other)| *name != child && !other.attached) {
            other.servers.retain(|server| !servers.iter().any(|taken| taken.name == server.name));
        }
    }

    fn announced(&mut self, child: &Name, servers: Vec<ServerInfo>, commands: &mut Vec<Command>) {
        self.taken_from_others(child, &servers);
        let Some(known) = self.children.get_mut(child) else { return };
        let changed = known.servers != servers;
        known.servers = servers;
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
        self.no_answer_from(now, child, commands);
        if !self.config.root {
            commands.push(Command::Announce);
        }
    }

    /// Every server below this agent, with the child it is or hangs on, and whether that child is there.
    pub fn servers(&self) -> impl Iterator<Item = (&ServerInfo, &Name, bool)> {
        self.children
            .iter()
            .flat_map(|(name, child)| child.servers.iter().map(move |server| (server, name, child.attached)))
    }

    /// The journal that the news of a child come from, if it was ever there.
    pub fn journal_of(&self, child: &Name) -> Option<u64> {
        self.children.get(child).map(|known| known.journal)
    }

    /// The children: name, kind, whether it is there and since when.
    pub fn children(&self) -> impl Iterator<Item = (&Name, ChildKind, bool, Time)> {
        self.children.iter().map(|(name, child)| (name, child.kind, child.attached, child.since))
    }
}
