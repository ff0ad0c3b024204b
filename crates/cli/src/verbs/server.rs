//! `pliant server`: runs a server, which submits jobs to one cluster.

use std::ffi::OsString;

use pliant_daemon::config::ServerFile;
use pliant_daemon::server;

use crate::daemon::{self, Options};
use crate::failure::Failure;

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let file = ServerFile::read(&options.config).map_err(daemon::wrong_file)?;
    let program = std::env::current_exe()
        .map_err(|error| Failure::system(format!("cannot find this program's own path: {error}")))?;
    let supervisor = vec![program.into_os_string(), OsString::from("run-job")];
    daemon::run(options, |stop, ready| server::serve(file, supervisor, stop, ready))
}
