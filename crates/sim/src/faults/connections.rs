//! The connections from servers and agents up to their agents. A connection keeps order and may break.
//!
//! Status updates wait in the child's journal until the parent acknowledges them. The child sends them again over each new
//! connection, after the parent has acknowledged its hello. A connection that breaks loses all messages still in transit.

use std::collections::BTreeMap;

use pliant_control::agent::{self, ChildKind, DiscoveryQuery, DiscoveryResult, DiscoverySubject, Requester};
use pliant_control::handoff_chain::check_reporter;
use pliant_control::job::JobRecord;
use pliant_control::names::{Name, Token};
use pliant_control::server;
use pliant_control::server_info::ServerInfo;
use pliant_control::signed::{Digest, HandoffSignature, Signature};
use pliant_policy::discovery::Summary;
use rand::Rng;

use super::Bug;
use super::calls::{Call, CallParty};
use super::world::{World, WorldEvent};
use crate::kernel::{Peer, server_info};

/// How long a side waits before it takes the other side to be down, in milliseconds.
const SILENCE: u64 = 8_000;

/// The number of every child's journal: no journal is ever lost here.
const JOURNAL_NUMBER: u64 = 1;

/// A message from a child to its parent.
pub(super) enum UpMessage {
    Hello(Vec<ServerInfo>),
    Servers(Vec<ServerInfo>),
    Update(u64, Box<JobRecord>),
    Answer(u64, Box<DiscoveryResult>),
    Freed,
    Summary(Summary),
}

/// A message from a parent to a child.
pub(super) enum DownMessage {
    Question(u64, Box<DiscoveryQuery>),
    Acknowledge(u64),
}

/// The connection of a child, as each end sees it.
#[derive(Default)]
pub(super) struct Connection {
    /// The child's current connection.
    child: Option<u64>,
    is_acknowledged: bool,
    /// The child's servers have changed since its hello.
    announce: bool,
    /// The connection over which the parent received the child's last hello.
    parent: Option<u64>,
    /// When the last messages arrive, up and down.
    last_arrivals: (u64, u64),
    /// Queries received over the current connection: from the child's numbers to the parent's.
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

    /// The servers that a child announces: itself, or those attached below it.
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

    pub(super) fn connect(&mut self, child: Peer, incarnation: u32) {
        let Some(parent) = self.parent_of(child) else { return };
        let is_connected = self.connections.get(&child).is_some_and(|connection| connection.child.is_some());
        if !self.is_up(child) || self.incarnation(child) != incarnation || is_connected {
            return;
        }
        if !self.is_up(parent) || self.are_partitioned(child, parent) {
            let pause = self.rng.random_range(200..5_000);
            return self.after(pause, WorldEvent::Connect(child, incarnation));
        }
        let number = self.next_number();
        let servers = self.servers_of(child);
        let connection = self.connections.entry(child).or_default();
        *connection = Connection {
            child: Some(number),
            parent: connection.parent,
            last_arrivals: (self.queue.now(), self.queue.now()),
            ..Connection::default()
        };
        self.send_up(child, UpMessage::Hello(servers));
        self.after(SILENCE, WorldEvent::HelloTimeout(child, number));
    }

    pub(super) fn hello_timeout(&mut self, child: Peer, number: u64) {
        if self
            .connections
            .get(&child)
            .is_some_and(|connection| connection.child == Some(number) && !connection.is_acknowledged)
        {
            self.break_connection(child);
        }
    }

    /// Sends a message up the child's current connection, if there is one.
    pub(super) fn send_up(&mut self, child: Peer, up: UpMessage) {
        let pause = self.connection_delay();
        let now = self.queue.now();
        let Some(connection) = self.connections.get_mut(&child) else { return };
        let Some(number) = connection.child else { return };
        connection.last_arrivals.0 = connection.last_arrivals.0.max(now + pause);
        let pause = connection.last_arrivals.0 - now;
        self.after(pause, WorldEvent::UpMessage(child, number, up));
    }

    /// Sends a message down the connection over which a child attached, if the parent still has it.
    pub(super) fn send_down(&mut self, child: Peer, down: DownMessage) {
        let pause = self.connection_delay();
        let now = self.queue.now();
        let Some(connection) = self.connections.get_mut(&child) else { return };
        let Some(number) = connection.parent else { return };
        connection.last_arrivals.1 = connection.last_arrivals.1.max(now + pause);
        let pause = connection.last_arrivals.1 - now;
        self.after(pause, WorldEvent::DownMessage(child, number, down));
    }

