//! `pliant admin backup`: a copy of the state folder of a daemon that may run.

use std::path::PathBuf;

use clap::Args;
use pliant_daemon::backup::{Backup, BackupError, back_up};
use serde_json::json;

use crate::failure::Failure;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The folder for the copy: it does not exist, or is empty.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The state folder of the server or agent on this host, which may run.
    #[arg(long, value_name = "FOLDER")]
    state: PathBuf,
}

pub(super) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { dir, state } = arguments;
    let Backup { owner, bytes, .. } = back_up(state, dir).map_err(failed)?;
    let value = json!({ "owner": owner, "state": state, "dir": dir, "bytes": bytes });
    output.print("admin-backup", || format!("{owner}: {bytes} bytes copied to {}\n", dir.display()), value)
}

fn failed(error: BackupError) -> Failure {
    let failure = match &error {
        BackupError::NoJournal { .. } | BackupError::NotEmpty { .. } => Failure::input(&error),
        BackupError::Journal(_) | BackupError::File { .. } => Failure::system(&error),
    };
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
