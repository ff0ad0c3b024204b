//! The dispatcher of one user's requests (paper 004, section 4.1.2; spec A.4.3): which server gets which request next.
//!
//! Servers are brought into an order of the dispatcher's own, or all clients would send their mandatory requests to the same
//! ones. Mandatory requests are given out in turn; of optional ones, a window is kept at each core. A server that is lost gives
//! its mandatory requests to others and its optional ones back; one that comes later is taken in.
//!
//! [`Dispatch::Guess`] is the paper's legacy client, which submits a number of requests that its user guessed.
//!
//! Cost: O(log n) for each request, O(servers) when servers come.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pliant_model::rng::{Draws, stream_seed};
use pliant_model::{SpanMs, TimeMs};

use super::{Kind, Move, Prospect, Reallocation, Waiting, reallocate};

/// What a user wants.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Plan {
    /// Requests that have to be completed (n_min), numbered from 0.
    pub mandatory: u32,
    /// All requests, mandatory ones included (n_max).
    pub most: u32,
    /// Until when optional requests are worth something.
    pub deadline: TimeMs,
    /// The user's weight.
    pub weight: u32,
    /// How requests are given out.
    pub dispatch: Dispatch,
    /// How mandatory requests that wait are moved to better servers; none are in the paper.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub reallocation: Option<Reallocation>,
    /// The order of the servers is drawn from this.
    pub seed: u64,
}

/// How requests are given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum Dispatch {
    /// So many optional requests are kept at each core, 1 in the paper, where servers do not say how many they take.
    Window(u32),
    /// So many requests are submitted, mandatory ones included, and no more.
    Guess(u32),
}

/// A server that offers the service.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Offer<Server> {
    /// Its name.
    pub server: Server,
    /// Its cores: each runs one request at a time.
    pub cores: u32,
    /// How many optional requests of a user it takes for each core, if it says so.
    pub per_core: Option<u32>,
}

/// What a server tells a client who may have a better server for its mandatory requests.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Prospects {
    /// For one mandatory request more.
    pub more: Prospect,
    /// The client's mandatory requests that wait here, in their turn, and for how long still; none where that cannot be told.
    pub waiting: Vec<(u32, Option<SpanMs>)>,
}

/// At most so many of the servers that offer a service. Each exploration gets others, so that they do not all crowd on the first
/// ones. O(n log n).
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

/// A server as the dispatcher knows it.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Known {
    cores: u32,
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    per_core: Option<u32>,
    /// It can be reached.
    up: bool,
    /// Optional requests that it has.
    optional: u32,
    /// Requests that it may have, and that others have instead.
    given_up: Vec<u32>,
}

/// A request that goes to a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed<Server> {
    /// Its number.
    pub number: u32,
    /// Where it goes.
    pub server: Server,
}

/// What happens to the next mandatory request that no server has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NextMandatory<Server> {
    /// It goes to a server.
    Placed(Placed<Server>),
    /// No server is up: it waits.
    NoServer,
    /// There is none.
    None,
}

/// A request that a server is not to run any more, up to that attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObsoleteRequest<Server> {
    /// The request.
    pub number: u32,
    /// The server.
    pub server: Server,
    /// Up to which attempt of it.
    pub attempt: u32,
}

/// Where a request was that a server has run which had been given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunElsewhere<Server> {
    /// Another server had it, which need not run it.
    AssignedTo(ObsoleteRequest<Server>),
    /// It waited for a server.
    Waited,
    /// It was over, or never that server's.
    Over,
}

/// The requests of one user: where each is, and where the next one goes.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Dispatcher<Server: Ord> {
    plan: Plan,
    draws: Draws,
    servers: BTreeMap<Server, Known>,
    /// In the order in which mandatory requests are given out.
    order: Vec<Server>,
    turn: usize,
    /// Where each request is that was sent and is not over.
    sent: BTreeMap<u32, Server>,
    /// How often requests have come back from servers.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "BTreeMap::is_empty"))]
    attempts: BTreeMap<u32, u32>,
    /// Mandatory requests that no server has.
    unplaced: VecDeque<u32>,
    /// Optional numbers that were given out and came back.
    returned: Vec<u32>,
    /// The next optional number.
    next: u32,
}

impl<Server: Ord + Clone> Dispatcher<Server> {
    /// One that knows no server.
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

    /// What the user wants.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether a request has to be completed.
    pub fn kind(&self, number: u32) -> Kind {
        if number < self.plan.mandatory { Kind::Mandatory } else { Kind::Optional }
    }

    /// How often a server had to be found for a request before.
    pub fn attempt(&self, number: u32) -> u32 {
        self.attempts.get(&number).copied().unwrap_or_default()
    }

    /// True if it has known a server.
    pub fn knows_servers(&self) -> bool {
        !self.servers.is_empty()
    }

    /// The servers that are up.
    pub fn up(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter().filter(|(_, server)| server.up).map(|(name, _)| name)
    }

    /// The requests that servers have, by all that is known, and where.
    pub fn sent(&self) -> impl Iterator<Item = (u32, &Server)> {
        self.sent.iter().map(|(number, server)| (*number, server))
    }

    /// The optional ones among them.
    pub fn sent_optional(&self) -> impl Iterator<Item = u32> {
        self.sent.range(self.plan.mandatory..).map(|(number, _)| *number)
    }

    /// True if a server has a mandatory request.
    pub fn has_sent_mandatory(&self) -> bool {
        self.sent.range(..self.plan.mandatory).next().is_some()
    }

    /// Which server has a request.
    pub fn server_of(&self, number: u32) -> Option<&Server> {
        self.sent.get(&number)
    }

