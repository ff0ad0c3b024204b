//! The server's side: starting a job, finding it again, waiting for it, ending it.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pliant_staging::may_pass;
use rustix::process::{PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

use super::folder::{Folder, FolderError, Probe};
use super::job_folder::{self, FilesError};
use super::record::{Exit, Started};
use super::resident::ResidentTurn;
use super::supervisor::PATH;
use super::survivors::{self, Marks};
use crate::accounts::{AccountRun, LauncherError};

/// How often a supervisor is polled that is no child of this process, so that it cannot be waited for.
const POLL_MIN: Duration = Duration::from_millis(5);
const POLL_MAX: Duration = Duration::from_millis(200);

/// The outcome of a job.
#[derive(Debug)]
pub enum ProcessState {
    /// Nothing was ever started, and nothing is about to.
    NeverStarted,
    /// Its supervisor is there.
    Running(Running),
    /// It ended.
    Ended(Exit),
    /// Its supervisor died before it could record its end. Nothing of the job is left.
    Lost(Lost),
}

/// The same without a hold on the supervisor, for a job that runs elsewhere.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoundState {
    /// Nothing was ever started, and nothing is about to.
    NeverStarted,
    /// Its supervisor is there.
    Running,
    /// It ended.
    Ended(Exit),
    /// Its supervisor died before it could record its end.
    Lost(Lost),
}

impl From<ProcessState> for FoundState {
    fn from(state: ProcessState) -> FoundState {
        match state {
            ProcessState::NeverStarted => FoundState::NeverStarted,
            ProcessState::Running(_) => FoundState::Running,
            ProcessState::Ended(exit) => FoundState::Ended(exit),
            ProcessState::Lost(lost) => FoundState::Lost(lost),
        }
    }
}

/// How a running job came to its end.
#[derive(Clone, PartialEq, Debug)]
pub enum Ending {
    /// As recorded.
    Ended(Exit),
    /// Its supervisor died before it could record its end. Nothing of the job is left.
    Lost(Lost),
    /// The supervisor gave up before it started anything; its last words, if there are any.
    NeverStarted(Option<String>),
}

/// Why it is not known how a job ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lost {
    /// The host was restarted while it ran.
    HostRestarted,
    /// The supervisor was killed.
    SupervisorDied {
        /// How many processes of the job were left, which were killed now.
        killed: usize,
    },
    /// It has ended, and its record cannot be read.
    Unreadable {
        /// Why, without the path of the folder on this host.
        why: String,
    },
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::HostRestarted => f.write_str("the host was restarted while the job ran"),
            Lost::SupervisorDied { killed } => {
                write!(f, "the supervisor of the job was killed; {killed} processes were left and ended")
            }
            Lost::Unreadable { why } => {
                write!(f, "the job has ended, and the record of its end is lost: {why}")
            }
        }
    }
}

/// Why a job was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// A supervisor has it.
    #[error("{}: the job is running", dir.display())]
    IsRunning {
        /// The job's folder.
        dir: PathBuf,
    },
    /// It was started before; it is never started again.
    #[error("{}: the job was started before and is never started again", dir.display())]
    StartedBefore {
        /// The job's folder.
        dir: PathBuf,
    },
    /// [`RunSpec::write`](super::RunSpec::write) was not called.
    #[error("{}: there is no spec.json to run", dir.display())]
    NoSpec {
        /// The job's folder.
        dir: PathBuf,
    },
    /// A file of the folder cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The supervisor cannot be started.
    #[error("cannot start the supervisor {}: {source}", program.to_string_lossy())]
    Supervisor {
        /// Its program.
        program: OsString,
        /// Why.
        source: io::Error,
    },
}

impl SpawnError {
    /// The same for the owner of the job: without the paths of files on this host.
    pub fn public_message(&self) -> String {
        match self {
            SpawnError::IsRunning { dir }
            | SpawnError::StartedBefore { dir }
            | SpawnError::NoSpec { dir } => self.to_string().replacen(&format!("{}: ", dir.display()), "", 1),
            SpawnError::Folder(error) => error.public_message(),
            SpawnError::Supervisor { source, .. } => format!("cannot start the supervisor: {source}"),
        }
    }

    /// True if the same may work later.
    pub fn may_pass(&self) -> bool {
        match self {
            SpawnError::Folder(error) => error.may_pass(),
            SpawnError::Supervisor { source, .. } => may_pass(source),
            SpawnError::IsRunning { .. } | SpawnError::StartedBefore { .. } | SpawnError::NoSpec { .. } => {
                false
            }
        }
    }
}

