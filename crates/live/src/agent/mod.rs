//! The agent as a daemon.

mod children;
pub(crate) mod driver;
mod line;
pub(crate) mod service;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use pliant_control::agent::{Agent, AgentConfig, Event};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tonic::transport::Server as Transport;

use crate::config::AgentFile;
use crate::daemon::{
    DaemonError, GRACE, Settings, listen_pages, mailbox, recover, run, stopped, stopped_for,
};
use crate::identity::{ClientTls, Limits, Role, ServerTls, guard, incoming};
use crate::journal::{self, Journal};
use crate::telemetry::Readiness;
use crate::uplink;
use crate::wire::proto::agent_server::AgentServer;
use children::Below;
use driver::{AgentDriver, Askers, Lines, locked};
use service::Service;

/// Runs an agent until `stop` says so, or until it cannot go on. `ready` is called with the address it listens on.
pub async fn serve(
    file: AgentFile,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(std::net::SocketAddr),
) -> Result<(), DaemonError> {
    let server_tls = Arc::new(ServerTls::load(&file.tls)?);
    let client_tls = Arc::new(ClientTls::load(&file.tls)?);
    DaemonError::check_name(&server_tls, Role::Agent, &file.name)?;
    let journal = tokio::select! {
        journal = open_journal(&file) => journal?,
        // An agent that stands by may do so for months.
        () = stopped(stop.clone()) => return Ok(()),
    };
    let (journal, recovered) = tokio::task::spawn_blocking({
        let config =
            AgentConfig { name: file.name.clone(), root: file.parent.is_empty(), patience: file.patience() };
        move || {
            let mut journal = journal;
            let again = config.clone();
            recover(journal.as_mut(), |_| Agent::new(config), |state| Ok(Agent::from_state(again, state)))
                .map(|recovered| (journal, recovered))
        }
    })
    .await
    .expect("recovery does not panic")?;
    let archive = Arc::new(Mutex::new(journal.archive()?));
    let listener = TcpListener::bind(file.listen)
        .await
        .map_err(|source| DaemonError::Listen { address: file.listen, source })?;
    let address =
        listener.local_addr().map_err(|source| DaemonError::Listen { address: file.listen, source })?;

    let (mailbox, inbox) = mailbox::<Agent>();
    // Whoever was there before has to come again.
    for (child, _, attached, _) in recovered.machine.children() {
        if attached {
            let _ = mailbox.tell(Event::Detached { child: child.clone() });
        }
    }
    let (upward, messages) = mpsc::unbounded_channel();
    let (lines, askers, failure) = (Lines::default(), Askers::default(), Arc::new(Mutex::new(None)));
    let has_parent = !file.parent.is_empty();
    let driver = AgentDriver {
        lines: lines.clone(),
        askers: askers.clone(),
        upward: has_parent.then(|| upward.clone()),
        healthy: failure.clone(),
    };
    // Answers to clients that waited before a restart must not reach those that wait now.
    let first_token = recovered.clock.exact().as_micros() as u64;
    let settings =
        Settings { history: Settings::days(file.history_days), notices: has_parent, ..Settings::default() };
    let mut line = None;
    if has_parent {
        let child =
            Arc::new(Below { name: file.name.clone(), journal: journal.id(), mailbox: mailbox.clone() });
        let outbox = recovered.notices.clone();
        let keep = uplink::keep(child, file.parent.clone(), client_tls, outbox, messages, stop.clone());
        line = Some(tokio::spawn(keep));
    }
    let thread = std::thread::Builder::new()
        .name("agent".to_owned())
        .spawn(move || run(recovered, journal, driver, inbox, settings))
        .map_err(DaemonError::Thread)?;
    let pages = listen_pages(file.http.as_ref(), stop.clone(), move || match &*locked(&failure) {
        None => Readiness::ready(),
        Some(why) => Readiness::ready().but("journal", why.clone()),
    })
    .await?;

    let service = Service {
        gate: crate::gate::Gate::new(file.limits),
        mailbox: mailbox.clone(),
        lines,
        askers,
        archive,
        tokens: Arc::new(AtomicU64::new(first_token)),
        tls: server_tls.clone(),
        patience: file.patience(),
        stop: stop.clone(),
    };
    let limits = Limits { connections_max: file.limits.connections, ..Limits::default() };
    let service = AgentServer::new(service)
        .max_decoding_message_size(file.limits.message_bytes)
        .max_encoding_message_size(64 << 20);
    let service = tonic::service::interceptor::InterceptedService::new(service, guard(server_tls.clone()));
    tracing::info!(name = %file.name, %address, root = !has_parent, "agent ready");
    ready(address);
    let served = Transport::builder()
        .http2_keepalive_interval(Some(std::time::Duration::from_secs(20)))
        .http2_keepalive_timeout(Some(std::time::Duration::from_secs(20)))
        .add_service(service)
        .serve_with_incoming_shutdown(incoming(listener, server_tls, limits), stopped(stop.clone()));
    let served = tokio::select! {
        served = served => served,
        // Open calls have a moment to end; clients that stay connected do not keep a daemon.
        () = stopped_for(stop.clone(), GRACE) => Ok(()),
    };
    mailbox.stop();
    let ended = tokio::task::spawn_blocking(move || thread.join()).await.expect("waiting does not panic");
    if let Some(line) = line {
        line.abort();
    }
    drop(pages);
    served.map_err(DaemonError::Transport)?;
    ended.map_err(|_| DaemonError::Panicked)??;
    Ok(())
}

/// The journal that the file names; waits for its turn if another agent leads.
async fn open_journal(file: &AgentFile) -> Result<Box<dyn Journal>, DaemonError> {
    let (state, postgres) = (file.state.clone(), file.postgres.clone());
    let opened = tokio::task::spawn_blocking(move || match (state, postgres) {
        (_, Some(connection)) => journal::open_postgres(&connection),
        (Some(folder), None) => journal::open_sqlite(&folder),
        (None, None) => unreachable!("the file was checked for one of them"),
    });
    Ok(opened.await.expect("opening does not panic")?)
}
