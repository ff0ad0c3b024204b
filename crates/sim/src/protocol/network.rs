//! The simulated network: when a message arrives.
//!
//! A link keeps the order of its messages, as the streams between daemons do.

use pliant_control::handoff::HandoffId;
use pliant_control::names::Token;
use pliant_control::{agent, client, server};
use pliant_model::{Span, Time, rng::stream_seed};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustc_hash::FxHashMap;

use crate::kernel::Peer;

/// The network between clients, agents and servers, and what befalls clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// How long messages take.
    pub latency: Latency,
    /// Of 100 submissions, after how many the client crashes before it hears of an answer, and begins again with
    /// nothing but its key and the name of the server.
    pub crashes: u8,
    /// What is drawn is drawn from this.
    pub seed: u64,
}

/// How long messages take, in whole seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Latency {
    /// All the same.
    Constant {
        /// Seconds.
        seconds: u32,
    },
    /// Each its own time, drawn uniformly; a link keeps the order of its messages nevertheless.
    Drawn {
        /// The least, in seconds.
        least: u32,
        /// How much more it may be at most, in seconds.
        spread: u32,
    },
}

impl Latency {
    /// No message takes longer.
    pub(super) fn longest(self) -> Span {
        match self {
            Self::Constant { seconds } => Span(i64::from(seconds)),
            Self::Drawn { least, spread } => Span(i64::from(least) + i64::from(spread)),
        }
    }
}

impl Default for Network {
    /// Messages arrive when they are sent, and nobody crashes.
    fn default() -> Network {
        Network { latency: Latency::Constant { seconds: 0 }, crashes: 0, seed: 1 }
    }
}

/// How many messages were sent, both ways.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Between clients and the master agent.
    pub clients_agent: u64,
    /// Between clients and servers.
    pub clients_servers: u64,
    /// Between servers, about jobs that are handed over.
    pub servers: u64,
    /// Between agents and their children, by the agent's distance from the master agent.
    pub tree: Vec<u64>,
}

/// A message: what its receiver is told.
pub(super) enum NetworkMessage {
    /// To the agent of that number.
    Agent(usize, agent::Event),
    /// To the server of that number.
    Server(usize, server::Event),
    /// To the server of that number: what it would give. A question changes nothing.
    Question(usize, u64, Box<agent::DiscoveryQuery>),
    /// To the server of that number, from the one of the other number: what is to become of a job that it holds?
    Inquiry {
        /// Whom.
        source: usize,
        /// Who asks.
        target: usize,
        /// Which job.
        id: HandoffId,
    },
    /// To the daemon that tells: its news are kept up to there.
    Acknowledged(Peer, u64),
    /// To the client that gave that token.
    Client(Token, client::Event),
    /// To the client that gave that token: its job was accepted before, and has ended.
    Known(Token),
}

/// Which way a message goes.
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

/// Decides when messages arrive, and counts them.
pub(super) struct Links {
    latency: Latency,
    crashes: u8,
    rng: ChaCha8Rng,
    /// The last arrival on links that carry more than one message at a time, by child and direction.
    last: FxHashMap<(Peer, bool), Time>,
    pub(super) traffic: Traffic,
}

impl Links {
    pub(super) fn new(network: &Network, levels: usize) -> Links {
        Links {
            latency: network.latency,
            crashes: network.crashes,
            rng: ChaCha8Rng::seed_from_u64(stream_seed(network.seed, "network")),
            last: FxHashMap::default(),
            traffic: Traffic { tree: vec![0; levels], ..Traffic::default() },
        }
    }

    /// Counts a message.
    pub(super) fn count(&mut self, link: Link) {
        *match link {
            Link::ClientAgent => &mut self.traffic.clients_agent,
            Link::ClientServer => &mut self.traffic.clients_servers,
            Link::Servers => &mut self.traffic.servers,
            Link::Down(depth, _) | Link::Up(depth, _) => &mut self.traffic.tree[depth],
        } += 1;
    }

    /// When a message arrives that is sent now.
    pub(super) fn arrival(&mut self, now: Time, link: Link) -> Time {
        let Latency::Drawn { least, spread } = self.latency else { return now + self.latency.longest() };
        let drawn = i64::from(least) + self.rng.random_range(0..=i64::from(spread));
        let arrival = now + Span(drawn);
        let key = match link {
            // One question and its answer at a time.
            Link::ClientAgent | Link::ClientServer | Link::Servers => return arrival,
            Link::Down(_, child) => (child, false),
            Link::Up(_, child) => (child, true),
        };
        let last = self.last.entry(key).or_insert(arrival);
        *last = arrival.max(*last);
        *last
    }

    /// Whether the client that has just submitted crashes.
    pub(super) fn crashes(&mut self) -> bool {
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
        assert!(found.windows(2).any(|pair| pair[0] == pair[1]), "some would have overtaken others");
        assert_eq!(arrivals(&mut links(drawn), up, 0..200), found, "the same seed, the same times");
        let calls = arrivals(&mut one, Link::ClientServer, std::iter::repeat_n(0, 200));
        assert_eq!((calls.iter().min(), calls.iter().max()), (Some(&2), Some(&11)));
    }
}
