//! The state and the event loop of a fault schedule.

use std::collections::BTreeMap;

use pliant_control::agent::{Agent, AgentConfig};
use pliant_control::batch;
use pliant_control::job::JobRecord;
use pliant_control::names::{Handle, Name, Token, User};
use pliant_control::server::{self, Server};
use pliant_model::JobId;
use pliant_model::rng::stream_seed;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::bans::OpenBans;
use super::calls::{Call, Request, Response};
use super::checks::{Checks, Violation};
use super::clients::Client;
use super::connections::{Connection, DownMessage, UpMessage};
use super::daemon::{Daemon, ORIGIN};
use super::drains::OpenActs;
use super::external::{Site, SiteEvent};
use super::holds::OpenHolds;
use super::launches::{self, Launches};
use super::limits::OpenLimits;
use super::plan::Plan;
use super::priorities::Priorities;
use super::processes::Process;
use super::reallocations::SentChanges;
use super::summaries::Summaries;
use super::{Bug, FederationKind};
use crate::kernel::Peer;
use crate::kernel::{self, EventQueue, ServerStart, Simulation, daemon_name, server_config};

/// How long the federation may take to settle after the last fault, and how often that is checked, in milliseconds.
const SETTLE_TIME_MAX: u64 = 6 * 3_600_000;
const CHECK_EVERY: u64 = 10_000;
/// How long the federation runs on after that, so that daemons move ended jobs from memory to their archives.
const RUNS_ON_FOR: u64 = 150_000;
/// The largest number of events of a schedule: more are taken to be an endless loop.
const EVENTS_MAX: u64 = 3_000_000;

/// An event of a schedule. The number after a peer is its incarnation: later ones ignore the event.
pub(super) enum WorldEvent {
    /// A timer of a daemon may be due.
    Due(Peer, u32),
    /// The commit of a daemon completes.
    Commit(Peer, u32),
    /// A message of a child reaches its parent over that connection.
    UpMessage(Peer, u64, UpMessage),
    /// A message of a parent reaches a child over that connection.
    DownMessage(Peer, u64, DownMessage),
    /// The parent of a child detects that a connection is broken.
    Detach(Peer, u64),
    /// A child tries to connect to its parent.
    Connect(Peer, u32),
    /// The parent should have acknowledged a child's hello by now.
    HelloTimeout(Peer, u64),
    /// A request reaches its receiver.
    Request(u64, Box<Request>),
    /// An answer reaches its caller.
    Response(u64, Box<Response>),
    /// The caller stops waiting for an answer.
    Timeout(u64),
    /// A server starts a process.
    ProcessStart(usize, u32, batch::Run),
    /// A process may have ended.
    ProcessEnd(usize, JobId),
    /// A client starts, restarts, or has a timer due.
    ClientDue(u32, u32),
    /// The owner of a job tries to cancel it.
    OwnerCancels(u32),
    /// A daemon restarts.
    Restart(Peer),
    /// A server gets an invented answer ([`Bug::SilenceIsSuccess`]) or a delayed one ([`Bug::CommitsEarly`]).
    InjectedEvent(usize, u32, server::Event),
    /// An event at the external batch system of a server.
    Site(usize, SiteEvent),
    /// An event of a launch.
    Launch(launches::LaunchEvent),
    /// A fault of one kind.
    Crash,
    Partition,
    ClockJump,
    ConnectionBreak,
    /// An operator sends a request to an agent.
    Operator,
    /// An operator drains a server or has it resume, and repeats that.
    Drain(usize, bool),
    RepeatDrain(usize, bool),
    /// An operator holds a job or releases it, and repeats that.
    Hold(usize),
    Release(usize, Handle),
    RepeatJobAct(Handle, Token),
    /// An operator bans a user or ends that, and repeats it.
    Ban(usize, bool),
    RepeatBan(usize, User, Token),
    /// An operator sets the limits of a user or ends them, and repeats that.
    Limit(usize, bool),
    RepeatLimit(usize, User, Token),
    /// An operator gives a job a priority.
    Prioritise(usize),
    /// An operator changes the reallocation of an agent, and repeats that.
    Reallocation(usize),
    RepeatReallocation(usize),
    /// A daemon reports its summary if it has changed.
    Summary(Peer),
    /// Checks whether the federation has settled.
    CheckSettled,
}

