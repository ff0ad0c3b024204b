//! `pliant agent`: runs an agent, which finds servers for clients and keeps the records of jobs.

use pliant_daemon::agent;
use pliant_daemon::config::AgentFile;

use crate::daemon::{self, Options};
use crate::failure::Failure;

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let file = AgentFile::read(&options.config).map_err(daemon::wrong_file)?;
    daemon::run(options, |stop, ready| agent::serve(file, stop, ready))
}