/// Starts the supervisor of a job whose [`RunSpec`](super::RunSpec) was written. `supervisor_command` is a program and
/// its arguments, to which the folder is added; it must call [`supervise`](super::supervise).
///
/// Call it within a tokio runtime. It blocks for as long as starting a process takes.
///
/// # Errors
/// Nothing was started.
pub fn spawn(supervisor_command: &[OsString], dir: &Path) -> Result<Running, SpawnError> {
    let folder = Folder::at(dir)?;
    let [program, arguments @ ..] = supervisor_command else {
        let source = io::Error::new(ErrorKind::InvalidInput, "the supervisor's command is empty");
        return Err(SpawnError::Supervisor { program: OsString::new(), source });
    };
    let failed = |source| SpawnError::Supervisor { program: program.clone(), source };
    if Handle::try_current().is_err() {
        return Err(failed(io::Error::other("this thread is not within a tokio runtime")));
    }
    if !folder.has_spec() {
        return Err(SpawnError::NoSpec { dir: dir.to_owned() });
    }
    // Before anything else, so that what is true now stays true; the module says why it is handed on.
    let Some(lock) = folder.lock()? else { return Err(SpawnError::IsRunning { dir: dir.to_owned() }) };
    if folder.was_started()? {
        return Err(SpawnError::StartedBefore { dir: dir.to_owned() });
    }
    let mut command = Command::new(program);
    command.args(arguments).arg(folder.path()).current_dir("/");
    command.env_clear().env("PATH", PATH).env("LANG", "C.UTF-8");
    command.stdin(lock).stdout(Stdio::null()).stderr(folder.open_log()?);
    let child = command.spawn().map_err(failed)?;
    Ok(Running { folder, child: Some(child), turn: None })
}

/// The outcome of the job of a folder, for a server that has just been started. If its supervisor died, what is
/// left of the job is killed before this returns.
///
/// Blocks for some file reads, and up to a few seconds if there is something to kill.
///
/// # Errors
/// The folder is there but cannot be read, although its owner was given back what it needs for that. Nothing may be
/// concluded then, least of all that the job may be started.
pub fn find(dir: &Path) -> Result<ProcessState, FolderError> {
    let folder = match Folder::at(dir) {
        Ok(folder) => folder,
        Err(error) if error.source.kind() == ErrorKind::NotFound => return Ok(ProcessState::NeverStarted),
        Err(error) => return Err(error),
    };
    if fs::metadata(folder.path()).is_ok_and(|metadata| !metadata.is_dir()) {
        // Nothing was prepared there. A start fails, and says why.
        return Ok(ProcessState::NeverStarted);
    }
    // Kept to the end, so that nothing is started meanwhile.
    let _unstarted = match folder.probe()? {
        Probe::Held => return Ok(ProcessState::Running(Running { folder, child: None, turn: None })),
        Probe::Free(lock) => lock,
    };
    folder.give_back();
    let unreadable = match folder.exit() {
        Ok(Some(exit)) => return Ok(ProcessState::Ended(exit)),
        Ok(None) => None,
        Err(error) if error.may_pass() => return Err(error),
        // The lock is free: the job is over, and looking again would find the same for ever. It may have been started.
        Err(error) => Some(error.public_message()),
    };
    match folder.was_started() {
        Ok(false) if unreadable.is_none() => return Ok(ProcessState::NeverStarted),
        Err(error) if error.may_pass() => return Err(error),
        _ => {}
    }
    let started = folder.started();
    let killed = end_survivors(&folder, started.as_ref())?;
    if let Some(why) = unreadable {
        return Ok(ProcessState::Lost(Lost::Unreadable { why }));
    }
    let is_other_boot = started.is_some_and(|started| started.boot_id != survivors::boot_id());
    Ok(ProcessState::Lost(if is_other_boot { Lost::HostRestarted } else { Lost::SupervisorDied { killed } }))
}

/// Kills what is left of a job whose supervisor died, as the account as which it runs.
fn end_survivors(folder: &Folder, started: Option<&Started>) -> Result<usize, FolderError> {
    survivors::end_cgroup(started);
    let Some(account) = folder.account()? else {
        return Ok(Marks::of_own(folder.path(), started).kill());
    };
    let marks = Marks::of_account(&account.folder, started);
    let group = marks.living_group();
    let ended = job_folder::end_survivors(&account, marks).or_else(|error| {
        let launcher = account.launcher();
        // Whatever the reason: nothing is run for that. An account with as many processes as it may have runs no further program.
        let signalled = group.map_or(Ok(()), |group| launcher.signal(pliant_launcher::Signal::Kill, vec![-group]));
        // Nothing runs as it any more but what ends. Its processes outside of the group are for root.
        let is_banned = matches!(error, FilesError::Launcher(LauncherError::Refused(_)))
            && matches!(launcher.check(), Err(LauncherError::Refused(_)));
        match signalled {
            _ if !is_banned => Err(error),
            Err(LauncherError::Refused(why)) => {
                tracing::warn!(account = %account.name, why, "cannot end what is left of a job of a banned account");
                Ok(0)
            }
            signalled => signalled.map(|()| usize::from(group.is_some())).map_err(FilesError::from),
        }
    });
    // Its supervisor would have done that.
    if ended.is_ok()
        && let Err(error) = job_folder::remove_leftovers(&account, None)
    {
        tracing::warn!(account = %account.name, %error, "cannot remove what a job has left in memory");
    }
    ended.map_err(|error| {
        let source = io::Error::new(ErrorKind::Interrupted, error.public_message());
        FolderError { path: folder.path().to_owned(), action: "end what is left of the job of", source }
    })
}

