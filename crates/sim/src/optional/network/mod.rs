//! The protocol speed: the machines of `control` exchange messages over a simulated network, which may delay, lose and
//! double them, and clients and servers may crash and come back with what they had written.
//!
//! On a perfect network the run is the same as the direct one, user for user (`tests/optional_network.rs`). The order
//! of the events of one instant is that of [`super::simulate`].
//!
//! Clients are driven as the library is to: a submission is sent again until it is answered and, more seldom, until its
//! request is over, so that no news is lost for good; a cancellation until it is answered.

mod checks;
mod clients;
mod faults;
mod servers;

use std::collections::BTreeMap;

use pliant_control::names::{Key, Name, User};
use pliant_control::optional::explore::{self, Explore, Plan, Submission};
use pliant_control::optional::server::{Config, Event, Prospects, Requests, Standing};
use pliant_model::rng::{Draws, stream_seed};
use pliant_model::{ExplorationRun, SpanMs, TimeMs};
use pliant_policy::optional::{Order, RequestId};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::direct::server_name;
use super::scenario::{Scenario, System, UserDraw};
use super::tally::Tally;

/// How long a client waits for an answer before it sends again.
const AGAIN: SpanMs = SpanMs(2_000);
/// How long a daemon or a client that has crashed is away.
const AWAY: SpanMs = SpanMs(3_000);

/// The network, and what befalls those at its ends. Shares are in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Weather {
    /// The least time that a message takes, and how much more it may take.
    pub latency: SpanMs,
    /// How much more it may take: messages overtake each other.
    pub spread: SpanMs,
    /// Messages that are lost.
    pub lost: u32,
    /// Messages that arrive twice.
    pub doubled: u32,
    /// Mean time between two crashes of clients or servers; none crashes if it is zero.
    pub crash_every: SpanMs,
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
    /// Crashes of clients and servers.
    pub crashes: u32,
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

enum Happening {
    Ended(usize, RequestId, TimeMs),
    ToClient(usize, ToClient),
    ToServer(usize, Event),
    /// A client asks a server what may be expected of it.
    Expect(usize, usize),
    Crash,
    Back(Peer),
    Arrive(usize),
    ClientDue(usize),
    /// A client looks whether a submission was answered.
    Again(usize, u32),
    /// A client looks whether a cancellation was answered.
    CancelAgain(usize, usize),
    ServerDue,
}

/// What a client is told by a server.
#[derive(Clone)]
enum ToClient {
    /// How an attempt of a request stands.
    Stands(usize, (u32, u32), Standing),
    Expected(usize, Prospects),
    Refused(usize, u32),
    AllCancelled(usize),
}

#[derive(Clone, Copy)]
enum Peer {
    Client(usize),
    Server(usize),
}

struct Server {
    machine: Requests,
    name: Name,
    speed: f64,
    up: bool,
    /// What it is to be told when it is up again: ends of processes that outlived it.
    missed: Vec<Event>,
    /// Processes, by request: since when.
    running: BTreeMap<RequestId, (TimeMs, u32)>,
    due: Option<TimeMs>,
    /// Its journal, with the machine it began with.
    journal: Vec<(TimeMs, Event)>,
    first: Requests,
}

struct Client {
    machine: Explore,
    key: Key,
    user: User,
    runtime: SpanMs,
    free: TimeMs,
    up: bool,
    began: bool,
    /// Submissions whose request is not over, as far as the client was told.
    open: BTreeMap<u32, Submission>,
    /// Servers whose answer to a cancellation is waited for.
    cancelling: Vec<usize>,
}

struct World<'a> {
    scenario: &'a Scenario,
    weather: Weather,
    bug: Option<Bug>,
    /// The servers follow the five rules.
    fair: bool,
    /// How many optional requests of a user may be stored for each core.
    window: Option<u32>,
    rng: ChaCha8Rng,
    now: TimeMs,
    happenings: BTreeMap<(TimeMs, Class, u64), Happening>,
    scheduled: u64,
    servers: Vec<Server>,
    by_name: BTreeMap<Name, usize>,
    clients: Vec<Client>,
    by_key: BTreeMap<Key, usize>,
    tally: Tally,
    /// How often each request was completed, by user and number.
    completed: Vec<BTreeMap<u32, u32>>,
    violations: Vec<String>,
    messages: u64,
    crashes: u32,
}

/// Simulates a scenario under a system over a network.
pub fn simulate_network(scenario: &Scenario, system: &System, weather: Weather, seed: u64) -> NetworkRun {
    simulate_faulty(scenario, system, weather, None, seed)
}

