//! The lines from servers and agents up to their agents: streams that keep order, and break.
//!
//! News wait in the child's journal until they are acknowledged, and are sent again over each new line, once the parent
//! has greeted. What was on its way over a line that breaks is lost, from some message on.

use std::collections::BTreeMap;

use pliant_control::agent::{self, ChildKind, DiscoveryQuery, DiscoveryResult, DiscoverySubject, Requester};
use pliant_control::job::JobRecord;
use pliant_control::names::Token;
use pliant_control::server;
use pliant_control::server_info::ServerInfo;
use rand::Rng;

use super::Bug;
use super::calls::{Call, Party};
use super::world::{World, WorldEvent};
use crate::kernel::{Peer, server_info};

/// After how much silence the other side is taken to be gone, in milliseconds.
const SILENCE: u64 = 8_000;

/// The number of a child's journal: none is ever lost here.
const JOURNAL: u64 = 1;

/// What goes up.
pub(super) enum Up {
    Hello(Vec<ServerInfo>),
    Servers(Vec<ServerInfo>),
    News(u64, Box<JobRecord>),
    Answer(u64, Box<DiscoveryResult>),
    Freed,
}

/// What comes down.
pub(super) enum Down {
    Question(u64, Box<DiscoveryQuery>),
    Acknowledge(u64),
}

/// The line of a child, as each end sees it.
#[derive(Default)]
pub(super) struct Line {
    /// The child's present line.
    child: Option<u64>,
    greeted: bool,
    /// The servers have changed since the child's hello.
    announce: bool,
    /// The line over which the parent heard of the child last.
    parent: Option<u64>,
    /// Arrivals of the last messages each way.
    last: (u64, u64),
    /// Questions that came over the present line, with the parent's numbers of them.
    questions: BTreeMap<u64, u64>,
}

impl World {
    pub(super) fn parent_of(&self, peer: Peer) -> Option<Peer> {
        match peer {
            Peer::Agent(index) => self.agents[index].parent.map(Peer::Agent),
            Peer::Server(index) => Some(Peer::Agent(self.servers[index].parent)),
            Peer::Client(_) => None,
        }
    }

    /// The servers that a child is or has below it.
    fn servers_of(&self, child: Peer) -> Vec<ServerInfo> {
        match child {
            Peer::Server(index) => vec![self.server_info(index)],
            Peer::Agent(index) => {
                let servers = self.agents[index].daemon.node.machine.servers();
                servers.filter(|(_, _, attached)| *attached).map(|(info, ..)| info.clone()).collect()
            }
            Peer::Client(_) => Vec::new(),
        }
    }

    pub(super) fn server_info(&self, index: usize) -> ServerInfo {
        server_info(&self.servers[index].daemon.node.machine, index)
    }

    pub(super) fn dial(&mut self, child: Peer, life: u32) {
        let Some(parent) = self.parent_of(child) else { return };
        let has_line = self.lines.get(&child).is_some_and(|line| line.child.is_some());
        if !self.is_up(child) || self.life(child) != life || has_line {
            return;
        }
        if !self.is_up(parent) || self.are_parted(child, parent) {
            let pause = self.rng.random_range(200..5_000);
            return self.after(pause, WorldEvent::Dial(child, life));
        }
        let number = self.number();
        let servers = self.servers_of(child);
        let line = self.lines.entry(child).or_default();
        *line = Line {
            child: Some(number),
            parent: line.parent,
            last: (self.queue.now(), self.queue.now()),
            ..Line::default()
        };
        self.up(child, Up::Hello(servers));
        self.after(SILENCE, WorldEvent::Greeting(child, number));
    }

    pub(super) fn not_greeted(&mut self, child: Peer, number: u64) {
        if self.lines.get(&child).is_some_and(|line| line.child == Some(number) && !line.greeted) {
            self.break_line(child);
        }
    }

    /// Sends something up the present line, if there is one.
    fn up(&mut self, child: Peer, up: Up) {
        let pause = self.line_delay();
        let now = self.queue.now();
        let Some(line) = self.lines.get_mut(&child) else { return };
        let Some(number) = line.child else { return };
        line.last.0 = line.last.0.max(now + pause);
        let pause = line.last.0 - now;
        self.after(pause, WorldEvent::Up(child, number, up));
    }

