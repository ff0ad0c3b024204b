//! Launches of applications on several clusters at once (paper 003): the coordinator at an agent.
//!
//! The machine is `pliant_control::coallocation::Coordinator` on a thread of its own, with a journal of its own in the folder
//! `launches` of the state: the agent's knows of servers and jobs, this one of what was promised to servers, and no launch
//! is to wait for the status updates of jobs. It asks the agent's which servers there are, and servers which machines they have,
//! whenever something is to be mapped, and has them measure the links between them now and then (`probing`).
//!
//! An agent whose journal is in PostgreSQL coordinates none. A standby there has another name, and servers let only
//! the agent that a subjob names decide about it, so that a second leader could neither run nor end what the
//! first one has reserved.

mod archive;
mod calls;
mod driver;
mod probing;
mod service;

use std::net::SocketAddr;
use std::sync::Arc;

use pliant_control::agent::Agent;
use pliant_control::coallocation::{Coordinator, CoordinatorConfig};
use pliant_control::handoff::Peer;
use pliant_journal as journal;
use pliant_transport::Connections;
use pliant_transport::{ClientTls, Role, ServerTls};

use self::calls::Calls;
use self::driver::LaunchesDriver;
use self::probing::Probing;
use self::service::Open;
use crate::calling::UnderWay;
use crate::config::AgentFile;
use crate::gate::Gate;
use crate::host::{DaemonError, JournalHealth, MachineHost, MachineThread, Mailbox, Replies, Settings};

pub(super) use self::service::Service;

/// What it takes to begin.
pub(super) struct CoordinatorContext<'a> {
    pub(super) file: &'a AgentFile,
    /// Where the agent listens.
    pub(super) address: SocketAddr,
    pub(super) agent: Mailbox<Agent>,
    pub(super) tls: Arc<ClientTls>,
    /// Verifies what users have signed.
    pub(super) verifier: Arc<ServerTls>,
    pub(super) gate: Gate,
}

/// The launches of an agent.
pub(super) struct Launches {
    /// For those who call.
    pub(super) service: Service,
    /// The coordinator, if the agent has one.
    pub(super) thread: Option<MachineThread>,
    /// Whether its journal can be written.
    pub(super) health: JournalHealth,
    /// Why the agent coordinates no launches, if it does not.
    pub(super) refused: Option<String>,
}

/// Goes on with the launches in the journal, if this agent is to coordinate any.
pub(super) async fn start(context: CoordinatorContext<'_>) -> Result<Launches, DaemonError> {
    let CoordinatorContext { file, address, agent, tls, verifier, gate } = context;
    let (folder, own) = match own_folder(file, address) {
        Ok(own_folder) => own_folder,
        Err(why) => {
            tracing::warn!(why, "launches are refused");
            return Ok(Launches {
                service: Service { gate, open: Err(why.clone()) },
                thread: None,
                health: JournalHealth::default(),
                refused: Some(why),
            });
        }
    };
    let owner = format!("launches of {}", own.name);
    let config = CoordinatorConfig { own };
    let again = config.clone();
    let host = MachineHost::recover(
        owner,
        move || journal::open_sqlite(&folder),
        |_, _| Coordinator::new(config),
        |state| Ok(Coordinator::from_state(again, state)),
    )
    .await?;
    let archive = host.archive()?;
    let (mailbox, clock, health) = (host.mailbox.clone(), host.clock, host.health.clone());
    let (answers, verdicts) = (Replies::new(&clock), Replies::new(&clock));
    let trail = agent.clone();
    let calls = Calls {
        agent,
        coordinator: mailbox.clone(),
        runtime: tokio::runtime::Handle::current(),
        servers: Connections::new(Role::Server, tls),
        listings: UnderWay::default(),
        calls: UnderWay::default(),
    };
    let probing = file.probes.is_on().then(|| Probing { calls: calls.clone(), file: file.probes });
    let driver =
        LaunchesDriver { answers: answers.clone(), verdicts: verdicts.clone(), calls, agent: trail, clock };
    let settings = Settings { notices: false, ..super::journal_settings(file) };
    let thread = host.start("launches", driver, settings)?;
    if let Some(probing) = probing {
        tokio::spawn(probing.run());
    }
    let agent = file.name.clone();
    let open = Open { mailbox, archive, answers, verdicts, agent, verifier, clock };
    let service = Service { gate, open: Ok(open) };
    Ok(Launches { service, thread: Some(thread), health, refused: None })
}

/// Where the journal is, and how servers reach the agent; or why it coordinates no launches.
fn own_folder(file: &AgentFile, address: SocketAddr) -> Result<(std::path::PathBuf, Peer), String> {
    let name = file.name.clone();
    let refused = |why: &str| format!("agent {name} coordinates no launches: {why}");
    let Some(state) = &file.state else {
        return Err(refused("its journal is in PostgreSQL, where another agent may take the lead"));
    };
    let address = match &file.advertise {
        Some(address) => address.clone(),
        None if address.ip().is_unspecified() => {
            return Err(refused("its file does not say where servers reach it (`advertise`)"));
        }
        None => address.to_string(),
    };
    Ok((state.join("launches"), Peer { name, address }))
}
