//! `pliant demo`: a federation on this machine with real jobs of two users, replayed under other policies. With `--simulate`, a
//! generated month instead.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use pliant_client::ClientFile;
use pliant_client::{Client, SubmissionStep, SubmitOrder};
use pliant_control::agent::DiscoveryResult;
use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::Key;
use pliant_site::accounts::own_user;
use pliant_wire::SubmittedWork;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::{demo_month, demo_replay};
use crate::failure::Failure;
use crate::federation::interrupted;
use crate::local::{self, CLUSTERS, Folder, WorkUnit};
use crate::output::Output;
use crate::table::counted;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Simulates a generated month instead of starting a federation.
    #[arg(long)]
    simulate: bool,
    #[command(flatten)]
    month: demo_month::Arguments,
}

/// The users of the demonstration.
const USERS: [&str; 2] = ["alice", "bob"];
/// Time between two submissions.
const PAUSE: Duration = Duration::from_millis(700);
/// How long events of a second are collected, to be printed in order.
const SETTLE: Duration = Duration::from_millis(150);
/// The exit code of a command that SIGTERM ended.
const TERMINATED: u8 = 128 + 15;
/// The longest duration of the demonstration.
const LONGEST: Duration = Duration::from_secs(110);

/// The submissions: user, service and amount in units of [`WorkUnit`].
const WORK: [(usize, &str, f64); 14] = [
    (0, "pi", 0.9),
    (1, "matrix", 0.8),
    (0, "pi", 0.4),
    (1, "matrix", 1.2),
    (0, "pi", 1.5),
    (0, "pi", 0.3),
    (1, "matrix", 0.5),
    (0, "pi", 1.0),
    (1, "matrix", 0.9),
    (1, "matrix", 0.3),
    (0, "pi", 0.6),
    (1, "matrix", 1.4),
    (0, "pi", 1.2),
    (1, "matrix", 0.4),
];

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    if arguments.simulate {
        return demo_month::run(output, &arguments.month);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::system(format!("cannot start: {error}")))?;
    // From here on the signals end the demonstration in order.
    let signals = {
        let _entered = runtime.enter();
        [SignalKind::interrupt(), SignalKind::terminate()].map(signal)
    };
    let [interrupt, terminate] = signals;
    let mut signals = (interrupt.map_err(Failure::system)?, terminate.map_err(Failure::system)?);
    let scratch = DemoFolder::new()?;
    let folder = Folder::of(Some(&scratch.0))?;
    let guard = FederationGuard { folder: folder.clone() };
    progress("Starting an agent and three servers on this machine ...");
    local::start(&folder, &USERS, "")?;
    for cluster in &CLUSTERS {
        progress(&format!("  {:<9} {} processors of speed {}", cluster.name, cluster.procs, cluster.speed));
    }
    progress(&format!("  jobs run as {}, the user of the servers", own_user()));
    let records = runtime.block_on(play(&folder, &mut signals));
    // Its connections with it.
    drop(runtime);
    let records = records?;
    let stopped = local::stop(&folder)?;
    std::mem::forget(guard);
    progress(&format!("Stopped {} daemons; the federation does not run any more.\n", stopped.daemons));
    demo_replay::run(output, &folder, records)
}

/// Prints progress on standard error.
fn progress(line: &str) {
    let mut err = std::io::stderr().lock();
    // The terminal may be gone.
    let _ = writeln!(err, "{line}");
}

/// The folder of the demonstration, removed at its end.
struct DemoFolder(PathBuf);

