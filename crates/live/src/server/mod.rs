//! The server as a daemon.

mod driver;
mod files;
mod launch;
mod offer;
mod service;
mod upkeep;

use std::ffi::OsString;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use pliant_control::agent::ServerInfo;
use pliant_control::server::{Server, ServerConfig};
use tokio::net::TcpListener;
use tokio::sync::{broadcast, mpsc, watch};
use tonic::transport::Server as Transport;

use crate::agent::driver::locked;
use crate::config::ServerFile;
use crate::daemon::{
    DaemonError, GRACE, Settings, listen_pages, mailbox, recover, run, stopped, stopped_for,
};
use crate::identity::{ClientTls, Limits, Role, ServerTls, guard, incoming};
use crate::journal;
use crate::staging::{self, Store};
use crate::telemetry::Readiness;
use crate::uplink;
use crate::wire::proto::server_server::ServerServer;
use driver::{Calls, Processes, ServerDriver};
use launch::Host;
use offer::{Below, Shop};
use service::Service;

/// How many changes of jobs a slow watcher may be behind.
const CHANGES: usize = 4096;

/// Runs a server until `stop` says so, or until it cannot go on. `supervisor` is the command that starts a job's
/// supervisor; `ready` is called with the address it listens on.
pub async fn serve(
    file: ServerFile,
    supervisor: Vec<OsString>,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(std::net::SocketAddr),
) -> Result<(), DaemonError> {
    let server_tls = Arc::new(ServerTls::load(&file.tls)?);
    let client_tls = Arc::new(ClientTls::load(&file.tls)?);
    DaemonError::check_name(&server_tls, Role::Server, &file.name)?;
    let config = machine_config(&file)?;
    let state = file.state.clone();
    let opened = tokio::task::spawn_blocking(move || -> Result<_, DaemonError> {
        let mut journal = journal::open_sqlite(&state)?;
        let again = config.clone();
        let new = |now| Server::new(config, now).expect("the file was checked for the policy's name");
        let from_state = |state| Server::from_state(again, state).map_err(|error| error.to_string());
        let recovered = recover(journal.as_mut(), new, from_state)?;
        let store =
            Store::open(&state.join("staging"), staging::Limits::default()).map_err(unusable("staging"))?;
        Ok((journal, recovered, store))
    });
    let (journal, recovered, store) = opened.await.expect("recovery does not panic")?;
    let archive = Arc::new(Mutex::new(journal.archive()?));
    let listener = TcpListener::bind(file.listen)
        .await
        .map_err(|source| DaemonError::Listen { address: file.listen, source })?;
    let address =
        listener.local_addr().map_err(|source| DaemonError::Listen { address: file.listen, source })?;

    let (mailbox, inbox) = mailbox::<Server>();
    let (upward, messages) = mpsc::unbounded_channel();
    let (changes, _) = broadcast::channel(CHANGES);
    let (calls, failure) = (Calls::default(), Arc::new(Mutex::new(None)));
    let host = Host { folder: file.state.join("jobs"), cluster: file.cluster.clone() };
    let processes = Processes {
        host: host.clone(),
        store: store.clone(),
        supervisor: supervisor.clone().into(),
        mailbox: mailbox.clone(),
        runtime: tokio::runtime::Handle::current(),
        cancelled: Arc::default(),
    };
    for (record, run, cancelling) in recovered.machine.running() {
        let launch = recovered.machine.launch(record.handle.number).unwrap_or_default();
        processes.resume(record.clone(), launch.to_owned(), run.clone(), cancelling);
    }
    let advertised = file.advertise.clone().unwrap_or_else(|| address.to_string());
    let shop = shop(&file, advertised, &supervisor);
    let child =
        Below { shop: shop.clone(), journal: journal.id(), mailbox: mailbox.clone(), upward: upward.clone() };
    let outbox = recovered.notices.clone();
    let keep = uplink::keep(Arc::new(child), file.parent.clone(), client_tls, outbox, messages, stop.clone());
    let line = tokio::spawn(keep);
    let driver = ServerDriver {
        calls: calls.clone(),
        processes,
        changes: changes.clone(),
        upward,
        healthy: failure.clone(),
    };
    let settings = Settings { history: Settings::days(file.history_days), ..Settings::default() };
    let thread = std::thread::Builder::new()
        .name("server".to_owned())
        .spawn(move || run(recovered, journal, driver, inbox, settings))
        .map_err(DaemonError::Thread)?;
    let pages = listen_pages(file.http.as_ref(), stop.clone(), move || match &*locked(&failure) {
        None => Readiness::ready(),
        Some(why) => Readiness::ready().but("journal", why.clone()),
    })
    .await?;

    let upkeep = upkeep::Upkeep {
        host: host.clone(),
        store: store.clone(),
        archive: archive.clone(),
        mailbox: mailbox.clone(),
        name: file.name.to_string(),
        kept: Settings::days(file.results_days),
    };
    tokio::spawn(upkeep.run(stop.clone()));
    let service = Service {
        gate: crate::gate::Gate::new(file.limits),
        tls: server_tls.clone(),
        mailbox: mailbox.clone(),
        calls,
        archive,
        tokens: Arc::new(AtomicU64::new(1)),
        shop,
        host,
        store,
        changes,
        stop: stop.clone(),
    };
    let limits = Limits { connections_max: file.limits.connections, ..Limits::default() };
    let service = ServerServer::new(service).max_decoding_message_size(file.limits.message_bytes);
    let service = tonic::service::interceptor::InterceptedService::new(service, guard(server_tls.clone()));
    tracing::info!(name = %file.name, %address, procs = file.cluster.procs, batch = %file.cluster.batch, "server ready");
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
    line.abort();
    drop(pages);
    served.map_err(DaemonError::Transport)?;
    ended.map_err(|_| DaemonError::Panicked)??;
    Ok(())
}

fn machine_config(file: &ServerFile) -> Result<ServerConfig, DaemonError> {
    // The file was checked when it was read; this is for files made in memory.
    let value = |(key, message)| {
        DaemonError::Config(crate::config::ConfigError::Value { path: "in memory".into(), key, message })
    };
    Ok(ServerConfig {
        name: file.name.clone(),
        procs: file.cluster.procs(),
        speed: file.cluster.speed().map_err(value)?,
        policy: file.cluster.batch.clone(),
        tuner: file.cluster.tuner().map_err(value)?,
        waiting_per_user: file.waiting_per_user,
    })
}

fn shop(file: &ServerFile, address: String, supervisor: &[OsString]) -> Shop {
    let catalogue = Arc::new(file.catalogue.clone());
    let services = catalogue.summaries();
    let info = ServerInfo {
        name: file.name.clone(),
        address,
        rank: file.rank,
        procs: file.cluster.procs(),
        speed: file.cluster.speed().unwrap_or(pliant_model::Speed::REFERENCE),
        policy: file.cluster.batch.clone(),
        services,
        scripts: catalogue.takes_scripts(),
    };
    let pliant = supervisor.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
    Shop { info, catalogue, pliant }
}

fn unusable<E: std::error::Error + Send + Sync + 'static>(what: &'static str) -> impl Fn(E) -> DaemonError {
    move |source| DaemonError::State { what, source: Box::new(source) }
}
