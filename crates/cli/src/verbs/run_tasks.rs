//! `pliant run-tasks FILE` (hidden): a batch of instances of a multi-job, or the tasks of a subjob. Servers have jobs run it;
//! users need not.

use std::path::PathBuf;

use pliant_site::processes::{TasksEnd, run_tasks};

use pliant_wire::Outcome;

use crate::failure::Failure;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to run.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match run_tasks(&arguments.file, &mut std::io::stdout().lock()) {
        Ok(TasksEnd::Succeeded) => Ok(()),
        Ok(TasksEnd::Failed) => Err(Failure::system("a task has failed")),
        // The job ends as its command did, which has said why.
        Ok(TasksEnd::Exited(Outcome::ExitCode(code))) => std::process::exit(code),
        Ok(TasksEnd::Exited(Outcome::Signal(signal))) => std::process::exit(128 + signal),
        Ok(TasksEnd::Exited(Outcome::NotStarted(why))) => Err(Failure::system(why)),
        Ok(TasksEnd::Ended) => Err(Failure::system("ended before all of its tasks had")),
        Err(error) => Err(Failure::system(error)),
    }
}
