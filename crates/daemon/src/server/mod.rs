//! The server as a daemon.

mod accepting;
mod accounts;
mod admin;
mod boot;
mod change;
mod claims;
mod closures;
pub(crate) mod cluster;
mod comparison;
mod driver;
mod execution;
mod explorations;
mod files;
mod following;
mod handover;
mod job_ends;
mod jobs_disk;
mod jobs_folder;
mod links;
mod locals;
mod lookup;
mod machines;
mod many;
mod offer;
mod offered;
mod open_call;
mod peer_servers;
mod private_folder;
mod prospects;
mod root;
mod sealing;
mod service;
mod stored_data;
mod subjobs;
mod submitted;
mod upkeep;
mod user_metrics;
mod warnings;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use accounts::Accounts;
use boot::Boot;
use claims::Claims;
use closures::Closures;
use cluster::{Cluster, FreshListings};
use comparison::Comparison;
use driver::ServerDriver;
use execution::observer::JobObserver;
use execution::{Execution, Host, Runner};
use explorations::Explorations;
use jobs_disk::JobsDisk;
use machines::Machines;
use offer::{FreeProcs, ServerChild, ServiceOffer};
use peer_servers::PeerServers;
use pliant_control::server::{Event, Server, ServerConfig, WaitingLimits};
use pliant_control::server_info::ServerInfo;
use pliant_journal as journal;
use pliant_model::Procs;
use pliant_site::Submitters;
use pliant_staging::{self as staging, Store};
use pliant_transport::Role;
use pliant_wire::proto::held_subjobs_server::HeldSubjobsServer;
use pliant_wire::proto::links_server::LinksServer;
use pliant_wire::proto::server_server::ServerServer;
use pliant_wire::proto::subjobs_server::SubjobsServer;
use pliant_wire::proto::task_files_server::TaskFilesServer;
use private_folder::make_private;
use service::Service;
use stored_data::StoredData;
use subjobs::{Coordinators, SubjobDriver, TaskPorts};
use tokio::sync::{broadcast, watch};
use user_metrics::UserMetrics;

pub use change::{ClusterChange, cluster_change};
pub(crate) use comparison::RESTORED;
pub use comparison::mark_restored;
pub(crate) use jobs_folder::{ACCOUNTS_FOLDER, FOLDER as JOBS_FOLDER};
pub use root::refuse_root;
pub use warnings::warnings;

use crate::config::{OptionalFile, ServerFile};
use crate::host::{
    Certificates, DaemonError, Front, JournalHealth, MachineHost, Mailbox, Replies, Routes, Settings,
    transport,
};
use crate::monitoring::Readiness;
use crate::uplink::{ParentContact, Uplink, readiness, upward};

