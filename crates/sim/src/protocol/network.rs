//! The simulated network: when messages arrive.
//!
//! A link keeps the order of its messages, as the streams between daemons do.

use pliant_control::handoff::HandoffId;
use pliant_control::names::Token;
use pliant_control::{agent, client, server};
use pliant_model::{Span, Time, rng::stream_seed};
use pliant_policy::discovery::ReportRule;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustc_hash::FxHashMap;

use crate::kernel::Peer;

/// The network between clients, agents and servers, and the crashes of clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// The latency of messages.
    pub latency: Latency,
    /// The percentage of submissions after which the client crashes before it gets an answer. It restarts with only its key and
    /// the name of the server.
    pub crashes: u8,
    /// The seed of all draws.
    pub seed: u64,
    /// How often daemons report their summaries to their agents; none if they report none, and agents ask all children.
    pub summaries: Option<ReportRule>,
}

/// The latency of messages, in whole seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Latency {
    /// The same latency for all messages.
    Constant {
        /// Seconds.
        seconds: u32,
    },
    /// A latency drawn uniformly for each message; a link still keeps the order of its messages.
    Drawn {
        /// The minimum, in seconds.
        least: u32,
        /// The maximal addition to it, in seconds.
        spread: u32,
    },
}

impl Latency {
    /// The maximal latency.
    pub(super) fn longest(self) -> Span {
        match self {
            Self::Constant { seconds } => Span(i64::from(seconds)),
            Self::Drawn { least, spread } => Span(i64::from(least) + i64::from(spread)),
        }
    }
}

impl Default for Network {
    /// Messages arrive when they are sent, and no client crashes.
    fn default() -> Network {
        Network { latency: Latency::Constant { seconds: 0 }, crashes: 0, seed: 1, summaries: None }
    }
}

/// The numbers of messages, in both directions.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Between clients and the master agent.
    pub clients_agent: u64,
    /// Between clients and servers.
    pub clients_servers: u64,
    /// Between servers, for handoffs of jobs.
    pub servers: u64,
    /// Between agents and their children, by the agent's depth below the master agent.
    pub hierarchy: Vec<u64>,
    /// Those of them that are summaries.
    pub summaries: u64,
    /// Those of them that are questions and answers, by the answers to clients that followed: for each discovery if no two overlap.
    pub per_discovery: Vec<u32>,
}

/// A message and its receiver.
pub(super) enum NetworkMessage {
    /// To the agent of that number.
    Agent(usize, agent::Event),
    /// To the server of that number.
    Server(usize, server::Event),
    /// A query to the server of that number, which changes nothing.
    Query(usize, u64, Box<agent::DiscoveryQuery>),
    /// An inquiry of a target for the source's decision about a prepared job.
    Inquiry {
        /// The server that leads the handoff.
        source: usize,
        /// The server that has prepared the job.
        target: usize,
        /// The handoff.
        id: HandoffId,
    },
    /// To the daemon that sent updates: the parent has them up to that number.
    Acknowledged(Peer, u64),
    /// To the client of that token.
    Client(Token, client::Event),
    /// To the client of that token: its job was accepted before and has ended.
    Known(Token),
}

/// The link that carries a message.
#[derive(Clone, Copy)]
pub(super) enum Link {
    /// Between a client and the master agent.
    ClientAgent,
    /// Between a client and a server.
    ClientServer,
    /// Between two servers.
    Servers,
    /// From an agent at that depth down to a child.
    Down(usize, Peer),
    /// From a child up to its agent at that depth.
    Up(usize, Peer),
}

/// Draws when messages arrive, and counts them.
pub(super) struct Links {
    latency: Latency,
    crashes: u8,
    rng: ChaCha8Rng,
    /// The last arrivals on links that carry several messages at a time, by child and direction.
    last: FxHashMap<(Peer, bool), Time>,
    pub(super) traffic: Traffic,
    /// Questions and answers since the last answer to a client.
    discovery: u32,
}

