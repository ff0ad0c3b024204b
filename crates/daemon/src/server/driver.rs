//! What a server's commands mean outside: replies, processes, news.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::batch::{self, Run};
use pliant_control::handoff::MoveOutcome;
use pliant_control::job::{Exit, JobRecord, JobState};
use pliant_control::local::LocalJob;
use pliant_control::server::{Answer, Command, Event, Server};
use pliant_journal::LocalJobRow;
use pliant_model::{JobId, Time};
use pliant_site::processes::{self, Ending, ProcessState, Running};
use pliant_staging::Store;
use pliant_telemetry::names;
use tokio::runtime::Handle;
use tokio::sync::broadcast;

use super::cluster::Cluster;
use super::launch::{Host, Launch, PrepareError};
use super::others::PeerServers;
use super::packs;
use super::parts::{Parts, Places, ends};
use super::what::Execution;
use crate::host::{Driver, DurableRecord, Mailbox, Replies, json, observe_accuracy, row};
use crate::uplink::Upward;

/// The pause before a job is looked for again that could not be looked for.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The pause before a job is started again that could not be started for want of something.
const START_AGAIN: Duration = Duration::from_secs(1);

/// Runs jobs as processes of this host.
#[derive(Clone)]
pub(super) struct Processes {
    pub(super) host: Host,
    pub(super) store: Store,
    /// What starts a supervisor.
    pub(super) supervisor: Arc<[OsString]>,
    pub(super) mailbox: Mailbox<Server>,
    pub(super) runtime: Handle,
    /// The ports of parts of launches, until these start.
    pub(super) places: Places,
    /// Jobs that were asked to end.
    pub(super) cancelled: Arc<Mutex<BTreeSet<JobId>>>,
}

/// Why a job was not started.
enum NotStarted {
    /// That does not change.
    Lasting(Exit),
    /// It may work later.
    Passing(String),
}

impl NotStarted {
    /// With the reason for the log, and the one for the job's owner.
    fn new(error: &dyn std::error::Error, told: String, is_transient: bool) -> NotStarted {
        if is_transient {
            return NotStarted::Passing(error.to_string());
        }
        tracing::warn!(%error, "a job cannot be started");
        NotStarted::Lasting(Exit::NotStarted(told))
    }
}

impl From<PrepareError> for NotStarted {
    fn from(error: PrepareError) -> NotStarted {
        NotStarted::new(&error, error.told(), error.may_pass())
    }
}

impl Processes {
    /// Runs a job that was never started.
    pub(super) fn run(&self, what: Execution, run: Run) {
        let own = self.clone();
        self.runtime.spawn(async move {
            let ended = match own.started(what.clone(), &run).await {
                Ok(running) => own.follow(&what, run.job, running).await,
                Err(exit) => (exit, None),
            };
            own.ended(&what, run.job, ended).await;
        });
    }

    /// Starts a job as soon as there is what it takes to start one.
    async fn started(&self, what: Execution, run: &Run) -> Result<Running, Exit> {
        let internal = |_| Exit::NotStarted("internal error, the server's log says more".to_owned());
        let what = what.read().map_err(|error| Exit::NotStarted(error.told()))?;
        tracing::info!(
            job = %what, request = %what.request(), procs = run.procs.0, cores = run.cores.len(), "run"
        );
        let what = Arc::new((what, run.clone()));
        let mut warned = false;
        loop {
            let (own, there) = (self.clone(), what.clone());
            let started = tokio::task::spawn_blocking(move || own.start(&there.0, &there.1));
            match started.await.map_err(internal)? {
                Ok(running) => return Ok(running),
                Err(NotStarted::Lasting(exit)) => return Err(exit),
                Err(NotStarted::Passing(reason)) if !warned => {
                    tracing::warn!(job = %what.0, reason, "cannot be started at the moment: tried again until it can");
                    warned = true;
                }
                Err(NotStarted::Passing(_)) => {}
            }
            tokio::time::sleep(START_AGAIN).await;
        }
    }

    fn start(&self, what: &Execution<Launch>, run: &Run) -> Result<Running, NotStarted> {
        let cancelled = || self.cancelled.lock().contains(&run.job);
        if cancelled() {
            return Err(NotStarted::Lasting(Exit::Cancelled));
        }
        let dir = what.prepare(&self.host, &self.store, run, &[])?;
        if cancelled() {
            return Err(NotStarted::Lasting(Exit::Cancelled));
        }
        if let Some(part) = what.part() {
            self.places.free(&part.part.id);
        }
        let _entered = self.runtime.enter();
        let running = processes::spawn(&self.supervisor, &dir);
        let running = running.map_err(|error| NotStarted::new(&error, error.told(), error.may_pass()))?;
        // Asked for while the folder was made.
        if cancelled() {
            end(&dir);
        }
        Ok(running)
    }