/// The file in the state folder that says as which accounts jobs were submitted to an external batch system.
pub(crate) const SUBMITTERS: &str = "submitters";
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
    make_private(&file.state).map_err(unusable("state folder"))?;
    let as_whom = file.accounts().shared_account();
    let program = supervisor.first().map(Path::new).unwrap_or(Path::new(""));
    let accounts = file.accounts();
    let of_accounts: Vec<String> =
        accounts.readable_program(program).into_iter().chain(accounts.hidden_queues()).collect();
    for warning in &of_accounts {
        tracing::warn!("{warning}");
    }
    let boot = Boot::read(&file.state, file.has_resident_services()).map_err(unusable("state folder"))?;
    let machine = recover(&file, &boot).await?;
    let (comparison, stop) = Comparison::new(&file.state, stop);
    let (shown, tls) = (info(&file, machine.machine().procs(), file.address()), certificates.client.clone());
    let compared = comparison.before_start(&file, shown, tls, machine).await?;
    let Some((machine, loaded)) = compared else { return Ok(()) };
    let host = Arc::new(host(&file, supervisor, machine.journal_id()).await?);
    let quota = warnings::quota(&file.cluster.limits, &host.cluster.limits);
    let notes = as_whom.iter().cloned().chain(of_accounts).chain(quota).collect();
    let archive = machine.archive()?;
    let mut front = Front::bind(certificates, file.listen, file.limits).await?;
    let (client_tls, halted) = (front.certificates.client.clone(), front.halted.clone());
    let (mailbox, clock, health) = (machine.mailbox.clone(), machine.clock, machine.health.clone());
    let (upward, outbound) = upward(machine.next_update());
    let (is_numbered, numbered) = watch::channel(machine.machine().is_numbered());
    let (changes, _) = broadcast::channel(CHANGES);
    let ends = job_ends::JobEnds::new(file.name.clone());
    let replies = Replies::new(&clock);
    let advertised = file.advertise.clone().unwrap_or_else(|| front.address.to_string());
    let task_ports = TaskPorts::new(host.clone(), mailbox.clone(), &advertised);
    task_ports.resume(machine.machine());
    let runner = resume(&host, machine.machine(), &boot, &mailbox, &task_ports);
    front.tasks.spawn(boot.noted(mailbox.clone()));
    let cluster = file.cluster.external().map(|settings| {
        Cluster::start(host.clone(), mailbox.clone(), settings, machine.machine(), clock, halted.clone())
    });
    let fresh = cluster.as_ref().map(Cluster::fresh);
    // Of a cluster that was never listed nothing is known yet.
    let procs = machine.machine().procs();
    let offer = offer(&file, info(&file, procs, advertised.clone()), &host);
    let disk_bytes = host.cluster.limits.disk_bytes.bytes();
    let closures = Closures::new(machine.machine());
    let (explorations, requests) =
        explorations::start(&file, host.clone(), (&offer, &closures), halted.clone()).await?.unzip();
    let contact = ParentContact::start();
    let ready_page = ready_page(health.clone(), contact.clone(), explorations.clone(), fresh.clone(), notes);
    front.serve_pages(file.http.as_ref(), ready_page).await?;
    let free = FreeProcs::new(machine.machine().usage().free);
    let child = ServerChild {
        offer: offer.clone(),
        fresh: fresh.clone(),
        journal: machine.machine().journal().unwrap_or(machine.journal_id()),
        comparison: comparison.clone(),
        mailbox: mailbox.clone(),
        upward: upward.clone(),
        replies: replies.clone(),
        numbered: is_numbered,
        free: free.clone(),
        closures: closures.clone(),
        tls: client_tls.clone(),
    };
    let (child, parents, tls) = (Arc::new(child), file.parent.clone(), client_tls.clone());
    let summaries = file.summaries.rule();
    let uplink = Uplink { child, parents, tls, contact, archive: archive.clone(), clock, loaded, summaries };
    front.tasks.spawn(uplink.keep(outbound, halted.clone()));
    if let Some(fresh) = fresh.clone() {
        let upward = upward.clone();
        front.tasks.spawn(async move { fresh.sizes(|| upward.announce()).await });
    }
    let claims = Claims {
        server: file.name.clone(),
        tls: front.certificates.server.clone(),
        signing: client_tls.clone(),
        clock,
        mailbox: mailbox.clone(),
    };
    let users = file.http.as_ref().is_some_and(|http| http.user_metrics).then(UserMetrics::default);
    let driver = ServerDriver {
        replies: replies.clone(),
        runner,
        cluster,
        peers: PeerServers::new(advertised, host.clone(), claims.clone()),
        subjobs: SubjobDriver {
            task_ports,
            coordinators: Coordinators::new(host.clone(), mailbox.clone(), &client_tls),
        },
        changes: changes.clone(),
        ends: ends.clone(),
        upward,
        free,
        closures: closures.clone(),
        users: users.clone(),
        health: health.clone(),
    };
    let settings = Settings {
        history: Settings::days(file.history_days),
        history_bytes: file.history_bytes,
        jobs: Settings::days(file.jobs_days),
        audit: Settings::days(file.audit_days),
        reserve_bytes: file.journal_reserve_bytes,
        ..Settings::default()
    };
    let thread = machine.start("server", driver, settings)?;
    let (is_short, shown_short) = watch::channel(false);
    let folders = jobs_disk::folders(&host.folder, &file);
    let results_bytes_per_user = jobs_disk::results_bytes_per_user(&file, &folders);
    let (needed_bytes, health_of_disk) = (file.journal_reserve_bytes, health.clone());
    let disk = JobsDisk { folders, needed_bytes, health: health_of_disk, is_short };
    front.tasks.spawn(disk.run(halted.clone()));
    let upkeep = upkeep::Upkeep {
        host: host.clone(),
        archive: archive.clone(),
        mailbox: mailbox.clone(),
        kept: Settings::days(file.results_days),
        results_bytes_per_user,
        results: upkeep::ResultsUsage::default(),
        is_short: shown_short,
        removals: upkeep::Removals::default(),
    };
    front.tasks.spawn(upkeep.run(halted.clone()));
    if let Some(users) = users {
        front.tasks.spawn(users.run(mailbox.clone(), halted.clone()));
    }
    let service = Service {
        gate: front.gate.clone(),
        numbered,
        tls: front.certificates.server.clone(),
        mailbox,
        replies,
        health,
        archive,
        machines: Machines::start(file.name.clone(), file.cluster.clone()),
        offer,
        explorations,
        closures,
        fresh,
        host,
        claims,
        sealing: sealing::Sealing::new(file.cluster.limits.disk_bytes.bytes()),
        denials: crate::denials::Denials::default(),
        changes,
        ends,
        stop: halted,
    };
    let links = links::Service::new(client_tls, file.listen.ip());
    let routes = routes(&front, service, links, file.limits.message_bytes);
    let (address, batch) = (front.address, file.cluster.policy());
    let accounts = as_whom.unwrap_or_else(|| "each job runs as the account of its user".to_owned());
    let disk_bytes = disk_bytes.map_or_else(|| "not limited".to_owned(), |bytes| bytes.to_string());
    tracing::info!(
        name = %file.name, %address, procs = procs.0, batch, accounts, disk_bytes_per_job = disk_bytes, "server ready"
    );
    ready(address);
    front.serve(routes, std::iter::once(thread).chain(requests).collect(), stop).await?;
    comparison.outcome()
}

