//! Starting and stopping the daemons of a local federation.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pliant_client::Client;
use pliant_client::ClientFile;
use pliant_request::local_federation::{self, is_running, started_ticks};
use pliant_site::processes as jobs;
use rustix::process::{Pid, Signal, kill_process};

use super::files::{Ports, add_users, declared, is_ours, known, write_all};
use super::{CLUSTERS, Daemon, Federation, Folder};
use crate::failure::Failure;

/// How long a daemon may take to be ready.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// How long a daemon may take to stop once it was asked to.
const STOPS_WITHIN: Duration = Duration::from_secs(10);
/// The polling interval.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The stopped daemons and jobs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct StopReport {
    /// How many daemons were stopped.
    pub(crate) daemons: usize,
    /// How many running jobs were ended.
    pub(crate) jobs: usize,
}

/// The federation of a folder, if any of its daemons runs.
pub(crate) fn running(folder: &Folder) -> Result<Option<Federation>, Failure> {
    Ok(local_federation::running(folder.path())?)
}

/// The result of `pliant up`.
pub(crate) struct StartReport {
    /// The running federation.
    pub(crate) federation: Federation,
    /// Names of the daemons that were started; the others ran.
    pub(crate) started: Vec<String>,
}

/// Starts the daemons of a federation that do not run. Each of `users` has a client file afterwards. `services` is a file of
/// further services, for a federation without a running daemon.
///
/// # Errors
///
/// If the folder belongs to something else, or a daemon does not start.
pub(crate) fn bring_up(
    folder: &Folder,
    users: &[&str],
    services: Option<&Path>,
) -> Result<StartReport, Failure> {
    let path = folder.path();
    let other = match (path.exists(), path.is_dir()) {
        (true, false) => Some("a file"),
        (true, true) if !is_ours(folder)? => Some("other files"),
        _ => None,
    };
    if let Some(found) = other {
        let expected = "expected a new or empty folder, or one that `pliant up` made";
        return Err(Failure::input(format!("{}: {expected}, found {found}", path.display()))
            .hint("choose another folder with --dir; this one is not changed"));
    }
    let Some(mut federation) = running(folder)? else {
        let services = services.map_or(Ok(String::new()), declared)?;
        let federation = start(folder, users, &services)?;
        let started = federation.daemons.iter().map(|daemon| daemon.name.clone()).collect();
        return Ok(StartReport { federation, started });
    };
    if services.is_some() {
        let message = "--services: expected a federation that does not run, found one that does";
        return Err(Failure::input(message).hint("`pliant down` stops it"));
    }
    add_users(folder, users)?;
    let mut started = Vec::new();
    for (verb, name, ports) in known(folder)? {
        if federation.daemons.iter().any(|daemon| daemon.name == name && is_running(daemon)) {
            continue;
        }
        let again =
            |failure: Failure| failure.hint("`pliant down` stops the others; `pliant up` then starts all");
        let daemon = launch(folder, verb, name, &ports).map_err(again)?;
        federation.daemons.retain(|daemon| daemon.name != name);
        federation.daemons.push(daemon);
        write(folder, &federation)?;
        started.push(name.to_owned());
    }
    if !started.is_empty() {
        attached(folder)?;
    }
    Ok(StartReport { federation, started })
}

/// Starts a federation in a folder, with clients for `users` and the operator. `services` are further tables of a server's
/// file.
pub(crate) fn start(folder: &Folder, users: &[&str], services: &str) -> Result<Federation, Failure> {
    let mut federation = Federation { daemons: Vec::new() };
    for (verb, name, ports) in write_all(folder, users, services)? {
        match launch(folder, verb, name, &ports) {
            Ok(daemon) => federation.daemons.push(daemon),
            Err(failure) => {
                write(folder, &federation)?;
                // Daemons that cannot be stopped stay in the record for `pliant down`.
                stop(folder)?;
                return Err(failure);
            }
        }
        write(folder, &federation)?;
    }
    attached(folder)?;
    Ok(federation)
}

/// Waits until the agent knows every server.
fn attached(folder: &Folder) -> Result<(), Failure> {
    let file = ClientFile::read(&folder.own_client()).map_err(crate::daemon::wrong_file)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let client = Client::new(&file)?;
        let deadline = Instant::now() + STARTS_WITHIN;
        loop {
            let known = client.servers().await?.servers.iter().filter(|server| server.attached).count();
            if known == CLUSTERS.len() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let expected = CLUSTERS.len();
                return Err(Failure::system(format!(
                    "expected {expected} servers at the agent, found {known}"
                ))
                .hint(format!("their logs are in {}", folder.path().display())));
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    })
}

