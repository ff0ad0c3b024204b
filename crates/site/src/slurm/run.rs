//! Runs a command of Slurm.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::Semaphore;

use super::call::Call;
use super::error::SlurmError;
use super::settings::Settings;
use crate::commands::{self, AT_ONCE, Finished, OUTPUT_LIMIT, PATH, Unfinished};

/// How commands are run.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    conf: Option<PathBuf>,
    commands: Option<PathBuf>,
    /// Of those that run at once.
    places: Arc<Semaphore>,
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
            places: Arc::new(Semaphore::new(AT_ONCE)),
            deadline: Duration::from_secs(settings.deadline_s.into()),
        }
    }

    /// Runs a command to its end. One that takes too long, or whose caller has gone, is killed.
    pub(super) async fn run(&self, call: &Call) -> Result<Printed, SlurmError> {
        let command = call.command;
        // Never closed. Whoever waits for a place has its whole deadline after that.
        let _place = self.places.acquire().await;
        let Finished { status, stdout, stderr } =
            match commands::run(self.command(call), call.input, self.deadline).await {
                Ok(finished) => finished,
                Err(Unfinished::Silent) => return Err(SlurmError::silent(command, self.deadline)),
                Err(Unfinished::TooLong) => {
                    return Err(SlurmError::TooLong { command, limit: OUTPUT_LIMIT });
                }
                Err(Unfinished::Failed(source)) => {
                    let command = match &self.commands {
                        Some(folder) => folder.join(command).display().to_string(),
                        None => command.to_owned(),
                    };
                    return Err(SlurmError::Command { command, source });
                }
            };
        match status.code() {
            Some(0) => Ok(Printed { stdout, stderr }),
            Some(_) => Err(SlurmError::told(command, call.id.as_deref(), &stderr)),
            // By somebody who stops everything, as a rule: what it had asked for may have been done.
            None => Err(SlurmError::NoAnswer { command, why: format!("it was ended ({status})") }),
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
        command
    }
}