    /// True if servers have no request, and none waits that has to be completed.
    pub fn is_idle(&self) -> bool {
        self.sent.is_empty() && self.unplaced.is_empty()
    }

    /// True if optional requests are left to be given out.
    pub fn has_optional(&self) -> bool {
        !self.returned.is_empty() || self.next < self.limit()
    }

    /// The servers that may have a request, in their order.
    pub fn possible_holders(&self) -> impl Iterator<Item = &Server> {
        let left: BTreeSet<&Server> = self.sent.values().collect();
        let may_have =
            move |(name, server): &(&Server, &Known)| left.contains(name) || !server.given_up.is_empty();
        self.servers.iter().filter(may_have).map(|(name, _)| name)
    }

    /// Takes servers in that are up. Returns what they had when they were lost and need not run now.
    pub fn found(&mut self, mut offers: Vec<Offer<Server>>) -> Vec<ObsoleteRequest<Server>> {
        self.draws.shuffle(&mut offers);
        let mut unneeded = Vec::new();
        for Offer { server, cores, per_core } in offers {
            match self.servers.get_mut(&server) {
                Some(known) => {
                    (known.up, known.cores, known.per_core) = (true, cores, per_core);
                    for number in std::mem::take(&mut known.given_up) {
                        // Where it is now, or will be, it is a later one.
                        let attempt = self.attempts.get(&number).map_or(0, |attempt| attempt - 1);
                        unneeded.push(ObsoleteRequest { number, server: server.clone(), attempt });
                    }
                }
                None => {
                    let new = Known { cores, per_core, up: true, optional: 0, given_up: Vec::new() };
                    self.servers.insert(server.clone(), new);
                    self.order.push(server);
                }
            }
        }
        unneeded
    }

    /// All servers that were ever found, in the order in which mandatory requests are given out.
    pub fn order(&self) -> &[Server] {
        &self.order
    }

    /// Gives a mandatory request that no server has to the next one.
    pub fn place_mandatory(&mut self) -> NextMandatory<Server> {
        let Some(number) = self.unplaced.pop_front() else { return NextMandatory::None };
        let Some(server) = self.next_server() else {
            self.unplaced.push_front(number);
            return NextMandatory::NoServer;
        };
        NextMandatory::Placed(self.send(number, server))
    }

    /// Gives one of the optional requests that the user guessed to the next server; none if nothing is left, or no server is up.
    pub fn place_guessed(&mut self) -> Option<Placed<Server>> {
        if !self.has_optional() {
            return None;
        }
        let server = self.next_server()?;
        let number = self.take_optional()?;
        Some(self.send(number, server))
    }

    /// Gives a server an optional request if its cores have fewer than the window; none if they have as many.
    pub fn fill(&mut self, name: &Server) -> Option<Placed<Server>> {
        let Dispatch::Window(window) = self.plan.dispatch else { return None };
        let server = self.servers.get(name).filter(|server| server.up)?;
        if server.optional >= server.per_core.unwrap_or(window).saturating_mul(server.cores) {
            return None;
        }
        let number = self.take_optional()?;
        Some(self.send(number, name.clone()))
    }

    /// Gives a request that no server has to one of the user's choice, if that is up.
    pub fn place_at(&mut self, number: u32, server: Server) -> Option<Placed<Server>> {
        if !self.is_up(&server) {
            return None;
        }
        self.unplaced.retain(|unplaced| *unplaced != number);
        Some(self.send(number, server))
    }

    /// Takes a request off the server that has it; false if that is not this server.
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

    /// No server has a request any more: the next time that it is sent is another attempt.
    pub fn put_back(&mut self, number: u32) {
        *self.attempts.entry(number).or_default() += 1;
        match self.kind(number) {
            Kind::Mandatory => self.unplaced.push_back(number),
            Kind::Optional => self.returned.push(number),
        }
    }

    /// A server that refused gets no more until it is found again.
    pub fn refused(&mut self, name: &Server) {
        if let Some(server) = self.servers.get_mut(name) {
            server.up = false;
        }
    }

    /// A server is lost: what it had goes elsewhere, and it may run some of it all the same. Returns that.
    pub fn lost(&mut self, name: &Server) -> Vec<u32> {
        let had: Vec<u32> = self.sent().filter(|(_, at)| *at == name).map(|(number, _)| number).collect();
        for number in &had {
            self.take_off(*number, name);
            self.put_back(*number);
        }
        if let Some(server) = self.servers.get_mut(name) {
            server.up = false;
            server.given_up.extend(&had);
        }
        had
    }

    /// A server has run a request that is not its any more: it is not needed elsewhere.
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

    /// Which mandatory requests that wait are to be moved, by what servers say of themselves.
    pub fn moves(&self, told: &BTreeMap<Server, Prospects>) -> Vec<Move<Server>> {
        let Some(reallocation) = self.plan.reallocation else { return Vec::new() };
        let mut waiting: Vec<Waiting<&Server>> = Vec::new();
        for (server, prospects) in told {
            let is_here =
                |number: u32| self.kind(number) == Kind::Mandatory && self.sent.get(&number) == Some(server);
            let here = prospects.waiting.iter().filter(|(number, _)| is_here(*number));
            waiting.extend(here.map(|(number, wait)| Waiting { number: *number, server, wait: *wait }));
        }
        waiting.sort_by_key(|request| request.number);
        let up = told.iter().filter(|(name, _)| self.is_up(name));
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

    /// The next server that is up, in turn.
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

    /// How many requests may be given numbers at all.
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
