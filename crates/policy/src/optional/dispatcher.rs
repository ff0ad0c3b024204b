//! The dispatcher of one user's requests (paper 004, section 4.1.2): which server gets which request.
//!
//! Each dispatcher has its own order of the servers, so that clients spread their mandatory requests. Mandatory requests
//! are dispatched round robin; of optional requests a window is kept per core. The mandatory requests of a lost server are
//! dispatched again and its optional requests become available; new servers are added.
//!
//! [`Dispatch::Guess`] is the paper's legacy client, which submits a number of requests guessed by its user.
//!
//! Cost: O(log n) per request, O(servers) when servers are added.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pliant_model::rng::{Draws, stream_seed};
use pliant_model::{SpanMs, TimeMs};

use super::{Kind, Move, Prospect, Reallocation, Waiting, reallocate};

/// The requests of a user.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Plan {
    /// Mandatory requests (n_min), numbered from 0.
    pub mandatory: u32,
    /// All requests, including mandatory ones (n_max).
    pub most: u32,
    /// The deadline of optional requests.
    pub deadline: TimeMs,
    /// The user's weight.
    pub weight: u32,
    /// The dispatch of optional requests.
    pub dispatch: Dispatch,
    /// The reallocation of waiting mandatory requests; none in the paper.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub reallocation: Option<Reallocation>,
    /// The seed of the order of the servers.
    pub seed: u64,
}

/// How optional requests are dispatched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Dispatch {
    /// A window of optional requests per core: 1 in the paper. Used for servers that state no window.
    Window(u32),
    /// A fixed number of requests in total, including mandatory ones.
    Guess(u32),
}

/// A server that offers the service.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Offer<Server> {
    /// The name.
    pub server: Server,
    /// Cores: each runs one request at a time.
    pub cores: u32,
    /// The window of optional requests per core, if the server states one.
    pub per_core: Option<u32>,
}

/// A server's forecast for a client that may move its mandatory requests.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Prospects {
    /// The forecast for one more mandatory request.
    pub more: Prospect,
    /// The client's waiting mandatory requests in queue order with their remaining waits; none where unknown.
    pub waiting: Vec<(u32, Option<SpanMs>)>,
}

/// Draws at most so many of the servers that offer a service, so that explorations spread over them. O(n log n).
pub fn draw_servers<Server>(
    mut servers: Vec<Server>,
    most: usize,
    exploration: &str,
    name: impl Fn(&Server) -> &str,
) -> Vec<Server> {
    servers.sort_by_cached_key(|server| stream_seed(0, &format!("{exploration} {}", name(server))));
    servers.truncate(most);
    servers
}

/// The state of a server.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct ServerState {
    cores: u32,
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    per_core: Option<u32>,
    /// True if it is up.
    up: bool,
    /// Optional requests assigned to it.
    optional: u32,
    /// Requests that it may still have and that were dispatched again.
    given_up: Vec<u32>,
}

/// A request assigned to a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed<Server> {
    /// The request.
    pub number: u32,
    /// The server.
    pub server: Server,
}

/// The dispatch of the next unassigned mandatory request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextMandatory<Server> {
    /// It is assigned to a server.
    Placed(Placed<Server>),
    /// No server is up.
    NoServer,
    /// No mandatory request is unassigned.
    None,
}

/// A request that a server need not run, up to an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObsoleteRequest<Server> {
    /// The request.
    pub number: u32,
    /// The server.
    pub server: Server,
    /// The last obsolete attempt.
    pub attempt: u32,
}

/// The state of a request that a lost server has completed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunElsewhere<Server> {
    /// It was assigned to another server, which need not run it.
    AssignedTo(ObsoleteRequest<Server>),
    /// It was unassigned.
    Waited,
    /// It had ended, or never was on that server.
    Over,
}

/// The requests of one user and the servers to which they are assigned.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Dispatcher<Server: Ord> {
    plan: Plan,
    draws: Draws,
    servers: BTreeMap<Server, ServerState>,
    /// In the order of the round robin.
    order: Vec<Server>,
    turn: usize,
    /// Assigned requests that have not ended.
    sent: BTreeMap<u32, Server>,
    /// How often requests were returned by servers.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "BTreeMap::is_empty"))]
    attempts: BTreeMap<u32, u32>,
    /// Unassigned mandatory requests.
    unplaced: VecDeque<u32>,
    /// Optional requests that were returned.
    returned: Vec<u32>,
    /// The next optional request.
    next: u32,
}

impl<Server: Ord + Clone> Dispatcher<Server> {
    /// A dispatcher without servers.
    pub fn new(plan: Plan) -> Dispatcher<Server> {
        let mandatory = plan.mandatory.min(plan.most);
        Dispatcher {
            draws: Draws::new(plan.seed, "servers"),
            servers: BTreeMap::new(),
            order: Vec::new(),
            turn: 0,
            sent: BTreeMap::new(),
            attempts: BTreeMap::new(),
            unplaced: (0..mandatory).collect(),
            returned: Vec::new(),
            next: mandatory,
            plan,
        }
    }

