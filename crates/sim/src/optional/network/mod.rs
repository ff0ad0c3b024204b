//! The protocol simulation: the machines of `control` exchange messages over a simulated network. It may delay, lose and
//! duplicate them, and clients and servers may crash and restart from their journals.
//!
//! On a perfect network the run equals the direct one, user for user (`tests/optional_network.rs`). The events of one instant
//! come in the order of [`super::simulate`].
//!
//! A client repeats a submission until it is answered and then, less often, until the request has ended, so that no status
//! update is lost for good. It repeats a cancellation until it is answered. It gives a server up that is silent for too
//! long, and queries the agent from time to time. The agent may be down or know some servers only.

mod agent;
mod checks;
mod clients;
mod excused;
mod faults;
mod nodes;
mod servers;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use pliant_control::names::{Key, Name, User};
use pliant_control::optional::explore::{self, ExplorationClient, Plan, RequestSubmission};
use pliant_control::optional::server::{Config, Event, Prospects, RequestState, Requests};
use pliant_model::rng::{Draws, stream_seed};
use pliant_model::{ExplorationRun, SpanMs, TimeMs};
use pliant_policy::optional::{Order, RequestId};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::direct::server_name;
use super::scenario::{Scenario, System, UserDraw};
use super::tally::Tally;
use crate::kernel::{self, EventQueue, Node, Simulation};

/// How long a client waits for an answer before it repeats a message.
const REPEAT_AFTER: SpanMs = SpanMs(2_000);
/// How often a client queries the agent for further servers.
const QUERY_EVERY: SpanMs = SpanMs(10_000);
/// How soon it does so after it has given a server up or a server has refused a request.
const QUERY_SOON: SpanMs = SpanMs(1_000);
/// How long after the last deadline the run ends: a user who has not left by then will not leave.
const ENDS_AFTER: SpanMs = SpanMs(3_600_000);

/// The fault model of the network and its peers. Probabilities are in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NetworkFaults {
    /// The minimal latency of a message.
    pub latency: SpanMs,
    /// The maximal additional latency, by which messages overtake each other.
    pub spread: SpanMs,
    /// Messages that are lost.
    pub lost: u32,
    /// Messages that are duplicated.
    pub duplicated: u32,
    /// Mean time between two crashes of clients, servers or the agent; zero: no crashes.
    pub crash_every: SpanMs,
    /// Clients never crash.
    pub clients_never_crash: bool,
    /// The mean downtime after a crash.
    pub downtime: SpanMs,
    /// Events of clients and servers after which they crash between the commit and the first command.
    pub after_commit: u32,
    /// Servers that the agent omits from an answer.
    pub omitted: u32,
    /// How long clients wait for a silent server before they give it up; zero: for ever.
    pub timeout: SpanMs,
    /// The maximal number of mandatory requests of a user at a server at a time; none: no limit.
    pub mandatory_per_user: Option<u32>,
    /// When the last fault may happen.
    pub until: TimeMs,
}

/// A bug injected into a driver, to see that the checkers find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A server restarts without its journal.
    ForgetsJournal,
    /// A client sends each submission once.
    SendsOnce,
    /// A client that restarts while it looks for servers does not query the states of its requests.
    ForgetsSent,
    /// A client waits without end for the agent's answer to a query.
    WaitsForAgent,
    /// A client gives a server up without notifying its dispatcher.
    HidesLostServer,
    /// Servers accept any number of optional requests, and clients keep twice the allowed number there.
    AcceptsAnyNumber,
    /// Clients submit requests with weight 1.
    ForgetsWeights,
    /// Servers end some running request for every arriving mandatory one.
    EndsAnyRequest,
}

/// The counts of rare events in a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FaultCounts {
    /// Crashes of clients, servers and the agent.
    pub crashes: u32,
    /// Crashes of clients that had requests at servers and looked for further servers.
    pub crashed_without_servers: u32,
    /// Crashes between a commit and its first command.
    pub after_commit: u32,
    /// Servers that clients gave up.
    pub given_up: u32,
    /// Requests that servers refused.
    pub refused: u32,
    /// Single requests that clients cancelled because another server had them.
    pub cancelled: u32,
    /// Queries that the agent did not answer.
    pub unanswered: u32,
    /// Users whose mandatory requests were checked against the deadline.
    pub in_time: u32,
}