    /// Sends something down the line over which a child has come, if it is still there.
    pub(super) fn down(&mut self, child: Peer, down: Down) {
        let pause = self.line_delay();
        let now = self.queue.now();
        let Some(line) = self.lines.get_mut(&child) else { return };
        let Some(number) = line.parent else { return };
        line.last.1 = line.last.1.max(now + pause);
        let pause = line.last.1 - now;
        self.after(pause, WorldEvent::Down(child, number, down));
    }

    fn line_delay(&mut self) -> u64 {
        let slow = self.strikes(self.plan.faults.late / 10);
        self.rng.random_range(1..=if slow { 5_000 } else { 100 })
    }

    /// The present line of a child is no more: each end notices in its own time.
    pub(super) fn break_line(&mut self, child: Peer) {
        let Some(line) = self.lines.get_mut(&child) else { return };
        let Some(number) = line.child.take() else { return };
        line.questions.clear();
        self.note(|world| format!("the line of {} breaks", world.name_of(child)));
        let (pause, life) = (self.rng.random_range(0..SILENCE), self.life(child));
        self.after(pause, WorldEvent::Dial(child, life));
        let pause = self.rng.random_range(0..SILENCE);
        self.after(pause, WorldEvent::Broken(child, number));
    }

    /// A daemon has crashed: its own line is gone, and those of its children.
    pub(super) fn lose_lines_of(&mut self, peer: Peer) {
        let children: Vec<Peer> = self.lines.keys().copied().collect();
        for child in children {
            if self.parent_of(child) == Some(peer) {
                self.break_line(child);
                if let Some(line) = self.lines.get_mut(&child) {
                    line.parent = None;
                }
            }
        }
        self.break_line(peer);
    }

    pub(super) fn parent_notices(&mut self, child: Peer, number: u64) {
        let (Some(Peer::Agent(parent)), Some(line)) = (self.parent_of(child), self.lines.get_mut(&child))
        else {
            return;
        };
        if line.parent == Some(number) {
            line.parent = None;
            let child = self.name_of(child).parse().expect("it is the name of a daemon");
            self.tell_agent(parent, agent::Event::Detached { child });
        }
    }

    pub(super) fn up_arrives(&mut self, child: Peer, number: u64, up: Up) {
        let (Some(Peer::Agent(parent)), Some(line)) = (self.parent_of(child), self.lines.get_mut(&child))
        else {
            return;
        };
        let is_hello = matches!(up, Up::Hello(_));
        if line.child != Some(number) || (line.parent != Some(number) && !is_hello) {
            return;
        }
        if is_hello {
            line.parent = Some(number);
        }
        let name = self.name_of(child).parse().expect("it is the name of a daemon");
        let kind = if matches!(child, Peer::Server(_)) { ChildKind::Server } else { ChildKind::Agent };
        let event = match up {
            Up::Hello(servers) => agent::Event::Attached { child: name, kind, journal: JOURNAL, servers },
            Up::Servers(servers) => agent::Event::Announced { child: name, servers },
            Up::Answer(discovery, found) => agent::Event::Answered { child: name, discovery, found: *found },
            Up::Freed => agent::Event::Freed { child: name },
            Up::News(sequence, record) => {
                let record = Box::new(self.unless_old(parent, *record));
                agent::Event::StatusUpdate { child: name, sequence, record }
            }
        };
        self.tell_agent(parent, event);
    }

    /// What an agent's archive knows of a job, if what it is told is older.
    fn unless_old(&self, agent: usize, told: JobRecord) -> JobRecord {
        let known = self.agents[agent].daemon.node.archived(&told.handle);
        let known = known.filter(|known| known.progress() > told.progress() && known.key == told.key);
        known.cloned().unwrap_or(told)
    }