    fn connection_delay(&mut self) -> u64 {
        let slow = self.draw_fault(self.plan.faults.delayed / 10);
        self.rng.random_range(1..=if slow { 5_000 } else { 100 })
    }

    /// Breaks the current connection of a child. Each end detects that at a time of its own.
    pub(super) fn break_connection(&mut self, child: Peer) {
        let Some(connection) = self.connections.get_mut(&child) else { return };
        let Some(number) = connection.child.take() else { return };
        connection.questions.clear();
        self.log(|world| format!("the connection of {} breaks", world.name_of(child)));
        let (pause, incarnation) = (self.rng.random_range(0..SILENCE), self.incarnation(child));
        self.after(pause, WorldEvent::Connect(child, incarnation));
        let pause = self.rng.random_range(0..SILENCE);
        self.after(pause, WorldEvent::Detach(child, number));
    }

    /// Breaks the connections of a daemon that has crashed, its own and those of its children.
    pub(super) fn break_connections_of(&mut self, peer: Peer) {
        let children: Vec<Peer> = self.connections.keys().copied().collect();
        for child in children {
            if self.parent_of(child) == Some(peer) {
                self.break_connection(child);
                if let Some(connection) = self.connections.get_mut(&child) {
                    connection.parent = None;
                }
            }
        }
        self.break_connection(peer);
    }

    pub(super) fn detach_child(&mut self, child: Peer, number: u64) {
        let (Some(Peer::Agent(parent)), Some(connection)) =
            (self.parent_of(child), self.connections.get_mut(&child))
        else {
            return;
        };
        if connection.parent == Some(number) {
            connection.parent = None;
            let child = self.name_of(child).parse().expect("it is the name of a daemon");
            self.deliver_to_agent(parent, agent::Event::Detached { child });
        }
    }

    pub(super) fn receive_up(&mut self, child: Peer, number: u64, up: UpMessage) {
        let (Some(Peer::Agent(parent)), Some(connection)) =
            (self.parent_of(child), self.connections.get_mut(&child))
        else {
            return;
        };
        let is_hello = matches!(up, UpMessage::Hello(_));
        if connection.child != Some(number) || (connection.parent != Some(number) && !is_hello) {
            return;
        }
        if is_hello {
            connection.parent = Some(number);
        }
        let name = self.name_of(child).parse().expect("it is the name of a daemon");
        let kind = if matches!(child, Peer::Server(_)) { ChildKind::Server } else { ChildKind::Agent };
        let event = match up {
            UpMessage::Hello(servers) => {
                agent::Event::Attached { child: name, kind, journal: JOURNAL_NUMBER, servers }
            }
            UpMessage::Servers(servers) => agent::Event::Announced { child: name, servers },
            UpMessage::Answer(discovery, found) => {
                agent::Event::Answered { child: name, discovery, found: *found }
            }
            UpMessage::Freed => agent::Event::Freed { child: name },
            UpMessage::Summary(summary) => agent::Event::Summarised { child: name, summary },
            UpMessage::Update(sequence, record) => {
                if let Peer::Server(_) = child {
                    self.check_report(&name, &record);
                }
                let record = Box::new(self.newest_record(parent, *record));
                agent::Event::StatusUpdate { child: name, sequence, record }
            }
        };
        self.deliver_to_agent(parent, event);
    }

    /// Checks that a server may report a job, as an agent does, as if each handoff were signed.
    fn check_report(&mut self, server: &Name, record: &JobRecord) {
        let mut record = record.clone();
        for hop in &mut record.hops {
            let signature = Signature { bytes: Vec::new(), certificate: Vec::new() };
            hop.signed = Some(Box::new(HandoffSignature { claim: Digest([0; 32]), at: hop.at, signature }));
        }
        if let Err(fault) = check_reporter(&record, server, |_, _| Ok(())) {
            let what = format!("an agent refuses what {server} reports of {}: {fault}", record.handle);
            self.report_violation("reports", what);
        }
    }

    /// The record of a job in an agent's archive if it is newer than `received`, else `received`.
    fn newest_record(&self, agent: usize, received: JobRecord) -> JobRecord {
        let known = self.agents[agent].daemon.node.archived(&received.handle);
        let known = known.filter(|known| known.progress() > received.progress() && known.key == received.key);
        known.cloned().unwrap_or(received)
    }