/// A finished run over a network, with its violations.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkRun {
    /// The run.
    pub run: ExplorationRun,
    /// Invariants that did not hold.
    pub violations: Vec<String>,
    /// Sent messages.
    pub messages: u64,
    /// The counts of rare events.
    pub counts: FaultCounts,
    /// For each user, the time of the requests that started while another user had none waiting at the server because of a
    /// fault (for the other user with the largest sum), and the time that they ran after the user's deadline.
    pub excused: Vec<SpanMs>,
}

/// The order of one instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Ended,
    ToClient,
    Fault,
    Arrive,
    ToServer,
    ClientDue,
    ServerDue(usize),
}

enum NetworkEvent {
    Ended(usize, RequestId, TimeMs),
    ToClient(usize, ClientMessage),
    ToServer(usize, Event),
    /// A client queries a server for its prospects.
    QueryProspects(usize, usize),
    /// A client queries the agent for servers: the number of the query.
    QueryAgent(usize, u32),
    Crash,
    Restart(Peer),
    Arrive(usize),
    /// A timer of a client of that incarnation is due.
    Timer(usize, u32, Timer),
    ServerDue,
}

/// A timer of a client.
#[derive(Clone, Copy)]
enum Timer {
    /// A timer of its dispatcher.
    Due,
    /// It sends a submission or repeats an unanswered one.
    RequestSubmission(u32),
    /// It cancels all its requests at a server or repeats that.
    Cancellation(usize),
    /// It cancels one request at a server or repeats that.
    CancellationOfOne(usize, u32),
    /// A query should have been answered by now.
    Unanswered(u32),
    /// It queries for further servers.
    Query,
}

/// A message to a client.
#[derive(Clone)]
enum ClientMessage {
    /// The state of an attempt of a request at a server.
    State(usize, (u32, u32), RequestState),
    Prospects(usize, Prospects),
    /// An attempt of a request is refused.
    Refused(usize, (u32, u32)),
    AllCancelled(usize),
    /// The agent's answer to a query.
    Found(u32, Vec<usize>),
}

#[derive(Clone, Copy)]
enum Peer {
    Client(usize),
    Server(usize),
    Agent,
}

struct Server {
    node: Node<Requests>,
    name: Name,
    speed: f64,
    /// Events for its restart: ends of processes that outlived it.
    missed: Vec<Event>,
    /// The start and the core of each process, by request.
    running: BTreeMap<RequestId, (TimeMs, u32)>,
    due: Option<TimeMs>,
}

struct Client {
    node: Node<ExplorationClient>,
    key: Key,
    user: User,
    runtime: SpanMs,
    free: TimeMs,
    started: bool,
    /// Submissions of requests that have not ended as far as the client knows.
    open: BTreeMap<u32, RequestSubmission>,
    /// Servers with an unanswered cancellation.
    cancelling: BTreeSet<usize>,
    /// Single requests with an unanswered cancellation at a server, and the attempt that it covers.
    cancelling_one: BTreeMap<(usize, u32), u32>,
    /// Since when servers are silent.
    silent: BTreeMap<usize, TimeMs>,
    /// The number of its queries to the agent, and whether the last one is pending.
    queries: u32,
    query_pending: bool,
    /// When it queries the agent again.
    query_due: TimeMs,
    /// Until when a fault may leave it without requests.
    excused: TimeMs,
    /// The time that its requests ran after its deadline because it had not left.
    late: SpanMs,
}

