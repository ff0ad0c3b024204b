//! Runs the commands of a batch system: lists of words, never a line for a shell, each within a deadline and with an output that
//! is bounded.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

use super::error::{BatchSystemError, System};
use crate::accounts::{AccountName, CommandOutput, Launcher, LauncherError};

/// Where commands are looked for unless a folder is configured.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin";
/// What is taken in of its standard output: a job takes a few hundred bytes to two kilobytes in a listing.
const OUTPUT_LIMIT: usize = 256 << 20;
const COMPLAINT_LIMIT: usize = 64 << 10;
/// How many commands run at once: after a restart, or behind a controller that hangs, there is one to do for every job.
const AT_ONCE: usize = 8;
/// The same of commands that run as accounts: of one account, which can stop its commands, and of all.
const OF_ACCOUNT_AT_ONCE: usize = 2;
const OF_ACCOUNTS_AT_ONCE: usize = 32;

/// A command to be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    pub(crate) command: &'static str,
    pub(crate) arguments: Vec<OsString>,
    /// A variable of its environment that says more: every user of the host reads arguments, and none but the server's the environment.
    pub(crate) variable: Option<(&'static str, OsString)>,
    /// What it reads on its standard input.
    pub(crate) input: &'static [u8],
    /// The job it is about, for what it says of one it does not know.
    pub(crate) id: Option<String>,
    /// The account as which it runs; the server's own user if there is none.
    pub(crate) account: Option<Launcher>,
}

impl Call {
    pub(crate) fn new(command: &'static str, arguments: &[&str]) -> Call {
        let arguments = arguments.iter().map(OsString::from).collect();
        Call { command, arguments, variable: None, input: b"", id: None, account: None }
    }

    /// The same as an account, if there is one.
    pub(crate) fn run_by(mut self, account: Option<Launcher>) -> Call {
        self.account = account;
        self
    }

    pub(crate) fn with_variable(mut self, name: &'static str, value: &str) -> Call {
        self.variable = Some((name, value.into()));
        self
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
    /// How many run at once as the server's own user.
    permits: Arc<Semaphore>,
    /// How many run at once as accounts, and as each of them.
    of_accounts: Arc<Semaphore>,
    of_account: Arc<Mutex<BTreeMap<AccountName, Arc<Semaphore>>>>,
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
        CommandRunner {
            system,
            folder,
            permits: Arc::new(Semaphore::new(AT_ONCE)),
            of_accounts: Arc::new(Semaphore::new(OF_ACCOUNTS_AT_ONCE)),
            of_account: Arc::default(),
            deadline: Duration::from_secs(deadline_s.into()),
            failed,
        }
    }

    /// Runs a command to its end, with some variables. One that takes too long, or whose caller has gone, is killed.
    pub(crate) async fn run(
        &self,
        call: &Call,
        variables: impl IntoIterator<Item = (&str, OsString)>,
    ) -> Result<Printed, BatchSystemError> {
        if let Some(account) = &call.account {
            return self.run_as(account, call, variables).await;
        }
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
        self.finished(call, status, printed)
    }

    fn finished(
        &self,
        call: &Call,
        status: ExitStatus,
        printed: Printed,
    ) -> Result<Printed, BatchSystemError> {
        match status.code() {
            Some(0) => Ok(printed),
            Some(code) => Err((self.failed)(call, code, &printed.stderr)),
            // By an operator who stops everything, as a rule: what it had asked for may have been done.
            None => Err(self.system.no_answer(call.command, format!("it was ended ({status})"))),
        }
    }

    /// Runs a command as an account, through the launcher. What it prints the user may have written.
    async fn run_as(
        &self,
        account: &Launcher,
        call: &Call,
        variables: impl IntoIterator<Item = (&str, OsString)>,
    ) -> Result<Printed, BatchSystemError> {
        let (system, command) = (self.system, call.command);
        let own = self.of_account.lock().entry(account.account.clone()).or_insert_with(of_account).clone();
        // Never closed. A user who stops commands makes only commands of that user wait.
        let _own = own.acquire_owned().await;
        let _permit = self.of_accounts.clone().acquire_owned().await;
        let usual = [("PATH", PATH.into()), ("LC_ALL", "C".into())];
        let environment: Vec<(OsString, OsString)> =
            usual.into_iter().chain(variables).map(|(name, value)| (name.into(), value)).collect();
        let (launcher, deadline, input) = (account.clone(), self.deadline, call.input);
        let (folder, arguments) = (self.folder.clone(), call.arguments.clone());
        let run = move || {
            // The launcher takes no name that would have to be looked for.
            let program = located(folder.as_deref(), command).into_os_string();
            let words = std::iter::once(program).chain(arguments).collect();
            launcher.output(words, environment, Path::new("/"), input, deadline)
        };
        let ran = tokio::task::spawn_blocking(run).await;
        let ran = ran.map_err(|error| system.no_answer(command, error.to_string()))?;
        match ran {
            Ok(CommandOutput { status, stdout, stderr }) => {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                self.finished(call, status, Printed { stdout: text(stdout), stderr: text(stderr) })
            }
            Err(error) => {
                let may_pass = error.may_pass();
                Err(match error {
                    LauncherError::Refused(why) | LauncherError::Unavailable(why) => {
                        let account = account.account.clone();
                        BatchSystemError::NotAsAccount { command, account, why, may_pass }
                    }
                    error => system.no_answer(command, error.to_string()),
                })
            }
        }
    }
}

fn of_account() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(OF_ACCOUNT_AT_ONCE))
}

/// Where a command is: in the folder that is configured, or in the first one of PATH that has it.
fn located(folder: Option<&Path>, command: &str) -> PathBuf {
    let found = || {
        let mut there = PATH.split(':').map(|folder| Path::new(folder).join(command));
        there.find(|path| path.is_file()).unwrap_or_else(|| command.into())
    };
    folder.map_or_else(found, |folder| folder.join(command))
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