/// Forgets what is recorded of a run that has ended: the folder is that of one which was never started.
///
/// # Errors
/// The folder cannot be written.
pub fn forget_run(dir: &Path) -> Result<(), FolderError> {
    Folder::at(dir)?.forget_run()
}

/// The account as which the job of a folder runs, and where its files are; none if it runs as this user, or was not prepared.
///
/// # Errors
/// The folder is there and cannot be read.
pub fn account_of(dir: &Path) -> Result<Option<AccountRun>, FolderError> {
    match Folder::at(dir) {
        Ok(folder) => folder.account(),
        Err(error) if error.source.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Asks for the end of a job: TERM, and KILL after its grace period. Does nothing if it ended already, and may be
/// repeated. A job that was not started yet will not be: its supervisor, once spawned, records that it was cancelled.
///
/// # Errors
/// The folder cannot be written, and its supervisor could not be signalled.
pub fn terminate(dir: &Path) -> Result<(), FolderError> {
    let folder = Folder::at(dir)?;
    // While a supervisor lives the job may have written anything there itself.
    if matches!(folder.probe()?, Probe::Free(_)) && folder.exit()?.is_some() {
        return Ok(());
    }
    // Before the signal, so that a supervisor which is not listening to signals yet finds it when it does.
    let asked = folder.ask_cancel();
    match folder.probe()? {
        Probe::Free(_) => asked,
        Probe::Held if signal(&folder) => Ok(()),
        // It will find the file within a second.
        Probe::Held => asked,
    }
}

/// Asks for the end of a job that may run on another host, whose processes cannot be signalled from here. Its supervisor
/// finds that within a second; one that is started later starts nothing. May be repeated.
///
/// # Errors
/// The folder cannot be written.
pub fn ask_end(dir: &Path) -> Result<(), FolderError> {
    Folder::at(dir)?.ask_cancel()
}

/// How the job of a folder ended, if it was recorded. Only once it is known to have ended: a job that runs may have
/// written anything there.
///
/// # Errors
/// The record cannot be read, or makes no sense.
pub fn recorded(dir: &Path) -> Result<Option<Exit>, FolderError> {
    Folder::at(dir)?.exit()
}

/// Signals the supervisor that holds the lock, and no other process.
fn signal(folder: &Folder) -> bool {
    let Some(pid) = folder.supervisor() else { return false };
    match pidfd_open(pid, PidfdFlags::empty()) {
        // If the lock is still held the holder lived all the while, and so is what we opened.
        Ok(supervisor) => {
            matches!(folder.probe(), Ok(Probe::Held)) && pidfd_send_signal(supervisor, Signal::TERM).is_ok()
        }
        // Linux before 5.3.
        Err(rustix::io::Errno::NOSYS) => kill_process(pid, Signal::TERM).is_ok(),
        Err(_) => false,
    }
}

/// A job with a living supervisor. Dropping it does nothing to the job.
#[derive(Debug)]
pub struct Running {
    folder: Folder,
    /// The supervisor, if this process started it.
    child: Option<Child>,
    /// The turn at a resident process, if it is a call of one.
    turn: Option<ResidentTurn>,
}

impl Running {
    /// The job's folder, absolute.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// A call that was handed over to the supervisor of a resident process, in its turn.
    pub(super) fn of_resident(folder: Folder, turn: ResidentTurn) -> Running {
        Running { folder, child: None, turn: Some(turn) }
    }

    /// Waits for the job's end. May be dropped and called again.
    ///
    /// # Errors
    /// The folder cannot be read; the job may or may not have ended.
    pub async fn ended(&mut self) -> Result<Ending, FolderError> {
        if let Some(child) = &mut self.child {
            // How the supervisor ended is of no interest, what it wrote is. A failure means that it was waited for before.
            let _ = child.wait().await;
        }
        if let Some(turn) = &mut self.turn
            && let Some(exit) = turn.over().await
        {
            return Ok(Ending::Ended(exit));
        }
        let mut pause = POLL_MIN;
        loop {
            match self.look().await? {
                ProcessState::Running(_) => {}
                ProcessState::Ended(exit) => return Ok(Ending::Ended(exit)),
                ProcessState::Lost(lost) => return Ok(Ending::Lost(lost)),
                ProcessState::NeverStarted => return Ok(Ending::NeverStarted(self.folder.last_complaint())),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(POLL_MAX);
        }
    }

    async fn look(&self) -> Result<ProcessState, FolderError> {
        let dir = self.folder.path().to_owned();
        match tokio::task::spawn_blocking(move || find(&dir)).await {
            Ok(found) => found,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down, and this task with it.
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests;
