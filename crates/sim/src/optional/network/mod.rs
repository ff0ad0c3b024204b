//! The protocol speed: the machines of `control` exchange messages over a simulated network, which may delay, lose and
//! double them, and clients and servers may crash and come back with what they had written.
//!
//! On a perfect network the run is the same as the direct one, user for user (`tests/optional_network.rs`). The order
//! of the events of one instant is that of [`super::simulate`].
//!
//! Clients are driven as the library is to: a submission is sent again until it is answered and, more seldom, until its
//! request is over, so that no news is lost for good; a cancellation until it is answered. A server that is silent for too
//! long is given up, and the agent, which may be away or know of some servers only, is asked again from time to time.

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
use pliant_control::optional::explore::{self, ExplorationClient, Plan, Submission};
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

/// How long a client waits for an answer before it sends again.
const AGAIN: SpanMs = SpanMs(2_000);
/// How often a client asks the agent whether there are other servers.
const LOOK: SpanMs = SpanMs(10_000);
/// How soon after a server was given up or did not take a request.
const LOOK_SOON: SpanMs = SpanMs(1_000);
/// How long after the last deadline whoever has not left will not leave any more.
const HORIZON: SpanMs = SpanMs(3_600_000);

/// The network, and what befalls those at its ends. Shares are in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NetworkFaults {
    /// The least time that a message takes, and how much more it may take.
    pub latency: SpanMs,
    /// How much more it may take: messages overtake each other.
    pub spread: SpanMs,
    /// Messages that are lost.
    pub lost: u32,
    /// Messages that arrive twice.
    pub doubled: u32,
    /// Mean time between two crashes of clients, servers or the agent; none crashes if it is zero.
    pub crash_every: SpanMs,
    /// Clients do not crash.
    pub clients_stay: bool,
    /// How long one that has crashed is away, on average.
    pub away: SpanMs,
    /// Events of clients and servers upon which they crash when they have written what they have come to, and have done
    /// nothing of what follows from it.
    pub cut_short: u32,
    /// Servers that the agent leaves out of an answer.
    pub unnamed: u32,
    /// How long clients put up with a silent server before they give it up; for ever if it is zero.
    pub timeout: SpanMs,
    /// How many mandatory requests of a user a server takes, at all times; any number without it.
    pub mandatory_per_user: Option<u32>,
    /// Until when there are faults.
    pub until: TimeMs,
}

/// A mistake of a driver, put in on purpose to see that the checkers find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bug {
    /// A server begins again without its journal.
    ForgetsJournal,
    /// A client sends each submission once.
    SendsOnce,
    /// A client that begins again while it looks for servers does not ask what became of its requests.
    ForgetsSent,
    /// A client whose question the agent has not answered waits for the answer.
    WaitsForAgent,
    /// A client gives a server up and does not tell its dispatcher.
    LosesWithServer,
    /// Servers take any number of optional requests, and clients keep twice as many there as they may.
    TakesAnyNumber,
    /// Servers do not look up their users' weights.
    ForgetsWeights,
    /// Servers end a running request for every mandatory one that comes, whatever runs.
    EndsAnybody,
}

/// How often something happened in a run that not every run has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Seen {
    /// Crashes of clients, servers and the agent.
    pub crashes: u32,
    /// Of these, crashes of clients that had requests at servers and looked for others.
    pub crashed_looking: u32,
    /// Of these, crashes between what was written and what was to follow.
    pub cut_short: u32,
    /// Servers that clients have given up.
    pub given_up: u32,
    /// Requests that servers have refused.
    pub refused: u32,
    /// Single requests that clients have cancelled, because others had them.
    pub cancelled: u32,
    /// Questions to the agent that were not answered.
    pub unanswered: u32,
    /// Users of whom it was checked that their mandatory requests were completed in time.
    pub in_time: u32,
}

/// A finished run over a network, and what was found wrong with it.
#[derive(Clone, PartialEq, Debug)]
pub struct NetworkRun {
    /// The run.
    pub run: ExplorationRun,
    /// Promises that were broken: none.
    pub violations: Vec<String>,
    /// Messages that were sent.
    pub messages: u64,
    /// What happened in it.
    pub seen: Seen,
    /// Of each user: what those requests have taken that started while another user had none waiting at that server because of a
    /// fault, for the other user for whom that is most, and what they consumed after the user's deadline.
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
    ToClient(usize, ToClient),
    ToServer(usize, Event),
    /// A client asks a server what may be expected of it.
    Expect(usize, usize),
    /// A client asks the agent for servers: its question of that number.
    Ask(usize, u32),
    Crash,
    Back(Peer),
    Arrive(usize),
    /// A client, in that life of it, comes to a time that it has waited for.
    Timer(usize, u32, Timer),
    ServerDue,
}

/// What a client waits for.
#[derive(Clone, Copy)]
enum Timer {
    /// Its dispatcher wants to be told.
    Due,
    /// It sends a submission, for the first time or again if it was not answered.
    Submission(u32),
    /// It cancels all that it has at a server, again if that was not answered.
    Cancellation(usize),
    /// It cancels a request at a server, again if that was not answered.
    CancellationOfOne(usize, u32),
    /// A question to the agent should have been answered.
    Unanswered(u32),
    /// It looks for other servers.
    Look,
}