impl DemoFolder {
    fn new() -> Result<DemoFolder, Failure> {
        let path = std::env::temp_dir().join(format!("pliant-demo-{}", std::process::id()));
        std::fs::create_dir_all(&path).map_err(|error| Failure::io(&path, "make", &error))?;
        Ok(DemoFolder(path))
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        // A temporary folder may stay.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Stops the federation when it is dropped.
struct FederationGuard {
    folder: Folder,
}

impl Drop for FederationGuard {
    fn drop(&mut self) {
        if let Err(failure) = local::stop(&self.folder) {
            failure.print();
        }
    }
}

/// Submits the work and follows it to its end. Ctrl-C and SIGTERM end it early.
async fn play(folder: &Folder, signals: &mut (Signal, Signal)) -> Result<Vec<JobRecord>, Failure> {
    let ended = || interrupted("interrupted; the federation was stopped", "`pliant demo` starts again");
    let (interrupt, terminate) = signals;
    tokio::select! {
        // Signals that came during the start.
        biased;
        _ = interrupt.recv() => Err(ended()),
        _ = terminate.recv() => Err(ended().code(TERMINATED)),
        records = submit_all(folder) => records,
        () = tokio::time::sleep(LONGEST) => Err(Failure::system(format!(
            "the jobs did not end within {} s: is this machine busy?", LONGEST.as_secs()
        ))),
    }
}

async fn submit_all(folder: &Folder) -> Result<Vec<JobRecord>, Failure> {
    let unit = WorkUnit::read(folder)?;
    let clients = USERS.map(|user| {
        Client::new(&ClientFile::read(&folder.client(user)).map_err(crate::daemon::wrong_file)?)
            .map_err(Failure::from)
    });
    let clients = clients.into_iter().collect::<Result<Vec<Client>, Failure>>()?;
    let mut keys = ChaCha8Rng::from_os_rng();
    let begun = Instant::now();
    let (sender, mut changes) = mpsc::unbounded_channel();
    let total = WORK.len();
    progress(&format!(
        "\n{} submit {total} jobs that really compute; each goes where it completes first, sized for it:\n",
        USERS.join(" and ")
    ));
    let submitting = tokio::spawn({
        let clients = clients.clone();
        async move {
            for (index, (user, service, amount)) in WORK.into_iter().enumerate() {
                let order = order(&mut keys, service, unit.of(service, amount), index);
                let client = clients[user].clone();
                let mut found = None;
                let record = client
                    .submit(&order, |step| {
                        if let SubmissionStep::Compared(compared) = step {
                            found = Some(compared.clone());
                        }
                        Ok(())
                    })
                    .await?;
                progress(&accepted(begun.elapsed(), USERS[user], &record, found.as_ref()));
                tokio::spawn(follow(client, record, sender.clone()));
                tokio::time::sleep(PAUSE).await;
            }
            Ok::<(), pliant_client::ClientError>(())
        }
    });
    let mut records: BTreeMap<_, JobRecord> = BTreeMap::new();
    while let Some(first) = changes.recv().await {
        tokio::time::sleep(SETTLE).await;
        let at = begun.elapsed();
        let mut updates = vec![first];
        updates.extend(std::iter::from_fn(|| changes.try_recv().ok()));
        // Ends before starts of the same second.
        updates.sort_by_key(|record| (record.ended.or(record.started), record.ended.is_none()));
        for record in updates {
            progress(&changed(at, &record));
            if record.state.is_final() {
                records.insert(record.handle.clone(), record);
            }
        }
    }
    submitting.await.map_err(|_| Failure::system("submitting failed"))?.map_err(Failure::from)?;
    if records.len() != total {
        return Err(Failure::system(format!("expected {total} jobs to end, found {}", records.len())));
    }
    Ok(records.into_values().collect())
}

fn order(keys: &mut ChaCha8Rng, service: &str, amount: u64, seed: usize) -> SubmitOrder {
    let mut key = [0; 16];
    keys.fill_bytes(&mut key);
    let argument = if service == "pi" { "samples" } else { "repeat" };
    let arguments = [(argument, amount.to_string()), ("seed", (seed + 1).to_string())]
        .map(|(name, value)| (name.to_owned(), value));
    let what = SubmittedWork::Service { name: service.to_owned(), arguments: arguments.into() };
    SubmitOrder { timeout: Duration::from_secs(30), ..SubmitOrder::new(Key(key), what) }
}

/// Reports each change of a job.
async fn follow(client: Client, accepted: Box<JobRecord>, changes: mpsc::UnboundedSender<JobRecord>) {
    let waited = client.wait(&accepted.handle, |record| {
        if record.state != JobState::Queued {
            // The receiver may be gone.
            let _ = changes.send(record.clone());
        }
    });
    if let Err(error) = waited.await {
        progress(&format!("{}: {error}", accepted.handle));
    }
}

fn accepted(at: Duration, user: &str, record: &JobRecord, found: Option<&DiscoveryResult>) -> String {
    let (own, submitted) = (&record.expected, record.submitted);
    let others: Vec<String> = found
        .iter()
        .flat_map(|found| found.vectors.iter().filter(|one| one.server != record.handle.server))
        .map(|one| format!("{} {} s", one.server, (one.estimate.completion() - submitted).0))
        .collect();
    let others = if others.is_empty() { String::new() } else { format!("; others: {}", others.join(", ")) };
    line(
        at,
        &format!(
            "{user:<5} {:<6} -> {:<12} {}, {} s; done in {} s at the latest{others}",
            record.name,
            record.handle.to_string(),
            counted(own.procs.0.into(), "processor"),
            own.walltime.0,
            (own.completion() - submitted).0,
        ),
        "36",
    )
}

fn changed(at: Duration, record: &JobRecord) -> String {
    let handle = record.handle.to_string();
    match (record.state, record.started, record.ended) {
        (JobState::Active, Some(started), _) => {
            let waited = (started - record.submitted).0;
            line(at, &format!("{:<12} -> {handle:<12} runs, after waiting {waited} s", ""), "33")
        }
        (state, Some(started), Some(ended)) => {
            let exit = record.exit.as_ref().map(ToString::to_string).unwrap_or_default();
            let took = (ended - started).0;
            line(at, &format!("{:<12} -> {handle:<12} {state} ({exit}) after running {took} s", ""), "32")
        }
        (state, ..) => line(at, &format!("{:<12} -> {handle:<12} {state}", ""), "31"),
    }
}

fn line(at: Duration, text: &str, color: &str) -> String {
    let clock = format!("{:>5.1} s", at.as_secs_f64());
    if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()) {
        return format!("{clock}  \x1b[{color}m{text}\x1b[0m");
    }
    format!("{clock}  {text}")
}
