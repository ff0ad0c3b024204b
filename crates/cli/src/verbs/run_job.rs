//! `pliant run-job DIR` (hidden): the supervisor of one job. Servers start it; nobody else needs to.

use std::path::PathBuf;

use pliant_live::processes::{SuperviseError, supervise};

use crate::failure::Failure;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The job's folder.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    supervise(&arguments.dir).map_err(|error| match error {
        SuperviseError::Locked(_) | SuperviseError::StartedBefore(_) => Failure::input(error),
        SuperviseError::Folder(_) | SuperviseError::Signals(_) => Failure::system(error),
    })
}
