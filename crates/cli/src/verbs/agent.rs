//! `pliant agent`: finds servers for clients and knows where every job of the federation is.

use pliant_daemon::agent;
use pliant_daemon::config::AgentFile;

use crate::daemon::{self, Options};
use crate::failure::Failure;

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let file = AgentFile::read(&options.config).map_err(daemon::wrong_file)?;
    daemon::run(options, |stop, ready| agent::serve(file, stop, ready))
}