pub(super) struct AgentNode {
    pub(super) daemon: Daemon<Agent>,
    pub(super) name: Name,
    pub(super) parent: Option<usize>,
}

pub(super) struct ServerNode {
    pub(super) daemon: Daemon<Server>,
    pub(super) name: Name,
    pub(super) parent: usize,
    pub(super) processes: BTreeMap<JobId, Process>,
    /// Jobs terminated before their process started, in this incarnation.
    pub(super) stopped: Vec<JobId>,
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) bug: Option<Bug>,
    pub(super) rng: ChaCha8Rng,
    /// Times are in milliseconds.
    pub(super) queue: EventQueue<u64, (), WorldEvent>,
    /// The next number of a call, connection or query.
    next: u64,
    pub(super) agents: Vec<AgentNode>,
    pub(super) servers: Vec<ServerNode>,
    /// The external batch systems, by server.
    pub(super) sites: BTreeMap<usize, Site>,
    pub(super) peers: BTreeMap<Name, Peer>,
    pub(super) clients: Vec<Client>,
    pub(super) connections: BTreeMap<Peer, Connection>,
    pub(super) calls: BTreeMap<u64, Call>,
    /// Pairs of peers that cannot reach each other, and until when.
    pub(super) partitions: BTreeMap<(Peer, Peer), u64>,
    pub(super) launches: Launches,
    pub(super) acts: OpenActs,
    pub(super) holds: OpenHolds,
    pub(super) bans: OpenBans,
    pub(super) limits: OpenLimits,
    pub(super) priorities: Priorities,
    /// The changes of the reallocation that operators have sent, by agent.
    pub(super) reallocations: Vec<SentChanges>,
    pub(super) summaries: Summaries,
    pub(super) checks: Checks,
    /// When the federation had settled.
    settled: Option<u64>,
    pub(super) trace: Option<Vec<String>>,
    pub(super) events: u64,
}