    /// Finds a job that ran when the server went down, and goes on with it.
    pub(super) fn resume(&self, what: Execution, run: Run, cancelling: bool) {
        let own = self.clone();
        self.runtime.spawn(async move {
            let (job, dir) = (run.job, what.dir(&own.host));
            if cancelling {
                own.cancelled.lock().insert(job);
            }
            let found = look(&dir, cancelling).await;
            tracing::info!(job = %what, found = found_word(&found), "found after a restart");
            let ended = match found {
                ProcessState::NeverStarted if cancelling => (Exit::Cancelled, None),
                ProcessState::NeverStarted => return own.run(what, run),
                ProcessState::Running(running) => own.follow(&what, job, running).await,
                ProcessState::Ended(exit) => end_of(exit),
                ProcessState::Lost(why) => (Exit::Lost(why.to_string()), None),
            };
            own.ended(&what, job, ended).await;
        });
    }

    /// Waits for the end of a job. Of a part the ends of its tasks are told meanwhile.
    async fn follow(&self, what: &Execution, job: JobId, running: Running) -> (Exit, Option<u64>) {
        let Some(part) = what.part() else { return self.end_of_running(job, running).await };
        let tasks = ends::follow(self.mailbox.clone(), what.dir(&self.host), part.part.id.clone());
        let tasks = self.runtime.spawn(tasks);
        let ended = self.end_of_running(job, running).await;
        tasks.abort();
        ended
    }

