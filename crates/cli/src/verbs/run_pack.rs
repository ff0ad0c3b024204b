//! `pliant run-pack FILE` (hidden): runs the instances of a pack one after the other. Jobs of servers run it.

use std::path::PathBuf;

use pliant_site::processes::{PackError, run_pack};

use crate::failure::Failure;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The file of the pack.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let ended = run_pack(&arguments.file, &mut std::io::stdout().lock());
    ended.map_err(|error| match error {
        PackError::Io { .. } | PackError::Ended => Failure::system(error),
    })
}
