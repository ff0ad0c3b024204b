//! The server's side: the supervisors of resident processes, and the turns of calls.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::super::control::{Running, SpawnError};
use super::super::folder::Folder;
use super::super::record::Exit;
use super::super::supervisor::PATH;
use super::outcomes::Outcomes;
use super::{EndedCall, HandedCall, NewCall, RESIDENT, ResidentSpec};

/// The resident processes of a server, by service.
#[derive(Clone, Debug, Default)]
pub struct Residents {
    residents: Arc<Mutex<BTreeMap<String, Arc<Resident>>>>,
    outcomes: Arc<Mutex<Outcomes>>,
}

/// The resident process of a service.
#[derive(Debug)]
struct Resident {
    turn: Arc<Semaphore>,
    supervisor: tokio::sync::Mutex<Option<Supervisor>>,
    outcomes: Arc<Mutex<Outcomes>>,
}

/// A supervisor that was started.
#[derive(Debug)]
struct Supervisor {
    spec: ResidentSpec,
    stdin: ChildStdin,
    waiting: Arc<Mutex<Option<EndOfCall>>>,
}

/// A call that the supervisor carries out.
#[derive(Debug)]
struct EndOfCall {
    /// Its folder, as the supervisor names it.
    path: PathBuf,
    /// The same as the server names it.
    dir: PathBuf,
    /// What waits for its end.
    ended: oneshot::Sender<Option<Exit>>,
}

/// The right to hand the next call to the resident process of a service.
#[derive(Debug)]
pub struct TurnHolder {
    resident: Arc<Resident>,
    permit: OwnedSemaphorePermit,
}

/// A call that was handed over, until its turn is over.
#[derive(Debug)]
pub(in crate::processes) struct ResidentTurn {
    ended: Option<oneshot::Receiver<Option<Exit>>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl ResidentTurn {
    /// Waits until the supervisor is done with the call, or gone; then the next call has its turn. How the call has ended, once, if the
    /// supervisor has recorded that. May be dropped and called again.
    pub(in crate::processes) async fn over(&mut self) -> Option<Exit> {
        // An error means that the supervisor is gone.
        let exit = self.ended.as_mut()?.await.ok().flatten();
        self.ended = None;
        self.permit = None;
        exit
    }
}

impl Residents {
    /// Waits for the turn of a call of a service, behind those that came before. Dropping the future withdraws the call.
    pub async fn turn(&self, service: &str) -> TurnHolder {
        let resident = {
            let mut residents = self.residents.lock();
            let (turn, outcomes) = (|| Arc::new(Semaphore::new(1)), || self.outcomes.clone());
            let new = || {
                let supervisor = tokio::sync::Mutex::default();
                Arc::new(Resident { turn: turn(), supervisor, outcomes: outcomes() })
            };
            residents.entry(service.to_owned()).or_insert_with(new).clone()
        };
        let permit = resident.turn.clone().acquire_owned().await.expect("it is never closed");
        TurnHolder { resident, permit }
    }

    /// The outcome of the call in that folder, if it has ended a moment ago, is short, and was not taken yet.
    pub fn take_outcome(&self, dir: &Path) -> Option<Vec<u8>> {
        self.outcomes.lock().take(dir)
    }
}

impl TurnHolder {
    /// Hands the call in the folder `dir` to the resident process, whose supervisor is started if there is none, in the folder
    /// `home`. `command` is a program and its arguments, to which the folder is added; it must call
    /// [`run_resident`](super::run_resident). The supervisor makes the folder of a `new` call; another one was made by
    /// [`put_call`](super::put_call).
    ///
    /// # Errors
    /// Nothing was started.
    pub async fn hand_over(
        self,
        (command, home): (&[OsString], &Path),
        spec: &ResidentSpec,
        dir: &Path,
        new: Option<NewCall>,
    ) -> Result<Running, SpawnError> {
        let folder = if new.is_some() { Folder::to_be_made(dir)? } else { Folder::at(dir)? };
        let program = command.first().cloned().unwrap_or_default();
        let failed = |source| SpawnError::Supervisor { program: program.clone(), source };
        let path = folder.path().to_owned();
        let handed = HandedCall { dir: path.clone(), new };
        let mut line = serde_json::to_vec(&handed).map_err(|error| failed(error.into()))?;
        line.push(b'\n');
        let mut supervisor = self.resident.supervisor.lock().await;
        // One of an earlier declaration goes: its standard input ends with it.
        if supervisor.as_ref().is_some_and(|running| running.spec != *spec) {
            *supervisor = None;
        }
        let mut has_tried = false;
        loop {
            if supervisor.is_none() {
                *supervisor = Some(start(command, home, spec, &self.resident.outcomes).map_err(failed)?);
                has_tried = true;
            }
            let running = supervisor.as_mut().expect("it was started");
            let (sender, ended) = oneshot::channel();
            let (path, dir) = (path.clone(), dir.to_owned());
            *running.waiting.lock() = Some(EndOfCall { path, dir, ended: sender });
            match running.stdin.write_all(&line).await {
                Ok(()) => {
                    let turn = ResidentTurn { ended: Some(ended), permit: Some(self.permit) };
                    return Ok(Running::of_resident(folder, turn));
                }
                // It has died since its last call.
                Err(error) => {
                    *supervisor = None;
                    if has_tried {
                        return Err(failed(error));
                    }
                }
            }
        }
    }
}

/// Starts a supervisor, within a tokio runtime.
fn start(
    command: &[OsString],
    home: &Path,
    spec: &ResidentSpec,
    outcomes: &Arc<Mutex<Outcomes>>,
) -> io::Result<Supervisor> {
    let [program, arguments @ ..] = command else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the supervisor's command is empty"));
    };
    DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    fs::write(home.join(RESIDENT), serde_json::to_vec(spec)?)?;
    let log = fs::OpenOptions::new().append(true).create(true).open(home.join("supervisor.log"))?;
    let mut command = Command::new(program);
    command.args(arguments).arg(home).current_dir("/");
    command.env_clear().env("PATH", PATH).env("LANG", "C.UTF-8");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn()?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    let (stdin, stdout) = pipes.ok_or_else(|| io::Error::other("no pipes"))?;
    let waiting: Arc<Mutex<Option<EndOfCall>>> = Arc::default();
    tokio::spawn(report_ends(child, stdout, waiting.clone(), outcomes.clone()));
    Ok(Supervisor { spec: spec.clone(), stdin, waiting })
}

/// Reports the ends of calls until the supervisor is gone, and then that of the call that it had.
async fn report_ends(
    mut child: Child,
    stdout: tokio::process::ChildStdout,
    waiting: Arc<Mutex<Option<EndOfCall>>>,
    outcomes: Arc<Mutex<Outcomes>>,
) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(EndedCall { dir, exit, outcome }) = serde_json::from_str(&line) else { continue };
        let Some(call) = waiting.lock().take_if(|call| call.path == dir) else { continue };
        // Before its end is reported, so that who waits for that finds it.
        if let Some(outcome) = outcome {
            outcomes.lock().put(call.dir, outcome.as_bytes().to_vec());
        }
        let _ = call.ended.send(exit);
    }
    let _ = child.wait().await;
    drop(waiting.lock().take());
}