    pub(super) fn down_arrives(&mut self, child: Peer, number: u64, down: Down) {
        let Some(line) = self.lines.get_mut(&child).filter(|line| line.child == Some(number)) else { return };
        match down {
            Down::Acknowledge(sequence) => {
                let (first, announce) = (!line.greeted, std::mem::take(&mut line.announce));
                line.greeted = true;
                let outbox: Vec<(u64, JobRecord)> = match child {
                    Peer::Agent(index) => {
                        self.agents[index].daemon.node.acknowledge(sequence);
                        self.agents[index].daemon.node.outbox().cloned().collect()
                    }
                    Peer::Server(index) => {
                        self.servers[index].daemon.node.acknowledge(sequence);
                        self.servers[index].daemon.node.outbox().cloned().collect()
                    }
                    Peer::Client(_) => Vec::new(),
                };
                if first {
                    if self.bug != Some(Bug::ForgetsNews) {
                        outbox
                            .into_iter()
                            .for_each(|(number, record)| self.up(child, Up::News(number, Box::new(record))));
                    }
                    if announce {
                        self.announce(child);
                    }
                }
            }
            Down::Question(discovery, ask) => {
                let own = self.number();
                if let Some(line) = self.lines.get_mut(&child) {
                    line.questions.insert(own, discovery);
                }
                self.asked(child, own, ask);
            }
        }
    }

    fn asked(&mut self, child: Peer, own: u64, ask: Box<DiscoveryQuery>) {
        let index = match child {
            Peer::Agent(index) => {
                return self.tell_agent(
                    index,
                    agent::Event::Queried { requester: Requester::Parent(own), query: ask },
                );
            }
            Peer::Server(index) => index,
            Peer::Client(_) => return,
        };
        let info = self.server_info(index);
        let now = self.queue.now();
        let daemon = &mut self.servers[index].daemon;
        let now = daemon.clock.now(now);
        let found = match &ask.subject {
            DiscoverySubject::Work(work) => daemon.node.machine.answer(now, &info, &ask.caller.user, work),
            DiscoverySubject::Snapshots => DiscoveryResult {
                snapshots: vec![daemon.node.machine.snapshot(now, &info)],
                ..DiscoveryResult::default()
            },
            DiscoverySubject::Move(order) => {
                let by = Party::Order(own);
                self.calls.insert(own, Call { from: child, to: child, by });
                return self
                    .tell_server(index, server::Event::Order { reply: Token(own), order: order.clone() });
            }
            DiscoverySubject::Service { .. } => DiscoveryResult::default(),
        };
        self.answer_up(child, own, found);
    }

    /// The answer to a question that came over the present line.
    pub(super) fn answer_up(&mut self, child: Peer, own: u64, found: DiscoveryResult) {
        let line = self.lines.get_mut(&child);
        if let Some(discovery) = line.and_then(|line| line.questions.remove(&own)) {
            self.up(child, Up::Answer(discovery, Box::new(found)));
        }
    }

    /// Durable news go up, or wait for the next line.
    pub(super) fn tell_news(&mut self, child: Peer, number: u64, record: Box<JobRecord>) {
        if self.lines.get(&child).is_some_and(|line| line.greeted) {
            self.up(child, Up::News(number, record));
        }
    }

    /// Processors are free early: told over the present line, or not at all.
    pub(super) fn freed(&mut self, child: Peer) {
        if self.lines.get(&child).is_some_and(|line| line.greeted) {
            self.up(child, Up::Freed);
        }
    }

    /// The servers below have changed.
    pub(super) fn announce(&mut self, child: Peer) {
        let Some(line) = self.lines.get_mut(&child).filter(|line| line.child.is_some()) else { return };
        if line.greeted {
            let servers = self.servers_of(child);
            self.up(child, Up::Servers(servers));
        } else {
            line.announce = true;
        }
    }

    /// True if every child has a line.
    pub(super) fn have_lines(&self) -> bool {
        let children =
            (1..self.agents.len()).map(Peer::Agent).chain((0..self.servers.len()).map(Peer::Server));
        children.into_iter().all(|child| {
            self.lines.get(&child).is_some_and(|line| line.child.is_some() && line.child == line.parent)
        })
    }
}
