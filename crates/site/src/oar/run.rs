//! Runs a command of OAR.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::Semaphore;

use super::call::Call;
use super::error::OarError;
use super::settings::Settings;
use crate::commands::{self, AT_ONCE, Finished, OUTPUT_LIMIT, PATH, Unfinished};

/// How commands are run.
#[derive(Clone, Debug)]
pub(super) struct Runner {
    commands: Option<PathBuf>,
    /// Of those that run at once.
    places: Arc<Semaphore>,
    pub(super) deadline: Duration,
}

impl Runner {
    pub(super) fn new(settings: &Settings) -> Runner {
        Runner {
            commands: settings.commands.clone(),
            places: Arc::new(Semaphore::new(AT_ONCE)),
            deadline: Duration::from_secs(settings.deadline_s.into()),
        }
    }

    /// Runs a command to its end, and gives what it printed. One that takes too long, or whose caller has gone, is
    /// killed: OAR's commands wait without end for a database that is away.
    pub(super) async fn run(&self, call: &Call) -> Result<String, OarError> {
        // Never closed. Whoever waits for a place has its whole deadline after that.
        let _place = self.places.acquire().await;
        let program = match &self.commands {
            Some(folder) => folder.join(call.command).into_os_string(),
            None => call.command.into(),
        };
        let mut command = Command::new(&program);
        // OAR hands the environment of a submission to the job; nothing of ours is for it.
        command.args(&call.arguments).env_clear().env("PATH", PATH).env("LC_ALL", "C").current_dir("/");
        let Finished { status, stdout, stderr } = match commands::run(command, b"", self.deadline).await {
            Ok(finished) => finished,
            Err(Unfinished::Silent) => return Err(OarError::silent(call.command, self.deadline)),
            Err(Unfinished::TooLong) => {
                return Err(OarError::TooLong { command: call.command, limit: OUTPUT_LIMIT });
            }
            Err(Unfinished::Failed(source)) => {
                let command = program.to_string_lossy().into_owned();
                return Err(OarError::Command { command, source });
            }
        };
        match status.code() {
            Some(0) => Ok(stdout),
            Some(code) => Err(OarError::told(call.command, code, &stderr)),
            // By somebody who stops everything, as a rule: what it had asked for may have been done.
            None => {
                Err(OarError::NoAnswer { command: call.command, why: format!("it was ended ({status})") })
            }
        }
    }
}
