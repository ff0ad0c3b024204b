//! `pliant run-resident FOLDER` (hidden): the supervisor of the resident process of a service. Servers start it; users need not.

use std::path::PathBuf;

use pliant_site::processes::run_resident;

use crate::failure::Failure;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the resident process.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    run_resident(&arguments.folder).map_err(Failure::system)
}
