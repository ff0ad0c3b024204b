//! The server's side of `pliant-launcher`: each call is a process of it, which gets its request on standard input.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pliant_launcher::{Action, FAILED_AS_ACCOUNT, REFUSED, Request, Signal, UNAVAILABLE};

use super::AccountName;
use super::command::wait_at_most;

/// How the line begins in which the launcher says why it has not done what it was asked for.
pub const STDERR_PREFIX: &str = "pliant-launcher: ";

/// How long it may take to say whether something may be done as an account: the name service may be slow.
const CHECKED_WITHIN: Duration = Duration::from_secs(10);
/// How long it may take to make a folder.
const MADE_WITHIN: Duration = Duration::from_secs(60);
/// How long something that runs as an account may read and write nothing, unless it is known until when it has to answer.
const SILENT_AT_MOST: Duration =
    if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(60) };
/// How long it may take to end once it has said all.
const ENDS_WITHIN: Duration = Duration::from_secs(10);
/// How often is looked whether it has ended.
const POLL_PERIOD: Duration = Duration::from_millis(1);
const POLL_PERIOD_MAX: Duration = Duration::from_millis(20);
/// How much is written at once.
const PIECE_BYTES: usize = 64 << 10;
/// How much is kept of a line that says why something was not done.
const LINE_LETTERS_MAX: usize = 500;
/// How much of an explanation is read.
const STDERR_BYTES: u64 = 2_048;

/// The launcher, for one account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// The account.
    pub account: AccountName,
}

/// Why something was not done as an account.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// The launcher cannot be run.
    #[error("cannot run the launcher {}: {source}", program.display())]
    Program {
        /// The launcher.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The launcher, or what it ran, refuses.
    #[error("the launcher: {0}")]
    Refused(String),
    /// The launcher cannot do it at the moment.
    #[error("the launcher, at the moment: {0}")]
    Unavailable(String),
    /// The launcher, or what it ran, ended in disorder or did not answer.
    #[error("what runs as the account {account} {problem}")]
    Disorder {
        /// The account.
        account: AccountName,
        /// What it did, as a verb.
        problem: String,
    },
    /// Too much is being done as the account already.
    #[error("{calls} calls as the account {account} are under way, which is the limit")]
    Busy {
        /// The account.
        account: AccountName,
        /// How many.
        calls: usize,
    },
    /// The file system of the accounts' folders is not mounted.
    #[error("the folders of accounts' jobs are not there: is their file system mounted?")]
    Unmounted,
    /// A file operation failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// Why.
        source: io::Error,
    },
}

impl LauncherError {
    /// The same for the owner of the job: without the paths of files on this host.
    pub fn public_message(&self) -> String {
        match self {
            LauncherError::Program { source, .. } => format!("cannot run the launcher: {source}"),
            other => other.to_string(),
        }
    }

    /// True if the same may work later.
    pub fn may_pass(&self) -> bool {
        match self {
            LauncherError::Io { source, .. } => pliant_staging::may_pass(source),
            LauncherError::Refused(_) => false,
            // A launcher that is just being replaced is not there, or belongs to another group, for a moment.
            LauncherError::Program { .. }
            | LauncherError::Unavailable(_)
            | LauncherError::Busy { .. }
            | LauncherError::Disorder { .. }
            | LauncherError::Unmounted => true,
        }
    }

    /// True if what runs as the account fails, which its user can cause.
    pub fn is_of_account(&self) -> bool {
        matches!(self, LauncherError::Disorder { .. })
    }
}

impl Launcher {
    /// Whether something may be done as the account. Does nothing as it.
    ///
    /// # Errors
    /// The launcher cannot be run, or refuses the account.
    pub fn check(&self) -> Result<(), LauncherError> {
        self.done(&self.request(Action::Check), CHECKED_WITHIN)
    }

    /// Has a folder made that belongs to the account, unless it is there.
    ///
    /// # Errors
    /// The launcher cannot be run, or refuses.
    pub fn make_folder(&self, folder: &Path) -> Result<(), LauncherError> {
        self.done(&self.request(Action::MakeFolder { folder: folder.to_owned() }), MADE_WITHIN)
    }

    /// Sends a signal to processes of the account; a negative number is a process group.
    ///
    /// # Errors
    /// The launcher cannot be run or refuses, or none of the processes is there.
    pub fn signal(&self, signal: Signal, processes: Vec<i32>) -> Result<(), LauncherError> {
        self.done(&self.request(Action::Signal { signal, processes }), ENDS_WITHIN)
    }

    /// The request for a program that runs as the account.
    pub(crate) fn run_request(
        &self,
        program: Vec<OsString>,
        environment: Vec<(OsString, OsString)>,
        folder: &Path,
        processes_max: Option<u64>,
    ) -> Request {
        let folder = folder.to_owned();
        self.request(Action::Run { program, environment, folder, processes_max })
    }