/// As [`simulate_network`], with a mistake in it.
pub fn simulate_faulty(
    scenario: &Scenario,
    system: &System,
    weather: Weather,
    bug: Option<Bug>,
    seed: u64,
) -> NetworkRun {
    let users = scenario.draw_users(seed);
    let mut world = World::new(scenario, system, weather, seed, &users);
    world.bug = bug;
    world.run()
}

impl<'a> World<'a> {
    fn new(
        scenario: &'a Scenario,
        system: &System,
        weather: Weather,
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
                optional_per_core: window,
                mandatory_per_user: None,
                draws,
            };
            let machine = Requests::new(config);
            Server {
                first: machine.clone(),
                machine,
                name: server_name(number),
                speed: *speed,
                up: true,
                missed: Vec::new(),
                running: BTreeMap::new(),
                due: None,
                journal: Vec::new(),
            }
        };
        let servers: Vec<Server> = scenario.speeds.iter().enumerate().map(server).collect();
        let plans = super::plans(scenario, system, seed, users).zip(users).enumerate();
        let client = |(number, (plan, user)): (usize, (Plan, &UserDraw))| Client {
            machine: Explore::new(plan),
            key: Key((number as u128 + 1).to_be_bytes()),
            user: format!("u{number}").parse().expect("a letter and digits are a user's name"),
            runtime: user.runtime,
            free: TimeMs::ZERO,
            up: true,
            began: false,
            open: BTreeMap::new(),
            cancelling: Vec::new(),
        };
        let clients: Vec<Client> = plans.map(client).collect();
        let mut world = World {
            scenario,
            weather,
            bug: None,
            fair: matches!(system.order, Order::Fair { .. }),
            window,
            rng: ChaCha8Rng::seed_from_u64(stream_seed(seed, "weather")),
            now: TimeMs::ZERO,
            happenings: BTreeMap::new(),
            scheduled: 0,
            by_name: servers.iter().map(|server| server.name.clone()).zip(0..).collect(),
            servers,
            by_key: clients.iter().map(|client| client.key).zip(0..).collect(),
            completed: vec![BTreeMap::new(); clients.len()],
            clients,
            tally: Tally::new(scenario, users),
            violations: Vec::new(),
            messages: 0,
            crashes: 0,
        };
        for (number, user) in users.iter().enumerate() {
            world.schedule(user.arrival, Class::Arrive, Happening::Arrive(number));
        }
        world.schedule_crash();
        world
    }

    fn schedule(&mut self, at: TimeMs, class: Class, happening: Happening) {
        self.happenings.insert((at.max(self.now), class, self.scheduled), happening);
        self.scheduled += 1;
    }

    fn run(mut self) -> NetworkRun {
        while let Some(((at, class, _), happening)) = self.happenings.pop_first() {
            self.now = at;
            match happening {
                Happening::Ended(server, id, since) => self.process_ended(server, id, since),
                Happening::ToClient(user, told) => self.told_client(user, told),
                Happening::ToServer(server, event) => self.tell_server(server, event),
                Happening::Expect(user, server) => self.tell_prospects(user, server),
                Happening::Crash => self.crash_somebody(),
                Happening::Back(peer) => self.back(peer),
                Happening::Arrive(user) => {
                    self.clients[user].began = true;
                    self.tell_client(user, explore::Event::Begin);
                }
                Happening::ClientDue(user) => self.tell_client(user, explore::Event::Due),
                Happening::Again(user, number) => self.again(user, number),
                Happening::CancelAgain(user, server) => self.cancel_again(user, server),
                Happening::ServerDue => {
                    if let Class::ServerDue(server) = class {
                        self.server_due(server);
                    }
                }
            }
        }
        self.check_end();
        let (violations, messages, crashes) = (self.violations, self.messages, self.crashes);
        NetworkRun { run: self.tally.conclude(), violations, messages, crashes }
    }

    fn send(&mut self, class: Class, message: impl Fn() -> Happening) {
        self.messages += 1;
        let faults = self.now < self.weather.until;
        let lost = faults && self.strikes(self.weather.lost);
        let copies = if lost { 0 } else { 1 + u32::from(faults && self.strikes(self.weather.doubled)) };
        for _ in 0..copies {
            let spread = match self.weather.spread.0 {
                0 => 0,
                most => self.rng.random_range(0..=most),
            };
            self.schedule(self.now + self.weather.latency + SpanMs(spread), class, message());
        }
    }

    fn strikes(&mut self, thousandths: u32) -> bool {
        thousandths > 0 && self.rng.random_range(0..1_000) < thousandths
    }

    fn send_to_server(&mut self, server: usize, event: Event) {
        self.send(Class::ToServer, || Happening::ToServer(server, event.clone()));
    }

    fn send_to_client(&mut self, user: usize, told: ToClient) {
        self.send(Class::ToClient, || Happening::ToClient(user, told.clone()));
    }
}
