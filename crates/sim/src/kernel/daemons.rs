//! Agents, servers and coordinators as the machines of nodes.

use std::sync::Arc;

use pliant_control::agent::{self, Agent, AgentConfig};
use pliant_control::batch::embedded::HostResources;
use pliant_control::coallocation::{Coordinator, CoordinatorConfig};
use pliant_control::names::Name;
use pliant_control::replay::Machine;
use pliant_control::server::{self, Server, ServerConfig, WaitingLimits};
use pliant_control::server_info::ServerInfo;
use pliant_model::{Cluster, ClusterNodes, Time};
use pliant_policy::tuning::Tuner;

use super::node::{JournalRow, NodeMachine};

/// A machine of `pliant-control` that has a journal.
pub(crate) trait DaemonMachine: Machine<Command: Clone, Event: std::fmt::Debug> + Sized {
    /// The configuration that it is built from.
    type Config;

    /// Builds the machine before its first event.
    fn start(config: &Self::Config) -> Self;

    /// Rebuilds the machine from a snapshot; the error describes what is wrong with it.
    fn from_snapshot(config: &Self::Config, state: Self::State) -> Result<Self, String>;

    /// The row that a command adds to the journal.
    fn journal_row(command: &Self::Command) -> JournalRow<'_>;
}

impl<M: DaemonMachine> NodeMachine for M {
    type Time = Time;
    type Event = M::Event;
    type Command = M::Command;
    type Config = <M as DaemonMachine>::Config;

    fn start(config: &Self::Config) -> M {
        <M as DaemonMachine>::start(config)
    }

    fn on(&mut self, now: Time, event: Self::Event, commands: &mut Vec<Self::Command>) {
        Machine::on(self, now, event, commands);
    }

    fn state(&mut self, now: Time) -> String {
        serde_json::to_string(&self.dump(now)).expect("states are plain data with text keys")
    }

    fn restore(config: &Self::Config, state: &str) -> Result<M, String> {
        M::from_snapshot(config, serde_json::from_str(state).map_err(|error| error.to_string())?)
    }

    fn journal_row(command: &Self::Command) -> JournalRow<'_> {
        <M as DaemonMachine>::journal_row(command)
    }

    fn is_question(event: &Self::Event) -> bool {
        <M as Machine>::is_question(event)
    }

    fn is_of_question(command: &Self::Command) -> bool {
        <M as Machine>::is_of_question(command)
    }
}

/// The configuration and the start time of a server.
pub(crate) struct ServerStart {
    pub(crate) config: ServerConfig,
    /// When its idle cluster starts.
    pub(crate) origin: Time,
}

impl DaemonMachine for Server {
    type Config = ServerStart;

    fn start(start: &ServerStart) -> Server {
        Server::new(start.config.clone(), start.origin).expect("the clusters' policies are known")
    }

    fn from_snapshot(start: &ServerStart, state: Self::State) -> Result<Server, String> {
        Server::from_state(start.config.clone(), state).map_err(|error| error.to_string())
    }

    fn journal_row(command: &server::Command) -> JournalRow<'_> {
        match command {
            server::Command::Report(record) => JournalRow::Update(record),
            server::Command::Archive(record) => JournalRow::Ended(record),
            _ => JournalRow::Nothing,
        }
    }
}

impl DaemonMachine for Agent {
    type Config = AgentConfig;

    fn start(config: &AgentConfig) -> Agent {
        Agent::new(config.clone())
    }

    fn from_snapshot(config: &AgentConfig, state: Self::State) -> Result<Agent, String> {
        Ok(Agent::from_state(config.clone(), state))
    }

    fn journal_row(command: &agent::Command) -> JournalRow<'_> {
        match command {
            agent::Command::ReportStatus(record) => JournalRow::Update(record),
            agent::Command::Archive(record) => JournalRow::Ended(record),
            _ => JournalRow::Nothing,
        }
    }
}

impl DaemonMachine for Coordinator {
    type Config = CoordinatorConfig;

    fn start(config: &CoordinatorConfig) -> Coordinator {
        Coordinator::new(config.clone())
    }

    fn from_snapshot(config: &CoordinatorConfig, state: Self::State) -> Result<Coordinator, String> {
        Ok(Coordinator::from_state(config.clone(), state))
    }

    fn journal_row(_command: &Self::Command) -> JournalRow<'_> {
        JournalRow::Nothing
    }
}

/// The name of a daemon: `a0`, `a1`, ... for agents, `c0`, `c1`, ... for servers. Names of clusters may be too long for daemons.
pub(crate) fn daemon_name(letter: char, number: usize) -> Name {
    format!("{letter}{number}").parse().expect("a letter and digits are a name")
}

/// The configuration of a cluster's server.
pub(crate) fn server_config(
    number: usize,
    cluster: &Cluster,
    tuner: Tuner,
    waiting: WaitingLimits,
) -> ServerConfig {
    ServerConfig {
        name: daemon_name('c', number),
        address: String::new(),
        procs: cluster.procs,
        speed: cluster.speed,
        policy: cluster.batch.clone(),
        tuner,
        waiting,
        host: cluster.nodes.as_ref().map(|nodes| Arc::new(host(nodes))),
    }
}

/// The nodes of a cluster, with names for their GPUs.
fn host(nodes: &ClusterNodes) -> HostResources {
    let gpus: u64 = nodes.groups.iter().map(|group| u64::from(group.count) * u64::from(group.gpus)).sum();
    HostResources { nodes: nodes.clone(), gpus: (0..gpus).map(|gpu| format!("gpu{gpu}")).collect() }
}

/// The description of a server. Its rank is the position of its cluster, so that ties are broken as in a direct simulation.
pub(crate) fn server_info(server: &Server, number: usize) -> ServerInfo {
    let ServerConfig { name, procs, speed, policy, .. } = server.config().clone();
    let (address, services) = (String::new(), Vec::new());
    ServerInfo {
        name,
        address,
        rank: number as u32,
        procs,
        speed,
        policy,
        services,
        scripts: true,
        optional_cores: 0,
        optional_per_core: 0,
    }
}