/// The host that a server's file describes, with its uploads.
async fn host(file: &ServerFile, supervisor: Vec<OsString>, journal: u64) -> Result<Host, DaemonError> {
    let (state, named) = (file.state.clone(), file.accounts().jobs_folder());
    let opened = tokio::task::spawn_blocking(move || jobs_folder::open(&state, named.as_deref(), journal));
    let folder = opened.await.expect("opening does not panic").map_err(unusable("folder of jobs"))?;
    let uploads = folder.join("staging");
    let opened = tokio::task::spawn_blocking(move || Store::open(&uploads, staging::Limits::default()));
    let store = opened.await.expect("opening does not panic").map_err(unusable("staging"))?;
    let mut cluster = file.cluster.clone();
    cluster.limits = cluster.limits.resolved().map_err(unusable("the cgroup of [cluster.limits]"))?;
    if file.cluster.external().is_none() {
        let accounts = file.accounts();
        let of_jobs = if accounts.has_accounts() { accounts.folder() } else { folder.clone() };
        cluster.limits = cluster.limits.with_quota(&of_jobs).map_err(unusable("folder of jobs"))?;
    }
    let pliant = supervisor.first().map(Into::into).unwrap_or_default();
    let (accounts, state) = (file.accounts(), file.state.clone());
    let is_external = file.cluster.external().is_some();
    let (spool, name) = (accounts.folder(), file.name.clone());
    let made = tokio::task::spawn_blocking(move || {
        let (launcher, has_accounts) = (accounts.launcher.clone(), accounts.has_accounts());
        let accounts = Accounts::new(&accounts, pliant)?;
        // A job whose folder is missing counts as one that was never started.
        let accounts = match is_external && has_accounts {
            true => accounts.guarded_by(jobs_folder::guard(&state, &spool, &name, journal)?),
            false => accounts,
        };
        let submitters = match is_external {
            true => Submitters::open(&state.join(SUBMITTERS), launcher, has_accounts)?,
            false => Submitters::default(),
        };
        Ok((accounts, submitters))
    });
    let made: Result<(Accounts, Submitters), std::io::Error> =
        made.await.expect("looking at accounts does not panic");
    let (accounts, submitters) = made.map_err(unusable("accounts"))?;
    Ok(Host {
        server: file.name.clone(),
        // On the file system of the jobs, from whose folders they are renamed.
        data: StoredData::new(&folder, file.stored_data),
        folder,
        cluster,
        store,
        accounts: Arc::new(accounts),
        submitters,
        supervisor,
        residents: pliant_site::processes::Residents::default(),
        runtime: tokio::runtime::Handle::current(),
    })
}