/// What a client is told.
#[derive(Clone)]
enum ToClient {
    /// How an attempt of a request stands at a server.
    Stands(usize, (u32, u32), RequestState),
    Expected(usize, Prospects),
    /// An attempt of a request is not taken.
    Refused(usize, (u32, u32)),
    AllCancelled(usize),
    /// The agent's answer to a question.
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
    /// What it is to be told when it is up again: ends of processes that outlived it.
    missed: Vec<Event>,
    /// Processes, by request: since when.
    running: BTreeMap<RequestId, (TimeMs, u32)>,
    due: Option<TimeMs>,
}

struct Client {
    node: Node<ExplorationClient>,
    key: Key,
    user: User,
    runtime: SpanMs,
    free: TimeMs,
    began: bool,
    /// Submissions whose request is not over, as far as the client was told.
    open: BTreeMap<u32, Submission>,
    /// Servers whose answer to a cancellation is waited for.
    cancelling: BTreeSet<usize>,
    /// Single requests whose cancellation at a server is not answered, and up to which attempt.
    cancelling_one: BTreeMap<(usize, u32), u32>,
    /// Since when servers are silent.
    silent: BTreeMap<usize, TimeMs>,
    /// How often it has asked the agent, and whether the last answer is missing.
    questions: u32,
    asks: bool,
    /// When it asks again.
    look: TimeMs,
    /// Until when a fault may leave it without requests.
    excused: TimeMs,
    /// What its requests have consumed after its deadline because it had not left.
    late: SpanMs,
}

struct World<'a> {
    scenario: &'a Scenario,
    faults: NetworkFaults,
    bug: Option<Bug>,
    /// The servers follow the five rules.
    fair: bool,
    /// How many optional requests of a user may be stored for each core.
    window: Option<u32>,
    rng: ChaCha8Rng,
    queue: EventQueue<TimeMs, Class, NetworkEvent>,
    /// Who has not left then does not leave any more.
    horizon: TimeMs,
    servers: Vec<Server>,
    agent_up: bool,
    by_name: BTreeMap<Name, usize>,
    clients: Vec<Client>,
    by_key: BTreeMap<Key, usize>,
    tally: Tally,
    /// How often each request was completed, by user and number.
    completed: Vec<BTreeMap<u32, u32>>,
    /// Requests, by user and number, that went to another server without the word of the one that may have had them: they
    /// may be run there too.
    released: BTreeSet<(usize, u32)>,
    /// By two users: what requests of the first have taken that started while the second had none waiting there because of a fault.
    excused: BTreeMap<(usize, usize), SpanMs>,
    violations: Vec<String>,
    messages: u64,
    seen: Seen,
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

/// As [`simulate_network`], with a mistake in it.
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
                optional_per_core: window.filter(|_| bug != Some(Bug::TakesAnyNumber)),
                mandatory_per_user: faults.mandatory_per_user,
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
            (Some(Bug::TakesAnyNumber), explore::Dispatch::Window(window)) => {
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
            began: false,
            open: BTreeMap::new(),
            cancelling: BTreeSet::new(),
            cancelling_one: BTreeMap::new(),
            silent: BTreeMap::new(),
            questions: 0,
            asks: false,
            look: TimeMs::ZERO,
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
            horizon: tally.last_deadline().max(faults.until) + HORIZON,
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
            seen: Seen::default(),
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
        let excused = self.most_excused();
        let (violations, messages, seen) = (self.violations, self.messages, self.seen);
        NetworkRun { run: self.tally.conclude(), violations, messages, seen, excused }
    }

    fn send(&mut self, class: Class, message: impl Fn() -> NetworkEvent) {
        self.messages += 1;
        let lost = self.strikes(self.faults.lost);
        if lost {
            self.excuse_for(&message());
        }
        let copies = if lost { 0 } else { 1 + u32::from(self.strikes(self.faults.doubled)) };
        for _ in 0..copies {
            let spread = match self.faults.spread.0 {
                0 => 0,
                most => self.rng.random_range(0..=most),
            };
            self.schedule(self.queue.now() + self.faults.latency + SpanMs(spread), class, message());
        }
    }

    /// True if a fault of that share happens now.
    fn strikes(&mut self, thousandths: u32) -> bool {
        self.queue.now() < self.faults.until
            && thousandths > 0
            && self.rng.random_range(0..1_000) < thousandths
    }

    fn send_to_server(&mut self, server: usize, event: Event) {
        self.send(Class::ToServer, || NetworkEvent::ToServer(server, event.clone()));
    }

    fn send_to_client(&mut self, user: usize, told: ToClient) {
        self.send(Class::ToClient, || NetworkEvent::ToClient(user, told.clone()));
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
            NetworkEvent::ToClient(user, told) => self.told_client(user, told),
            NetworkEvent::ToServer(server, event) => self.tell_server(server, event),
            NetworkEvent::Expect(user, server) => self.tell_prospects(user, server),
            NetworkEvent::Crash => self.crash_somebody(),
            NetworkEvent::Back(peer) => self.back(peer),
            NetworkEvent::Arrive(user) => {
                self.clients[user].began = true;
                self.tell_client(user, explore::Event::Begin);
            }
            NetworkEvent::Ask(user, question) => self.asked(user, question),
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
