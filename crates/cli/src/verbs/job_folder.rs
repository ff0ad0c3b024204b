//! `pliant job-folder DIR` (hidden): reads and writes the files of one job, as the account to which they belong, and starts the job's
//! program there. Servers and supervisors start it through the launcher.

use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder of the job's files.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Carries out the call on standard input.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    match pliant_site::serve_call(&arguments.dir) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The supervisor knows the line by its beginning, and the launcher's code.
            stderr_line!("{}{error}", pliant_site::processes::NOT_STARTED_PREFIX);
            ExitCode::from(pliant_site::accounts::REFUSED)
        }
    }
}