struct World<'a> {
    scenario: &'a Scenario,
    faults: NetworkFaults,
    bug: Option<Bug>,
    /// The servers follow the five rules.
    fair: bool,
    /// The maximal number of optional requests of a user for each core.
    window: Option<u32>,
    rng: ChaCha8Rng,
    queue: EventQueue<TimeMs, Class, NetworkEvent>,
    /// When the run ends at the latest.
    horizon: TimeMs,
    servers: Vec<Server>,
    agent_up: bool,
    by_name: BTreeMap<Name, usize>,
    clients: Vec<Client>,
    by_key: BTreeMap<Key, usize>,
    tally: Tally,
    /// How often each request was completed, by user and number.
    completed: Vec<BTreeMap<u32, u32>>,
    /// Requests, by user and number, that went to another server without an answer of the former one: both may run them.
    released: BTreeSet<(usize, u32)>,
    /// By two users: the time of the first one's requests that started while the second had none waiting there because of a fault.
    excused: BTreeMap<(usize, usize), SpanMs>,
    violations: Vec<String>,
    messages: u64,
    counts: FaultCounts,
}

/// Simulates a scenario under a system over a network.
pub fn simulate_network(
    scenario: &Scenario,
    system: &System,
    faults: NetworkFaults,
    seed: u64,
) -> NetworkRun {
    simulate_faulty(scenario, system, faults, None, seed)
}

/// As [`simulate_network`], with an injected bug.
pub fn simulate_faulty(
    scenario: &Scenario,
    system: &System,
    faults: NetworkFaults,
    bug: Option<Bug>,
    seed: u64,
) -> NetworkRun {
    let users = scenario.draw_users(seed);
    World::new(scenario, system, faults, bug, seed, &users).run()
}