    /// Why the launcher has not done what it was asked for, if that is what it says.
    pub(super) fn refusal(&self, status: ExitStatus, line: &str) -> Option<LauncherError> {
        let why = in_line(line.strip_prefix(STDERR_PREFIX)?);
        match u8::try_from(status.code()?) {
            Ok(REFUSED) => Some(LauncherError::Refused(why)),
            Ok(UNAVAILABLE) => Some(LauncherError::Unavailable(why)),
            Ok(FAILED_AS_ACCOUNT) => {
                let problem = format!("failed: {why}");
                Some(LauncherError::Disorder { account: self.account.clone(), problem })
            }
            _ => None,
        }
    }

    fn request(&self, action: Action) -> Request {
        Request { account: self.account.to_string(), action }
    }

    /// The command that starts the launcher; its request has to be written to its standard input.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().current_dir("/");
        command
    }

    /// Runs a program as the account, and talks with it.
    ///
    /// # Errors
    /// The launcher cannot be run.
    pub fn run(&self, program: Vec<OsString>, folder: &Path) -> Result<Launched, LauncherError> {
        self.started(&self.run_request(program, Vec::new(), folder, None))
    }

    /// Runs a program as root of a user namespace of the account and its subordinate users, and talks with it.
    ///
    /// # Errors
    /// The launcher cannot be run.
    pub fn run_with_subordinates(
        &self,
        program: Vec<OsString>,
        folder: &Path,
    ) -> Result<Launched, LauncherError> {
        self.started(&self.request(Action::RunWithSubordinates { program, folder: folder.to_owned() }))
    }

    fn done(&self, request: &Request, within: Duration) -> Result<(), LauncherError> {
        let mut launched = self.started(request)?;
        launched.end_input();
        launched.finish(within)
    }

    fn started(&self, request: &Request) -> Result<Launched, LauncherError> {
        let is_signal = matches!(request.action, Action::Signal { .. });
        let mut launched = self.spawned(is_signal, None, None)?;
        match launched.write_all(&request.encode()) {
            Ok(()) => Ok(launched),
            // It has said why.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(launched),
            Err(source) => Err(LauncherError::Program { program: self.program.clone(), source }),
        }
    }

    /// Starts it with a socket in the place of what is not given.
    pub(super) fn spawned(
        &self,
        is_signal: bool,
        stdin: Option<Stdio>,
        outputs: Option<[Stdio; 2]>,
    ) -> Result<Launched, LauncherError> {
        let failed = |source| LauncherError::Program { program: self.program.clone(), source };
        let (talk, its_end) = pair(SILENT_AT_MOST).map_err(failed)?;
        let (errors, its_errors) = pair(ENDS_WITHIN).map_err(failed)?;
        let mut command = self.command();
        let socket = |socket| Stdio::from(OwnedFd::from(socket));
        let its_output = its_end.try_clone().map_err(failed)?;
        let [stdout, stderr] = outputs.unwrap_or_else(|| [its_output, its_errors].map(socket));
        command.stdin(stdin.unwrap_or_else(|| socket(its_end))).stdout(stdout).stderr(stderr);
        let child = command.spawn().map_err(failed)?;
        // The command holds their ends of the sockets: without them this end notices that they have gone.
        drop(command);
        let launcher = self.clone();
        Ok(Launched { launcher, child: Some(child), talk, errors, until: None, is_signal })
    }
}

fn pair(timeout: Duration) -> io::Result<(UnixStream, UnixStream)> {
    let (own, other) = UnixStream::pair()?;
    own.set_read_timeout(Some(timeout))?;
    own.set_write_timeout(Some(timeout))?;
    Ok((own, other))
}

/// Something that runs as an account. What is read from it must not be trusted: the user can control it. Dropped before its end,
/// it is killed.
#[derive(Debug)]
pub struct Launched {
    pub(super) launcher: Launcher,
    /// None once it was waited for.
    pub(super) child: Option<Child>,
    pub(super) talk: UnixStream,
    pub(super) errors: UnixStream,
    /// Until when something may come from it and go to it, however little at a time.
    pub(super) until: Option<Instant>,
    /// It is a call that sends a signal, of the launcher itself: another one would help no more.
    is_signal: bool,
}

impl Launched {
    /// Ends its standard input.
    pub fn end_input(&mut self) {
        // It may have gone.
        let _ = self.talk.shutdown(Shutdown::Write);
    }

    /// Its process, until it was waited for.
    pub(crate) fn process(&self) -> Option<i32> {
        self.child.as_ref().and_then(|child| i32::try_from(child.id()).ok())
    }

    /// Reads nothing from it and writes nothing to it any more after so long, whatever comes. Until then it may write nothing for as long as
    /// it likes.
    pub(crate) fn answer_within(&mut self, at_most: Option<Duration>) {
        self.until = at_most.map(|at_most| Instant::now() + at_most);
    }