impl World {
    pub(super) fn new(seed: u64, kind: FederationKind, bug: Option<Bug>, traced: bool) -> World {
        let plan = Plan::draw(seed, kind);
        let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "weather"));
        let layout = plan.hierarchy.layout(&plan.platform).expect("a regular tree has every cluster");
        let mut ahead = || if rng.random_bool(0.3) { rng.random_range(-30_000..30_000) } else { 0 };
        let mut agents = Vec::new();
        for (number, position) in layout.agents.iter().enumerate() {
            let (name, root) = (daemon_name('a', number), position.parent.is_none());
            let moving = (root || plan.all_agents_move).then_some(plan.moving);
            let config =
                AgentConfig { name: name.clone(), root, timeout: plan.timeout, reallocation: moving };
            let daemon = Daemon::new(config, ahead());
            agents.push(AgentNode { daemon, name, parent: position.parent });
        }
        let mut servers = Vec::new();
        for ((number, cluster), parent) in plan.platform.clusters().iter().enumerate().zip(&layout.servers) {
            let mut config = server_config(number, cluster, plan.tuner, plan.waiting);
            config.host = plan.hosts.get(&number).cloned();
            let name = config.name.clone();
            let (daemon, processes) =
                (Daemon::new(ServerStart { config, origin: ORIGIN }, ahead()), BTreeMap::new());
            servers.push(ServerNode { daemon, name, parent: *parent, processes, stopped: Vec::new() });
        }
        let names = agents.iter().enumerate().map(|(number, one)| (one.name.clone(), Peer::Agent(number)));
        let mut peers: BTreeMap<Name, Peer> = names.collect();
        peers
            .extend(servers.iter().enumerate().map(|(number, one)| (one.name.clone(), Peer::Server(number))));
        let clients = plan.jobs.iter().map(|_| Client::new(ahead())).collect();
        let checks = Checks::new(servers.len(), agents.len());
        let sites = plan.sites.iter().map(|(server, plan)| (*server, Site::new(plan.clone()))).collect();
        let launches = Launches::new(&agents, &plan.launches);
        let reallocations = agents.iter().map(|one| SentChanges::new(&one.daemon.node.machine)).collect();
        World {
            plan,
            bug,
            rng,
            queue: EventQueue::new(0),
            next: 1,
            agents,
            servers,
            sites,
            peers,
            clients,
            connections: BTreeMap::new(),
            calls: BTreeMap::new(),
            partitions: BTreeMap::new(),
            launches,
            acts: OpenActs::new(),
            holds: OpenHolds::new(),
            bans: OpenBans::new(),
            limits: OpenLimits::new(),
            priorities: Priorities::new(),
            reallocations,
            summaries: Summaries::draw(seed),
            checks,
            settled: None,
            trace: traced.then(Vec::new),
            events: 0,
        }
    }

    /// Runs the schedule to its end or to the first violation.
    pub(super) fn run(&mut self) -> Result<(), Violation> {
        self.begin();
        kernel::run(self)?;
        self.conclude()
    }

    fn begin(&mut self) {
        let children = (1..self.agents.len()).map(Peer::Agent);
        for child in children.chain((0..self.servers.len()).map(Peer::Server)).collect::<Vec<_>>() {
            let at = self.rng.random_range(0..500);
            self.after(at, WorldEvent::Connect(child, 0));
        }
        for number in 0..self.plan.jobs.len() {
            self.after(self.plan.jobs[number].at, WorldEvent::ClientDue(number as u32, 0));
        }
        for (every, fault) in [
            (self.plan.faults.crash_every, WorldEvent::Crash),
            (self.plan.faults.partition_every, WorldEvent::Partition),
            (self.plan.faults.jump_every, WorldEvent::ClockJump),
            (self.plan.faults.break_every, WorldEvent::ConnectionBreak),
            (self.plan.operator_every, WorldEvent::Operator),
        ] {
            self.schedule_fault(every, fault);
        }
        self.start_sites();
        self.start_launches();
        self.start_drains();
        self.start_holds();
        self.start_bans();
        self.start_limits();
        self.start_priorities();
        self.start_reallocations();
        self.after(self.plan.faults.until, WorldEvent::CheckSettled);
    }

    /// Schedules the next fault of a kind, unless it would come after the last fault.
    pub(super) fn schedule_fault(&mut self, every: u64, fault: WorldEvent) {
        if every > 0 {
            let pause = self.rng.random_range(0..2 * every);
            if self.queue.now() + pause < self.plan.faults.until {
                self.after(pause, fault);
            }
        }
    }

    /// True until the last fault.
    pub(super) fn has_faults(&self) -> bool {
        self.queue.now() < self.plan.faults.until
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    pub(super) fn after(&mut self, pause: u64, event: WorldEvent) {
        self.queue.schedule(self.queue.now().saturating_add(pause), (), event);
    }

    /// Draws whether a fault happens, with a probability in thousandths. Always false after the last fault.
    pub(super) fn draw_fault(&mut self, thousandths: u32) -> bool {
        self.has_faults() && self.rng.random_range(0..1000) < thousandths
    }

    pub(super) fn report_violation(&mut self, checker: &'static str, what: impl Into<String>) {
        self.checks.report_violation(Violation::new(checker, what.into()));
    }

    pub(super) fn log(&mut self, line: impl FnOnce(&World) -> String) {
        if self.trace.is_some() {
            let line = line(self);
            let (seconds, rest) = (self.queue.now() / 1000, self.queue.now() % 1000);
            if let Some(trace) = &mut self.trace {
                trace.push(format!("{seconds:6}.{rest:03}  {line}"));
            }
        }
    }

    pub(super) fn name_of(&self, peer: Peer) -> String {
        match peer {
            Peer::Agent(index) => self.agents[index].name.to_string(),
            Peer::Server(index) => self.servers[index].name.to_string(),
            Peer::Client(number) => format!("client {number}"),
        }
    }

    pub(super) fn is_up(&self, peer: Peer) -> bool {
        match peer {
            Peer::Agent(index) => self.agents[index].daemon.node.up,
            Peer::Server(index) => self.servers[index].daemon.node.up,
            Peer::Client(_) => true,
        }
    }

    pub(super) fn incarnation(&self, peer: Peer) -> u32 {
        match peer {
            Peer::Agent(index) => self.agents[index].daemon.node.incarnation,
            Peer::Server(index) => self.servers[index].daemon.node.incarnation,
            Peer::Client(number) => self.clients[number as usize].incarnation,
        }
    }

    /// Checks whether the federation has settled, and schedules the next check.
    fn check_settled(&mut self) {
        if self.settled.is_none() {
            match self.unsettled() {
                None => {
                    self.log(|_| "the federation has settled".to_owned());
                    self.settled = Some(self.queue.now());
                }
                Some(why) if self.queue.now() > self.plan.faults.until + SETTLE_TIME_MAX => {
                    self.report_violation("settled", why)
                }
                Some(_) => {}
            }
        }
        self.after(CHECK_EVERY, WorldEvent::CheckSettled);
    }

    /// The record of a job in a server's memory or archive.
    pub(super) fn record_at(
        &self,
        server: usize,
        handle: &pliant_control::names::Handle,
    ) -> Option<&JobRecord> {
        let daemon = &self.servers[server].daemon;
        let number = daemon.node.machine.number_of(handle);
        number.and_then(|number| daemon.node.machine.job(number)).or_else(|| daemon.node.archived(handle))
    }
}

