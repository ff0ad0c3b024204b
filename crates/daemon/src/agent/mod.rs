//! The agent as a daemon.

mod child_connection;
mod child_connections;
mod children;
pub(crate) mod driver;
mod history;
mod launches;
mod listing;
mod many;
mod numbers;
mod reports;
mod runtimes;
pub(crate) mod service;
mod skew;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use child_connections::ChildConnections;
use children::AgentChild;
use driver::{AgentDriver, ParentRequests};
use launches::Launches;
use numbers::Numbers;
use pliant_control::agent::{Agent, AgentConfig, Event};
use pliant_journal as journal;
use pliant_transport::Role;
use pliant_wire::proto::agent_server::AgentServer;
use pliant_wire::proto::launches_server::LaunchesServer;
use reports::ReportedJobs;
use service::Service;
use tokio::sync::watch;

use crate::config::AgentFile;
use crate::denials::Denials;
use crate::host::{Certificates, DaemonError, Front, MachineHost, Replies, Settings, stopped, transport};
use crate::uplink::{self, ParentContact, Uplink, readiness, upward};

/// Runs an agent until `stop` says so, or until it cannot go on. `ready` is called with the address it listens on.
pub async fn serve(
    file: AgentFile,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(std::net::SocketAddr),
) -> Result<(), DaemonError> {
    let certificates = Certificates::load(&file.tls, Role::Agent, &file.name)?;
    let host = tokio::select! {
        host = recover(&file) => host?,
        // An agent that stands by may do so for months.
        () = stopped(stop.clone()) => return Ok(()),
    };
    let archive = host.archive()?;
    let mut front = Front::bind(certificates, file.listen, file.limits).await?;
    let (mailbox, clock, health) = (host.mailbox.clone(), host.clock, host.health.clone());
    // Children that were attached before have to attach again.
    for (child, _, attached, _) in host.machine().children() {
        if attached {
            let _ = mailbox.send(Event::Detached { child: child.clone() });
        }
    }
    let context = launches::CoordinatorContext {
        file: &file,
        address: front.address,
        agent: mailbox.clone(),
        tls: front.certificates.client.clone(),
        verifier: front.certificates.server.clone(),
        gate: front.gate.clone(),
    };
    let Launches { service: launches, thread: coordinator, health: launches_health, refused } =
        launches::start(context).await?;
    let (upward, outbound) = upward(host.next_update());
    let (connections, parent_requests) = (ChildConnections::default(), ParentRequests::default());
    let has_parent = !file.parent.is_empty();
    let upward = has_parent.then_some(upward);
    let numbers = Numbers {
        mailbox: mailbox.clone(),
        archive: archive.clone(),
        connections: connections.clone(),
        reported: ReportedJobs::default(),
        upward: upward.clone(),
    };
    let (discoveries, reports, forgotten) =
        (Replies::new(&clock), Replies::new(&clock), Replies::new(&clock));
    let driver = AgentDriver {
        connections: connections.clone(),
        discoveries: discoveries.clone(),
        parent_requests: parent_requests.clone(),
        reports: reports.clone(),
        forgotten: forgotten.clone(),
        upward,
        request: None,
    };
    let contact = has_parent.then(ParentContact::start);
    let parent = contact.clone();
    let children = connections.clone();
    let ready_page = move || {
        let mut readiness = readiness(&health, parent.as_ref());
        if let Some(why) = &refused {
            readiness = readiness.noting(why);
        }
        let reporting = children.reporting_again().len();
        if reporting > 0 {
            readiness = readiness.noting(format!(
                "children still report again what this agent lost with its journal: {reporting}; lists of jobs are incomplete"
            ));
        }
        match launches_health.failure() {
            Some(why) => readiness.but("launches", why),
            None => readiness,
        }
    };
    front.serve_pages(file.http.as_ref(), ready_page).await?;
    if let Some(contact) = contact {
        let (name, journal) = (file.name.clone(), host.journal_id());
        let (mailbox, numbers, connections) = (mailbox.clone(), numbers.clone(), connections.clone());
        let uplink = Uplink {
            child: Arc::new(AgentChild {
                name,
                journal,
                mailbox,
                parent_requests,
                numbers,
                connections,
                tls: front.certificates.client.clone(),
            }),
            parents: file.parent.clone(),
            tls: front.certificates.client.clone(),
            contact,
            archive: archive.clone(),
            clock,
            loaded: host.next_update() - 1,
            summaries: file.summaries.rule(),
        };
        front.tasks.spawn(uplink.keep(outbound, front.halted.clone()));
    }
    let settings = Settings { notices: has_parent, ..journal_settings(&file) };
    let thread = host.start("agent", driver, settings)?;
    front.tasks.spawn(observe(connections.clone(), front.halted.clone()));
    let service = Service {
        gate: front.gate.clone(),
        mailbox,
        connections,
        discoveries,
        reports,
        forgotten,
        archive,
        numbers,
        denials: Denials::default(),
        run: run_number(),
        clock,
        tls: front.certificates.server.clone(),
        timeout: file.timeout(),
        stop: front.halted.clone(),
    };
    let service = AgentServer::new(service)
        .max_decoding_message_size(file.limits.message_bytes)
        .max_encoding_message_size(64 << 20);
    let launches = LaunchesServer::new(launches)
        .max_decoding_message_size(file.limits.message_bytes)
        .max_encoding_message_size(64 << 20);
    let routes = transport().add_service(front.guarded(service)).add_service(front.guarded(launches));
    let role = if has_parent { "local agent" } else { "master agent" };
    tracing::info!(name = %file.name, address = %front.address, role, "agent ready");
    ready(front.address);
    front.serve(routes, std::iter::once(thread).chain(coordinator).collect(), stop).await
}

/// A number that no earlier run of an agent has: the time in microseconds.
fn run_number() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_micros()).unwrap_or_default()
}

/// Reports the time since the last contact with each child.
async fn observe(connections: ChildConnections, halted: watch::Receiver<bool>) {
    let halted = stopped(halted);
    tokio::pin!(halted);
    let mut beat = tokio::time::interval(uplink::HEARTBEAT);
    loop {
        tokio::select! {
            _ = beat.tick() => connections.observe(),
            () = &mut halted => return,
        }
    }
}

/// The agent, recovered from its journal; waits while another agent leads.
async fn recover(file: &AgentFile) -> Result<MachineHost<Agent>, DaemonError> {
    let (owner, state, postgres) = match &file.postgres {
        // A standby has a name of its own.
        Some(_) => ("an agent".to_owned(), file.state.clone(), file.postgres.clone()),
        None => (format!("agent {}", file.name), file.state.clone(), None),
    };
    let config = AgentConfig {
        name: file.name.clone(),
        root: file.parent.is_empty(),
        timeout: file.timeout(),
        reallocation: file.moving(),
    };
    let again = config.clone();
    let open = move || match (state, postgres) {
        (_, Some(connection)) => journal::open_postgres(&connection),
        (Some(folder), None) => journal::open_sqlite(&folder),
        (None, None) => unreachable!("the file was checked for one of them"),
    };
    let restore = |state| Ok(Agent::from_state(again, state));
    MachineHost::recover(owner, open, |_, _| Agent::new(config), restore).await
}

/// How long the journals of an agent keep what they have.
fn journal_settings(file: &AgentFile) -> Settings {
    Settings {
        history: Settings::days(file.history_days),
        history_bytes: file.history_bytes,
        jobs: Settings::days(file.jobs_days),
        audit: Settings::days(file.audit_days),
        ..Settings::default()
    }
}
