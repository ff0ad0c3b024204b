//! The direct simulation: clients are machines of `control`, servers are queues of `policy`, and a submission arrives when it
//! is sent.
//!
//! The events of one instant come in this order: completions, their notifications to clients, servers that go down or up,
//! arrivals of users, submissions and cancellations, then timers. A completion at the very deadline counts. At
//! the end of an instant servers decide what starts.

use std::collections::BTreeMap;
use std::convert::Infallible;

use pliant_control::names::Name;
use pliant_control::optional::explore::{
    Command, Event, ExplorationClient, Plan, RequestSubmission, ServerOffer,
};
use pliant_control::optional::server::Prospects;
use pliant_model::rng::Draws;
use pliant_model::{ExplorationRun, SpanMs, TimeMs};
use pliant_policy::optional::{Cancelled, Decision, Kind, Queue, Request, RequestId, RunOutcome, UserId};
use rustc_hash::FxHashMap;

use super::overheads::{OverheadSampler, Overheads};
use super::scenario::{Scenario, System, UserDraw};
use super::tally::{RunEnd, Tally};
use crate::kernel::{self, EventQueue, Simulation};

/// The order of the events of one instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Ended,
    Notification,
    Outage,
    Arrive,
    Message,
    Due,
}

enum DirectEvent {
    /// A run ends: server, request, start of the run.
    Ended(usize, RequestId, TimeMs),
    /// The client of a user gets an event.
    Notification(usize, Event),
    /// A server goes down (false) or up.
    Outage(usize, bool),
    /// A user arrives.
    Arrive(usize),
    /// A submission of a user arrives.
    Submit(usize, RequestSubmission),
    /// A cancellation of a user arrives at a server.
    Cancel(usize, usize),
    /// A timer of a user's client is due.
    Due(usize),
    /// A server decides again: a grace period has ended.
    ServerDue(usize),
}

struct Server {
    name: Name,
    queue: Queue,
    draws: Draws,
    speed: f64,
    up: bool,
    /// The running requests and their starts.
    running: BTreeMap<RequestId, TimeMs>,
}

struct Client {
    machine: ExplorationClient,
    runtime: SpanMs,
    /// When its last message is sent.
    free: TimeMs,
}

/// A request on the platform, as the driver tracks it.
#[derive(Clone, Copy)]
struct Stored {
    user: usize,
    number: u32,
    server: usize,
    kind: Kind,
}

struct Direct {
    pace: SpanMs,
    queue: EventQueue<TimeMs, Class, DirectEvent>,
    servers: Vec<Server>,
    by_name: BTreeMap<Name, usize>,
    clients: Vec<Client>,
    stored: FxHashMap<RequestId, Stored>,
    by_number: FxHashMap<(usize, u32), RequestId>,
    next: u32,
    /// Servers affected by the events of this instant.
    affected: Vec<usize>,
    overheads: OverheadSampler,
    tally: Tally,
}

/// Simulates a scenario under a system.
pub fn simulate(scenario: &Scenario, system: &System, seed: u64) -> ExplorationRun {
    simulate_with(scenario, system, &Overheads::default(), seed)
}

/// As [`simulate`], with overheads of real daemons added to requests.
pub fn simulate_with(
    scenario: &Scenario,
    system: &System,
    overheads: &Overheads,
    seed: u64,
) -> ExplorationRun {
    let users = scenario.draw_users(seed);
    let mut direct = Direct::new(scenario, system, OverheadSampler::new(overheads, seed), seed, &users);
    let Ok(()) = kernel::run(&mut direct);
    direct.tally.conclude()
}

/// The name of a server: `s0`, `s1`, ...
pub(super) fn server_name(number: usize) -> Name {
    format!("s{number}").parse().expect("a letter and digits are a name")
}

impl Direct {
    fn new(
        scenario: &Scenario,
        system: &System,
        overheads: OverheadSampler,
        seed: u64,
        users: &[UserDraw],
    ) -> Direct {
        let tally = Tally::new(scenario, users);
        let server = |(number, speed): (usize, &f64)| Server {
            name: server_name(number),
            queue: Queue::new(system.order, scenario.cores),
            draws: Draws::new(seed, &format!("ties of {number}")),
            speed: *speed,
            up: true,
            running: BTreeMap::new(),
        };
        let servers: Vec<Server> = scenario.speeds.iter().enumerate().map(server).collect();
        let clients = super::plans(scenario, system, seed, users).zip(users);
        let client = |(plan, user): (Plan, &UserDraw)| Client {
            machine: ExplorationClient::new(plan),
            runtime: user.runtime,
            free: TimeMs::ZERO,
        };
        let mut direct = Direct {
            pace: scenario.pace,
            queue: EventQueue::new(TimeMs::ZERO),
            by_name: servers.iter().map(|server| server.name.clone()).zip(0..).collect(),
            servers,
            clients: clients.map(client).collect(),
            stored: FxHashMap::default(),
            by_number: FxHashMap::default(),
            next: 0,
            affected: Vec::new(),
            overheads,
            tally,
        };
        for (number, user) in users.iter().enumerate() {
            let begins = user.arrival + direct.overheads.submission();
            direct.schedule(begins, Class::Arrive, DirectEvent::Arrive(number));
        }
        for (at, server, up) in scenario.draw_outages(super::last_deadline(scenario, users), seed) {
            direct.schedule(at, Class::Outage, DirectEvent::Outage(server, up));
        }
        direct
    }