impl Simulation for World {
    type Time = u64;
    type Class = ();
    type Event = WorldEvent;
    type Error = Violation;

    fn queue(&mut self) -> &mut EventQueue<u64, (), WorldEvent> {
        &mut self.queue
    }

    fn handle(&mut self, (): (), event: WorldEvent) -> Result<(), Violation> {
        self.events += 1;
        match event {
            WorldEvent::Due(peer, incarnation) => self.handle_timer(peer, incarnation),
            WorldEvent::Commit(peer, incarnation) => self.commit(peer, incarnation),
            WorldEvent::UpMessage(child, connection, up) => self.receive_up(child, connection, up),
            WorldEvent::DownMessage(child, connection, down) => self.receive_down(child, connection, down),
            WorldEvent::Detach(child, connection) => self.detach_child(child, connection),
            WorldEvent::Connect(child, incarnation) => self.connect(child, incarnation),
            WorldEvent::HelloTimeout(child, connection) => self.hello_timeout(child, connection),
            WorldEvent::Request(call, request) => self.request_arrives(call, *request),
            WorldEvent::Response(call, response) => self.response_arrives(call, *response),
            WorldEvent::Timeout(call) => self.timeout(call),
            WorldEvent::ProcessStart(server, incarnation, run) => {
                self.start_process(server, incarnation, &run)
            }
            WorldEvent::ProcessEnd(server, job) => self.end_process(server, job),
            WorldEvent::ClientDue(number, incarnation) => self.client_due(number, incarnation),
            WorldEvent::OwnerCancels(number) => self.cancel_by_owner(number),
            WorldEvent::Restart(peer) => self.restart(peer),
            WorldEvent::Site(server, moment) => self.handle_site_event(server, moment),
            WorldEvent::InjectedEvent(server, incarnation, event) => {
                if self.incarnation(Peer::Server(server)) == incarnation {
                    self.deliver_to_server(server, event);
                }
            }
            WorldEvent::Launch(moment) => self.handle_launch_event(moment),
            WorldEvent::Crash => self.crash_random_daemon(),
            WorldEvent::Partition => self.partition_random_peers(),
            WorldEvent::ClockJump => self.jump_random_clock(),
            WorldEvent::ConnectionBreak => self.break_random_connection(),
            WorldEvent::Operator => self.send_operator_request(),
            WorldEvent::Drain(server, drains) => self.drain(server, drains),
            WorldEvent::RepeatDrain(server, drains) => self.repeat_drain(server, drains),
            WorldEvent::Hold(number) => self.hold(number),
            WorldEvent::Release(server, job) => self.release(server, job),
            WorldEvent::RepeatJobAct(job, reply) => self.repeat_job_act(job, reply),
            WorldEvent::Ban(number, bans) => self.ban(number, bans),
            WorldEvent::RepeatBan(server, user, reply) => self.repeat_ban(server, user, reply),
            WorldEvent::Limit(number, sets) => self.limit(number, sets),
            WorldEvent::RepeatLimit(server, user, reply) => self.repeat_limit(server, user, reply),
            WorldEvent::Prioritise(number) => self.prioritise(number),
            WorldEvent::Reallocation(number) => self.change_reallocation(number),
            WorldEvent::RepeatReallocation(number) => self.repeat_change(number),
            WorldEvent::Summary(peer) => self.report_summary(peer),
            WorldEvent::CheckSettled => self.check_settled(),
        }
        match self.checks.violation.take() {
            Some(violation) => Err(violation),
            None if self.events > EVENTS_MAX => {
                Err(Violation::new("settled", format!("{EVENTS_MAX} events are not enough")))
            }
            None => Ok(()),
        }
    }

    fn is_over(&mut self) -> bool {
        self.settled.is_some_and(|settled| self.queue.now() >= settled + RUNS_ON_FOR)
    }
}
