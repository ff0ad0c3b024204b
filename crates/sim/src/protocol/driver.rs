//! The event loop of a protocol simulation.
//!
//! The events of one instant come in the order of the direct engine ([`Class`]): terminations in the order in which the jobs
//! were started, then messages that arrive now, then submissions ([`Ties`] may put terminations last), each with everything
//! that follows from it without delay; then the timers of machines, which start jobs. A job that ends in the instant of its
//! start begins a further pass over the instant.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::iter::Peekable;

use pliant_control::agent::{self, Agent, AgentConfig, ChildKind, ReallocationConfig, Requester};
use pliant_control::client;
use pliant_control::names::Name;
use pliant_control::server::{self, Server, ServerConfig, WaitingLimits};
use pliant_model::{Job, JobId, JobOutcome, Platform, RefusalCause, Run, Span, Time};
use pliant_policy::discovery::ReportRule;
use pliant_policy::federation::Federation;
use rustc_hash::FxHashMap;

use super::clients::Client;
use super::handoffs::Handoffs;
use super::hierarchy::{AgentPosition, Layout};
use super::network::{Link, Links, Network, NetworkMessage};
use super::summaries::PlannedReports;
use super::{ProtocolRun, Unplaced, Watcher};
use crate::kernel::Peer;
use crate::kernel::{
    self, EventQueue, Node, ServerStart, Simulation, daemon_name, server_config, server_info,
};
use crate::needs::Needs;
use crate::{Policies, SimError, SimJob, Ties};

/// The number of every daemon's journal: no journal is ever lost here.
const JOURNAL: u64 = 1;

/// An event of the simulation.
pub(super) enum Event {
    /// A job of a server ends.
    End(usize, JobId),
    /// A message arrives.
    Message(Box<NetworkMessage>),
    /// The next job of the workload is submitted.
    Submission,
    /// A timer of a machine may be due.
    Due(Peer),
    /// A daemon reports its summary if it has changed.
    Summary(Peer),
}

/// The order of the events of one instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    /// The number of earlier passes, each ended by a job that started and ended in this instant.
    pass: u32,
    rank: Rank,
}

/// The order within a pass.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// A message caused by a termination of this instant.
    Caused,
    EndFirst,
    Message,
    Submission,
    EndLast,
    Due(Peer),
}

/// An agent with its position in the hierarchy.
pub(super) struct AgentNode {
    pub(super) node: Node<Agent>,
    pub(super) position: AgentPosition,
    pub(super) reports: PlannedReports,
}

/// A server with its position in the hierarchy.
pub(super) struct ServerNode {
    pub(super) node: Node<Server>,
    pub(super) parent: usize,
    pub(super) reports: PlannedReports,
}

/// A job that has not started.
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
    /// The class of the current event.
    class: Class,
    pub(super) links: Links,
    pub(super) needs: Needs,
    /// The clusters without jobs: what fits on none of them is refused.
    pub(super) empty: Federation,
    /// The next timer of each machine.
    timers: FxHashMap<Peer, Time>,
    /// True until the daemons have attached: these messages arrive without delay.
    attaching: bool,
    pub(super) outcomes: Vec<Option<JobOutcome>>,
    pub(super) refused: BTreeMap<u32, (u64, RefusalCause)>,
    pub(super) unplaced: BTreeMap<u32, Unplaced>,
    pub(super) handoffs: Handoffs,
    /// How often daemons report their summaries.
    pub(super) summaries: Option<ReportRule>,
    agent_commands: Vec<agent::Command>,
    server_commands: Vec<server::Command>,
}

