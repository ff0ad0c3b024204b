//! Requests on their cores: programs under supervisors, and pauses.
//!
//! A program's folder is `requests/EXPLORATION/NUMBER` in the state folder, beside `inputs`, whose files all find in theirs. A request that was ended for a mandatory one
//! runs again later, so its folder is removed before the machine is told that it is gone: whatever a restarted server
//! finds in the folder of a request is of its present run.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::names::Key;
use pliant_control::optional::server::{Event, Exit, Journaled, Process, RequestKey, TimedEvent};
use pliant_model::{SpanMs, TimeMs};
use pliant_policy::optional::RequestId;
use pliant_site::processes::{self, Ending, Lost, ProcessState, Running};
use pliant_staging::{FileSpec, WORK};
use pliant_transport::Clock;
use pliant_wire::Outcome;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::launch::{Launch, Program};
use super::moment;
use super::pauses::Pauses;
use crate::config::ClusterFile;
use crate::host::{Mailbox, stopped};

/// The pause before something is tried again that could not be done.
const AGAIN: Duration = Duration::from_secs(1);

/// The folder of an exploration's input files, among those of its requests.
const INPUTS: &str = "inputs";

/// What runs requests.
#[derive(Clone)]
pub(super) struct Runs {
    /// The folder of the requests' folders.
    pub(super) folder: PathBuf,
    pub(super) cluster: ClusterFile,
    pub(super) first_core: Option<u32>,
    /// What starts a supervisor.
    pub(super) supervisor: Arc<[OsString]>,
    pub(super) mailbox: Mailbox<Journaled>,
    pub(super) clock: Clock,
    pub(super) runtime: Handle,
    pub(super) pauses: Pauses,
    /// How each program is told to end.
    pub(super) stops: Arc<Mutex<HashMap<RequestId, watch::Sender<bool>>>>,
}

/// How a run came to its end.
enum Ended {
    /// As the machine is told.
    So(Exit),
    /// Nobody knows, or nothing was started: it is run again.
    Again(String),
}

impl Runs {
    /// Runs a request, or goes on with one that ran before a restart.
    pub(super) fn run(&self, process: Process, resumed: bool) {
        let program = match process.payload.read() {
            Ok(Launch::Pause(span)) => return self.pause(&process, span),
            Ok(Launch::Program(program)) => program,
            Err(error) => {
                tracing::error!(%error, "a request cannot be run: its note makes no sense");
                return ended(&self.mailbox, &self.clock, process.request, Exit::Failed, None);
            }
        };
        let (stop, stopping) = watch::channel(process.ending);
        self.stops.lock().insert(process.request, stop);
        let own = self.clone();
        self.runtime.spawn(async move {
            let (exit, at) = own.program(&process, &program, resumed, stopping).await;
            own.program_ended(&process, exit, at).await;
        });
    }

    fn pause(&self, process: &Process, span: SpanMs) {
        let until = Duration::from_millis((process.since + span).0.max(0).unsigned_abs());
        self.pauses.begin(process.request, until);
        if process.ending {
            self.pauses.end(process.request);
        }
    }

    /// Ends a request that runs; it is told when it is gone.
    pub(super) fn end(&self, request: RequestId) {
        match self.stops.lock().get(&request) {
            Some(stop) => drop(stop.send_replace(true)),
            None => self.pauses.end(request),
        }
    }

    /// The folder of a request.
    pub(super) fn dir(&self, key: RequestKey) -> PathBuf {
        self.of_exploration(key.exploration).join(key.number.to_string())
    }

    /// The folder of an exploration's requests.
    pub(super) fn of_exploration(&self, exploration: Key) -> PathBuf {
        self.folder.join(exploration.to_string())
    }

    /// Where the files are that all of them find in their folders.
    pub(super) fn inputs_of(&self, exploration: Key) -> PathBuf {
        self.of_exploration(exploration).join(INPUTS)
    }

    async fn program_ended(&self, process: &Process, exit: Exit, at: Option<TimeMs>) {
        self.stops.lock().remove(&process.request);
        if exit == Exit::Killed {
            let dir = self.dir(process.key);
            while let Err(error) = blocking(&dir, |dir| removed(fs::remove_dir_all(dir))).await {
                tracing::error!(%error, dir = %dir.display(), "cannot remove the folder of a request: trying again");
                tokio::time::sleep(AGAIN).await;
            }
        }
        ended(&self.mailbox, &self.clock, process.request, exit, at);
    }

