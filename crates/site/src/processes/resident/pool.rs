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
use super::super::supervisor::PATH;
use super::{RESIDENT, ResidentSpec};

/// The resident processes of a server, by service.
#[derive(Clone, Debug, Default)]
pub struct Residents {
    residents: Arc<Mutex<BTreeMap<String, Arc<Resident>>>>,
}

/// The resident process of a service.
#[derive(Debug)]
struct Resident {
    turn: Arc<Semaphore>,
    supervisor: tokio::sync::Mutex<Option<Supervisor>>,
}

/// A supervisor that was started.
#[derive(Debug)]
struct Supervisor {
    spec: ResidentSpec,
    stdin: ChildStdin,
    waiting: Arc<Mutex<Option<EndOfCall>>>,
}

/// A call that the supervisor carries out: its folder, and what waits for its end.
type EndOfCall = (PathBuf, oneshot::Sender<()>);

/// The right to hand the next call to the resident process of a service.
#[derive(Debug)]
pub struct TurnHolder {
    resident: Arc<Resident>,
    permit: OwnedSemaphorePermit,
}

/// A call that was handed over, until its turn is over.
#[derive(Debug)]
pub(in crate::processes) struct ResidentTurn {
    ended: Option<oneshot::Receiver<()>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl ResidentTurn {
    /// Waits until the supervisor is done with the call, or gone; then the next call has its turn. May be dropped and called again.
    pub(in crate::processes) async fn over(&mut self) {
        if let Some(ended) = &mut self.ended {
            // An error means that the supervisor is gone.
            let _ = ended.await;
            self.ended = None;
            self.permit = None;
        }
    }
}

impl Residents {
    /// Waits for the turn of a call of a service, behind those that came before. Dropping the future withdraws the call.
    pub async fn turn(&self, service: &str) -> TurnHolder {
        let resident = {
            let mut residents = self.residents.lock();
            let new =
                || Arc::new(Resident { turn: Arc::new(Semaphore::new(1)), supervisor: Default::default() });
            residents.entry(service.to_owned()).or_insert_with(new).clone()
        };
        let permit = resident.turn.clone().acquire_owned().await.expect("it is never closed");
        TurnHolder { resident, permit }
    }
}

impl TurnHolder {
    /// Hands the call in the folder `dir` to the resident process, whose supervisor is started if there is none, in the folder
    /// `home`. `command` is a program and its arguments, to which the folder is added; it must call
    /// [`run_resident`](super::run_resident).
    ///
    /// # Errors
    /// Nothing was started.
    pub async fn hand_over(
        self,
        (command, home): (&[OsString], &Path),
        spec: &ResidentSpec,
        dir: &Path,
    ) -> Result<Running, SpawnError> {
        let folder = Folder::at(dir)?;
        let program = command.first().cloned().unwrap_or_default();
        let failed = |source| SpawnError::Supervisor { program: program.clone(), source };
        let path = folder.path().to_owned();
        if path.as_os_str().as_encoded_bytes().contains(&b'\n') {
            return Err(failed(io::Error::other("the folder of the call has a line break in its name")));
        }
        let mut line = path.as_os_str().as_encoded_bytes().to_vec();
        line.push(b'\n');
        let mut supervisor = self.resident.supervisor.lock().await;
        // One of an earlier declaration goes: its standard input ends with it.
        if supervisor.as_ref().is_some_and(|running| running.spec != *spec) {
            *supervisor = None;
        }
        let mut has_tried = false;
        loop {
            if supervisor.is_none() {
                *supervisor = Some(start(command, home, spec).map_err(failed)?);
                has_tried = true;
            }
            let running = supervisor.as_mut().expect("it was started");
            let (sender, ended) = oneshot::channel();
            *running.waiting.lock() = Some((path.clone(), sender));
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
fn start(command: &[OsString], home: &Path, spec: &ResidentSpec) -> io::Result<Supervisor> {
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
    tokio::spawn(report_ends(child, stdout, waiting.clone()));
    Ok(Supervisor { spec: spec.clone(), stdin, waiting })
}

/// Reports the ends of calls until the supervisor is gone, and then that of the call that it had.
async fn report_ends(
    mut child: Child,
    stdout: tokio::process::ChildStdout,
    waiting: Arc<Mutex<Option<EndOfCall>>>,
) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let ended = {
            let mut waiting = waiting.lock();
            let is_its = waiting.as_ref().is_some_and(|(dir, _)| dir.as_os_str() == line.as_str());
            waiting.take_if(|_| is_its)
        };
        if let Some((_, ended)) = ended {
            let _ = ended.send(());
        }
    }
    let _ = child.wait().await;
    drop(waiting.lock().take());
}
