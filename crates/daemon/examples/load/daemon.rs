//! This program as a process of one or more daemons, which end when its standard input does.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use pliant_daemon::agent;
use pliant_daemon::config::{AgentFile, ServerFile};
use pliant_daemon::monitoring::install_metrics;
use pliant_daemon::server;
use pliant_telemetry::{LogFormat, logging};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Outcome;

/// The verb of a process of daemons.
pub(crate) const VERB: &str = "daemons";
/// The verb of a job's supervisor.
pub(crate) const SUPERVISOR: &str = "run-job";
/// The file, beside the first daemon's, that the metrics are written to at the end.
pub(crate) const METRICS: &str = "metrics";

/// Runs the daemons of these files; prints a line with the name and address of each that is ready.
pub(crate) fn run(files: &[String]) -> Outcome<()> {
    // As `pliant agent` and `pliant server` do, which is part of what they cost.
    logging(LogFormat::Text, "info")?;
    let metrics = install_metrics()?;
    let (stop, stopping) = watch::channel(false);
    std::thread::spawn(move || {
        // Ends with the other end of the pipe, whatever became of it.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = stop.send(true);
    });
    let runtime = pliant_daemon::host::runtime()?;
    let ended = runtime.block_on(async {
        let upkeep = metrics.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                upkeep.run_upkeep();
            }
        });
        let mut daemons = JoinSet::new();
        for file in files {
            daemons.spawn(serve(file.into(), stopping.clone()));
        }
        while let Some(ended) = daemons.join_next().await {
            ended??;
        }
        Outcome::Ok(())
    });
    if let Some(folder) = files.first().and_then(|file| Path::new(file).parent()) {
        std::fs::write(folder.join(METRICS), metrics.render())?;
    }
    ended
}

async fn serve(path: OsString, stop: watch::Receiver<bool>) -> Outcome<()> {
    let path = Path::new(&path);
    if path.ends_with("agent.toml") {
        let file = AgentFile::read(path)?;
        let name = file.name.clone();
        return Ok(agent::serve(file, stop, move |address| say(name.as_str(), address)).await?);
    }
    let file = ServerFile::read(path)?;
    let name = file.name.clone();
    let supervisor = vec![std::env::current_exe()?.into_os_string(), SUPERVISOR.into()];
    Ok(server::serve(file, supervisor, stop, move |address| say(name.as_str(), address)).await?)
}

fn say(name: &str, address: std::net::SocketAddr) {
    let mut out = std::io::stdout().lock();
    // The parent process reads this, or it has ended, and then this process ends too.
    let _ = writeln!(out, "{name} {address}").and_then(|()| out.flush());
}
