//! The event loop of a schedule: who is told what, when, and what befalls them.

use std::collections::BTreeMap;

use pliant_control::agent::{Agent, AgentConfig};
use pliant_control::batch;
use pliant_control::job::JobRecord;
use pliant_control::names::Name;
use pliant_control::server::{self, Server};
use pliant_model::JobId;
use pliant_model::rng::stream_seed;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::calls::{Call, Request, Response};
use super::checks::{Checks, Violation};
use super::clients::Client;
use super::daemon::{Daemon, ORIGIN};
use super::external::{Moment, Site};
use super::launches::{self, Launches};
use super::lines::{Down, Line, Up};
use super::plan::Plan;
use super::processes::Process;
use super::{Batch, Bug};
use crate::kernel::Peer;
use crate::kernel::{self, EventQueue, ServerStart, Simulation, daemon_name, server_config};

/// After the last fault: how long everything may take to settle, and how often that is looked at.
const SETTLES_WITHIN: u64 = 6 * 3_600_000;
const LOOK_EVERY: u64 = 10_000;
/// How long the federation goes on after that, so that what has ended leaves the daemons' memory.
const AFTERWARDS: u64 = 150_000;
/// More events than this are a loop.
const EVENTS_MOST: u64 = 3_000_000;

/// Something that happens.
pub(super) enum WorldEvent {
    /// A daemon in that life may want to be told that time has passed.
    Due(Peer, u32),
    /// The commit of a daemon in that life is through.
    Commit(Peer, u32),
    /// A child goes up to its parent over that line.
    Up(Peer, u64, Up),
    /// And the other way.
    Down(Peer, u64, Down),
    /// The parent of that child notices that the line is gone.
    Broken(Peer, u64),
    /// A child in that life tries to reach its parent.
    Dial(Peer, u32),
    /// A child has waited long enough for its parent's greeting.
    Greeting(Peer, u64),
    /// A call arrives.
    Request(u64, Box<Request>),
    /// An answer arrives.
    Response(u64, Box<Response>),
    /// Whoever called waits no more.
    Timeout(u64),
    /// A server in that life begins a process.
    Begins(usize, u32, batch::Run),
    /// A process is over.
    Ends(usize, JobId),
    /// A client in that life wants to be told that time has passed, or begins again.
    Client(u32, u32),
    /// The owner of a job tries to cancel it.
    Cancels(u32),
    /// A daemon is started again.
    Restart(Peer),
    /// A server that believed in silence takes it for a yes ([`Bug::SilenceIsYes`]), or hears late ([`Bug::CommitsEarly`]).
    Late(usize, u32, server::Event),
    /// Something happens at the external batch system of a server.
    Site(usize, Moment),
    /// Something happens about launches.
    Launches(launches::Moment),
    /// A kind of fault strikes.
    Crash,
    Partition,
    Jump,
    Break,
    /// An operator wants something of an agent.
    Operator,
    /// Is everything settled?
    Look,
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
    /// Jobs that were asked to end before they were begun, in this life.
    pub(super) stopped: Vec<JobId>,
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) bug: Option<Bug>,
    pub(super) rng: ChaCha8Rng,
    /// Times are in milliseconds.
    pub(super) queue: EventQueue<u64, (), WorldEvent>,
    /// For calls, lines and questions.
    next: u64,
    pub(super) agents: Vec<AgentNode>,
    pub(super) servers: Vec<ServerNode>,
    /// The external batch systems, by server.
    pub(super) sites: BTreeMap<usize, Site>,
    pub(super) peers: BTreeMap<Name, Peer>,
    pub(super) clients: Vec<Client>,
    pub(super) lines: BTreeMap<Peer, Line>,
    pub(super) calls: BTreeMap<u64, Call>,
    /// Pairs that do not reach each other, and until when.
    pub(super) partitions: BTreeMap<(Peer, Peer), u64>,
    pub(super) launches: Launches,
    pub(super) checks: Checks,
    /// When everything was settled.
    settled: Option<u64>,
    pub(super) trace: Option<Vec<String>>,
    pub(super) events: u64,
}

impl World {
    pub(super) fn new(seed: u64, batch: Batch, bug: Option<Bug>, traced: bool) -> World {
        let plan = Plan::draw(seed, batch);
        let mut rng = ChaCha8Rng::seed_from_u64(stream_seed(seed, "weather"));
        let layout = plan.tree.layout(&plan.platform).expect("a regular tree has every cluster");
        let mut ahead = || if rng.random_bool(0.3) { rng.random_range(-30_000..30_000) } else { 0 };
        let mut agents = Vec::new();
        for (number, place) in layout.agents.iter().enumerate() {
            let (name, root) = (daemon_name('a', number), place.parent.is_none());
            let moving = (root || plan.all_move).then_some(plan.moving);
            let config =
                AgentConfig { name: name.clone(), root, timeout: plan.timeout, reallocation: moving };
            let daemon = Daemon::new(config, ahead());
            agents.push(AgentNode { daemon, name, parent: place.parent });
        }
        let mut servers = Vec::new();
        for ((number, cluster), parent) in plan.platform.clusters().iter().enumerate().zip(&layout.servers) {
            let config = server_config(number, cluster, plan.tuner, 30);
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
            lines: BTreeMap::new(),
            calls: BTreeMap::new(),
            partitions: BTreeMap::new(),
            launches,
            checks,
            settled: None,
            trace: traced.then(Vec::new),
            events: 0,
        }
    }

