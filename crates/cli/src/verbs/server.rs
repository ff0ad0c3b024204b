//! `pliant server`: runs a server, which submits jobs to one cluster.

use std::ffi::OsString;

use pliant_daemon::config::ServerFile;
use pliant_daemon::server;

use crate::daemon::{self, Options};
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(output: Output, options: &Options) -> Result<(), Failure> {
    let Some(file) = daemon::configured(output, options, ServerFile::read)? else { return Ok(()) };
    let program = std::env::current_exe()
        .map_err(|error| Failure::system(format!("cannot find this program's own path: {error}")))?;
    let supervisor = vec![program.into_os_string(), OsString::from("run-job")];
    daemon::run(options, |stop, ready| server::serve(file, supervisor, stop, ready))
}