impl Links {
    pub(super) fn new(network: &Network, levels: usize) -> Links {
        Links {
            latency: network.latency,
            crashes: network.crashes,
            rng: ChaCha8Rng::seed_from_u64(stream_seed(network.seed, "network")),
            last: FxHashMap::default(),
            traffic: Traffic { hierarchy: vec![0; levels], ..Traffic::default() },
            discovery: 0,
        }
    }

    /// Counts what a message says.
    pub(super) fn count_content(&mut self, message: &NetworkMessage) {
        match message {
            NetworkMessage::Query(..)
            | NetworkMessage::Agent(_, agent::Event::Answered { .. })
            | NetworkMessage::Agent(
                _,
                agent::Event::Queried { requester: agent::Requester::Parent(_), .. },
            ) => self.discovery += 1,
            NetworkMessage::Agent(_, agent::Event::Summarised { .. }) => self.traffic.summaries += 1,
            NetworkMessage::Client(_, client::Event::Found(_)) => {
                self.traffic.per_discovery.push(std::mem::take(&mut self.discovery));
            }
            _ => {}
        }
    }

    /// Counts a message.
    pub(super) fn count(&mut self, link: Link) {
        *match link {
            Link::ClientAgent => &mut self.traffic.clients_agent,
            Link::ClientServer => &mut self.traffic.clients_servers,
            Link::Servers => &mut self.traffic.servers,
            Link::Down(depth, _) | Link::Up(depth, _) => &mut self.traffic.hierarchy[depth],
        } += 1;
    }

    /// When a message sent now arrives.
    pub(super) fn arrival(&mut self, now: Time, link: Link) -> Time {
        let Latency::Drawn { least, spread } = self.latency else { return now + self.latency.longest() };
        let drawn = i64::from(least) + self.rng.random_range(0..=i64::from(spread));
        let arrival = now + Span(drawn);
        let key = match link {
            // These links carry one request and its answer at a time.
            Link::ClientAgent | Link::ClientServer | Link::Servers => return arrival,
            Link::Down(_, child) => (child, false),
            Link::Up(_, child) => (child, true),
        };
        let last = self.last.entry(key).or_insert(arrival);
        *last = arrival.max(*last);
        *last
    }

    /// Draws whether the client that has just submitted crashes.
    pub(super) fn draw_crash(&mut self) -> bool {
        self.crashes > 0 && self.rng.random_range(0..100) < self.crashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(latency: Latency) -> Links {
        Links::new(&Network { latency, seed: 3, ..Network::default() }, 1)
    }

    fn arrivals(links: &mut Links, link: Link, times: impl IntoIterator<Item = i64>) -> Vec<i64> {
        times.into_iter().map(|now| links.arrival(Time(now), link).0).collect()
    }

    #[test]
    fn a_constant_latency_is_added() {
        let constant = |seconds| links(Latency::Constant { seconds });
        assert_eq!(arrivals(&mut constant(0), Link::ClientAgent, [0, 5]), [0, 5]);
        assert_eq!(arrivals(&mut constant(7), Link::Up(0, Peer::Agent(1)), [0, 0, 5]), [7, 7, 12]);
    }

    #[test]
    fn drawn_latencies_keep_the_order_of_a_link_and_stay_in_range() {
        let drawn = Latency::Drawn { least: 2, spread: 9 };
        let up = Link::Up(0, Peer::Server(4));
        let mut one = links(drawn);
        let found = arrivals(&mut one, up, 0..200);
        assert!(found.is_sorted() && (0..).zip(&found).all(|(now, at)| (now + 2..=now + 11).contains(at)));
        assert!(found.windows(2).any(|pair| pair[0] == pair[1]), "some messages would have overtaken others");
        assert_eq!(arrivals(&mut links(drawn), up, 0..200), found, "the same seed gives the same times");
        let calls = arrivals(&mut one, Link::ClientServer, std::iter::repeat_n(0, 200));
        assert_eq!((calls.iter().min(), calls.iter().max()), (Some(&2), Some(&11)));
    }
}
