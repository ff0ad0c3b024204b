//! `pliant submit`: submits work to the federation, which chooses the cluster, the processors and the walltime.

use clap::Args;
use pliant_client::{SubmissionStep, SubmitOrder};
use pliant_control::job::JobRecord;
use pliant_control::names::Key;
use pliant_request::sending::{self, SubmissionError};
use pliant_request::submission_note::SubmissionNote;
use pliant_request::submit::SubmitOptions;
use pliant_request::task_array;
use pliant_wire::SubmittedWork;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::federation::{Access, Session, ctrl_c, inform, interrupted, none_failed};
use crate::job::{all_completed, described, promise};
use crate::output::Output;
use crate::table::counted;
use crate::time_text::now;
use crate::verbs::fetch;
use crate::verbs::submit_array;
use crate::verbs::submit_dry_run;
use crate::verbs::submit_refused::refused;
use crate::verbs::submit_scripts;
use crate::verbs::wait::{self, WaitResult};

const USAGE: &str = "pliant submit [OPTIONS] SERVICE [KEY=VALUE]...
       pliant submit [OPTIONS] --time TIME --script FILE [-- ARGUMENT...]
       pliant submit [OPTIONS] --time TIME ./FILE... [-- ARGUMENT...]";

#[derive(Args)]
#[command(override_usage = USAGE)]
pub(crate) struct Arguments {
    #[command(flatten)]
    submission: SubmitOptions,
    /// Shows the estimates and refusals of all servers, and submits nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    access: Access,
}

pub(crate) fn run(output: Output, arguments: &Arguments) -> Result<(), Failure> {
    let scripts = arguments.submission.of_scripts()?;
    if !scripts.is_empty() {
        return submit_scripts::run(output, &arguments.access, &scripts, arguments.dry_run);
    }
    let key = arguments.submission.key;
    let request = arguments.submission.request(&mut |note| inform(|| note.to_owned()))?;
    if let (SubmittedWork::Script(script), Some(indices)) = (&request.what, &request.options.array) {
        let mut array = task_array::spec(script, indices, &request.options)?;
        if key.is_some() {
            let problem = "expected --key or --array, found both";
            let hint = "leave --key out, and name a folder with --out: the same command with that folder continues the array, and runs no task twice";
            return Err(Failure::input(problem).hint(hint));
        }
        let session = arguments.access.open()?;
        task_array::in_folder(&mut array, request.options.folder(&session.shared)?);
        return submit_array::run(
            output,
            &session,
            &array,
            arguments.dry_run,
            request.options.out.as_deref(),
        );
    }
    let options = request.options.clone();
    if let Some(out) = &options.out {
        fetch::is_folder(out)?;
    }
    let session = arguments.access.open()?;
    let mut order = request.order(key, &session.shared)?;
    if arguments.dry_run {
        return submit_dry_run::show(output, &session, &order);
    }
    let waits = || inform(|| "another command submits with this key: waiting for it".to_owned());
    let mut sent = key.map(|_| SubmissionNote::open(&order, waits)).transpose()?;
    order.sent_to = sent.as_mut().map(SubmissionNote::server).transpose()?.flatten();
    let accepted = submit(&session, &order, sent.as_mut())?;
    // Another command with the same key may continue.
    drop(sent);
    inform(|| promise(&accepted, now()));
    let waits = options.waits();
    let handle = accepted.handle.clone();
    let document = |record: &JobRecord| document(record, order.key);
    if !waits || output == Output::Text {
        // At once: a later failure must not hide the job ID.
        output.print("submit", || format!("{handle}\n"), document(&accepted))?;
    }
    if !waits {
        return Ok(());
    }
    let WaitResult { ended, errors, .. } = wait::until_ended(&session, std::slice::from_ref(&handle), None)?;
    none_failed(errors)?;
    let mut value = document(ended.first().unwrap_or(&accepted));
    if let Some(out) = &options.out {
        let results = fetch::into(&session, &handle, out)?;
        inform(|| format!("{} in {}", counted(results.files.len() as u64, "file"), out.display()));
        fetch::describe(&results, &mut value);
    }
    if output == Output::Json {
        output.print("submit", String::new, value)?;
    }
    all_completed(&ended)
}

/// The keys of a submitted job.
pub(super) fn document(record: &JobRecord, key: Key) -> Value {
    let mut value = described(record);
    value["key"] = json!(key);
    value
}

/// Submits until the job is accepted or the submission is given up.
pub(super) fn submit(
    session: &Session,
    order: &SubmitOrder,
    sent: Option<&mut SubmissionNote>,
) -> Result<Box<JobRecord>, Failure> {
    let step = |step: &SubmissionStep<'_>| inform(|| step_text(step, order));
    session
        .run(sending::submit(&session.client, order, sent, ctrl_c(), step))
        .map_err(|error| failure(session, order, error))
}

/// The failure of a submission.
pub(super) fn failure(session: &Session, order: &SubmitOrder, error: SubmissionError) -> Failure {
    let again =
        format!("submit again with --key {}, which gives the same job, never a second one", order.key);
    match error {
        SubmissionError::Refused { error, answers } => refused(session, order, error, answers),
        SubmissionError::NothingSent(error) => error.map_or_else(nothing_sent, Failure::from),
        SubmissionError::Unknown { error: Some(error), .. } => Failure::system(error).hint(again),
        SubmissionError::Unknown { error: None, .. } => {
            interrupted("interrupted; a server may have accepted the job", again)
        }
        SubmissionError::SentBefore { server, error } => sending::sent_before(&server, &error).into(),
        SubmissionError::Key(error) => error.into(),
    }
}

fn nothing_sent() -> Failure {
    interrupted("interrupted; nothing was submitted", "run the same command to submit")
}

/// The progress of a submission.
fn step_text(step: &SubmissionStep<'_>, order: &SubmitOrder) -> String {
    match step {
        SubmissionStep::Compared(found) => {
            let count = counted(found.vectors.len() as u64, "server");
            match found.vectors.first() {
                Some(best) => format!("{count} can run it, {} completes it first", best.server),
                None => "no server accepts it at the moment".to_owned(),
            }
        }
        SubmissionStep::Submitting(server) if order.inputs.is_empty() => format!("submitting to {server}"),
        SubmissionStep::Submitting(server) => {
            format!("sending {} to {server}", counted(order.inputs.len() as u64, "file"))
        }
        SubmissionStep::Waiting(why) => format!("trying again soon: {why}"),
    }
}
