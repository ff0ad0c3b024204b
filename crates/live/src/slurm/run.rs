//! Runs a command of Slurm, within a deadline and with an output that is bounded.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

use super::call::Call;
use super::error::SlurmError;
use super::settings::Settings;

/// Where commands are looked for unless a folder is configured.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin";
/// A job takes about 200 bytes in a listing.
const OUTPUT_LIMIT: usize = 256 << 20;
const COMPLAINT_LIMIT: usize = 64 << 10;

/// How commands are run.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    conf: Option<PathBuf>,
    commands: Option<PathBuf>,
    deadline: Duration,
}

/// What a command that succeeded printed. Bytes that are no text are replaced.
pub(super) struct Printed {
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Runner {
    pub(super) fn new(settings: &Settings) -> Runner {
        Runner {
            conf: settings.conf.clone(),
            commands: settings.commands.clone(),
            deadline: Duration::from_secs(settings.deadline_s.into()),
        }
    }

    /// Runs a command to its end. One that takes too long, or whose caller has gone, is killed.
    pub(super) async fn run(&self, call: &Call) -> Result<Printed, SlurmError> {
        let command = call.command;
        let mut child = self.command(call).spawn().map_err(|source| self.cannot_start(command, source))?;
        let outcome = tokio::time::timeout(self.deadline, finish(&mut child, call)).await;
        match outcome {
            Ok(result) => result,
            Err(_) => {
                // Waited for, too: it leaves nothing behind.
                let _ = child.kill().await;
                Err(SlurmError::silent(command, self.deadline))
            }
        }
    }

    fn command(&self, call: &Call) -> Command {
        let mut command = match &self.commands {
            Some(folder) => Command::new(folder.join(call.command)),
            None => Command::new(call.command),
        };
        command.args(&call.arguments);
        // Nothing of our own environment: variables such as SBATCH_PARTITION would change what is asked.
        command.env_clear().env("PATH", PATH).env("LC_ALL", "C");
        if let Some(conf) = &self.conf {
            command.env("SLURM_CONF", conf);
        }
        if call.command != "sbatch" {
            // Instants as seconds since the epoch, arrays with all of their tasks. Not for jobs, who would
            // inherit it.
            command.env("TZ", "UTC").env("SLURM_TIME_FORMAT", "%s").env("SLURM_BITSTR_LEN", "0");
        }
        let input = if call.input.is_empty() { Stdio::null() } else { Stdio::piped() };
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    fn cannot_start(&self, command: &str, source: io::Error) -> SlurmError {
        let command = match &self.commands {
            Some(folder) => folder.join(command).display().to_string(),
            None => command.to_owned(),
        };
        SlurmError::Command { command, source }
    }
}

async fn finish(child: &mut Child, call: &Call) -> Result<Printed, SlurmError> {
    let command = call.command;
    let failed = |source| SlurmError::Command { command: command.to_owned(), source };
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A command that does not read it says on its standard error why.
            let _ = stdin.write_all(call.input).await;
        }
        Ok(())
    };
    let (_, stdout, stderr) =
        tokio::try_join!(write, read(stdout, OUTPUT_LIMIT), read(stderr, COMPLAINT_LIMIT)).map_err(failed)?;
    let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
        let _ = child.kill().await;
        return Err(SlurmError::TooLong { command, limit: OUTPUT_LIMIT });
    };
    let status = child.wait().await.map_err(failed)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (stdout, stderr) = (text(stdout), text(stderr));
    match status.code() {
        Some(0) => Ok(Printed { stdout, stderr }),
        Some(_) => Err(SlurmError::told(command, call.id.as_deref(), &stderr)),
        // By somebody who stops everything, as a rule: what it had asked for may have been done.
        None => Err(SlurmError::NoAnswer { command, why: format!("it was ended ({status})") }),
    }
}

/// All that comes; none if that is more than `limit`.
async fn read(from: Option<impl AsyncRead + Unpin>, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.take(limit as u64 + 1).read_to_end(&mut bytes).await?;
    }
    Ok((bytes.len() <= limit).then_some(bytes))
}
