//! The server as a daemon.

mod accepting;
pub(crate) mod cluster;
mod driver;
mod explorations;
mod files;
mod handover;
mod launch;
mod links;
mod locals;
mod lookup;
mod machines;
mod offer;
mod offered;
mod open;
mod others;
mod packs;
mod parts;
mod prospects;
mod sealing;
mod service;
mod upkeep;
mod what;

use std::ffi::OsString;
use std::sync::Arc;

use cluster::{Cluster, FreshListings};
use driver::{Processes, ServerDriver};
use launch::Host;
use machines::Machines;
use offer::{ServerChild, ServiceOffer};
use others::PeerServers;
use parts::{Coordinators, Parts, Places};
use pliant_control::server::{Server, ServerConfig};
use pliant_control::server_info::ServerInfo;
use pliant_journal as journal;
use pliant_model::Procs;
use pliant_site::services::pack_spare;
use pliant_staging::{self as staging, Store};
use pliant_transport::Connections;
use pliant_transport::Role;
use pliant_wire::proto::held_parts_server::HeldPartsServer;
use pliant_wire::proto::links_server::LinksServer;
use pliant_wire::proto::parts_server::PartsServer;
use pliant_wire::proto::server_server::ServerServer;
use pliant_wire::proto::task_files_server::TaskFilesServer;
use service::Service;
use tokio::sync::{broadcast, watch};
use what::Execution;

use crate::calling::UnderWay;
use crate::config::{OptionalFile, ServerFile};
use crate::host::{Certificates, DaemonError, Front, MachineHost, Replies, Settings, transport};
use crate::uplink::{ParentContact, Uplink, readiness, upward};

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
    let certificates = Certificates::load(&file.tls, Role::Server, &file.name)?;
    let machine = recover(&file).await?;
    let store = {
        let folder = file.state.join("staging");
        let opened = tokio::task::spawn_blocking(move || Store::open(&folder, staging::Limits::default()));
        opened.await.expect("opening does not panic").map_err(unusable("staging"))?
    };
    let archive = machine.archive()?;
    let mut front = Front::bind(certificates, file.listen, file.limits).await?;
    let (client_tls, halted) = (front.certificates.client.clone(), front.halted.clone());
    let (mailbox, clock, health) = (machine.mailbox.clone(), machine.clock, machine.health.clone());
    let (upward, outbound) = upward(machine.next_update());
    let (is_numbered, numbered) = watch::channel(machine.machine().is_numbered());
    let (changes, _) = broadcast::channel(CHANGES);
    let replies = Replies::new(&clock);
    let host = Host {
        server: file.name.clone(),
        folder: file.state.join("jobs"),
        cluster: file.cluster.clone(),
        pliant: program(&supervisor),
    };
    let advertised = file.advertise.clone().unwrap_or_else(|| front.address.to_string());
    let places = Places {
        host: host.clone(),
        store: store.clone(),
        own: file.cluster.foreign().is_none().then(|| host_of(&advertised).to_owned()),
        mailbox: mailbox.clone(),
        runtime: tokio::runtime::Handle::current(),
        kept: Arc::default(),
        looking: Arc::default(),
    };
    places.resume(machine.machine());
    let processes = Processes {
        host: host.clone(),
        store: store.clone(),
        supervisor: supervisor.clone().into(),
        mailbox: mailbox.clone(),
        runtime: tokio::runtime::Handle::current(),
        places: places.clone(),
        cancelled: Arc::default(),
    };
    let jobs = machine.machine().running().map(|(_, run, cancelling)| (run, cancelling));
    let parts = machine.machine().running_parts().map(|(_, run, cancelling)| (run, cancelling));
    for (run, cancelling) in jobs.chain(parts) {
        if let Some(what) = Execution::of(machine.machine(), run.job.0) {
            processes.resume(what, run.clone(), cancelling);
        }
    }
    let cluster = file.cluster.foreign().map(|settings| {
        let around = cluster::ClusterContext {
            host: host.clone(),
            store: store.clone(),
            supervisor: supervisor.clone().into(),
            mailbox: mailbox.clone(),
            runtime: tokio::runtime::Handle::current(),
        };
        Cluster::start(around, settings, machine.machine(), clock, halted.clone())
    });
    let fresh = cluster.as_ref().map(Cluster::fresh);
    // Of a cluster that was never listed nothing is known yet.
    let procs = machine.machine().procs();
    let coordinators = Coordinators {
        agents: Connections::new(Role::Agent, client_tls.clone()),
        mailbox: mailbox.clone(),
        runtime: tokio::runtime::Handle::current(),
        calls: Arc::default(),
    };
    let others = PeerServers {
        address: advertised.clone(),
        store: store.clone(),
        folders: cluster.is_some().then(|| host.clone()),
        mailbox: mailbox.clone(),
        runtime: tokio::runtime::Handle::current(),
        servers: Connections::new(Role::Server, client_tls.clone()),
        calls: UnderWay::default(),
    };
    let shop = shop(&file, procs, advertised, &supervisor);
    let around = explorations::ExplorationContext {
        file: &file,
        host: &host,
        shop: &shop,
        store: &store,
        supervisor: &supervisor,
        halted: halted.clone(),
    };
    let (explorations, requests) = explorations::start(around).await?.unzip();
    let child = ServerChild {
        shop: shop.clone(),
        fresh: fresh.clone(),
        journal: machine.journal_id(),
        mailbox: mailbox.clone(),
        upward: upward.clone(),
        replies: replies.clone(),
        numbered: is_numbered,
    };
    let heard = ParentContact::start();
    let parent = heard.clone();
    let journal_health = health.clone();
    let (batch_system, requests_kept) = (fresh.clone(), explorations.clone());
    let ready_page = move || {
        let mut readiness = readiness(&journal_health, Some(&parent));
        if let Some(why) = requests_kept.as_ref().and_then(|explorations| explorations.failure()) {
            readiness = readiness.but("explorations", why);
        }
        match batch_system.as_ref().and_then(FreshListings::missing) {
            Some(why) => readiness.but("batch-system", why),
            None => readiness,
        }
    };
    front.serve_pages(file.http.as_ref(), ready_page).await?;
    let uplink = Uplink {
        child: Arc::new(child),
        parents: file.parent.clone(),
        tls: client_tls.clone(),
        heard,
        // One of its own: it waits for nobody who lists jobs.
        archive: machine.archive()?,
        clock,
    };
    front.tasks.spawn(uplink.keep(outbound, halted.clone()));
    if let Some(fresh) = fresh.clone() {
        let upward = upward.clone();
        front.tasks.spawn(async move { fresh.sizes(|| upward.announce()).await });
    }
    let driver = ServerDriver {
        replies: replies.clone(),
        processes,
        cluster,
        others,
        parts: Parts { places, coordinators },
        changes: changes.clone(),
        upward,
    };
    let settings = Settings { history: Settings::days(file.history_days), ..Settings::default() };
    let thread = machine.start("server", driver, settings)?;
    let upkeep = upkeep::Upkeep {
        host: host.clone(),
        store: store.clone(),
        archive: archive.clone(),
        mailbox: mailbox.clone(),
        kept: Settings::days(file.results_days),
    };
    front.tasks.spawn(upkeep.run(halted.clone()));
    let service = Service {
        gate: front.gate.clone(),
        numbered,
        tls: front.certificates.server.clone(),
        mailbox,
        replies,
        health,
        archive,
        machines: Machines::start(file.name.clone(), file.cluster.clone()),
        shop,
        explorations,
        fresh,
        host,
        store,
        sealing: sealing::Sealing::default(),
        changes,
        stop: halted,
    };
    let message_bytes = file.limits.message_bytes;
    let parts = PartsServer::new(service.clone()).max_decoding_message_size(message_bytes);
    let links = LinksServer::new(links::Service::new(client_tls, file.listen.ip()));
    let task_files = TaskFilesServer::new(service.clone());
    let held = HeldPartsServer::new(service.clone());
    let service = ServerServer::new(service).max_decoding_message_size(message_bytes);
    let routes = transport()
        .add_service(front.guarded(service))
        .add_service(front.guarded(parts))
        .add_service(front.guarded(links))
        .add_service(front.guarded(task_files))
        .add_service(front.guarded(held));
    let (address, batch) = (front.address, file.cluster.policy());
    tracing::info!(name = %file.name, %address, procs = procs.0, batch, "server ready");
    ready(address);
    front.serve(routes, std::iter::once(thread).chain(requests).collect(), stop).await
}