    fn schedule(&mut self, at: TimeMs, class: Class, event: DirectEvent) {
        self.queue.schedule(at, class, event);
    }

    /// Delivers an event to a client and executes the commands that follow.
    fn deliver(&mut self, user: usize, event: Event) {
        let mut commands = Vec::new();
        self.clients[user].machine.on(self.queue.now(), event, &mut commands);
        for command in commands {
            match command {
                Command::Discover { .. } => {
                    let offers = self.servers.iter().filter(|server| server.up).map(Server::offer).collect();
                    self.deliver(user, Event::Found(offers));
                }
                Command::Submit(submission) => self.send(user, DirectEvent::Submit(user, submission)),
                Command::Cancel { server } => {
                    self.send(user, DirectEvent::Cancel(user, self.by_name[&server]))
                }
                Command::CancelOne { server, number, .. } => {
                    if let Some(id) = self.by_number.get(&(user, number)).copied() {
                        self.cancel_one(self.by_name[&server], id);
                    }
                }
                // Clients do not crash here, so they know of every end.
                Command::Recall(RequestSubmission { number, server, attempt, .. }) => {
                    if let Some(id) = self.by_number.get(&(user, number)).copied() {
                        self.cancel_one(self.by_name[&server], id);
                    }
                    self.deliver(user, Event::Withdrawn { number, attempt, server });
                }
                Command::Expect { server } => {
                    let prospects = self.prospects(user, self.by_name[&server]);
                    self.deliver(user, Event::Expected { server, prospects });
                }
                Command::Withdraw { server, number, attempt } => {
                    let at = self.by_name[&server];
                    let id = self.by_number.get(&(user, number)).copied();
                    if let Some(id) = id.filter(|id| self.servers[at].queue.waits(*id)) {
                        self.cancel_one(at, id);
                        self.deliver(user, Event::Withdrawn { number, attempt, server });
                    }
                }
                Command::WakeAt(at) => self.schedule(at, Class::Due, DirectEvent::Due(user)),
                Command::Done(_) => self.tally.left(self.queue.now(), user),
            }
        }
    }

    /// Sends a message of a client, after its earlier ones.
    fn send(&mut self, user: usize, message: DirectEvent) {
        let client = &mut self.clients[user];
        client.free = client.free.max(self.queue.now()) + self.pace;
        let sent = client.free;
        self.schedule(sent, Class::Message, message);
    }

    /// The prospects of a user at a server.
    fn prospects(&self, user: usize, at: usize) -> Prospects {
        let queue = &self.servers[at].queue;
        let own = |(id, wait): (RequestId, Option<SpanMs>)| {
            let stored = self.stored.get(&id).filter(|stored| stored.user == user)?;
            Some((stored.number, wait))
        };
        Prospects {
            more: queue.prospect(self.queue.now(), Some(UserId(user as u32))),
            waiting: queue.mandatory_waits(self.queue.now()).into_iter().filter_map(own).collect(),
        }
    }

    fn submit(&mut self, user: usize, submission: RequestSubmission) {
        let RequestSubmission { number, server, kind, weight, deadline, .. } = submission;
        let at = self.by_name[&server];
        if self.clients[user].machine.is_over() {
            return;
        }
        self.tally.submissions += 1;
        if !self.servers[at].up {
            return self.deliver(user, Event::Refused { number, server });
        }
        let id = RequestId(self.next);
        self.next += 1;
        self.stored.insert(id, Stored { user, number, server: at, kind });
        self.by_number.insert((user, number), id);
        if kind == Kind::Optional {
            self.tally.add_stored();
        }
        let request = Request { id, user: UserId(user as u32), weight, kind, deadline: Some(deadline) };
        self.servers[at].queue.submit(self.queue.now(), request);
        self.affected.push(at);
    }

    /// Removes a run from its server.
    fn stop(&mut self, at: usize, id: RequestId, how: RunOutcome) {
        let server = &mut self.servers[at];
        let Some(since) = server.running.remove(&id) else { return };
        let waits = server.queue.ended(self.queue.now(), id, how);
        self.affected.push(at);
        let Some(stored) = self.stored.get(&id).copied() else { return };
        let end = match how {
            RunOutcome::Over if self.clients[stored.user].machine.is_over() => RunEnd::Cancelled,
            RunOutcome::Over => RunEnd::Completed(stored.kind),
            RunOutcome::Failed => RunEnd::Cancelled,
            RunOutcome::Killed if waits => RunEnd::Killed,
            RunOutcome::Killed => RunEnd::Cancelled,
        };
        self.tally.ran(self.queue.now(), stored.user, self.queue.now() - since, self.servers[at].speed, end);
        if !waits {
            self.forget(id);
        }
        if how == RunOutcome::Over {
            let (number, server) = (stored.number, self.servers[at].name.clone());
            let event = Event::Ended { number, server, completed: true };
            let message = self.queue.now() + self.overheads.next_request();
            self.schedule(message, Class::Notification, DirectEvent::Notification(stored.user, event));
        }
    }