    async fn end_of_running(&self, job: JobId, mut running: Running) -> (Exit, Option<u64>) {
        loop {
            match running.ended().await {
                Ok(Ending::Ended(exit)) => return end_of(exit),
                Ok(Ending::Lost(why)) => return (Exit::Lost(why.to_string()), None),
                // It could record nothing before it had started something.
                Ok(Ending::NeverStarted(_)) if self.cancelled.lock().contains(&job) => {
                    return (Exit::Cancelled, None);
                }
                Ok(Ending::NeverStarted(why)) => {
                    let why = why.map(|why| complaint(&why, running.dir()));
                    let why = why.unwrap_or_else(|| "its supervisor gave up without a word".to_owned());
                    return (Exit::NotStarted(why), None);
                }
                // Nothing may be concluded from that, least of all that the job has ended.
                Err(error) => tracing::error!(%error, "cannot see whether a job has ended: looking again"),
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Ends a running job.
    fn terminate(&self, job: JobId, dir: PathBuf) {
        self.cancelled.lock().insert(job);
        // A folder that is not there yet is being made: whoever makes it looks at the list afterwards.
        self.runtime.spawn_blocking(move || end(&dir));
    }

    /// A job waits elsewhere now: its files are of no use here any more.
    fn left(&self, record: &JobRecord) {
        let (store, owner, key) = (self.store.clone(), record.owner.clone(), record.key);
        self.runtime.spawn_blocking(move || {
            if let Err(error) = store.abandon(&owner, key) {
                tracing::warn!(%error, "cannot remove the files of a job that was moved");
            }
        });
    }

    async fn ended(&self, what: &Execution, job: JobId, (exit, elapsed_ms): (Exit, Option<u64>)) {
        self.cancelled.lock().remove(&job);
        if let Some(part) = what.part() {
            ends::tell(&self.mailbox, &what.dir(&self.host), &part.part.id).await;
        } else {
            packs::tell(&self.mailbox, what.dir(&self.host), job).await;
        }
        // A server that has stopped finds out when it starts again.
        let _ = self.mailbox.tell(Event::Batch(batch::Event::Ended { job, exit, elapsed_ms }));
    }
}

/// Asks a job's supervisor for its end, if there is one.
fn end(dir: &Path) {
    if !dir.exists() {
        return;
    }
    if let Err(error) = processes::terminate(dir) {
        tracing::error!(%error, dir = %dir.display(), "cannot end a job");
    }
}

/// What became of a job, once that can be seen.
async fn look(dir: &Path, cancelling: bool) -> ProcessState {
    loop {
        let dir = dir.to_owned();
        let found = tokio::task::spawn_blocking(move || {
            if cancelling {
                end(&dir);
            }
            processes::find(&dir)
        });
        match found.await {
            Ok(Ok(found)) => return found,
            // Nothing may be concluded from that, least of all that the job may be started.
            Ok(Err(error)) => tracing::error!(%error, "cannot see what became of a job: looking again"),
            Err(error) => tracing::error!(%error, "looking for a job failed: looking again"),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn found_word(found: &ProcessState) -> &'static str {
    match found {
        ProcessState::NeverStarted => "never started",
        ProcessState::Running(_) => "running",
        ProcessState::Ended(_) => "ended",
        ProcessState::Lost(_) => "lost",
    }
}

/// What a supervisor complained of, for the owner of the job: without the place of its folder on this host.
pub(super) fn complaint(line: &str, dir: &Path) -> String {
    let within = format!("{}/", dir.display());
    line.trim_start_matches("error: ").replace(&within, "").replace(&*dir.to_string_lossy(), "its folder")
}

/// How a process ended, as the federation tells it, and how long it ran.
pub(super) fn end_of(found: processes::Exit) -> (Exit, Option<u64>) {
    let exit = match found.outcome {
        _ if found.cancelled => Exit::Cancelled,
        _ if found.over_walltime => Exit::OverWalltime,
        outcome => exit_of(outcome),
    };
    let has_run = !matches!(exit, Exit::NotStarted(_));
    (exit, has_run.then_some(found.elapsed_ms))
}

/// How a process ended by itself, as the federation tells it.
pub(super) fn exit_of(outcome: pliant_wire::Outcome) -> Exit {
    match outcome {
        pliant_wire::Outcome::NotStarted(why) => Exit::NotStarted(why),
        pliant_wire::Outcome::ExitCode(code) => Exit::Code(code),
        pliant_wire::Outcome::Signal(signal) => Exit::Signal(signal),
    }
}

/// Carries out what a server wants done.
pub(super) struct ServerDriver {
    pub(super) replies: Replies<Answer>,
    pub(super) processes: Processes,
    /// The batch system, if it is not the embedded one.
    pub(super) cluster: Option<Cluster>,
    pub(super) others: PeerServers,
    pub(super) parts: Parts,
    pub(super) changes: broadcast::Sender<Arc<JobRecord>>,
    pub(super) upward: Upward,
}

impl Driver<Server> for ServerDriver {
    fn keeps(&mut self, command: &Command) -> DurableRecord {
        match command {
            Command::Tell(record) => DurableRecord::StatusUpdate(json(record)),
            Command::Archive(record) => DurableRecord::Ended(Box::new(row(record))),
            Command::KeepLocal(job) => DurableRecord::Local(local_row(job)),
            _ => DurableRecord::Nothing,
        }
    }

    fn carry_out(&mut self, machine: &Server, _now: Time, command: Command, notice: Option<u64>) {
        match command {
            Command::Reply { to, answer } => {
                count(&answer);
                self.replies.answer(to, answer);
            }
            Command::Batch(batch::Command::Run(run)) => {
                if let Some(what) = Execution::of(machine, run.job.0) {
                    self.processes.run(what, run);
                }
            }
            Command::Batch(batch::Command::Terminate { job }) => {
                if let Some(what) = Execution::of(machine, job.0) {
                    self.processes.terminate(job, what.dir(&self.processes.host));
                }
            }
            Command::Batch(batch::Command::Foreign(command)) => {
                if let Some(cluster) = &self.cluster {
                    cluster.carry_out(machine, command);
                }
            }
            Command::Call { to, id, call } => self.others.call(to, id, call),
            Command::Tell(record) => {
                if let Some(sequence) = notice {
                    self.upward.news(sequence);
                }
                // Nobody need be watching.
                let _ = self.changes.send(Arc::from(record));
            }
            Command::Part(command) => self.parts.carry_out(machine, command),
            Command::KeepLocal(_) => {}
            Command::Freed => self.upward.freed(),
            Command::Archive(record) => {
                if record.server() == machine.name() {
                    observe_accuracy(&record);
                } else {
                    metrics::counter!(names::JOBS_MOVED).increment(1);
                    self.processes.left(&record);
                }
            }
        }
    }

    fn committed(&mut self, machine: &Server) {
        let usage = machine.usage();
        metrics::gauge!(names::QUEUE_LENGTH).set(f64::from(usage.waiting));
        metrics::gauge!(names::FREE_PROCS).set(f64::from(usage.free.0));
        for (state, count) in [(JobState::Queued, usage.waiting), (JobState::Active, usage.running)] {
            metrics::gauge!(names::JOBS, "state" => state.word()).set(f64::from(count));
        }
    }
}

/// The row of a run of a local user's job.
fn local_row(job: &LocalJob) -> LocalJobRow {
    let record = serde_json::to_string(job).expect("local jobs are plain data with text keys");
    LocalJobRow { ended: job.ended.unwrap_or(job.submitted).0, record }
}

fn count(answer: &Answer) {
    match answer {
        Answer::Accepted(_) => metrics::counter!(names::SUBMISSIONS_ACCEPTED).increment(1),
        Answer::Refused(refused) => {
            metrics::counter!(names::SUBMISSIONS_REFUSED, "reason" => refused.word()).increment(1);
        }
        Answer::Order(MoveOutcome::Stays(why)) => {
            metrics::counter!(names::MOVES_REFUSED, "reason" => why.word()).increment(1);
        }
        Answer::Known(_)
        | Answer::Cancelling(_)
        | Answer::Elsewhere(_)
        | Answer::Handoff(_)
        | Answer::Verdict(_)
        | Answer::Part(_)
        | Answer::Order(MoveOutcome::Moved(_) | MoveOutcome::Copied(_))
        | Answer::NoSuchJob => {}
    }
}
