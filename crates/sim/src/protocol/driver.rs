//! The events of a protocol simulation, and who handles them.
//!
//! The events of one instant come in the order of the direct engine ([`Class`]): terminations in the order in which
//! the jobs were started, then messages that arrive now, then submissions ([`Ties`] may put the terminations last), each
//! with all that follows from it in no time; then the timers of machines, which start jobs. A job that ends in the instant
//! of its start begins the instant anew.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::iter::Peekable;

use pliant_control::agent::{self, Agent, AgentConfig, ChildKind, ReallocationConfig, Requester};
use pliant_control::client;
use pliant_control::names::Name;
use pliant_control::server::{self, Server, ServerConfig};
use pliant_model::{Job, JobId, JobOutcome, Platform, RefusalCause, Run, Span, Time};
use rustc_hash::FxHashMap;

use super::clients::Client;
use super::handoffs::Handoffs;
use super::network::{Link, Links, Network, NetworkMessage};
use super::tree::{Layout, Placed};
use super::{ProtocolRun, Unplaced, Watcher};
use crate::kernel::Peer;
use crate::kernel::{
    self, EventQueue, Node, ServerStart, Simulation, daemon_name, server_config, server_info,
};
use crate::{Policies, SimError, SimJob, Ties};

/// The journal that a daemon's news come from: none is ever lost here.
const JOURNAL: u64 = 1;

/// Something that happens.
pub(super) enum Event {
    /// A job ends: on which server, which of its jobs.
    End(usize, JobId),
    /// A message arrives.
    Message(NetworkMessage),
    /// The next job of the workload is submitted.
    Submission,
    /// A machine may want to be told that time has passed.
    Due(Peer),
}

/// The order of the events of one instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    /// How often the instant was begun anew because a job ended in it.
    pass: u32,
    rank: Rank,
}

/// The order within a pass.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// A message that a termination of this instant has caused.
    Caused,
    EndFirst,
    Message,
    Submission,
    EndLast,
    Due(Peer),
}

/// An agent with its place in the hierarchy.
pub(super) struct AgentNode {
    pub(super) node: Node<Agent>,
    pub(super) place: Placed,
}

/// A server with its place in the hierarchy.
pub(super) struct ServerNode {
    pub(super) node: Node<Server>,
    pub(super) parent: usize,
}

/// What the driver knows of a job that has not started.
pub(super) struct Submitted {
    pub(super) job: Job,
    pub(super) managed: bool,
}

pub(super) struct Driver<'a> {
    pub(super) platform: &'a Platform,
    pub(super) policies: &'a Policies,
    watcher: &'a mut dyn Watcher,
    pub(super) agents: Vec<AgentNode>,
    pub(super) servers: Vec<ServerNode>,
    pub(super) peers: BTreeMap<Name, Peer>,
    pub(super) clients: FxHashMap<u32, Client>,
    pub(super) submitted: FxHashMap<u32, Submitted>,
    queue: EventQueue<Time, Class, Event>,
    /// Of the event that is handled.
    class: Class,
    pub(super) links: Links,
    /// When each machine wants to be told that time has passed.
    dues: FxHashMap<Peer, Time>,
    /// True until the daemons have attached: the messages of that take no time.
    attaching: bool,
    pub(super) outcomes: Vec<Option<JobOutcome>>,
    pub(super) refused: BTreeMap<u32, (u64, RefusalCause)>,
    pub(super) unplaced: BTreeMap<u32, Unplaced>,
    pub(super) handoffs: Handoffs,
    agent_commands: Vec<agent::Command>,
    server_commands: Vec<server::Command>,
}

fn agent_configs(layout: &Layout, network: &Network, policies: &Policies) -> Vec<AgentConfig> {
    let moving = policies.reallocation.map(|policy| ReallocationConfig { policy, early: None });
    // Time for a question to every server and back, with the second that each level has less.
    let height = layout.height as i64;
    let timeout = Span(2 * network.latency.longest().0 * height + height);
    let config = |(number, place): (usize, &Placed)| AgentConfig {
        name: daemon_name('a', number),
        root: place.parent.is_none(),
        timeout,
        reallocation: moving.filter(|_| place.parent.is_none()),
    };
    layout.agents.iter().enumerate().map(config).collect()
}

