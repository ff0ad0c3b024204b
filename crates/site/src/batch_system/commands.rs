//! Runs the commands of a batch system: lists of words, never a line for a shell, each within a deadline and with an output that
//! is bounded.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

use super::error::{BatchSystemError, System};

/// Where commands are looked for unless a folder is configured.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin";
/// What is taken in of its standard output: a job takes a few hundred bytes to two kilobytes in a listing.
const OUTPUT_LIMIT: usize = 256 << 20;
const COMPLAINT_LIMIT: usize = 64 << 10;
/// How many commands run at once: after a restart, or behind a controller that hangs, there is one to do for every job.
const AT_ONCE: usize = 8;

/// A command to be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) command: &'static str,
    pub(crate) arguments: Vec<OsString>,
    /// What it reads on its standard input.
    pub(crate) input: &'static [u8],
    /// The job it is about, for what it says of one it does not know.
    pub(crate) id: Option<String>,
}

impl Call {
    pub(crate) fn new(command: &'static str, arguments: &[&str]) -> Call {
        let arguments = arguments.iter().map(OsString::from).collect();
        Call { command, arguments, input: b"", id: None }
    }

    pub(crate) fn about(mut self, id: &str) -> Call {
        self.id = Some(id.to_owned());
        self
    }

    pub(crate) fn with(mut self, argument: impl Into<OsString>) -> Call {
        self.arguments.push(argument.into());
        self
    }

    /// The same with those of these options that have a value, as `--name=value`.
    pub(crate) fn with_options<const N: usize>(self, options: [(&str, &Option<String>); N]) -> Call {
        options.into_iter().fold(self, |call, (name, value)| match value {
            Some(value) => call.with(format!("--{name}={value}")),
            None => call,
        })
    }
}

/// What a command that succeeded printed. Bytes that are no text are replaced.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs the commands of one batch system.
#[derive(Clone, Debug)]
pub(crate) struct CommandRunner {
    system: System,
    /// The folder of its commands, if they are not in PATH.
    folder: Option<PathBuf>,
    /// How many run at once.
    permits: Arc<Semaphore>,
    pub(crate) deadline: Duration,
    /// What a command that failed means: by what was called, its exit code and its standard error.
    failed: fn(&Call, i32, &str) -> BatchSystemError,
}

impl CommandRunner {
    pub(crate) fn new(
        system: System,
        folder: Option<PathBuf>,
        deadline_s: u32,
        failed: fn(&Call, i32, &str) -> BatchSystemError,
    ) -> CommandRunner {
        let (permits, deadline) = (Arc::new(Semaphore::new(AT_ONCE)), Duration::from_secs(deadline_s.into()));
        CommandRunner { system, folder, permits, deadline, failed }
    }

    /// Runs a command to its end, with some variables. One that takes too long, or whose caller has gone, is killed.
    pub(crate) async fn run(
        &self,
        call: &Call,
        variables: impl IntoIterator<Item = (&str, OsString)>,
    ) -> Result<Printed, BatchSystemError> {
        let (system, command) = (self.system, call.command);
        // Never closed. A command that waits for its permit has its whole deadline after that.
        let _permit = self.permits.acquire().await;
        let program = match &self.folder {
            Some(folder) => folder.join(command).into_os_string(),
            None => command.into(),
        };
        let mut prepared = Command::new(&program);
        // Nothing of our own environment: variables such as SBATCH_PARTITION would change what is asked, and a job may be given
        // the environment of its submission.
        prepared.args(&call.arguments).env_clear().env("PATH", PATH).env("LC_ALL", "C");
        prepared.envs(variables);
        if system == System::Oar {
            // The folder of a submission is where it is made, unless it says another.
            prepared.current_dir("/");
        }
        let (status, printed) = match run(prepared, call.input, self.deadline).await {
            Ok(finished) => finished,
            Err(Unfinished::Silent) => {
                let why = format!("nothing within {} s", self.deadline.as_secs());
                return Err(system.no_answer(command, why));
            }
            Err(Unfinished::TooLong) => {
                return Err(BatchSystemError::TooLong { command, limit: OUTPUT_LIMIT });
            }
            Err(Unfinished::Failed(source)) => {
                let command = program.to_string_lossy().into_owned();
                return Err(BatchSystemError::Command { system, command, source });
            }
        };
        match status.code() {
            Some(0) => Ok(printed),
            Some(code) => Err((self.failed)(call, code, &printed.stderr)),
            // By an operator who stops everything, as a rule: what it had asked for may have been done.
            None => Err(system.no_answer(command, format!("it was ended ({status})"))),
        }
    }
}

/// Why a command did not come to its end.
#[derive(Debug)]
enum Unfinished {
    /// It cannot be started, or read from.
    Failed(io::Error),
    /// It took too long, and was killed.
    Silent,
    /// It printed more than is taken in.
    TooLong,
}

async fn run(
    mut command: Command,
    input: &[u8],
    deadline: Duration,
) -> Result<(ExitStatus, Printed), Unfinished> {
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().map_err(Unfinished::Failed)?;
    let outcome = tokio::time::timeout(deadline, finish(&mut child, input)).await;
    match outcome {
        Ok(result) => result,
        Err(_) => {
            // Waited for, too: it leaves nothing behind.
            let _ = child.kill().await;
            Err(Unfinished::Silent)
        }
    }
}

async fn finish(child: &mut Child, input: &[u8]) -> Result<(ExitStatus, Printed), Unfinished> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A command that does not read it says on its standard error why.
            let _ = stdin.write_all(input).await;
        }
        Ok(())
    };
    let (_, stdout, stderr) =
        tokio::try_join!(write, read(stdout, OUTPUT_LIMIT), read(stderr, COMPLAINT_LIMIT))
            .map_err(Unfinished::Failed)?;
    let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
        let _ = child.kill().await;
        return Err(Unfinished::TooLong);
    };
    let status = child.wait().await.map_err(Unfinished::Failed)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok((status, Printed { stdout: text(stdout), stderr: text(stderr) }))
}

/// All that comes; none if that is more than `limit`.
async fn read(from: Option<impl AsyncRead + Unpin>, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(limit as u64 + 1).read_to_end(&mut bytes).await?;
    }
    Ok((bytes.len() <= limit).then_some(bytes))
}
