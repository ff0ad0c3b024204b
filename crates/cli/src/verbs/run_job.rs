//! `pliant run-job DIR` (hidden): the supervisor of one job. Servers start it; nobody else needs to.

use std::path::PathBuf;

use pliant_site::processes::{StartPermit, SuperviseError, await_consent, supervise};

use crate::failure::Failure;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where to wait first until the job may begin.
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
                    "the job was not run here: it has started elsewhere, or nobody has said that it may start"
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