    fn forget(&mut self, id: RequestId) {
        if let Some(Stored { user, number, kind, .. }) = self.stored.remove(&id) {
            self.by_number.remove(&(user, number));
            if kind == Kind::Optional {
                self.tally.remove_stored();
            }
        }
    }

    fn cancel(&mut self, user: usize, server: usize) {
        let of_user = self.stored.iter().filter(|(_, stored)| stored.user == user && stored.server == server);
        let mut ids: Vec<RequestId> = of_user.map(|(id, _)| *id).collect();
        ids.sort();
        for id in ids {
            self.cancel_one(server, id);
        }
    }

    fn cancel_one(&mut self, server: usize, id: RequestId) {
        match self.servers[server].queue.cancel(self.queue.now(), id) {
            Cancelled::Withdrawn => self.forget(id),
            Cancelled::Running => self.stop(server, id, RunOutcome::Killed),
            Cancelled::Unknown => {}
        }
        self.affected.push(server);
    }

    /// Takes a server down with all its requests, or up without any; clients are notified at once.
    fn outage(&mut self, at: usize, up: bool) {
        self.servers[at].up = up;
        let resources = self.servers[at].speed * f64::from(self.servers[at].queue.cores());
        self.tally.resources(self.queue.now(), if up { resources } else { -resources });
        if !up {
            let mut here: Vec<RequestId> =
                self.stored.iter().filter(|(_, stored)| stored.server == at).map(|(id, _)| *id).collect();
            here.sort();
            for id in here {
                self.cancel_one(at, id);
            }
        }
        for user in 0..self.clients.len() {
            let name = self.servers[at].name.clone();
            let event = if up { Event::Found(vec![self.servers[at].offer()]) } else { Event::Lost(name) };
            self.deliver(user, event);
        }
    }

    /// Lets the affected servers decide at the end of an instant.
    fn decide(&mut self) {
        self.affected.sort_unstable();
        self.affected.dedup();
        for at in std::mem::take(&mut self.affected) {
            let mut decisions = Vec::new();
            loop {
                let server = &mut self.servers[at];
                server.queue.decide(self.queue.now(), &mut server.draws, &mut decisions);
                let mut ended = false;
                for decision in decisions.drain(..) {
                    match decision {
                        Decision::Start { request, .. } => self.start(at, request),
                        Decision::End { request } => {
                            ended = true;
                            self.stop(at, request, RunOutcome::Killed);
                        }
                    }
                }
                if !ended {
                    break;
                }
            }
            if let Some(due) = self.servers[at].queue.next_due() {
                self.schedule(due, Class::Due, DirectEvent::ServerDue(at));
            }
        }
        self.affected.clear();
    }

    fn start(&mut self, at: usize, id: RequestId) {
        let Some(stored) = self.stored.get(&id) else { return };
        let runtime = self.clients[stored.user].runtime;
        let server = &mut self.servers[at];
        let took =
            SpanMs(((runtime.0 as f64 / server.speed).ceil() as i64).max(1)) + self.overheads.execution();
        server.running.insert(id, self.queue.now());
        let now = self.queue.now();
        self.schedule(now + took, Class::Ended, DirectEvent::Ended(at, id, now));
    }
}

impl Simulation for Direct {
    type Time = TimeMs;
    type Class = Class;
    type Event = DirectEvent;
    type Error = Infallible;

    fn queue(&mut self) -> &mut EventQueue<TimeMs, Class, DirectEvent> {
        &mut self.queue
    }

    fn handle(&mut self, _: Class, event: DirectEvent) -> Result<(), Infallible> {
        match event {
            DirectEvent::Ended(server, id, since) => {
                if self.servers[server].running.get(&id) == Some(&since) {
                    self.stop(server, id, RunOutcome::Over);
                }
            }
            DirectEvent::Notification(user, event) => self.deliver(user, event),
            DirectEvent::Outage(server, up) => self.outage(server, up),
            DirectEvent::Cancel(user, server) => self.cancel(user, server),
            DirectEvent::Arrive(user) => self.deliver(user, Event::Begin),
            DirectEvent::Submit(user, submission) => self.submit(user, submission),
            DirectEvent::Due(user) => self.deliver(user, Event::Due),
            DirectEvent::ServerDue(server) => self.affected.push(server),
        }
        Ok(())
    }

    fn end_instant(&mut self) -> Result<(), Infallible> {
        self.decide();
        Ok(())
    }
}

impl Server {
    fn offer(&self) -> ServerOffer {
        ServerOffer { server: self.name.clone(), cores: self.queue.cores(), per_core: None }
    }
}
