//! `pliant run-job DIR` (hidden): the supervisor of one job. Servers start it.

use std::path::PathBuf;

use pliant_site::processes::{StartPermit, SuperviseError, await_consent, supervise};

use crate::failure::Failure;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The start gate that the job waits for.
    #[arg(long, value_name = "DIR")]
    room: Option<PathBuf>,
    /// The job's folder.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(room) = &arguments.room {
        match await_consent(room) {
            Ok(StartPermit::Given) => {}
            Ok(StartPermit::Refused) => {
                eprintln!(
                    "the job was not run here: a sibling job has started, or no start permit was given"
                );
                return Ok(());
            }
            Err(error) => return Err(Failure::system(error)),
        }
    }
    supervise(&arguments.dir).map_err(|error| match error {
        SuperviseError::Locked(_) | SuperviseError::StartedBefore(_) => Failure::input(error),
        SuperviseError::Folder(_) | SuperviseError::Signals(_) => Failure::system(error),
    })
}