fn agent_configs(layout: &Layout, network: &Network, policies: &Policies) -> Vec<AgentConfig> {
    let moving = policies.reallocation.map(|policy| ReallocationConfig { policy, early: None });
    // Time for a query to every server and back, plus what each level waits before it asks all children, and the second by which it reduces
    // its timeout.
    let height = layout.height as i64;
    let timeout = Span(2 * network.latency.longest().0 * height + 4 * height);
    let config = |(number, position): (usize, &AgentPosition)| AgentConfig {
        name: daemon_name('a', number),
        root: position.parent.is_none(),
        timeout,
        reallocation: moving.filter(|_| position.parent.is_none()),
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
    ) -> Result<Driver<'a>, SimError> {
        let empty = Federation::new(platform, policies.tuner, origin).map_err(SimError::Batch)?;
        let agent_configs = agent_configs(layout, network, policies);
        let clusters = platform.clusters().iter().enumerate();
        let server_configs: Vec<ServerConfig> = clusters
            .map(|(number, cluster)| {
                server_config(number, cluster, policies.tuner, WaitingLimits::of_jobs(u32::MAX))
            })
            .collect();
        watcher.begin(origin, &agent_configs, &server_configs);
        let mut peers = BTreeMap::new();
        peers.extend((0..).zip(&agent_configs).map(|(number, one)| (one.name.clone(), Peer::Agent(number))));
        peers
            .extend((0..).zip(&server_configs).map(|(number, one)| (one.name.clone(), Peer::Server(number))));
        let agent = |(config, position): (AgentConfig, &AgentPosition)| AgentNode {
            node: Node::new(config),
            position: *position,
            reports: PlannedReports::default(),
        };
        let server = |(config, parent): (ServerConfig, &usize)| ServerNode {
            node: Node::new(ServerStart { config, origin }),
            parent: *parent,
            reports: PlannedReports::default(),
        };
        let levels = layout.agents.iter().map(|position| position.depth + 1).max().unwrap_or(0);
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
            needs: Needs::on(platform, policies),
            empty,
            timers: FxHashMap::default(),
            attaching: true,
            outcomes: Vec::new(),
            refused: BTreeMap::new(),
            unplaced: BTreeMap::new(),
            handoffs: Handoffs::default(),
            summaries: network.summaries,
            agent_commands: Vec::new(),
            server_commands: Vec::new(),
        };
        driver.attach(origin);
        Ok(driver)
    }

    /// Attaches every server to its agent; each agent then announces its servers to its own agent.
    fn attach(&mut self, origin: Time) {
        for index in 0..self.servers.len() {
            let info = server_info(&self.servers[index].node.machine, index);
            let (child, kind) = (info.name.clone(), ChildKind::Server);
            let attached = agent::Event::Attached { child, kind, journal: JOURNAL, servers: vec![info] };
            self.send_up(origin, Peer::Server(index), attached);
            self.summary_changed(origin, Peer::Server(index));
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

    /// Schedules an event. Events of this instant belong to this pass, except terminations, which begin the next one.
    fn schedule(&mut self, at: Time, rank: Rank, event: Event) {
        let pass = match (at <= self.queue.now(), &event) {
            (true, Event::End(..)) => self.class.pass + 1,
            (true, _) => self.class.pass,
            (false, _) => 0,
        };
        self.queue.schedule(at, Class { pass, rank }, event);
    }

    /// Schedules the next report of a daemon's summary.
    pub(super) fn plan_summary(&mut self, at: Time, peer: Peer) {
        self.schedule(at, Rank::Message, Event::Summary(peer));
    }

    /// Schedules the end of a job.
    pub(super) fn plan_end(&mut self, at: Time, server: usize, job: JobId) {
        let rank = match self.policies.ties {
            Ties::FinishFirst => Rank::EndFirst,
            Ties::SubmitFirst => Rank::EndLast,
        };
        self.schedule(at, rank, Event::End(server, job));
    }

    /// Sets or clears the only timer of a machine.
    pub(super) fn set_timer(&mut self, peer: Peer, at: Option<Time>) {
        let before = match at {
            Some(at) => self.timers.insert(peer, at),
            None => self.timers.remove(&peer),
        };
        if let Some(at) = at.filter(|_| before != at) {
            self.schedule(at, Rank::Due(peer), Event::Due(peer));
        }
    }

    fn deliver_timer(&mut self, now: Time, peer: Peer) {
        match peer {
            Peer::Server(index) => self.deliver_to_server(now, index, server::Event::Due),
            Peer::Agent(index) => self.deliver_to_agent(now, index, agent::Event::Due),
            Peer::Client(job) => self.deliver_to_client(now, job, client::Event::Due),
        }
    }

    fn deliver(&mut self, now: Time, message: NetworkMessage) {
        match message {
            NetworkMessage::Agent(index, event) => self.deliver_to_agent(now, index, event),
            NetworkMessage::Server(index, event) => self.deliver_to_server(now, index, event),
            NetworkMessage::Query(index, discovery, ask) => self.answer(now, index, discovery, &ask),
            NetworkMessage::Acknowledged(peer, sequence) => self.acknowledge(peer, sequence),
            NetworkMessage::Client(token, event) => self.answer_client(now, token, event),
            NetworkMessage::Known(token) => self.remove_known(token),
            NetworkMessage::Inquiry { source, target, id } => self.answer_inquiry(now, source, target, id),
        }
    }

    fn deliver_to_agent(&mut self, now: Time, index: usize, event: agent::Event) {
        self.watcher.agent_event(now, index, &event);
        let mut commands = std::mem::take(&mut self.agent_commands);
        let node = &mut self.agents[index].node;
        node.deliver(now, event, &mut commands);
        let due = node.machine.next_due().map(|at| at.max(now));
        self.set_timer(Peer::Agent(index), due);
        self.watcher.agent_commands(now, index, &commands);
        for command in commands.drain(..) {
            self.execute_agent_command(now, index, command);
        }
        self.agent_commands = commands;
    }

    pub(super) fn deliver_to_server(&mut self, now: Time, index: usize, event: server::Event) {
        self.watcher.server_event(now, index, &event);
        let mut commands = std::mem::take(&mut self.server_commands);
        let node = &mut self.servers[index].node;
        node.deliver(now, event, &mut commands);
        // Clusters that are due at the same instant start in their order.
        let due = node.machine.next_due().map(|at| at.max(now));
        self.set_timer(Peer::Server(index), due);
        self.watcher.server_commands(now, index, &commands);
        for command in commands.drain(..) {
            self.execute_server_command(now, index, command);
        }
        self.server_commands = commands;
        self.summary_changed(now, Peer::Server(index));
    }

    /// Executes a command of an agent.
    fn execute_agent_command(&mut self, now: Time, index: usize, command: agent::Command) {
        let (me, depth) = (Peer::Agent(index), self.agents[index].position.depth);
        match command {
            agent::Command::Query { child, discovery, query } => {
                let child = self.peers[&child];
                let message = match child {
                    Peer::Agent(below) => {
                        let requester = Requester::Parent(discovery);
                        NetworkMessage::Agent(below, agent::Event::Queried { requester, query })
                    }
                    Peer::Server(below) => NetworkMessage::Query(below, discovery, query),
                    Peer::Client(_) => return debug_assert!(false, "a client has no agent"),
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
                let attached_servers = machine.servers().filter(|(_, _, attached)| *attached);
                let servers = attached_servers.map(|(info, _, _)| info.clone()).collect();
                let (child, kind) = (machine.config().name.clone(), ChildKind::Agent);
                self.send_up(now, me, agent::Event::Attached { child, kind, journal: JOURNAL, servers });
                self.restart_reports(now, me);
            }
            agent::Command::Summarise => self.summary_changed(now, me),
            // The outcomes of the run are the archive.
            agent::Command::Archive(_) => {}
            agent::Command::RefuseStatus { .. } => debug_assert!(false, "servers report what is true"),
            agent::Command::Freed => debug_assert!(false, "every job's end is a status update"),
            agent::Command::Answer { to: Requester::ReallocationCycle, .. } => {
                debug_assert!(false, "an agent answers its own queries by itself");
            }
            agent::Command::ReportReallocation { .. }
            | agent::Command::Configured { .. }
            | agent::Command::Forgotten { .. }
            | agent::Command::Audit(_) => {
                debug_assert!(false, "the simulation has no operators");
            }
        }
    }

    /// Sends an event to a daemon's agent.
    pub(super) fn send_up(&mut self, now: Time, from: Peer, event: agent::Event) {
        let parent = match from {
            Peer::Server(index) => Some(self.servers[index].parent),
            Peer::Agent(index) => self.agents[index].position.parent,
            Peer::Client(_) => None,
        };
        let Some(parent) = parent else { return debug_assert!(false, "{from:?} has no agent above it") };
        let link = Link::Up(self.agents[parent].position.depth, from);
        self.send(now, link, NetworkMessage::Agent(parent, event));
    }

    pub(super) fn send(&mut self, now: Time, link: Link, message: NetworkMessage) {
        self.links.count(link);
        self.links.count_content(&message);
        let arrival = if self.attaching { now } else { self.links.arrival(now, link) };
        let follows = matches!(self.class.rank, Rank::Caused | Rank::EndFirst | Rank::EndLast);
        let rank = if follows && arrival == now { Rank::Caused } else { Rank::Message };
        self.schedule(arrival, rank, Event::Message(Box::new(message)));
    }

    fn acknowledge(&mut self, peer: Peer, sequence: u64) {
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

/// The driver with the jobs that are not submitted yet.
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
            Event::End(server, job) => driver.deliver_job_end(now, server, job),
            Event::Message(message) => driver.deliver(now, *message),
            Event::Due(peer) if driver.timers.get(&peer) == Some(&now) => {
                driver.timers.remove(&peer);
                driver.deliver_timer(now, peer);
            }
            Event::Due(_) => {}
            Event::Summary(peer) => driver.report_summary(now, peer),
            Event::Submission => self.submit_next(now)?,
        }
        Ok(())
    }
}
