//! The *protocol* speed of the simulator: the state machines of `pliant-control` exchange messages over a
//! simulated network, and jobs are simulated processes.
//!
//! Every job has a client, every cluster a server with its embedded batch system, and agents stand between them
//! as a [`Tree`] says. They are driven by the same events, in the same order, as the direct engine
//! ([`crate::simulate`]); over a network without delays the schedule is the same, job for job
//! (`tests/protocol.rs`).
//!
//! The daemons are there before the first client: they attach at the origin of time, whatever the network.

mod clients;
mod driver;
mod handoffs;
mod network;
mod servers;
pub(crate) mod tree;

use std::borrow::Borrow;
use std::fmt;

use pliant_control::agent::{self, AgentConfig};
use pliant_control::server::{self, ServerConfig};
use pliant_model::{Platform, Run, Time};
use pliant_policy::mapping::Mapping;
use pliant_policy::runtimes::predicted::Basis;

pub use network::{Latency, Network, Traffic};
pub use tree::{Node, Tree, TreeError};

use crate::{PlanBy, Policies, Silent, SimError, SimJob};

/// A finished run, and what it took to get there.
#[derive(Clone, PartialEq, Debug)]
pub struct ProtocolRun {
    /// The run, as the direct engine gives it.
    pub run: Run,
    /// Jobs that fit a cluster and got none, by position in the workload. Always empty as long as the network
    /// loses nothing: in its last round a client takes any completion.
    pub unplaced: Vec<Unplaced>,
    /// How many messages were sent.
    pub traffic: Traffic,
}

/// A job whose client gave up although a cluster could have taken it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unplaced {
    /// The number in the log it came from.
    pub log_id: u64,
    /// What the client was told.
    pub why: String,
}

/// What the protocol speed does not do.
#[derive(Clone, PartialEq, Debug)]
pub enum Unsupported {
    /// Clients map by the earliest completion only.
    Mapping(Mapping),
    /// Servers plan by walltimes only.
    PlanBy(Basis),
    /// Jobs scale as is believed.
    Misjudged,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mapping(found) => write!(
                f,
                "expected mapping `mct` in a protocol simulation, found `{found}`: simulate directly"
            ),
            Self::Misjudged => write!(
                f,
                "expected jobs that scale as is believed in a protocol simulation, found one that does not: simulate \
                 directly"
            ),
            Self::PlanBy(found) => write!(
                f,
                "expected plans by walltimes in a protocol simulation, found plans by {found}: simulate directly"
            ),
        }
    }
}

impl std::error::Error for Unsupported {}

/// Sees what every daemon is told and what it wants done: a recorder, or a checker. Agents and servers are
/// numbered; the master agent is agent 0, and a server has the number of its cluster.
pub trait Watcher {
    /// The daemons stand, without anybody attached.
    fn begin(&mut self, _origin: Time, _agents: &[AgentConfig], _servers: &[ServerConfig]) {}

    /// An agent is about to be told something.
    fn agent_told(&mut self, _now: Time, _agent: usize, _event: &agent::Event) {}

    /// What it wants done about that.
    fn agent_wants(&mut self, _now: Time, _agent: usize, _commands: &[agent::Command]) {}

    /// A server is about to be told something.
    fn server_told(&mut self, _now: Time, _server: usize, _event: &server::Event) {}

    /// What it wants done about that.
    fn server_wants(&mut self, _now: Time, _server: usize, _commands: &[server::Command]) {}
}

impl Watcher for Silent {}

/// Simulates `jobs` (sorted by submission) on `platform` through clients, a `tree` of agents, and servers.
///
/// Fails as [`crate::simulate`] does, if the tree is not one of the platform's clusters, and if something is
/// asked for that the protocol speed does not do ([`Unsupported`]).
pub fn simulate_protocol<I>(
    platform: &Platform,
    tree: &Tree,
    jobs: I,
    policies: &Policies,
    network: &Network,
) -> Result<ProtocolRun, SimError>
where
    I: IntoIterator,
    I::Item: Borrow<SimJob>,
{
    simulate_watched(platform, tree, jobs, policies, network, &mut Silent)
}

/// As [`simulate_protocol`], watched.
pub fn simulate_watched<I>(
    platform: &Platform,
    tree: &Tree,
    jobs: I,
    policies: &Policies,
    network: &Network,
    watcher: &mut dyn Watcher,
) -> Result<ProtocolRun, SimError>
where
    I: IntoIterator,
    I::Item: Borrow<SimJob>,
{
    if policies.mapping != Mapping::Mct {
        return Err(SimError::Protocol(Unsupported::Mapping(policies.mapping)));
    }
    if policies.plan_by != PlanBy::Walltimes {
        return Err(SimError::Protocol(Unsupported::PlanBy(policies.plan_by.basis())));
    }
    policies.check(platform)?;
    let layout = tree.layout(platform).map_err(SimError::Tree)?;
    let mut jobs = jobs.into_iter().peekable();
    let origin = jobs.peek().map_or(Time::ZERO, |first| first.borrow().job.submit.min(Time::ZERO));
    driver::Driver::new(platform, &layout, policies, network, watcher, origin).run(jobs)
}
