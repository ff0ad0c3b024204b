//! `pliant run-job DIR` (hidden): the supervisor of one job. Servers start it.

use std::path::PathBuf;

use pliant_site::processes::{StartGate, StartPermit, SuperviseError, supervise};

use crate::failure::Failure;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The start gate where to wait first until the job may start.
    #[arg(long, value_name = "DIR")]
    gate: Option<PathBuf>,
    /// The job's folder.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(gate) = &arguments.gate {
        match StartGate::at(gate).wait() {
            Ok(StartPermit::Given) => {}
            Ok(StartPermit::Refused) => {
                stderr_line!(
                    "the job was not run here: it has started elsewhere, or its server has not permitted the start"
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