    pub(super) fn receive_down(&mut self, child: Peer, number: u64, down: DownMessage) {
        let Some(connection) =
            self.connections.get_mut(&child).filter(|connection| connection.child == Some(number))
        else {
            return;
        };
        match down {
            DownMessage::Acknowledge(sequence) => {
                let (first, announce) =
                    (!connection.is_acknowledged, std::mem::take(&mut connection.announce));
                connection.is_acknowledged = true;
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
                    if self.bug != Some(Bug::ForgetsUpdates) {
                        outbox.into_iter().for_each(|(number, record)| {
                            self.send_up(child, UpMessage::Update(number, Box::new(record)))
                        });
                    }
                    if announce {
                        self.announce(child);
                    }
                    self.restart_summary(child);
                }
            }
            DownMessage::Question(discovery, ask) => {
                let own = self.next_number();
                if let Some(connection) = self.connections.get_mut(&child) {
                    connection.questions.insert(own, discovery);
                }
                self.receive_query(child, own, ask);
            }
        }
    }

    fn receive_query(&mut self, child: Peer, own: u64, ask: Box<DiscoveryQuery>) {
        let index = match child {
            Peer::Agent(index) => {
                return self.deliver_to_agent(
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
            DiscoverySubject::Work(work) | DiscoverySubject::InPlace { work, .. } => {
                daemon.node.machine.answer(now, &info, &ask.caller.user, work)
            }
            DiscoverySubject::Snapshots => {
                let mut snapshot = daemon.node.machine.snapshot(now, &info);
                if self.bug == Some(Bug::DrainedPrepares) {
                    snapshot.closed = None;
                }
                DiscoveryResult { snapshots: vec![snapshot], ..DiscoveryResult::default() }
            }
            DiscoverySubject::Move(proposal) => {
                let by = CallParty::MoveProposal(own);
                self.calls.insert(own, Call { from: child, to: child, by });
                return self.deliver_to_server(
                    index,
                    server::Event::ProposeMove { reply: Token(own), proposal: proposal.clone() },
                );
            }
            DiscoverySubject::Service { .. } => DiscoveryResult::default(),
        };
        self.send_answer_up(child, own, found);
    }

    /// Answers a query that came over the current connection.
    pub(super) fn send_answer_up(&mut self, child: Peer, own: u64, found: DiscoveryResult) {
        let connection = self.connections.get_mut(&child);
        if let Some(discovery) = connection.and_then(|connection| connection.questions.remove(&own)) {
            self.send_up(child, UpMessage::Answer(discovery, Box::new(found)));
        }
    }

    /// Sends a durable status update up. Without a connection it waits in the journal for the next one.
    pub(super) fn send_update(&mut self, child: Peer, number: u64, record: Box<JobRecord>) {
        if self.connections.get(&child).is_some_and(|connection| connection.is_acknowledged) {
            self.send_up(child, UpMessage::Update(number, record));
        }
    }

    /// True if the parent has acknowledged the child's current connection.
    pub(super) fn is_attached(&self, child: Peer) -> bool {
        self.connections.get(&child).is_some_and(|connection| connection.is_acknowledged)
    }

    /// Reports over the current connection that processors became free early. Without a connection the report is dropped.
    pub(super) fn report_freed(&mut self, child: Peer) {
        if self.connections.get(&child).is_some_and(|connection| connection.is_acknowledged) {
            self.send_up(child, UpMessage::Freed);
        }
    }

    /// Announces the servers below a child after a change.
    pub(super) fn announce(&mut self, child: Peer) {
        let Some(connection) =
            self.connections.get_mut(&child).filter(|connection| connection.child.is_some())
        else {
            return;
        };
        if connection.is_acknowledged {
            let servers = self.servers_of(child);
            self.send_up(child, UpMessage::Servers(servers));
        } else {
            connection.announce = true;
        }
    }

    /// True if every child is connected.
    pub(super) fn all_connected(&self) -> bool {
        let children =
            (1..self.agents.len()).map(Peer::Agent).chain((0..self.servers.len()).map(Peer::Server));
        children.into_iter().all(|child| {
            self.connections
                .get(&child)
                .is_some_and(|connection| connection.child.is_some() && connection.child == connection.parent)
        })
    }
}
