//! The *protocol* speed of the simulator: the state machines of `pliant-control` exchange messages over a
//! simulated network, and jobs are simulated processes.
//!
//! Every job has a client, every cluster a server with its embedded batch system, and a [`Hierarchy`] of agents connects them.
//! They are driven by the same events in the same order as the direct engine ([`crate::simulate`]); over a network without
//! delays the schedule is the same, job for job (`tests/protocol.rs`).
//!
//! The daemons attach at the origin of time, before the first client starts, whatever the network.

mod clients;
mod driver;
mod handoffs;
pub(crate) mod hierarchy;
mod network;
mod servers;
mod summaries;

use std::borrow::Borrow;
use std::fmt;

use pliant_control::agent::{self, AgentConfig};
use pliant_control::server::{self, ServerConfig};
use pliant_model::{Platform, Run, Time};
use pliant_policy::mapping::Mapping;
use pliant_policy::runtimes::predicted::Basis;

pub use hierarchy::{Hierarchy, HierarchyError, Node};
pub use network::{Latency, Network, Traffic};

use crate::{Estimates, NoObserver, PlanBy, Policies, SimError, SimJob};

/// A finished run with its traffic.
#[derive(Clone, PartialEq, Debug)]
pub struct ProtocolRun {
    /// The run, in the form of the direct engine.
    pub run: Run,
    /// Jobs that fit a cluster but were not placed, by position in the workload. Empty as long as the network loses no messages:
    /// in its last attempt a client accepts any completion.
    pub unplaced: Vec<Unplaced>,
    /// The numbers of messages.
    pub traffic: Traffic,
}

/// A job whose client gave up although a cluster could have taken it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unplaced {
    /// The job's number in its log.
    pub log_id: u64,
    /// The answer that the client got.
    pub why: String,
}

/// A feature that the protocol speed does not support.
#[derive(Clone, PartialEq, Debug)]
pub enum Unsupported {
    /// Clients map by the earliest completion only.
    Mapping(Mapping),
    /// Servers plan by walltimes only.
    PlanBy(Basis),
    /// All speedups must be as assumed.
    Misjudged,
    /// Servers estimate as their clusters plan.
    Estimates,
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
                "expected jobs with the assumed speedup in a protocol simulation, found one with another speedup: simulate \
                 directly"
            ),
            Self::Estimates => write!(
                f,
                "expected estimates by nodes in a protocol simulation, found estimates by processors: simulate directly"
            ),
            Self::PlanBy(found) => write!(
                f,
                "expected plans by walltimes in a protocol simulation, found plans by {found}: simulate directly"
            ),
        }
    }
}

impl std::error::Error for Unsupported {}

/// Observes the events and commands of every daemon, as a recorder or checker. Agents and servers are numbered; the master
/// agent is agent 0, and a server has the number of its cluster.
pub trait Watcher {
    /// The daemons have started; none is attached yet.
    fn begin(&mut self, _origin: Time, _agents: &[AgentConfig], _servers: &[ServerConfig]) {}

    /// An agent is about to handle an event.
    fn agent_event(&mut self, _now: Time, _agent: usize, _event: &agent::Event) {}

    /// The commands that follow from the agent's last event.
    fn agent_commands(&mut self, _now: Time, _agent: usize, _commands: &[agent::Command]) {}

    /// A server is about to handle an event.
    fn server_event(&mut self, _now: Time, _server: usize, _event: &server::Event) {}

    /// The commands that follow from the server's last event.
    fn server_commands(&mut self, _now: Time, _server: usize, _commands: &[server::Command]) {}
}

impl Watcher for NoObserver {}

/// Simulates `jobs` (sorted by submission) on `platform` through clients, a `hierarchy` of agents, and servers.
///
/// Fails as [`crate::simulate`] does, if the hierarchy does not match the platform's clusters, and if the protocol speed does
/// not support a policy ([`Unsupported`]).
pub fn simulate_protocol<I>(
    platform: &Platform,
    hierarchy: &Hierarchy,
    jobs: I,
    policies: &Policies,
    network: &Network,
) -> Result<ProtocolRun, SimError>
where
    I: IntoIterator,
    I::Item: Borrow<SimJob>,
{
    simulate_watched(platform, hierarchy, jobs, policies, network, &mut NoObserver)
}

/// As [`simulate_protocol`], with an observer of all daemons.
pub fn simulate_watched<I>(
    platform: &Platform,
    hierarchy: &Hierarchy,
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
    if policies.estimates != Estimates::Nodes {
        return Err(SimError::Protocol(Unsupported::Estimates));
    }
    policies.check(platform)?;
    let layout = hierarchy.layout(platform).map_err(SimError::Hierarchy)?;
    let mut jobs = jobs.into_iter().peekable();
    let origin = jobs.peek().map_or(Time::ZERO, |first| first.borrow().job.submit.min(Time::ZERO));
    driver::Driver::new(platform, &layout, policies, network, watcher, origin)?.run(jobs)
}