    /// How a program ended, and when if the server was down at that time.
    async fn program(
        &self,
        process: &Process,
        program: &Program,
        resumed: bool,
        stopping: watch::Receiver<bool>,
    ) -> (Exit, Option<TimeMs>) {
        let mut running = if resumed { self.found(process).await } else { Ok(None) };
        loop {
            let ended = match running {
                Ok(Some(running)) => self.followed(running, &stopping).await,
                Err((exit, at)) => return (exit, Some(at)),
                Ok(None) if *stopping.borrow() => Ended::So(Exit::Killed),
                Ok(None) => match self.started(process, program).await {
                    Ok(running) => self.followed(running, &stopping).await,
                    Err(why) => Ended::Again(why),
                },
            };
            let why = match ended {
                Ended::So(exit) => return (exit, None),
                Ended::Again(_) if *stopping.borrow() => return (Exit::Killed, None),
                Ended::Again(why) => why,
            };
            let RequestKey { exploration, number } = process.key;
            tracing::warn!(%exploration, number, why, "a request is run again");
            running = Ok(None);
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// A request that was to run when the server went down: its run, nothing if there is none, or how and when it ended.
    async fn found(&self, process: &Process) -> Result<Option<Running>, (Exit, TimeMs)> {
        let dir = self.dir(process.key);
        loop {
            match blocking(&dir, processes::find).await {
                Ok(ProcessState::Running(running)) => return Ok(Some(running)),
                Ok(ProcessState::NeverStarted | ProcessState::Lost(_)) => return Ok(None),
                Ok(ProcessState::Ended(exit)) => {
                    let at = TimeMs(i64::try_from(exit.ended_unix_ms).unwrap_or(i64::MAX));
                    return Err((exit_of(&exit, process.ending), at));
                }
                Err(error) => tracing::error!(%error, "cannot see what became of a request: looking again"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn started(&self, process: &Process, program: &Program) -> Result<Running, String> {
        let spec = program.spec(process, &self.cluster, self.first_core);
        let (dir, supervisor, runtime) =
            (self.dir(process.key), self.supervisor.clone(), self.runtime.clone());
        let (inputs, files) = (self.inputs_of(process.key.exploration), program.inputs.clone());
        let start = move || {
            // What is left of a run of which nobody knows how it ended.
            removed(fs::remove_dir_all(&dir)).map_err(|error| error.to_string())?;
            spec.write(&dir).map_err(|error| error.to_string())?;
            put_inputs(&files, &inputs.join(WORK), &dir.join(WORK)).map_err(|error| error.to_string())?;
            let _entered = runtime.enter();
            processes::spawn(&supervisor, &dir).map_err(|error| error.to_string())
        };
        tokio::task::spawn_blocking(start).await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Follows a run to its end, which it is asked for if the request is to end.
    async fn followed(&self, mut running: Running, stopping: &watch::Receiver<bool>) -> Ended {
        let mut asked = false;
        loop {
            let ending = tokio::select! {
                ending = running.ended() => ending,
                () = stopped(stopping.clone()), if !asked => {
                    asked = true;
                    let dir = running.dir().to_owned();
                    if let Err(error) = blocking(&dir, processes::terminate).await {
                        tracing::error!(%error, "cannot end a request");
                        asked = false;
                        tokio::time::sleep(AGAIN).await;
                    }
                    continue;
                }
            };
            match ending {
                Ok(Ending::Ended(exit)) => return Ended::So(exit_of(&exit, asked)),
                Ok(Ending::Lost(why)) => return Ended::Again(Lost::to_string(&why)),
                Ok(Ending::NeverStarted(why)) => {
                    return Ended::Again(why.unwrap_or_else(|| "its supervisor gave up".to_owned()));
                }
                // Nothing may be concluded from that.
                Err(error) => {
                    tracing::error!(%error, "cannot see whether a request has ended: looking again")
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Notifies the machine that a request is gone. `at` is when it ended, if that is known and was not just now.
pub(super) fn ended(
    mailbox: &Mailbox<Journaled>,
    clock: &Clock,
    request: RequestId,
    exit: Exit,
    at: Option<TimeMs>,
) {
    let event = Event::Ended { request, exit, at };
    // A server that has stopped finds it when it begins again.
    let _ = mailbox.tell(TimedEvent { at: moment(clock), event });
}

/// What a recorded end means. One that was completed before it heard that it is to end is completed.
fn exit_of(exit: &processes::Exit, ending: bool) -> Exit {
    match exit.outcome {
        Outcome::ExitCode(0) if !exit.cancelled => Exit::Completed,
        _ if ending || exit.cancelled => Exit::Killed,
        Outcome::ExitCode(_) | Outcome::Signal(_) | Outcome::NotStarted(_) => Exit::Failed,
    }
}

/// Gives a request copies of its own: it may write to them.
fn put_inputs(files: &[FileSpec], from: &Path, to: &Path) -> io::Result<()> {
    for file in files {
        let target = to.join(file.name.as_str());
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::copy(from.join(file.name.as_str()), target)?;
    }
    Ok(())
}

/// What is not there was removed before.
pub(super) fn removed(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Does something with a folder, off the threads that serve connections.
pub(super) async fn blocking<A: Send + 'static>(
    dir: &Path,
    act: impl FnOnce(&Path) -> A + Send + 'static,
) -> A {
    let dir = dir.to_owned();
    match tokio::task::spawn_blocking(move || act(&dir)).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is shutting down, and this task with it.
        Err(_) => std::future::pending().await,
    }
}