impl<'a> World<'a> {
    fn new(
        scenario: &'a Scenario,
        system: &System,
        faults: NetworkFaults,
        bug: Option<Bug>,
        seed: u64,
        users: &[UserDraw],
    ) -> World<'a> {
        let window = match system.dispatch {
            explore::Dispatch::Window(window) => Some(window),
            explore::Dispatch::Guess(_) => None,
        };
        let server = |(number, speed): (usize, &f64)| {
            let draws = Draws::new(seed, &format!("ties of {number}"));
            let config = Config {
                order: system.order,
                cores: scenario.cores,
                optional_per_core: window.filter(|_| bug != Some(Bug::AcceptsAnyNumber)),
                mandatory_per_user: faults.mandatory_per_user,
                bytes_per_user: None,
                bytes: None,
                draws,
            };
            Server {
                node: Node::new(config),
                name: server_name(number),
                speed: *speed,
                missed: Vec::new(),
                running: BTreeMap::new(),
                due: None,
            }
        };
        let servers: Vec<Server> = scenario.speeds.iter().enumerate().map(server).collect();
        let plans = super::plans(scenario, system, seed, users).zip(users).enumerate();
        let planned = |plan: Plan| match (bug, plan.dispatch) {
            (Some(Bug::AcceptsAnyNumber), explore::Dispatch::Window(window)) => {
                Plan { dispatch: explore::Dispatch::Window(2 * window), ..plan }
            }
            _ => plan,
        };
        let client = |(number, (plan, user)): (usize, (Plan, &UserDraw))| Client {
            node: Node::new(planned(plan)),
            key: Key((number as u128 + 1).to_be_bytes()),
            user: format!("u{number}").parse().expect("a letter and digits are a user's name"),
            runtime: user.runtime,
            free: TimeMs::ZERO,
            started: false,
            open: BTreeMap::new(),
            cancelling: BTreeSet::new(),
            cancelling_one: BTreeMap::new(),
            silent: BTreeMap::new(),
            queries: 0,
            query_pending: false,
            query_due: TimeMs::ZERO,
            excused: TimeMs::ZERO,
            late: SpanMs::ZERO,
        };
        let clients: Vec<Client> = plans.map(client).collect();
        let tally = Tally::new(scenario, users);
        let mut world = World {
            scenario,
            faults,
            bug,
            fair: matches!(system.order, Order::Fair { .. }),
            window,
            rng: ChaCha8Rng::seed_from_u64(stream_seed(seed, "weather")),
            queue: EventQueue::new(TimeMs::ZERO),
            horizon: tally.last_deadline().max(faults.until) + ENDS_AFTER,
            by_name: servers.iter().map(|server| server.name.clone()).zip(0..).collect(),
            servers,
            agent_up: true,
            by_key: clients.iter().map(|client| client.key).zip(0..).collect(),
            completed: vec![BTreeMap::new(); clients.len()],
            clients,
            tally,
            released: BTreeSet::new(),
            excused: BTreeMap::new(),
            violations: Vec::new(),
            messages: 0,
            counts: FaultCounts::default(),
        };
        for (number, user) in users.iter().enumerate() {
            world.schedule(user.arrival, Class::Arrive, NetworkEvent::Arrive(number));
        }
        world.schedule_crash();
        world
    }

    fn schedule(&mut self, at: TimeMs, class: Class, event: NetworkEvent) {
        self.queue.schedule(at, class, event);
    }

    fn run(mut self) -> NetworkRun {
        let Ok(()) = kernel::run(&mut self);
        self.check_end();
        let excused = self.excused_times();
        let (violations, messages, counts) = (self.violations, self.messages, self.counts);
        NetworkRun { run: self.tally.conclude(), violations, messages, counts, excused }
    }

    fn send(&mut self, class: Class, message: impl Fn() -> NetworkEvent) {
        self.messages += 1;
        let lost = self.draw_fault(self.faults.lost);
        if lost {
            self.excuse_client_of(&message());
        }
        let copies = if lost { 0 } else { 1 + u32::from(self.draw_fault(self.faults.duplicated)) };
        for _ in 0..copies {
            let spread = match self.faults.spread.0 {
                0 => 0,
                most => self.rng.random_range(0..=most),
            };
            self.schedule(self.queue.now() + self.faults.latency + SpanMs(spread), class, message());
        }
    }

    /// Draws whether a fault happens, with a probability in thousandths. Always false after the last fault.
    fn draw_fault(&mut self, thousandths: u32) -> bool {
        self.queue.now() < self.faults.until
            && thousandths > 0
            && self.rng.random_range(0..1_000) < thousandths
    }

    fn send_to_server(&mut self, server: usize, event: Event) {
        self.send(Class::ToServer, || NetworkEvent::ToServer(server, event.clone()));
    }

    fn send_to_client(&mut self, user: usize, message: ClientMessage) {
        self.send(Class::ToClient, || NetworkEvent::ToClient(user, message.clone()));
    }
}

impl Simulation for World<'_> {
    type Time = TimeMs;
    type Class = Class;
    type Event = NetworkEvent;
    type Error = Infallible;

    fn queue(&mut self) -> &mut EventQueue<TimeMs, Class, NetworkEvent> {
        &mut self.queue
    }

    fn handle(&mut self, class: Class, event: NetworkEvent) -> Result<(), Infallible> {
        match event {
            NetworkEvent::Ended(server, id, since) => self.process_ended(server, id, since),
            NetworkEvent::ToClient(user, message) => self.receive_client_message(user, message),
            NetworkEvent::ToServer(server, event) => self.deliver_to_server(server, event),
            NetworkEvent::QueryProspects(user, server) => self.send_prospects(user, server),
            NetworkEvent::Crash => self.crash_random_peer(),
            NetworkEvent::Restart(peer) => self.restart(peer),
            NetworkEvent::Arrive(user) => {
                self.clients[user].started = true;
                self.deliver_to_client(user, explore::Event::Begin);
            }
            NetworkEvent::QueryAgent(user, query) => self.answer_query(user, query),
            NetworkEvent::Timer(user, incarnation, timer) => self.timer(user, incarnation, timer),
            NetworkEvent::ServerDue => {
                if let Class::ServerDue(server) = class {
                    self.server_due(server);
                }
            }
        }
        Ok(())
    }

    fn is_over(&mut self) -> bool {
        self.queue.next_time().is_some_and(|next| next > self.horizon)
    }
}
