//! Logs, signals and exit codes of daemons.

use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pliant_config::ConfigError;
use pliant_control::names::Name;
use pliant_control::server::ChangeEffect;
use pliant_daemon::host::{DaemonError, certificate_warnings};
use pliant_daemon::server::ClusterChange;
use pliant_site::processes::keep_descriptors;
use pliant_telemetry::{LogFormat, logging};
use pliant_transport::{Credentials, Role};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::failure::Failure;
use crate::output::Output;

/// How long threads have to end.
const LEAVE: Duration = Duration::from_secs(2);

/// The options of every daemon.
#[derive(Args)]
pub(crate) struct Options {
    /// The daemon's file.
    #[arg(long, value_name = "FILE", required_unless_present = "check")]
    config: Option<PathBuf>,
    /// Checks a daemon's file, and ends.
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    check: Option<PathBuf>,
    /// The form of log lines: text for people, json for machines.
    #[arg(long, value_name = "FORM", default_value = "text")]
    log: LogFormat,
    /// The log level: error, warn, info, debug, trace, or a filter like `info,pliant_daemon=debug`.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Writes the address of the daemon to this file once it accepts calls.
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

/// What a check of a daemon's file finds beyond the file itself.
#[derive(Default)]
pub(crate) struct Findings {
    /// What the operator should know before a start.
    pub(crate) warnings: Vec<String>,
    /// The change from the daemon's journal to the file.
    pub(crate) change: Option<ClusterChange>,
}

/// Reads the daemon's file with `read`. None if it was only to be checked: then the result is printed, with warnings about the certificate
/// and what `look` finds.
pub(crate) fn configured<F>(
    output: Output,
    options: &Options,
    read: impl FnOnce(&Path) -> Result<F, ConfigError>,
    certificate: impl FnOnce(&F) -> (&Credentials, Role, &Name),
    look: impl FnOnce(&F) -> Result<Findings, Failure>,
) -> Result<Option<F>, Failure> {
    let Some(path) = options.config.as_ref().or(options.check.as_ref()) else {
        return Err(Failure::input("expected --config FILE or --check FILE, found neither"));
    };
    let file = read(path).map_err(wrong_file)?;
    if options.check.is_none() {
        return Ok(Some(file));
    }
    let (tls, role, name) = certificate(&file);
    let mut warnings = certificate_warnings(tls, role, name);
    let Findings { warnings: further, change } = look(&file)?;
    warnings.extend(further);
    for warning in &warnings {
        Failure::input(format!("{}: {warning}", path.display())).warn();
    }
    output.print(
        "check",
        || {
            let change = change.as_ref().map_or_else(String::new, |change| format!("{change}\n"));
            format!("{} is valid\n{change}", path.display())
        },
        json!({
            "file": path, "valid": true, "warnings": warnings, "change": change.as_ref().map(change_document),
        }),
    )?;
    Ok(None)
}

fn change_document(change: &ClusterChange) -> Value {
    let ClusterChange { procs, batch, priority, nodes, effect } = change;
    let ChangeEffect { running, waiting, later, earlier, too_large } = *effect;
    json!({
        "procs_before": procs.0.0, "procs": procs.1.0, "batch_before": batch.0, "batch": batch.1,
        "priority_changed": priority, "node_changed": nodes,
        "running": running, "waiting": waiting, "later": later, "earlier": earlier, "too_large": too_large,
    })
}

/// What runs a daemon's tasks.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    pliant_daemon::host::runtime().map_err(|error| Failure::system(format!("cannot start threads: {error}")))
}

/// Runs a daemon until SIGTERM or SIGINT.
pub(crate) fn run<F>(
    options: &Options,
    serve: impl FnOnce(watch::Receiver<bool>, Box<dyn FnOnce(SocketAddr) + Send>) -> F,
) -> Result<(), Failure>
where
    F: Future<Output = Result<(), DaemonError>>,
{
    logging(options.log, &options.log_level).map_err(|error| {
        let failure = Failure::input(&error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    keep_descriptors().map_err(|error| {
        Failure::system(format!("cannot list open descriptors in /proc/self/fd: {error}"))
    })?;
    let runtime = runtime()?;
    let ready_file = options.ready_file.clone();
    let ended = runtime.block_on(async {
        let (stop, stopping) = watch::channel(false);
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::system)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::system)?;
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            // The daemon may have ended by itself.
            let _ = stop.send(true);
        });
        let ready = Box::new(move |address: SocketAddr| {
            let Some(path) = ready_file else { return };
            if let Err(error) = write_ready(&path, address) {
                tracing::error!(path = %path.display(), %error, "cannot write the ready file");
            }
        });
        serve(stopping, ready).await.map_err(failed)
    });
    // A thread of a standby agent may still wait for the journal.
    runtime.shutdown_timeout(LEAVE);
    ended
}

/// Atomic, since another process waits for the file.
fn write_ready(path: &Path, address: SocketAddr) -> std::io::Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, format!("{address}\n"))?;
    std::fs::rename(partial, path)
}

/// A wrong configuration ends with code 2, so that service managers do not restart the daemon.
pub(crate) fn failed(error: DaemonError) -> Failure {
    let failure = if error.is_input() { Failure::input(&error) } else { Failure::system(&error) };
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A file of a daemon or a client that cannot be used.
pub(crate) fn wrong_file(error: ConfigError) -> Failure {
    failed(DaemonError::Config(error))
}