    /// Runs the schedule to its end, or to the first thing that is wrong.
    pub(super) fn run(&mut self) -> Result<(), Violation> {
        self.begin();
        kernel::run(self)?;
        self.conclude()
    }

    fn begin(&mut self) {
        let children = (1..self.agents.len()).map(Peer::Agent);
        for child in children.chain((0..self.servers.len()).map(Peer::Server)).collect::<Vec<_>>() {
            let at = self.rng.random_range(0..500);
            self.after(at, WorldEvent::Dial(child, 0));
        }
        for number in 0..self.plan.jobs.len() {
            self.after(self.plan.jobs[number].at, WorldEvent::Client(number as u32, 0));
        }
        for (every, fault) in [
            (self.plan.faults.crash_every, WorldEvent::Crash),
            (self.plan.faults.partition_every, WorldEvent::Partition),
            (self.plan.faults.jump_every, WorldEvent::Jump),
            (self.plan.faults.break_every, WorldEvent::Break),
            (self.plan.operator_every, WorldEvent::Operator),
        ] {
            self.next_fault(every, fault);
        }
        self.begin_sites();
        self.begin_launches();
        self.after(self.plan.faults.until, WorldEvent::Look);
    }

    /// A fault of that kind strikes again, as long as there are any.
    pub(super) fn next_fault(&mut self, every: u64, fault: WorldEvent) {
        if every > 0 {
            let pause = self.rng.random_range(0..2 * every);
            if self.queue.now() + pause < self.plan.faults.until {
                self.after(pause, fault);
            }
        }
    }

    /// True as long as there are faults.
    pub(super) fn is_stormy(&self) -> bool {
        self.queue.now() < self.plan.faults.until
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    pub(super) fn after(&mut self, pause: u64, happening: WorldEvent) {
        self.queue.schedule(self.queue.now().saturating_add(pause), (), happening);
    }

    /// True with so many thousandths, as long as there are faults.
    pub(super) fn strikes(&mut self, thousandths: u32) -> bool {
        self.is_stormy() && self.rng.random_range(0..1000) < thousandths
    }

    pub(super) fn wrong(&mut self, checker: &'static str, what: impl Into<String>) {
        self.checks.wrong(Violation::new(checker, what.into()));
    }

    pub(super) fn note(&mut self, line: impl FnOnce(&World) -> String) {
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

    pub(super) fn life(&self, peer: Peer) -> u32 {
        match peer {
            Peer::Agent(index) => self.agents[index].daemon.node.life,
            Peer::Server(index) => self.servers[index].daemon.node.life,
            Peer::Client(number) => self.clients[number as usize].life,
        }
    }

    /// Looks whether everything is settled.
    fn look(&mut self) {
        if self.settled.is_none() {
            match self.unsettled() {
                None => {
                    self.note(|_| "everything is settled".to_owned());
                    self.settled = Some(self.queue.now());
                }
                Some(why) if self.queue.now() > self.plan.faults.until + SETTLES_WITHIN => {
                    self.wrong("settled", why)
                }
                Some(_) => {}
            }
        }
        self.after(LOOK_EVERY, WorldEvent::Look);
    }

    /// The records of a daemon's memory or archive, by the handle that users hold.
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
            WorldEvent::Due(peer, life) => self.due(peer, life),
            WorldEvent::Commit(peer, life) => self.commit(peer, life),
            WorldEvent::Up(child, line, up) => self.up_arrives(child, line, up),
            WorldEvent::Down(child, line, down) => self.down_arrives(child, line, down),
            WorldEvent::Broken(child, line) => self.parent_notices(child, line),
            WorldEvent::Dial(child, life) => self.dial(child, life),
            WorldEvent::Greeting(child, line) => self.not_greeted(child, line),
            WorldEvent::Request(call, request) => self.request_arrives(call, *request),
            WorldEvent::Response(call, response) => self.response_arrives(call, *response),
            WorldEvent::Timeout(call) => self.timeout(call),
            WorldEvent::Begins(server, life, run) => self.begins(server, life, &run),
            WorldEvent::Ends(server, job) => self.ends(server, job),
            WorldEvent::Client(number, life) => self.client_due(number, life),
            WorldEvent::Cancels(number) => self.cancels(number),
            WorldEvent::Restart(peer) => self.restart(peer),
            WorldEvent::Site(server, moment) => self.site(server, moment),
            WorldEvent::Late(server, life, event) => {
                if self.life(Peer::Server(server)) == life {
                    self.tell_server(server, event);
                }
            }
            WorldEvent::Launches(moment) => self.launch_moment(moment),
            WorldEvent::Crash => self.crash_somebody(),
            WorldEvent::Partition => self.part_somebody(),
            WorldEvent::Jump => self.jump_somebody(),
            WorldEvent::Break => self.break_some_line(),
            WorldEvent::Operator => self.operator(),
            WorldEvent::Look => self.look(),
        }
        match self.checks.violation.take() {
            Some(violation) => Err(violation),
            None if self.events > EVENTS_MOST => {
                Err(Violation::new("settled", format!("{EVENTS_MOST} events are not enough")))
            }
            None => Ok(()),
        }
    }

    fn is_over(&mut self) -> bool {
        self.settled.is_some_and(|settled| self.queue.now() >= settled + AFTERWARDS)
    }
}