/// What runs jobs and subjobs, and goes on with those that ran when the server went down.
fn resume(
    host: &Arc<Host>,
    machine: &Server,
    boot: &Boot,
    mailbox: &Mailbox<Server>,
    task_ports: &TaskPorts,
) -> Runner<JobObserver> {
    let observer = JobObserver { mailbox: mailbox.clone(), task_ports: task_ports.clone() };
    let runner = Runner::new(host.clone(), observer, None);
    let jobs = machine.running().map(|(_, run, cancelling)| (run, cancelling));
    let subjobs = machine.running_subjobs().map(|(_, run, cancelling)| (run, cancelling));
    for (run, cancelling) in jobs.chain(subjobs) {
        if let Some(execution) = Execution::of_run(host, machine, run)
            && !boot.has_ended(&execution, cancelling, mailbox)
        {
            runner.resume(execution, cancelling);
        }
    }
    runner
}

/// Whether the server can do its work: its journals can be written, its parent is up, its batch system answers.
fn ready_page(
    journal: JournalHealth,
    parent: ParentContact,
    explorations: Option<Explorations>,
    fresh: Option<FreshListings>,
    notes: Vec<String>,
) -> impl Fn() -> Readiness + Send + Sync + 'static {
    move || {
        let mut readiness = notes.iter().fold(readiness(&journal, Some(&parent)), Readiness::noting);
        if let Some(why) = explorations.as_ref().and_then(|explorations| explorations.failure()) {
            readiness = readiness.but("explorations", why);
        }
        match fresh.as_ref().and_then(FreshListings::missing) {
            Some(why) => readiness.but("batch-system", why),
            None => readiness,
        }
    }
}

/// All that is called at a server.
fn routes(front: &Front, service: Service, links: links::Service, message_bytes: usize) -> Routes {
    let parts = SubjobsServer::new(service.clone()).max_decoding_message_size(message_bytes);
    let task_files = TaskFilesServer::new(service.clone());
    let held = HeldSubjobsServer::new(service.clone());
    let service = ServerServer::new(service).max_decoding_message_size(message_bytes);
    transport()
        .add_service(front.guarded(service))
        .add_service(front.guarded(parts))
        .add_service(front.guarded(LinksServer::new(links)))
        .add_service(front.guarded(task_files))
        .add_service(front.guarded(held))
}

