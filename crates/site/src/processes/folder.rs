//! The folder of a job: its files, and its lock.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use pliant_staging::may_pass;
use rustix::fs::{FlockOperation, OFlags, fstat};
use rustix::io::Errno;
use rustix::process::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::record::{Exit, Started};
use super::spec::RunSpec;
use crate::accounts::AccountRun;

const LOCK: &str = "lock";
const SPEC: &str = "spec.json";
const STARTED: &str = "started.json";
const EXIT: &str = "exit.json";
/// The room that is kept for it while the job runs.
const EXIT_BYTES: usize = 4096;
/// When what runs as the account first failed to start the job, in milliseconds since 1970.
const ACCOUNT_FAILED: &str = "account-failed.json";
const CANCEL: &str = "cancel";
const LOG: &str = "supervisor.log";
/// How much of the end of that is read.
const LOG_TAIL_BYTES: u64 = 64 << 10;
const WORK: &str = "work";
/// What a file has for an extension until it is whole.
const TEMPORARY: &str = "tmp";

/// The name of what to run on that many processors.
fn sized(procs: u32) -> String {
    format!("spec.{procs}.json")
}

/// More than a supervisor ever writes about the end of a job.
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// What was tried with a file whose content makes no sense.
const UNDERSTAND: &str = "understand";

/// A file of a job's folder that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot {action}: {source}", path.display())]
pub struct FolderError {
    /// The file.
    pub path: PathBuf,
    /// What was tried, as a verb.
    pub action: &'static str,
    /// Why it failed.
    pub source: io::Error,
}

impl FolderError {
    /// The same for the owner of the job: without the path of the folder on this host.
    pub fn public_message(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        format!("{name}: cannot {}: {}", self.action, self.source)
    }

    /// True if the same may work later.
    pub fn may_pass(&self) -> bool {
        may_pass(&self.source)
    }
}

/// A job's folder, which exists.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    /// Absolute and without symbolic links, so that it names the job in the environment of its processes.
    path: PathBuf,
}

/// What the lock says.
#[derive(Debug)]
pub(super) enum Probe {
    /// A supervisor lives, or is about to.
    Held,
    /// None does, and none can start while the file is open. `None` if there is no lock file.
    Free(Option<File>),
}

