//! `pliant logs`: prints the standard output or error of a job.

use std::io::{self, ErrorKind, Write};

use clap::Args;
use pliant_client::ClientError;
use pliant_control::exact_text::ExactText;
use pliant_control::names::Handle;
use pliant_staging::ResultName;
use pliant_wire::Download;
use serde_json::json;

use crate::failure::Failure;
use crate::federation::{Access, Session};
use crate::job::did_not_run;
use crate::output::Output;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The job ID.
    #[arg(value_name = "JOB")]
    handle: Handle,
    /// Follows the output until the job has ended; waits for a job that has not started.
    #[arg(short, long)]
    follow: bool,
    /// Prints standard error instead of standard output.
    #[arg(long)]
    stderr: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { handle, follow, stderr, access } = arguments;
    if *follow && output == Output::Json {
        let problem = "expected --follow or --format json, found both";
        return Err(Failure::input(problem).hint("a JSON document cannot follow a log"));
    }
    let session = access.open()?;
    let name = if *stderr { ResultName::Stderr } else { ResultName::Stdout };
    let wanted =
        Download { handle: handle.clone(), name: name.clone(), offset: 0, follow: *follow, run: None };
    if output == Output::Text {
        return copy(&session, &wanted);
    }
    let mut bytes = Vec::new();
    let piece = |piece: &[u8]| bytes.write_all(piece);
    session
        .run(session.client.output(&wanted, piece))
        .map(drop)
        .or_else(|error| waits(&session, handle, error))?;
    let text = match String::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(error) => json!(ExactText::from(error.into_bytes())),
    };
    let value = json!({ "job_id": handle, "stream": name, "text": text });
    output.print("logs", String::new, value)
}

/// Copies it to standard output as it is.
fn copy(session: &Session, wanted: &Download) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let mut seen_enough = false;
    let piece = |piece: &[u8]| {
        let written = out.write_all(piece).and_then(|()| out.flush());
        seen_enough = written.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
        written
    };
    match session.run(session.client.output(wanted, piece)) {
        // A reader may close the pipe.
        Err(_) if seen_enough => Ok(()),
        Err(error) => waits(session, &wanted.handle, error),
        Ok(_) => Ok(()),
    }
}

/// There is no output yet of a job that waits, and never any of one that ended before it began.
fn waits(session: &Session, handle: &Handle, error: ClientError) -> Result<(), Failure> {
    let record = session.run(session.client.job(handle)).ok();
    match record.as_ref().and_then(did_not_run) {
        Some(nothing) if record.is_some_and(|record| !record.state.is_final()) => {
            nothing.warn();
            Ok(())
        }
        Some(nothing) => Err(nothing),
        None => Err(error.into()),
    }
}