/// The server, recovered from its journal; waits while another one leads.
async fn recover(file: &ServerFile, boot: &Boot) -> Result<MachineHost<Server>, DaemonError> {
    let config = machine_config(file)?;
    let wanted = (config.procs, config.policy.clone(), config.host.clone());
    let (again, state, postgres) = (config.clone(), file.state.clone(), file.postgres.clone());
    let owner = change::owner(file);
    let host = MachineHost::recover(
        owner,
        move || match postgres {
            // Waits while another server leads.
            Some(connection) => journal::open_postgres(&connection),
            None => journal::open_sqlite(&state),
        },
        |_, now| Server::new(config, now).expect("the file was checked for the policy's name"),
        |state| Server::from_state(again, state).map_err(|error| error.to_string()),
    )
    .await?;
    let changed = host.machine().configuration().filter(|present| host.is_new() || *present != wanted);
    let host = match changed {
        None => host,
        Some(present) => {
            let (procs, policy, declared) = wanted;
            if !host.is_new() {
                let (before, batch_before) = (present.0.0, present.1);
                tracing::info!(
                    procs = procs.0,
                    batch = policy,
                    before,
                    batch_before,
                    "the cluster was changed"
                );
            }
            // Journaled, so that a replay plans earlier entries as they were planned.
            journal_event(host, Event::Configured { procs, policy, host: declared }).await?
        }
    };
    let priority = file.priority();
    let host = match host.machine().priority().is_none_or(|present| *present == priority) {
        true => host,
        false => journal_event(host, Event::PrioritySettings(Box::new(priority))).await?,
    };
    let host = match boot.is_other() {
        // Again if the server is killed before the boot is noted.
        true => journal_event(host, Event::SkipNumbers).await?,
        false => host,
    };
    let limits = file.waiting_limits();
    match host.machine().waiting_limits() == limits {
        true => Ok(host),
        // Journaled, so that a replay refuses what was refused, and nothing that was accepted.
        false => journal_event(host, Event::WaitingLimits(limits)).await,
    }
}

async fn journal_event(host: MachineHost<Server>, event: Event) -> Result<MachineHost<Server>, DaemonError> {
    let journaled = tokio::task::spawn_blocking(move || host.record(event));
    journaled.await.expect("journaling does not panic")
}

fn machine_config(file: &ServerFile) -> Result<ServerConfig, DaemonError> {
    // The file was checked when it was read; this is for files made in memory.
    Ok(ServerConfig {
        name: file.name.clone(),
        address: file.address(),
        procs: file.cluster.procs(),
        speed: file.cluster.speed().map_err(in_memory)?,
        policy: file.cluster.policy(),
        tuner: file.cluster.tuner().map_err(in_memory)?,
        // Until the journaled ones: a replay refuses nothing that was accepted before there were any.
        waiting: WaitingLimits::of_jobs(u32::MAX),
        host: file.cluster.host().map(Arc::new),
    })
}

/// What the agents know of the server.
fn info(file: &ServerFile, procs: Procs, address: String) -> ServerInfo {
    let mut services = file.catalogue.summaries();
    if file.optional.as_ref().is_some_and(|optional| optional.pause) {
        let summary = "keeps a core of an exploration for `ms` milliseconds and does nothing";
        services.push((explorations::PAUSE.to_owned(), summary.to_owned()));
    }
    ServerInfo {
        name: file.name.clone(),
        address,
        rank: file.rank,
        procs,
        speed: file.cluster.speed().unwrap_or(pliant_model::Speed::REFERENCE),
        policy: file.cluster.policy(),
        services,
        scripts: file.catalogue.takes_scripts(),
        optional_cores: file.optional.as_ref().map_or(0, |optional| optional.cores),
        optional_per_core: file.optional.as_ref().map_or(0, OptionalFile::per_core),
    }
}

fn offer(file: &ServerFile, info: ServerInfo, host: &Host) -> ServiceOffer {
    ServiceOffer {
        info,
        catalogue: Arc::new(file.catalogue.clone()),
        accounts: host.accounts.clone(),
        pliant: host.pliant(),
        grace_s: file.cluster.grace_s,
        shared: Arc::new(file.shared.clone()),
    }
}

fn in_memory((key, message): (&'static str, String)) -> DaemonError {
    DaemonError::Config(crate::config::wrong_value(std::path::Path::new("in memory"), key, message))
}

fn unusable<E: std::error::Error + Send + Sync + 'static>(what: &'static str) -> impl Fn(E) -> DaemonError {
    move |source| DaemonError::State { what, source: Box::new(source) }
}