    /// Waits for so long for what it says from now on.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn wait_longer(&mut self, at_most: Duration) -> Result<(), LauncherError> {
        let set = self.talk.set_read_timeout(Some(at_most));
        set.map_err(|source| LauncherError::Io { action: "wait for what runs as the account", source })
    }

    /// Does something with the socket to its standard input and output.
    pub(crate) fn with_socket<T>(&self, act: impl FnOnce(&UnixStream) -> T) -> T {
        act(&self.talk)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It refuses, ends in disorder or does not end in that time: then it is killed.
    pub fn finish(mut self, within: Duration) -> Result<(), LauncherError> {
        let Some(child) = &mut self.child else { return Ok(()) };
        let status = match ended(child, within) {
            Ok(Some(status)) => status,
            Ok(None) => return Err(self.disorder(format!("has not ended within {} s", within.as_secs()))),
            Err(source) => return Err(LauncherError::Io { action: "wait for the launcher", source }),
        };
        self.child = None;
        if status.success() {
            return Ok(());
        }
        let said = self.explanation();
        match self.launcher.refusal(status, &said) {
            Some(refusal) => Err(refusal),
            _ if said.is_empty() => Err(self.disorder(format!("ended with {status}"))),
            _ => Err(self.disorder(format!("ended with {status}: {said}"))),
        }
    }

    /// The same once all was read from it.
    ///
    /// # Errors
    /// As for [`Launched::finish`].
    pub fn finish_soon(self) -> Result<(), LauncherError> {
        self.finish(ENDS_WITHIN)
    }

    /// The first line that it has written to standard error.
    fn explanation(&mut self) -> String {
        let mut text = Vec::new();
        // What cannot be read is missing.
        let _ = (&mut self.errors).take(STDERR_BYTES).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        in_line(text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default())
    }

    /// An error about what it did, as a verb.
    pub(crate) fn disorder(&self, problem: impl Into<String>) -> LauncherError {
        LauncherError::Disorder { account: self.launcher.account.clone(), problem: problem.into() }
    }
}

/// The beginning of a text, without control characters.
pub(super) fn in_line(text: &str) -> String {
    text.chars().take(LINE_LETTERS_MAX).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Waits for a child; none if it has not ended in that time.
pub(super) fn ended(child: &mut Child, within: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + within;
    let mut pause = POLL_PERIOD;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(POLL_PERIOD_MAX);
    }
}

impl Read for Launched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(until) = self.until {
            wait_at_most(&self.talk, until).map_err(named)?;
        }
        self.talk.read(buffer).map_err(named)
    }
}

impl Write for Launched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.until.is_some_and(|until| Instant::now() >= until) {
            return Err(named(ErrorKind::TimedOut.into()));
        }
        // The system waits for the whole of a write, as long as some of it is taken.
        self.talk.write(&bytes[..bytes.len().min(PIECE_BYTES)]).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A timeout of a socket, in words.
fn named(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            io::Error::new(ErrorKind::TimedOut, "what runs as the account does not answer")
        }
        _ => error,
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // Most of what runs ends by itself when there is no use for it any more.
        let _ = self.talk.shutdown(Shutdown::Both);
        if matches!(child.try_wait(), Ok(Some(_))) {
            return;
        }
        let (launcher, is_signal) = (self.launcher.clone(), self.is_signal);
        // It may be dropped by a thread that must not wait. Without a thread it stays until it ends by itself.
        let _ = thread::Builder::new().name("ending".to_owned()).spawn(move || {
            if matches!(ended(&mut child, Duration::from_millis(200)), Ok(None)) && !is_signal {
                // This process cannot signal it. Until it is waited for, the number is its own.
                if let Ok(pid) = i32::try_from(child.id()) {
                    // It leads a group as soon as it is more than the launcher.
                    let _ = launcher.signal(Signal::Kill, vec![pid, -pid]);
                }
            }
            let _ = child.wait();
        });
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_launcher_says_whether_it_may_do_it_later() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("launcher");
        let launcher = Launcher { program: program.clone(), account: "alice".parse().unwrap() };
        let check = |script: &str, may_pass: bool, expected: &str| {
            std::fs::write(&program, format!("#!/bin/sh\ncat > /dev/null\n{script}\n")).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
            let error = launcher.check().unwrap_err();
            assert_eq!((error.may_pass(), error.to_string()), (may_pass, expected.to_owned()), "{script}");
        };
        let down = "echo 'pliant-launcher: cannot look up the account' >&2; exit 124";
        check(down, true, "the launcher, at the moment: cannot look up the account");
        let full = "echo 'pliant-launcher: cannot make a folder: Disk quota exceeded' >&2; exit 123";
        check(full, true, "what runs as the account alice failed: cannot make a folder: Disk quota exceeded");
        let refused = "echo 'pliant-launcher: account: expected another one' >&2; exit 125";
        check(refused, false, "the launcher: account: expected another one");
        // As between the unpacking of a new version and the setting of its group.
        std::fs::remove_file(&program).unwrap();
        assert!(launcher.check().unwrap_err().may_pass());
    }
}