fn launch(folder: &Folder, verb: &str, name: &str, ports: &Ports) -> Result<Daemon, Failure> {
    let own = folder.daemon(name);
    let program = std::env::current_exe()
        .map_err(|error| Failure::system(format!("no path to this program: {error}")))?;
    let (log, ready) = (own.join("log"), own.join("ready"));
    let output = File::create(&log).map_err(|error| Failure::io(&log, "write", &error))?;
    if ready.exists() {
        fs::remove_file(&ready).map_err(|error| Failure::io(&ready, "remove", &error))?;
    }
    let mut child = Command::new(&program)
        .arg(verb)
        .arg("--config")
        .arg(own.join(format!("{verb}.toml")))
        .arg("--ready-file")
        .arg(&ready)
        .args(as_root(verb))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        // Ctrl-C in the terminal must not reach it.
        .process_group(0)
        .current_dir("/")
        .spawn()
        .map_err(|error| Failure::io(&program, "start", &error))?;
    let deadline = Instant::now() + STARTS_WITHIN;
    while !ready.exists() {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(not_started(&format!("{verb} {name} ended at once ({status})"), &log));
        }
        if Instant::now() > deadline {
            // The child has done nothing yet.
            let _ = child.kill();
            let _ = child.wait();
            let within = STARTS_WITHIN.as_secs();
            return Err(not_started(&format!("{verb} {name} was not ready within {within} s"), &log));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let pid = child.id() as i32;
    let started_ticks = started_ticks(pid).unwrap_or_default();
    let Ports { address, http } = ports.clone();
    Ok(Daemon { name: name.to_owned(), verb: verb.to_owned(), pid, started_ticks, address, http })
}

/// A federation of one user on one machine runs as that user, also if that is root.
fn as_root(verb: &str) -> Option<&'static str> {
    (verb == "server" && rustix::process::geteuid().is_root()).then_some("--allow-root")
}

/// Stops the daemons of a folder and ends their jobs; nothing runs afterwards.
pub(crate) fn stop(folder: &Folder) -> Result<StopReport, Failure> {
    let mut stopped = StopReport::default();
    let Some(federation) = read(folder)? else { return Ok(stopped) };
    // Servers first, so that nothing is started any more.
    let (agents, servers): (Vec<Daemon>, Vec<Daemon>) =
        federation.daemons.into_iter().partition(|daemon| daemon.verb == "agent");
    for daemons in [servers, agents] {
        stopped.daemons += stop_daemons(&daemons);
    }
    for cluster in &CLUSTERS {
        let state = folder.daemon(cluster.name).join("state");
        stopped.jobs += end_jobs(&state.join("jobs"))?;
        for exploration in fs::read_dir(state.join("requests")).into_iter().flatten().flatten() {
            stopped.jobs += end_jobs(&exploration.path())?;
        }
    }
    let record = folder.record();
    fs::remove_file(&record).map_err(|error| Failure::io(&record, "remove", &error))?;
    Ok(stopped)
}

fn stop_daemons(daemons: &[Daemon]) -> usize {
    let running: Vec<&Daemon> = daemons.iter().filter(|daemon| is_running(daemon)).collect();
    for daemon in &running {
        signal(daemon, Signal::TERM);
    }
    let deadline = Instant::now() + STOPS_WITHIN;
    for daemon in &running {
        while is_running(daemon) {
            if Instant::now() > deadline {
                signal(daemon, Signal::KILL);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    running.len()
}

/// Ends what still runs of a server's jobs.
fn end_jobs(dir: &Path) -> Result<usize, Failure> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(0) };
    let failed = |error| Failure::system(format!("cannot end a job: {error}"));
    let mut asked = Vec::new();
    for entry in entries.flatten() {
        let dir = entry.path();
        if let jobs::ProcessState::Running(_) = jobs::find(&dir).map_err(failed)? {
            jobs::terminate(&dir).map_err(failed)?;
            asked.push(dir);
        }
    }
    for dir in &asked {
        while let jobs::ProcessState::Running(_) = jobs::find(dir).map_err(failed)? {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    Ok(asked.len())
}

fn signal(daemon: &Daemon, signal: Signal) {
    if is_running(daemon)
        && let Some(pid) = Pid::from_raw(daemon.pid)
    {
        // It may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

/// The failure of a daemon that did not start, with the error at the end of its log, and the hint of that error.
fn not_started(problem: &str, log: &Path) -> Failure {
    let text = fs::read_to_string(log).unwrap_or_default();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).rev();
    let last = lines.next().unwrap_or_default();
    let (error, hint) = match last.strip_prefix("hint: ") {
        Some(hint) => (lines.next().unwrap_or_default(), hint.to_owned()),
        None => (last, format!("{} is its log", log.display())),
    };
    let error = error.strip_prefix("error: ").unwrap_or(error);
    let separator = if error.is_empty() { "" } else { ": " };
    Failure::system(format!("{problem}{separator}{error}")).hint(hint)
}

fn read(folder: &Folder) -> Result<Option<Federation>, Failure> {
    Ok(local_federation::read(folder.path())?)
}

fn write(folder: &Folder, federation: &Federation) -> Result<(), Failure> {
    let path = folder.record();
    let text = serde_json::to_string_pretty(federation).map_err(Failure::system)?;
    fs::write(&path, text + "\n").map_err(|error| Failure::io(&path, "write", &error))
}
