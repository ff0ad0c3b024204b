//! The agent as a daemon.

mod children;
pub(crate) mod driver;
mod history;
mod launches;
mod line;
mod lines;
mod numbers;
mod runtimes;
pub(crate) mod service;
mod skew;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use children::Below;
use driver::{AgentDriver, Askers};
use launches::Launches;
use lines::Lines;
use numbers::Numbers;
use parking_lot::Mutex;
use pliant_control::agent::{Agent, AgentConfig, Event};
use pliant_journal::{self as journal, Journal};
use pliant_transport::{ClientTls, Limits, Role, ServerTls, incoming};
use pliant_wire::proto::agent_server::AgentServer;
use pliant_wire::proto::launches_server::LaunchesServer;
use service::Service;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::interceptor::InterceptedService;
use waiting::Waiting;

use crate::config::AgentFile;
use crate::gate::Gate;
use crate::host::{DaemonError, MachineThread, Settings, listen_pages, mailbox, recover, stopped, transport};
use crate::uplink::{self, Heard, Uplink, readiness, upward};

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
        let config = AgentConfig {
            name: file.name.clone(),
            root: file.parent.is_empty(),
            patience: file.patience(),
            moving: file.moving(),
        };
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

    // Everything of this daemon ends with it, whoever ends it.
    let (halt, halted) = watch::channel(false);
    let (mailbox, inbox) = mailbox::<Agent>();
    // Whoever was there before has to come again.
    for (child, _, attached, _) in recovered.machine.children() {
        if attached {
            let _ = mailbox.tell(Event::Detached { child: child.clone() });
        }
    }
    let gate = Gate::new(file.limits);
    let around = launches::Around {
        file: &file,
        address,
        agent: mailbox.clone(),
        tls: client_tls.clone(),
        gate: gate.clone(),
    };
    let Launches { service: launches, thread: mut coordinator, failure: launches_failure } =
        launches::start(around).await?;
    let (upward, outbound) = upward(recovered.next_notice);
    let (lines, askers, failure) = (Lines::default(), Askers::default(), Arc::new(Mutex::new(None)));
    let has_parent = !file.parent.is_empty();
    let upward = has_parent.then_some(upward);
    let numbers = Numbers {
        mailbox: mailbox.clone(),
        archive: archive.clone(),
        lines: lines.clone(),
        upward: upward.clone(),
    };
    let reports = Waiting::default();
    let driver = AgentDriver {
        lines: lines.clone(),
        askers: askers.clone(),
        reports: reports.clone(),
        upward,
        healthy: failure.clone(),
        request: None,
    };
    // Answers to clients that waited before a restart must not reach those that wait now.
    let clock = recovered.clock;
    let first_token = clock.exact().as_micros() as u64;
    let settings =
        Settings { history: Settings::days(file.history_days), notices: has_parent, ..Settings::default() };
    let heard = has_parent.then(Heard::start);
    let parent = heard.clone();
    let ready_page = move || {
        let readiness = readiness(&failure, parent.as_ref());
        match launches_failure.lock().clone() {
            Some(why) => readiness.but("launches", why),
            None => readiness,
        }
    };
    let pages = listen_pages(file.http.as_ref(), halted.clone(), ready_page).await?;
    let mut line = None;
    if let Some(heard) = heard {
        let (name, journal_id) = (file.name.clone(), journal.id());
        let (mailbox, askers, numbers) = (mailbox.clone(), askers.clone(), numbers.clone());
        let uplink = Uplink {
            child: Arc::new(Below { name, journal: journal_id, mailbox, askers, numbers }),
            parents: file.parent.clone(),
            tls: client_tls,
            heard,
            // One of its own: it waits for nobody who lists jobs.
            archive: Arc::new(Mutex::new(journal.archive()?)),
            clock,
        };
        line = Some(tokio::spawn(uplink.keep(outbound, halted.clone())));
    }
    let thread =
        MachineThread::start("agent", recovered, journal, driver, (mailbox.clone(), inbox), settings)?;
    tokio::spawn(observe(lines.clone(), halted.clone()));
    let service = Service {
        gate: gate.clone(),
        mailbox,
        lines,
        askers,
        reports,
        archive,
        numbers,
        clock,
        tokens: Arc::new(AtomicU64::new(first_token)),
        tls: server_tls.clone(),
        patience: file.patience(),
        stop: halted.clone(),
    };
    let limits = Limits { connections_max: file.limits.connections, ..Limits::default() };
    let service = AgentServer::new(service)
        .max_decoding_message_size(file.limits.message_bytes)
        .max_encoding_message_size(64 << 20);
    let launches = LaunchesServer::new(launches)
        .max_decoding_message_size(file.limits.message_bytes)
        .max_encoding_message_size(64 << 20);
    let service = InterceptedService::new(service, gate.keep(server_tls.clone()));
    let launches = InterceptedService::new(launches, gate.keep(server_tls.clone()));
    tracing::info!(name = %file.name, %address, root = !has_parent, "agent ready");
    ready(address);
    let served = transport()
        .add_service(service)
        .add_service(launches)
        .serve_with_incoming_shutdown(incoming(listener, server_tls, limits), stopped(halted));
    // Neither thread goes on without the other.
    let served = async {
        tokio::select! {
            served = served => served,
            () = MachineThread::gone(coordinator.as_mut()) => Ok(()),
        }
    };
    let ended = thread.serve(served, stop, &halt).await;
    let launches_ended = match coordinator {
        Some(coordinator) => coordinator.end().await,
        None => Ok(()),
    };
    if let Some(line) = line {
        line.abort();
    }
    drop(pages);
    ended.and(launches_ended)
}

/// Tells how long ago each child was heard.
async fn observe(lines: Lines, halted: watch::Receiver<bool>) {
    let halted = stopped(halted);
    tokio::pin!(halted);
    let mut beat = tokio::time::interval(uplink::HEARTBEAT);
    loop {
        tokio::select! {
            _ = beat.tick() => lines.observe(),
            () = &mut halted => return,
        }
    }
}

/// The journal that the file names; waits for its turn if another agent leads.
async fn open_journal(file: &AgentFile) -> Result<Box<dyn Journal>, DaemonError> {
    let (name, state, postgres) = (file.name.clone(), file.state.clone(), file.postgres.clone());
    let opened = tokio::task::spawn_blocking(move || {
        let (mut journal, owner) = match (state, postgres) {
            // Whoever stands by has a name of its own.
            (_, Some(connection)) => (journal::open_postgres(&connection)?, "an agent".to_owned()),
            (Some(folder), None) => (journal::open_sqlite(&folder)?, format!("agent {name}")),
            (None, None) => unreachable!("the file was checked for one of them"),
        };
        journal.claim(&owner).map(|()| journal)
    });
    Ok(opened.await.expect("opening does not panic")?)
}