    /// The requests of the user.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The kind of a request.
    pub fn kind(&self, number: u32) -> Kind {
        if number < self.plan.mandatory { Kind::Mandatory } else { Kind::Optional }
    }

    /// The number of earlier attempts of a request.
    pub fn attempt(&self, number: u32) -> u32 {
        self.attempts.get(&number).copied().unwrap_or_default()
    }

    /// True if a server was ever added.
    pub fn knows_servers(&self) -> bool {
        !self.servers.is_empty()
    }

    /// The servers that are up.
    pub fn up(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|(_, server)| server.up).map(|(name, _)| name)
    }

    /// The assigned requests and their servers.
    pub fn sent(&self) -> impl Iterator<Item = (u32, &Server)> {
        self.sent.iter().map(|(number, server)| (*number, server))
    }

    /// The assigned optional requests.
    pub fn sent_optional(&self) -> impl Iterator<Item = u32> {
        self.sent.range(self.plan.mandatory..).map(|(number, _)| *number)
    }

    /// True if a mandatory request is assigned.
    pub fn has_sent_mandatory(&self) -> bool {
        self.sent.range(..self.plan.mandatory).next().is_some()
    }

    /// The server of a request.
    pub fn server_of(&self, number: u32) -> Option<&Server> {
        self.sent.get(&number)
    }

    /// True if no request is assigned and no mandatory request is unassigned.
    pub fn is_idle(&self) -> bool {
        self.sent.is_empty() && self.unplaced.is_empty()
    }

    /// True if optional requests are available.
    pub fn has_optional(&self) -> bool {
        !self.returned.is_empty() || self.next < self.limit()
    }

    /// The servers that may have a request, in order.
    pub fn possible_holders(&self) -> impl Iterator<Item = &Server> {
        let left: BTreeSet<&Server> = self.sent.values().collect();
        let may_have = move |(name, server): &(&Server, &ServerState)| {
            left.contains(name) || !server.given_up.is_empty()
        };
        self.servers.iter().filter(may_have).map(|(name, _)| name)
    }

    /// Adds servers that are up. Requests that they held when they were lost are requeued and need not run.
    pub fn found(&mut self, mut offers: Vec<Offer<Server>>) -> Vec<ObsoleteRequest<Server>> {
        self.draws.shuffle(&mut offers);
        let mut unneeded = Vec::new();
        for Offer { server, cores, per_core } in offers {
            match self.servers.get_mut(&server) {
                Some(known) => {
                    (known.up, known.cores, known.per_core) = (true, cores, per_core);
                    for number in std::mem::take(&mut known.given_up) {
                        // The present or next attempt is a later one.
                        let attempt = self.attempts.get(&number).map_or(0, |attempt| attempt - 1);
                        unneeded.push(ObsoleteRequest { number, server: server.clone(), attempt });
                    }
                }
                None => {
                    let new = ServerState { cores, per_core, up: true, optional: 0, given_up: Vec::new() };
                    self.servers.insert(server.clone(), new);
                    self.order.push(server);
                }
            }
        }
        unneeded
    }

    /// All servers ever added, in the order of the round robin.
    pub fn order(&self) -> &[Server] {
        &self.order
    }

    /// Assigns an unassigned mandatory request to the next server.
    pub fn place_mandatory(&mut self) -> NextMandatory<Server> {
        let Some(number) = self.unplaced.pop_front() else { return NextMandatory::None };
        let Some(server) = self.next_server() else {
            self.unplaced.push_front(number);
            return NextMandatory::NoServer;
        };
        NextMandatory::Placed(self.send(number, server))
    }

    /// Assigns a guessed optional request to the next server; none if none is left or no server is up.
    pub fn place_guessed(&mut self) -> Option<Placed<Server>> {
        if !self.has_optional() {
            return None;
        }
        let server = self.next_server()?;
        let number = self.take_optional()?;
        Some(self.send(number, server))
    }

    /// Assigns an optional request to a server whose window is not full.
    pub fn fill(&mut self, name: &Server) -> Option<Placed<Server>> {
        let Dispatch::Window(window) = self.plan.dispatch else { return None };
        let server = self.servers.get(name).filter(|server| server.up)?;
        if server.optional >= server.per_core.unwrap_or(window).saturating_mul(server.cores) {
            return None;
        }
        let number = self.take_optional()?;
        Some(self.send(number, name.clone()))
    }

    /// Assigns an unassigned request to a given server, if that is up.
    pub fn place_at(&mut self, number: u32, server: Server) -> Option<Placed<Server>> {
        if !self.is_up(&server) {
            return None;
        }
        self.unplaced.retain(|unplaced| *unplaced != number);
        Some(self.send(number, server))
    }

    /// Unassigns a request from a server; false if it was not assigned there.
    pub fn take_off(&mut self, number: u32, name: &Server) -> bool {
        if self.sent.get(&number) != Some(name) {
            return false;
        }
        self.sent.remove(&number);
        let optional = self.kind(number) == Kind::Optional;
        if let Some(server) = self.servers.get_mut(name) {
            server.optional -= u32::from(optional);
        }
        true
    }

    /// Unassigns a request: its next assignment is another attempt.
    pub fn put_back(&mut self, number: u32) {
        *self.attempts.entry(number).or_default() += 1;
        match self.kind(number) {
            Kind::Mandatory => self.unplaced.push_back(number),
            Kind::Optional => self.returned.push(number),
        }
    }

    /// Marks a server that refused: it gets no request until it is added again.
    pub fn refused(&mut self, name: &Server) {
        if let Some(server) = self.servers.get_mut(name) {
            server.up = false;
        }
    }

    /// Marks a server as lost and unassigns its requests. Requeueing the requests, which it may still run.
    pub fn lost(&mut self, name: &Server) -> Vec<u32> {
        let lost: Vec<u32> = self.sent().filter(|(_, at)| *at == name).map(|(number, _)| number).collect();
        for number in &lost {
            self.take_off(*number, name);
            self.put_back(*number);
        }
        if let Some(server) = self.servers.get_mut(name) {
            server.up = false;
            server.given_up.extend(&lost);
        }
        lost
    }

    /// Handles a completion on a server to which the request is no longer assigned.
    pub fn run_by(&mut self, number: u32, name: &Server) -> RunElsewhere<Server> {
        let Some(server) = self.servers.get_mut(name) else { return RunElsewhere::Over };
        let Some(at) = server.given_up.iter().position(|given_up| *given_up == number) else {
            return RunElsewhere::Over;
        };
        server.given_up.swap_remove(at);
        if let Some(other) = self.sent.get(&number).cloned() {
            self.take_off(number, &other);
            return RunElsewhere::AssignedTo(ObsoleteRequest {
                number,
                server: other,
                attempt: self.attempt(number),
            });
        }
        let waits = self.unplaced.len() + self.returned.len();
        self.unplaced.retain(|unplaced| *unplaced != number);
        self.returned.retain(|returned| *returned != number);
        match self.unplaced.len() + self.returned.len() < waits {
            true => RunElsewhere::Waited,
            false => RunElsewhere::Over,
        }
    }

    /// The moves of waiting mandatory requests, from the servers' forecasts.
    pub fn moves(&self, forecasts: &BTreeMap<Server, Prospects>) -> Vec<Move<Server>> {
        let Some(reallocation) = self.plan.reallocation else { return Vec::new() };
        let mut waiting: Vec<Waiting<&Server>> = Vec::new();
        for (server, prospects) in forecasts {
            let is_here =
                |number: u32| self.kind(number) == Kind::Mandatory && self.sent.get(&number) == Some(server);
            let here = prospects.waiting.iter().filter(|(number, _)| is_here(*number));
            waiting.extend(here.map(|(number, wait)| Waiting { number: *number, server, wait: *wait }));
        }
        waiting.sort_by_key(|request| request.number);
        let up = forecasts.iter().filter(|(name, _)| self.is_up(name));
        let servers: Vec<(&Server, Prospect)> = up.map(|(name, prospects)| (name, prospects.more)).collect();
        let moves = reallocate(&waiting, &servers, reallocation.least_gain).into_iter();
        let owned = |Move { number, from, to, gain }: Move<&Server>| Move {
            number,
            from: from.clone(),
            to: to.clone(),
            gain,
        };
        moves.map(owned).collect()
    }

    fn is_up(&self, name: &Server) -> bool {
        self.servers.get(name).is_some_and(|server| server.up)
    }

    /// The next server of the round robin that is up.
    fn next_server(&mut self) -> Option<Server> {
        for _ in 0..self.order.len() {
            let name = &self.order[self.turn % self.order.len()];
            self.turn += 1;
            if self.servers[name].up {
                return Some(name.clone());
            }
        }
        None
    }

    /// The largest number of requests.
    fn limit(&self) -> u32 {
        match self.plan.dispatch {
            Dispatch::Window(_) => self.plan.most,
            Dispatch::Guess(guess) => guess.min(self.plan.most),
        }
    }

    fn take_optional(&mut self) -> Option<u32> {
        if let Some(number) = self.returned.pop() {
            return Some(number);
        }
        let number = self.next;
        (number < self.limit()).then(|| self.next += 1).map(|()| number)
    }

    fn send(&mut self, number: u32, server: Server) -> Placed<Server> {
        let optional = self.kind(number) == Kind::Optional;
        if let Some(known) = self.servers.get_mut(&server) {
            known.optional += u32::from(optional);
        }
        self.sent.insert(number, server.clone());
        Placed { number, server }
    }
}

#[cfg(test)]
mod tests;
