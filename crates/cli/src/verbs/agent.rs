//! `pliant agent`: runs an agent, which finds servers for clients and keeps the records of jobs.

use pliant_daemon::agent;
use pliant_daemon::config::AgentFile;
use pliant_transport::Role;

use crate::daemon::{self, Findings, Options};
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(output: Output, options: &Options) -> Result<(), Failure> {
    let file = daemon::configured(
        output,
        options,
        AgentFile::read,
        |file| (&file.tls, Role::Agent, &file.name),
        |_| Ok(Findings::default()),
    )?;
    let Some(file) = file else { return Ok(()) };
    daemon::run(options, |stop, ready| agent::serve(file, stop, ready))
}
