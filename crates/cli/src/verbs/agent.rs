//! `pliant agent`: finds servers for clients and knows where every job of the federation is.

use pliant_live::agent;
use pliant_live::config::AgentFile;

use crate::daemon::{self, Options};
use crate::failure::Failure;

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let file = AgentFile::read(&options.config).map_err(daemon::wrong_file)?;
    daemon::run(options, |stop, ready| agent::serve(file, stop, ready))
}
