//! `pliant run-part FILE` (hidden): runs the tasks of a subjob of a launch at once. Jobs of servers run it.

use std::path::PathBuf;

use pliant_site::processes::{PartEnd, run_part};

use crate::failure::Failure;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The file of the subjob.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match run_part(&arguments.file, &mut std::io::stdout().lock()) {
        Ok(PartEnd::Well) => Ok(()),
        Ok(PartEnd::Failed) => Err(Failure::system("a task has failed")),
        Ok(PartEnd::Ended) => Err(Failure::system("ended before all of its tasks had")),
        Err(error) => Err(Failure::system(error)),
    }
}
