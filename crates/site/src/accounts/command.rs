//! Commands that run as an account through the launcher to their end, and what they print.

use std::ffi::OsString;
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::Errno;

use super::launcher::ended;
use super::{Launched, Launcher, LauncherError};

/// How much is read of what a command prints, on each of its outputs.
const COMMAND_BYTES_MAX: usize = 64 << 10;

/// What a command that ran as an account has left.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// What it wrote on standard output.
    pub(crate) stdout: Vec<u8>,
    /// What it wrote on standard error.
    pub(crate) stderr: Vec<u8>,
}

impl Launcher {
    /// Runs a command as the account to its end, with these variables beside those of the account. One that takes longer is killed.
    ///
    /// # Errors
    /// The launcher cannot be run or refuses, or the command does not end in time or prints too much: it may have done then what it
    /// was asked for.
    pub(crate) fn output(
        &self,
        program: Vec<OsString>,
        environment: Vec<(OsString, OsString)>,
        folder: &Path,
        input: &[u8],
        within: Duration,
    ) -> Result<CommandOutput, LauncherError> {
        let until = Instant::now() + within;
        let request = self.run_request(program, environment, folder, None);
        // Pipes and no sockets: another process of the account could send descriptors through a socket, and this one would wait for their end.
        let piped = || io::pipe().map_err(|source| LauncherError::Io { action: "make a pipe", source });
        let ((stdout, its_stdout), (stderr, its_stderr)) = (piped()?, piped()?);
        let outputs = [its_stdout, its_stderr].map(Stdio::from);
        let mut launched = self.spawned(false, Some(Stdio::piped()), Some(outputs))?;
        launched.until = Some(until);
        if let Some(mut stdin) = launched.child.as_mut().and_then(|child| child.stdin.take()) {
            // A pipe and no socket, and open to the account: a command may open it once more, as `/dev/stdin`.
            let opened = rustix::fs::fchmod(&stdin, Mode::from_raw_mode(0o644)).map_err(io::Error::from);
            // It holds all of this. One that reads no more has said why.
            match opened.and_then(|()| stdin.write_all(&[&request.encode(), input].concat())) {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                    return Err(LauncherError::Program { program: self.program.clone(), source: error });
                }
                _ => {}
            }
        }
        launched.output(until, [stdout, stderr])
    }
}

impl Launched {
    /// What it writes until its end.
    fn output(
        mut self,
        until: Instant,
        [stdout, stderr]: [PipeReader; 2],
    ) -> Result<CommandOutput, LauncherError> {
        let (stdout, stderr) = (self.all_of(until, stdout)?, self.all_of(until, stderr)?);
        let left = until.saturating_duration_since(Instant::now());
        let status = match self.child.as_mut().map(|child| ended(child, left)) {
            Some(Ok(Some(status))) => status,
            Some(Err(source)) => return Err(LauncherError::Io { action: "wait for the launcher", source }),
            Some(Ok(None)) | None => return Err(self.disorder("has not ended in time")),
        };
        self.child = None;
        let said = String::from_utf8_lossy(&stderr);
        match self.launcher.refusal(status, said.lines().next().unwrap_or_default()) {
            Some(refusal) => Err(refusal),
            None => Ok(CommandOutput { status, stdout, stderr }),
        }
    }

    /// All that comes on one of its outputs.
    fn all_of(&self, until: Instant, mut output: PipeReader) -> Result<Vec<u8>, LauncherError> {
        let (mut all, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let read = wait_for_more(&output, until).and_then(|()| output.read(&mut piece));
            match read {
                Ok(0) => return Ok(all),
                Ok(read) => all.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(self.disorder("has not ended in time, and is killed"));
                }
                Err(source) => {
                    return Err(LauncherError::Io { action: "read from what runs as the account", source });
                }
            }
            if all.len() > COMMAND_BYTES_MAX {
                return Err(self.disorder(format!("prints more than {COMMAND_BYTES_MAX} bytes")));
            }
        }
    }
}

/// Waits until something has come through a pipe, or its other end has gone.
fn wait_for_more(pipe: &PipeReader, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(|_| ErrorKind::InvalidInput)?;
    match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&left)) {
        Ok(0) => Err(ErrorKind::TimedOut.into()),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(cause) => Err(cause.into()),
    }
}

/// Has the next read of a socket wait until then at most, however long nothing comes.
pub(super) fn wait_at_most(socket: &UnixStream, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    socket.set_read_timeout(Some(left))
}
