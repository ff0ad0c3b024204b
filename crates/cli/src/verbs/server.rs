//! `pliant server`: runs a server, which submits jobs to one cluster.

use std::ffi::OsString;
use std::path::Path;

use clap::Args;
use pliant_daemon::config::ServerFile;
use pliant_daemon::host::DaemonError;
use pliant_daemon::server;
use pliant_journal::JournalError;
use pliant_transport::Role;

use crate::daemon::{self, Findings, Options};
use crate::failure::Failure;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Lets the server and all its jobs run as root.
    #[arg(long)]
    allow_root: bool,
    /// The journal in the state folder is an older copy that was put back: before it starts anything, the server asks its agent what
    /// has changed since the copy was made.
    #[arg(long)]
    restored: bool,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let options = &arguments.options;
    let program = std::env::current_exe()
        .map_err(|error| Failure::system(format!("cannot find this program's own path: {error}")))?;
    let file = daemon::configured(
        output,
        options,
        ServerFile::read,
        |file| (&file.tls, Role::Server, &file.name),
        |file| look(file, &program),
    )?;
    let Some(file) = file else { return Ok(()) };
    server::refuse_root(&file, arguments.allow_root).map_err(daemon::failed)?;
    if arguments.restored {
        server::mark_restored(&file.state).map_err(daemon::failed)?;
    }
    let supervisor = vec![program.into_os_string(), OsString::from("run-job")];
    daemon::run(options, |stop, ready| server::serve(file, supervisor, stop, ready))
}

fn look(file: &ServerFile, program: &Path) -> Result<Findings, Failure> {
    let mut warnings = daemon::runtime()?.block_on(server::warnings(file, program));
    let change = match server::cluster_change(file) {
        Ok(change) => change,
        // The daemon runs as another user, or will.
        Err(DaemonError::Journal(error @ JournalError::Folder { .. })) => {
            warnings.push(format!("what changes for jobs is not known: {error}"));
            None
        }
        Err(error) => return Err(daemon::failed(error)),
    };
    Ok(Findings { warnings, change })
}