impl Folder {
    /// The folder at a path.
    pub(super) fn at(path: &Path) -> Result<Folder, FolderError> {
        let opened = match path.canonicalize() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                // A job can reach the folder of all jobs, too.
                path.parent().into_iter().for_each(give_back);
                path.canonicalize()
            }
            opened => opened,
        };
        match opened {
            Ok(path) => Ok(Folder { path }),
            Err(source) => Err(FolderError { path: path.to_owned(), action: "open", source }),
        }
    }

    /// The folder of a call that its supervisor is to make.
    pub(super) fn to_be_made(path: &Path) -> Result<Folder, FolderError> {
        match std::path::absolute(path) {
            Ok(path) => Ok(Folder { path }),
            Err(source) => Err(FolderError { path: path.to_owned(), action: "name", source }),
        }
    }

    /// Makes the folder of a call and its work folder, at an absolute path. They need not outlive a failure of the host: then no call that
    /// was handed over is begun again.
    pub(super) fn make_for_call(path: &Path) -> Result<Folder, FolderError> {
        let folder = Folder { path: path.to_owned() };
        let make = |recursive, path: &Path| DirBuilder::new().recursive(recursive).mode(0o700).create(path);
        // Nearly always it is not there, and the folder of all jobs is.
        let made = match make(false, path) {
            Ok(()) => make(false, &folder.work()),
            Err(_) => make(true, &folder.work()),
        };
        made.map_err(folder.failed(WORK, "create"))?;
        Ok(folder)
    }

    /// Sees to it that we may look into the folder and its work folder. A job runs as the same user and can take
    /// that away from itself and from us; the owner can always give it back.
    pub(super) fn give_back(&self) {
        give_back(&self.path);
        give_back(&self.work());
    }

    /// Does something in the folder: once more, with the permissions given back, if they are missing.
    fn permitted<T>(&self, name: &str, act: impl Fn(&Path) -> io::Result<T>) -> io::Result<T> {
        let path = self.path.join(name);
        match act(&path) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                self.give_back();
                give_back(&path);
                act(&path)
            }
            done => done,
        }
    }

    /// Makes the folder and its work folder; only this user may look inside. They outlive a crash of the machine: what
    /// is written into the folder later would be lost with it.
    pub(super) fn create(path: &Path) -> Result<Folder, FolderError> {
        Folder::create_with(path, path.join(WORK))
    }

    /// The same without a work folder, for a job whose files are elsewhere.
    pub(super) fn create_for_records(path: &Path) -> Result<Folder, FolderError> {
        Folder::create_with(path, path.to_owned())
    }

    fn create_with(path: &Path, innermost: PathBuf) -> Result<Folder, FolderError> {
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&innermost);
        created.map_err(|source| FolderError { path: innermost, action: "create", source })?;
        let folder = Folder::at(path)?;
        // The folder of all jobs may be new as well.
        for holder in folder.path.ancestors().take(3) {
            let synced = File::open(holder).and_then(|holder| holder.sync_all());
            // The folder of an account is in one of the server's, which had it made.
            let is_of_other = |error: &io::Error| error.kind() == ErrorKind::PermissionDenied;
            if holder != folder.path && synced.as_ref().is_err_and(is_of_other) {
                continue;
            }
            synced.map_err(|source| FolderError { path: holder.to_owned(), action: "sync", source })?;
        }
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn work(&self) -> PathBuf {
        self.path.join(WORK)
    }

    pub(super) fn write_spec(&self, spec: &RunSpec) -> Result<(), FolderError> {
        self.write(SPEC, spec)
    }

    /// What to run on that many processors, if several sizes will do.
    pub(super) fn write_sized(&self, spec: &RunSpec, procs: u32) -> Result<(), FolderError> {
        self.write(&sized(procs), spec)
    }

    /// What to run on the processors that were given, if that is known.
    pub(super) fn read_spec(&self, given: Option<u32>) -> Result<RunSpec, FolderError> {
        if let Some(procs) = given
            && let Some(spec) = self.read(&sized(procs))?
        {
            return Ok(spec);
        }
        match self.read(SPEC)? {
            Some(spec) => Ok(spec),
            None => Err(self.failed(SPEC, "read")(ErrorKind::NotFound.into())),
        }
    }

    /// The account as which the job runs; none if it runs as this user, or was never prepared.
    pub(super) fn account(&self) -> Result<Option<AccountRun>, FolderError> {
        match self.read::<RunSpec>(SPEC) {
            Ok(spec) => Ok(spec.and_then(|spec| spec.account)),
            // Only a job of this user could have changed it.
            Err(FolderError { action: UNDERSTAND, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn has_spec(&self) -> bool {
        self.path.join(SPEC).is_file()
    }

    /// Whether a supervisor ever got as far as starting the job.
    pub(super) fn was_started(&self) -> Result<bool, FolderError> {
        self.permitted(STARTED, Path::try_exists).map_err(self.failed(STARTED, "look for"))
    }

    /// What the marker says; `None` if there is none, or if its supervisor died while writing it.
    pub(super) fn started(&self) -> Option<Started> {
        self.read(STARTED).ok().flatten()
    }

    /// Claims the job: true for one caller ever. A marker that cannot be written completely is taken back, since the
    /// caller will start nothing. Room for the record of the end is taken, too: a job can end on a full disk.
    pub(super) fn claim(&self, started: &Started) -> Result<bool, FolderError> {
        let path = self.path.join(STARTED);
        let mut marker = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(marker) => marker,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(self.failed(STARTED, "create")(error)),
        };
        let written = json(started)
            .and_then(|content| marker.write_all(&content))
            .and_then(|()| marker.sync_all())
            .and_then(|()| temporary(&self.path.join(EXIT))?.write_all(&[b' '; EXIT_BYTES]))
            .and_then(|()| File::open(&self.path)?.sync_all());
        if let Err(error) = written {
            // If even this fails the job counts as lost, which is the safe side.
            let _ = fs::remove_file(&path);
            return Err(self.failed(STARTED, "write")(error));
        }
        Ok(true)
    }

    /// Claims a call of a resident process, as [`Folder::claim`] does a job. Its folder was made a moment ago and has no other
    /// supervisor. The claim need not survive a failure of the host: then no call that was handed over is begun again.
    pub(super) fn claim_call(&self, started: &Started) -> Result<bool, FolderError> {
        let path = self.path.join(STARTED);
        let mut marker = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(marker) => marker,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(self.failed(STARTED, "create")(error)),
        };
        let written = json(started).and_then(|content| marker.write_all(&content));
        if let Err(error) = written {
            let _ = fs::remove_file(&path);
            return Err(self.failed(STARTED, "write")(error));
        }
        Ok(true)
    }

    /// Records the end of a call. It is lost if the host fails before the server has journaled it; then the call counts as one that
    /// ended with its host. Nothing reads it while the lock is held, and a record that is not whole is none.
    pub(super) fn write_call_exit(&self, exit: &Exit) -> Result<(), FolderError> {
        let options = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).clone();
        let write = |path: &Path| options.open(path)?.write_all(&json(exit)?);
        write(&self.path.join(EXIT)).map_err(self.failed(EXIT, "write"))
    }

    /// Writes a file of a call that is not begun yet. After a crash it may not be whole.
    pub(super) fn write_new(&self, name: &'static str, content: &[u8]) -> Result<(), FolderError> {
        let mut file = self.create_output(name)?;
        file.write_all(content).map_err(self.failed(name, "write"))
    }

    /// Completes the marker once the job's process group is known.
    pub(super) fn complete_claim(&self, started: &Started) -> Result<(), FolderError> {
        self.write(STARTED, started)
    }

    pub(super) fn write_exit(&self, exit: &Exit) -> Result<(), FolderError> {
        self.write(EXIT, exit)
    }

    /// What is recorded of the job's end. A supervisor's record is whole and short, or not there: anything else was put there by
    /// the job.
    pub(super) fn exit(&self) -> Result<Option<Exit>, FolderError> {
        match self.read_at_most(EXIT, RECORD_BYTES_MAX) {
            Err(FolderError { action: UNDERSTAND, .. }) => Ok(None),
            Err(error) if error.source.kind() == ErrorKind::IsADirectory => Ok(None),
            read => read,
        }
    }

    /// When what runs as the account of the job first failed to start it, in milliseconds since 1970.
    pub(super) fn first_account_failure(&self) -> Result<Option<u64>, FolderError> {
        self.read(ACCOUNT_FAILED)
    }

    pub(super) fn write_first_account_failure(&self, unix_ms: u64) -> Result<(), FolderError> {
        self.write(ACCOUNT_FAILED, &unix_ms)
    }

    pub(super) fn forget_account_failure(&self) -> Result<(), FolderError> {
        self.remove(ACCOUNT_FAILED)
    }

    /// Forgets what is recorded of a run that has ended. In this order: what is left at any moment is of no run that ended well.
    pub(super) fn forget_run(&self) -> Result<(), FolderError> {
        [EXIT, STARTED, ACCOUNT_FAILED].into_iter().try_for_each(|name| self.remove(name))
    }

    fn remove(&self, name: &'static str) -> Result<(), FolderError> {
        match fs::remove_file(self.path.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.failed(name, "remove")(error)),
            _ => Ok(()),
        }
    }

    /// Asks for the job's end, in a way that the supervisor cannot miss however early or late it looks.
    pub(super) fn ask_cancel(&self) -> Result<(), FolderError> {
        let options = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).clone();
        self.permitted(CANCEL, |path| options.open(path)).map(drop).map_err(self.failed(CANCEL, "create"))
    }

    pub(super) fn is_cancel_asked(&self) -> bool {
        self.path.join(CANCEL).exists()
    }

    /// A file for what the job writes.
    pub(super) fn create_output(&self, name: &'static str) -> Result<File, FolderError> {
        let options = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).clone();
        options.open(self.path.join(name)).map_err(self.failed(name, "create"))
    }

    /// The supervisor's own log.
    pub(super) fn open_log(&self) -> Result<File, FolderError> {
        let options = OpenOptions::new().append(true).create(true).mode(0o600).clone();
        options.open(self.path.join(LOG)).map_err(self.failed(LOG, "open"))
    }

    /// The last line of the supervisor's log, or nothing.
    pub(super) fn last_complaint(&self) -> Option<String> {
        let log = open(&self.path.join(LOG)).ok()?;
        let begin = log.metadata().ok()?.len().saturating_sub(LOG_TAIL_BYTES);
        let mut tail = vec![0; LOG_TAIL_BYTES as usize];
        let read = log.read_at(&mut tail, begin).ok()?;
        let text = String::from_utf8_lossy(&tail[..read]);
        text.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
    }

    /// Who holds the lock, without waiting.
    pub(super) fn probe(&self) -> Result<Probe, FolderError> {
        let lock = match self.permitted(LOCK, open) {
            Ok(lock) => lock,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Probe::Free(None)),
            Err(error) => return Err(self.failed(LOCK, "open")(error)),
        };
        // Shared, so that probes do not take one another for a supervisor.
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(Probe::Free(Some(lock))),
            Err(Errno::WOULDBLOCK) => Ok(Probe::Held),
            Err(error) => Err(self.failed(LOCK, "lock")(error.into())),
        }
    }

    /// Takes the lock; `None` if another process has it. It is given back when the file is closed, here and in
    /// every process that was handed it.
    pub(super) fn lock(&self) -> Result<Option<File>, FolderError> {
        /// A probe holds the lock for the time of reading three files.
        const TRIES: u32 = 10;
        const BETWEEN: Duration = Duration::from_millis(5);
        let options =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).clone();
        let lock = options.open(self.path.join(LOCK)).map_err(self.failed(LOCK, "open"))?;
        for _ in 0..TRIES {
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    // An earlier supervisor that started nothing may have left its process id.
                    lock.set_len(0).map_err(self.failed(LOCK, "empty"))?;
                    return Ok(Some(lock));
                }
                Err(Errno::WOULDBLOCK) => thread::sleep(BETWEEN),
                Err(error) => return Err(self.failed(LOCK, "lock")(error.into())),
            }
        }
        Ok(None)
    }

    /// The lock that the server took and handed over as standard input; `None` if standard input is something else.
    pub(super) fn inherited_lock(&self) -> Result<Option<File>, FolderError> {
        let stdin = io::stdin();
        let (Ok(own), Ok(found)) = (fstat(stdin.as_fd()), rustix::fs::stat(self.path.join(LOCK))) else {
            return Ok(None);
        };
        if (own.st_dev, own.st_ino) != (found.st_dev, found.st_ino) {
            return Ok(None);
        }
        let lock = stdin.as_fd().try_clone_to_owned().map(File::from).map_err(self.failed(LOCK, "open"))?;
        // Nothing to do if the server took it; if it was handed over unlocked, it is locked hereby.
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(lock)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(self.failed(LOCK, "lock")(error.into())),
        }
    }

    /// Notes in the lock whom to signal.
    pub(super) fn note_supervisor(&self, lock: &File, supervisor: Pid) -> Result<(), FolderError> {
        let content = format!("{}\n", supervisor.as_raw_nonzero());
        lock.write_all_at(content.as_bytes(), 0).map_err(self.failed(LOCK, "write"))
    }

    /// The process id that the lock's holder noted, if it came that far.
    pub(super) fn supervisor(&self) -> Option<Pid> {
        let content = self.permitted(LOCK, |path| fs::read_to_string(path)).ok()?;
        // Without the line's end the number may be half written.
        Pid::from_raw(content.strip_suffix('\n')?.parse().ok()?)
    }

    fn failed(&self, name: &str, action: &'static str) -> impl Fn(io::Error) -> FolderError {
        let path = self.path.join(name);
        move |source| FolderError { path: path.clone(), action, source }
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, FolderError> {
        self.read_at_most(name, u64::MAX)
    }

    /// Reads a file, of which what is longer makes no sense.
    fn read_at_most<T: DeserializeOwned>(&self, name: &str, most: u64) -> Result<Option<T>, FolderError> {
        let mut content = Vec::new();
        match self.permitted(name, open).and_then(|file| file.take(most).read_to_end(&mut content)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(name, "read")(error)),
        }
        let read = serde_json::from_slice(&content).map_err(io::Error::from);
        read.map(Some).map_err(self.failed(name, UNDERSTAND))
    }

    /// Writes a file so that after any crash the old content or the new is there, whole.
    fn write(&self, name: &str, content: &impl Serialize) -> Result<(), FolderError> {
        let write = |path: &Path| {
            let (mut file, content) = (temporary(path)?, json(content)?);
            file.write_all(&content)?;
            // What was there before may be longer, to keep room for this.
            file.set_len(content.len() as u64)?;
            file.sync_all()?;
            fs::rename(path.with_extension(TEMPORARY), path)?;
            File::open(&self.path)?.sync_all()
        };
        self.permitted(name, write).map_err(self.failed(name, "write"))
    }
}

/// Opens the file in which the next content of another one is written, with what it holds.
fn temporary(path: &Path) -> io::Result<File> {
    let options = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).clone();
    options.open(path.with_extension(TEMPORARY))
}

/// Opens a file for reading without waiting for anything: the job may have put a pipe in its place.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)
}

/// Gives the owner what it needs to use a file or folder, unless another user owns it. What cannot be done shows
/// when it is used.
fn give_back(path: &Path) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    let (needed, mode) = (if metadata.is_dir() { 0o700 } else { 0o600 }, metadata.mode() & 0o7777);
    if !metadata.is_symlink() && mode & needed != needed {
        let _ = fs::set_permissions(path, Permissions::from_mode(mode | needed));
    }
}

fn json(content: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(content)?;
    text.push(b'\n');
    Ok(text)
}