/// The server that the journal tells of.
async fn recover(file: &ServerFile) -> Result<MachineHost<Server>, DaemonError> {
    let config = machine_config(file)?;
    let (again, state) = (config.clone(), file.state.clone());
    let owner = format!("server {}", config.name);
    MachineHost::recover(
        owner,
        move || journal::open_sqlite(&state),
        |_, now| Server::new(config, now).expect("the file was checked for the policy's name"),
        |state| Server::from_state(again, state).map_err(|error| error.to_string()),
    )
    .await
}

fn machine_config(file: &ServerFile) -> Result<ServerConfig, DaemonError> {
    // The file was checked when it was read; this is for files made in memory.
    let value = |(key, message)| {
        DaemonError::Config(crate::config::wrong_value(std::path::Path::new("in memory"), key, message))
    };
    Ok(ServerConfig {
        name: file.name.clone(),
        address: file.address(),
        procs: file.cluster.procs(),
        speed: file.cluster.speed().map_err(value)?,
        policy: file.cluster.policy(),
        tuner: file.cluster.tuner().map_err(value)?,
        waiting_per_user: file.waiting_per_user,
    })
}

fn shop(file: &ServerFile, procs: Procs, address: String, supervisor: &[OsString]) -> ServiceOffer {
    let catalogue = Arc::new(file.catalogue.clone());
    let mut services = catalogue.summaries();
    if file.optional.as_ref().is_some_and(|optional| optional.pause) {
        let summary = "keeps a core of an exploration for `ms` milliseconds and does nothing";
        services.push((explorations::PAUSE.to_owned(), summary.to_owned()));
    }
    let info = ServerInfo {
        name: file.name.clone(),
        address,
        rank: file.rank,
        procs,
        speed: file.cluster.speed().unwrap_or(pliant_model::Speed::REFERENCE),
        policy: file.cluster.policy(),
        services,
        scripts: catalogue.takes_scripts(),
        optional_cores: file.optional.as_ref().map_or(0, |optional| optional.cores),
        optional_per_core: file.optional.as_ref().map_or(0, OptionalFile::per_core),
    };
    let spare = pack_spare(file.cluster.grace_s, info.speed);
    ServiceOffer { info, catalogue, pliant: program(supervisor), spare }
}

/// The path of this program, by the command of a supervisor.
fn program(supervisor: &[OsString]) -> String {
    supervisor.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default()
}

/// An address without its port.
fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

fn unusable<E: std::error::Error + Send + Sync + 'static>(what: &'static str) -> impl Fn(E) -> DaemonError {
    move |source| DaemonError::State { what, source: Box::new(source) }
}
