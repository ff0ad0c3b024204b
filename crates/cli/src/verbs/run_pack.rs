//! `pliant run-pack FILE` (hidden): the instances of a multi-job, one after the other. Servers have jobs run it; nobody
//! else needs to.

use std::path::PathBuf;

use pliant_site::processes::{PackError, run_pack};

use crate::failure::Failure;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to run.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let ended = run_pack(&arguments.file, &mut std::io::stdout().lock());
    ended.map_err(|error| match error {
        PackError::Io { .. } | PackError::Ended => Failure::system(error),
    })
}