impl<'a> Driver<'a> {
    pub(super) fn new(
        platform: &'a Platform,
        layout: &Layout,
        policies: &'a Policies,
        network: &Network,
        watcher: &'a mut dyn Watcher,
        origin: Time,
    ) -> Driver<'a> {
        let agent_configs = agent_configs(layout, network, policies);
        let clusters = platform.clusters().iter().enumerate();
        let server_configs: Vec<ServerConfig> = clusters
            .map(|(number, cluster)| server_config(number, cluster, policies.tuner, u32::MAX))
            .collect();
        watcher.begin(origin, &agent_configs, &server_configs);
        let mut peers = BTreeMap::new();
        peers.extend((0..).zip(&agent_configs).map(|(number, one)| (one.name.clone(), Peer::Agent(number))));
        peers
            .extend((0..).zip(&server_configs).map(|(number, one)| (one.name.clone(), Peer::Server(number))));
        let agent =
            |(config, place): (AgentConfig, &Placed)| AgentNode { node: Node::new(config), place: *place };
        let server = |(config, parent): (ServerConfig, &usize)| ServerNode {
            node: Node::new(ServerStart { config, origin }),
            parent: *parent,
        };
        let levels = layout.agents.iter().map(|place| place.depth + 1).max().unwrap_or(0);
        let mut driver = Driver {
            platform,
            policies,
            watcher,
            agents: agent_configs.into_iter().zip(&layout.agents).map(agent).collect(),
            servers: server_configs.into_iter().zip(&layout.servers).map(server).collect(),
            peers,
            clients: FxHashMap::default(),
            submitted: FxHashMap::default(),
            queue: EventQueue::new(origin),
            class: Class { pass: 0, rank: Rank::Message },
            links: Links::new(network, levels),
            dues: FxHashMap::default(),
            attaching: true,
            outcomes: Vec::new(),
            refused: BTreeMap::new(),
            unplaced: BTreeMap::new(),
            handoffs: Handoffs::default(),
            agent_commands: Vec::new(),
            server_commands: Vec::new(),
        };
        driver.attach(origin);
        driver
    }

    /// Every server attaches to its agent, and every agent tells its own of what it has.
    fn attach(&mut self, origin: Time) {
        for index in 0..self.servers.len() {
            let info = server_info(&self.servers[index].node.machine, index);
            let (child, kind) = (info.name.clone(), ChildKind::Server);
            let attached = agent::Event::Attached { child, kind, journal: JOURNAL, servers: vec![info] };
            self.send_up(origin, Peer::Server(index), attached);
        }
    }

    pub(super) fn run<I>(self, jobs: Peekable<I>) -> Result<ProtocolRun, SimError>
    where
        I: Iterator,
        I::Item: Borrow<SimJob>,
    {
        let mut run = WorkloadRun { driver: self, jobs };
        run.plan_submission();
        kernel::run(&mut run)?;
        Ok(run.driver.conclude())
    }

    /// Schedules an event. What happens now is handled in this pass, but terminations, which begin another one.
    fn schedule(&mut self, at: Time, rank: Rank, event: Event) {
        let pass = match (at <= self.queue.now(), &event) {
            (true, Event::End(..)) => self.class.pass + 1,
            (true, _) => self.class.pass,
            (false, _) => 0,
        };
        self.queue.schedule(at, Class { pass, rank }, event);
    }

    /// A job of a server is to end.
    pub(super) fn plan_end(&mut self, at: Time, server: usize, job: JobId) {
        let rank = match self.policies.ties {
            Ties::FinishFirst => Rank::EndFirst,
            Ties::SubmitFirst => Rank::EndLast,
        };
        self.schedule(at, rank, Event::End(server, job));
    }

    /// A machine wants to be told of that time, and of no other.
    pub(super) fn set_due(&mut self, peer: Peer, at: Option<Time>) {
        let before = match at {
            Some(at) => self.dues.insert(peer, at),
            None => self.dues.remove(&peer),
        };
        if let Some(at) = at.filter(|_| before != at) {
            self.schedule(at, Rank::Due(peer), Event::Due(peer));
        }
    }

    fn tell_due(&mut self, now: Time, peer: Peer) {
        match peer {
            Peer::Server(index) => self.tell_server(now, index, server::Event::Due),
            Peer::Agent(index) => self.tell_agent(now, index, agent::Event::Due),
            Peer::Client(job) => self.tell_client(now, job, client::Event::Due),
        }
    }

    fn deliver(&mut self, now: Time, message: NetworkMessage) {
        match message {
            NetworkMessage::Agent(index, event) => self.tell_agent(now, index, event),
            NetworkMessage::Server(index, event) => self.tell_server(now, index, event),
            NetworkMessage::Question(index, discovery, ask) => self.answer(now, index, discovery, &ask),
            NetworkMessage::Acknowledged(peer, sequence) => self.acknowledged(peer, sequence),
            NetworkMessage::Client(token, event) => self.answer_client(now, token, event),
            NetworkMessage::Known(token) => self.known(token),
            NetworkMessage::Inquiry { source, target, id } => self.inquired(now, source, target, id),
        }
    }

    fn tell_agent(&mut self, now: Time, index: usize, event: agent::Event) {
        self.watcher.agent_told(now, index, &event);
        let mut commands = std::mem::take(&mut self.agent_commands);
        let node = &mut self.agents[index].node;
        node.deliver(now, event, &mut commands);
        let due = node.machine.next_due().map(|at| at.max(now));
        self.set_due(Peer::Agent(index), due);
        self.watcher.agent_wants(now, index, &commands);
        for command in commands.drain(..) {
            self.carry_out(now, index, command);
        }
        self.agent_commands = commands;
    }

    pub(super) fn tell_server(&mut self, now: Time, index: usize, event: server::Event) {
        self.watcher.server_told(now, index, &event);
        let mut commands = std::mem::take(&mut self.server_commands);
        let node = &mut self.servers[index].node;
        node.deliver(now, event, &mut commands);
        // All that is due at an instant is equal: the first cluster goes first.
        let due = node.machine.next_due().map(|at| at.max(now));
        self.set_due(Peer::Server(index), due);
        self.watcher.server_wants(now, index, &commands);
        for command in commands.drain(..) {
            self.carry_out_for_server(now, index, command);
        }
        self.server_commands = commands;
    }

    /// Does what an agent wants.
    fn carry_out(&mut self, now: Time, index: usize, command: agent::Command) {
        let (me, depth) = (Peer::Agent(index), self.agents[index].place.depth);
        match command {
            agent::Command::Query { child, discovery, query } => {
                let child = self.peers[&child];
                let message = match child {
                    Peer::Agent(below) => {
                        let requester = Requester::Parent(discovery);
                        NetworkMessage::Agent(below, agent::Event::Queried { requester, query })
                    }
                    Peer::Server(below) => NetworkMessage::Question(below, discovery, query),
                    Peer::Client(_) => return debug_assert!(false, "a client is nobody's child"),
                };
                self.send(now, Link::Down(depth, child), message);
            }
            agent::Command::Answer { to: Requester::Client(token), found } => {
                let message = NetworkMessage::Client(token, client::Event::Found(found));
                self.send(now, Link::ClientAgent, message);
            }
            agent::Command::Answer { to: Requester::Parent(discovery), found } => {
                let child = self.agents[index].node.machine.config().name.clone();
                self.send_up(now, me, agent::Event::Answered { child, discovery, found });
            }
            agent::Command::Acknowledge { child, sequence } => {
                let child = self.peers[&child];
                self.send(now, Link::Down(depth, child), NetworkMessage::Acknowledged(child, sequence));
            }
            agent::Command::ReportStatus(record) => {
                let node = &mut self.agents[index].node;
                let (child, sequence) = (node.machine.config().name.clone(), node.number_update());
                self.send_up(now, me, agent::Event::StatusUpdate { child, sequence, record });
            }
            agent::Command::Announce => {
                let machine = &self.agents[index].node.machine;
                let there = machine.servers().filter(|(_, _, attached)| *attached);
                let servers = there.map(|(info, _, _)| info.clone()).collect();
                let (child, kind) = (machine.config().name.clone(), ChildKind::Agent);
                self.send_up(now, me, agent::Event::Attached { child, kind, journal: JOURNAL, servers });
            }
            // The outcomes of the run are the archive.
            agent::Command::Archive(_) => {}
            agent::Command::Freed => debug_assert!(false, "every job's end is news"),
            agent::Command::Answer { to: Requester::ReallocationCycle, .. } => {
                debug_assert!(false, "an agent answers its own questions by itself");
            }
            agent::Command::ReportReallocation { .. } | agent::Command::Configured { .. } => {
                debug_assert!(false, "there are no operators");
            }
        }
    }

    /// Tells a daemon's agent.
    pub(super) fn send_up(&mut self, now: Time, from: Peer, event: agent::Event) {
        let parent = match from {
            Peer::Server(index) => Some(self.servers[index].parent),
            Peer::Agent(index) => self.agents[index].place.parent,
            Peer::Client(_) => None,
        };
        let Some(parent) = parent else { return debug_assert!(false, "{from:?} has no agent above it") };
        let link = Link::Up(self.agents[parent].place.depth, from);
        self.send(now, link, NetworkMessage::Agent(parent, event));
    }

    pub(super) fn send(&mut self, now: Time, link: Link, message: NetworkMessage) {
        self.links.count(link);
        let arrival = if self.attaching { now } else { self.links.arrival(now, link) };
        let follows = matches!(self.class.rank, Rank::Caused | Rank::EndFirst | Rank::EndLast);
        let rank = if follows && arrival == now { Rank::Caused } else { Rank::Message };
        self.schedule(arrival, rank, Event::Message(message));
    }

    fn acknowledged(&mut self, peer: Peer, sequence: u64) {
        match peer {
            Peer::Server(index) => self.servers[index].node.acknowledge(sequence),
            Peer::Agent(index) => self.agents[index].node.acknowledge(sequence),
            Peer::Client(_) => debug_assert!(false, "clients send no status updates"),
        }
    }

    fn conclude(self) -> ProtocolRun {
        debug_assert!(self.servers.iter().all(|one| one.node.is_acknowledged()), "status updates were lost");
        debug_assert!(self.agents.iter().all(|one| one.node.is_acknowledged()), "status updates were lost");
        debug_assert!(self.submitted.is_empty() && self.clients.is_empty(), "jobs were lost");
        let run = Run {
            platform: self.platform.clone(),
            jobs: self.outcomes.into_iter().flatten().collect(),
            refused: self.refused.into_values().collect(),
            moves: self.handoffs.moves,
            reallocations: self.handoffs.count,
        };
        ProtocolRun { run, unplaced: self.unplaced.into_values().collect(), traffic: self.links.traffic }
    }
}

/// The driver with the jobs that are still to be submitted.
struct WorkloadRun<'a, I: Iterator> {
    driver: Driver<'a>,
    jobs: Peekable<I>,
}

impl<I> WorkloadRun<'_, I>
where
    I: Iterator,
    I::Item: Borrow<SimJob>,
{
    fn plan_submission(&mut self) {
        if let Some(next) = self.jobs.peek() {
            self.driver.schedule(next.borrow().job.submit, Rank::Submission, Event::Submission);
        }
    }

    fn submit_next(&mut self, now: Time) -> Result<(), SimError> {
        let Some(next) = self.jobs.next() else { return Ok(()) };
        let (next, position) = (next.borrow(), self.driver.outcomes.len());
        if next.job.submit < now {
            return Err(SimError::Unsorted(position));
        }
        self.driver.outcomes.push(None);
        self.driver.submit(now, position as u32, next)?;
        self.plan_submission();
        Ok(())
    }
}

impl<I> Simulation for WorkloadRun<'_, I>
where
    I: Iterator,
    I::Item: Borrow<SimJob>,
{
    type Time = Time;
    type Class = Class;
    type Event = Event;
    type Error = SimError;

    fn queue(&mut self) -> &mut EventQueue<Time, Class, Event> {
        &mut self.driver.queue
    }

    fn handle(&mut self, class: Class, event: Event) -> Result<(), SimError> {
        let driver = &mut self.driver;
        let now = driver.queue.now();
        driver.class = class;
        driver.attaching &= class.rank == Rank::Message;
        match event {
            Event::End(server, job) => driver.job_ended(now, server, job),
            Event::Message(message) => driver.deliver(now, message),
            Event::Due(peer) if driver.dues.get(&peer) == Some(&now) => {
                driver.dues.remove(&peer);
                driver.tell_due(now, peer);
            }
            Event::Due(_) => {}
            Event::Submission => self.submit_next(now)?,
        }
        Ok(())
    }
}
