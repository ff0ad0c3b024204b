//! A submission from its first call to its end, with the note of its key: the command and the Python package submit this way.

use pliant_client::{Client, ClientError, SubmissionStep, SubmitOrder};
use pliant_control::agent::DiscoveryResult;
use pliant_control::job::JobRecord;
use pliant_control::names::Name;
use pliant_wire::SubmittedWork;

use crate::RequestError;
use crate::submission_note::SubmissionNote;

/// Why a submission gave no job.
#[derive(Debug)]
pub enum SubmissionError {
    /// No server takes it.
    Refused {
        /// Why.
        error: ClientError,
        /// How many servers have answered an agent; none if no agent answered.
        answers: Option<usize>,
    },
    /// The call was interrupted or failed before anything was sent; none if it was interrupted.
    NothingSent(Option<ClientError>),
    /// A server may have accepted the job: the same submission with the same key shows that. The note of its key says where.
    Unknown {
        /// The server.
        server: Name,
        /// Why that is not known; none if the call was interrupted.
        error: Option<ClientError>,
    },
    /// The server that the key was sent to before gives no job: it is down or busy, or it refuses the submission.
    SentBefore {
        /// The server.
        server: Name,
        /// Why.
        error: ClientError,
    },
    /// The key is of another submission, or its note cannot be kept.
    Key(RequestError),
}

/// How many servers have answered a discovery, or might have.
pub fn answers(found: &DiscoveryResult) -> usize {
    found.vectors.len() + found.refusals.len() + found.silent.len()
}

/// Submits an order until it is accepted or given up, or until `interrupted`, and reports each step. With `note`, the note of a key that the
/// user gave, the order goes to the server that it went to before.
///
/// # Errors
///
/// Why there is no job.
pub async fn submit(
    client: &Client,
    order: &SubmitOrder,
    mut note: Option<&mut SubmissionNote>,
    interrupted: impl Future<Output = ()>,
    mut step: impl FnMut(&SubmissionStep<'_>),
) -> Result<Box<JobRecord>, SubmissionError> {
    let (mut answered, mut last) = (None, None);
    let on_step = |reported: SubmissionStep<'_>| {
        if let SubmissionStep::Compared(found) = &reported {
            answered = Some(answers(found));
        }
        step(&reported);
        if let SubmissionStep::Submitting(server) = reported {
            last = Some(server.clone());
            note.as_mut().map_or(Ok(()), |note| note.record(server))?;
        }
        Ok(())
    };
    let ended = tokio::select! {
        ended = client.submit(order, on_step) => Some(ended),
        () = interrupted => None,
    };
    let error = match ended {
        Some(Ok(record)) => return same_name(&order.what, record).map_err(SubmissionError::Key),
        Some(Err(error)) if error.is_input() || error.may_pass() => error,
        // The job may have been accepted: only its key can show that.
        other => {
            let error = other.and_then(Result::err);
            let Some(server) = last else { return Err(SubmissionError::NothingSent(error)) };
            if note.is_none() {
                noted(order, &server).map_err(SubmissionError::Key)?;
            }
            return Err(SubmissionError::Unknown { server, error });
        }
    };
    if let Some(server) = &order.sent_to {
        return Err(SubmissionError::SentBefore { server: server.clone(), error });
    }
    if let Some(note) = note {
        note.clear().map_err(SubmissionError::Key)?;
    }
    Err(SubmissionError::Refused { error, answers: answered })
}

/// What [`SubmissionError::SentBefore`] means to the user.
pub fn sent_before(server: &Name, error: &ClientError) -> RequestError {
    let problem = format!("the submission with this key was sent to {server} before; {error}");
    RequestError::input(problem).hint("with another key it may go to another server, as another job")
}

/// Notes where a submission went whose key was drawn.
fn noted(order: &SubmitOrder, server: &Name) -> Result<(), RequestError> {
    let recorded = SubmissionNote::open(order, || {})?.record(server);
    recorded.map_err(|error| RequestError::system(error).hint(format!("{server} may have the job")))
}

/// An error if the server has another job with this key: then it was submitted from another machine, whose note is not here.
fn same_name(what: &SubmittedWork, accepted: Box<JobRecord>) -> Result<Box<JobRecord>, RequestError> {
    let asked = match what {
        SubmittedWork::Service { name, .. } => name.as_str(),
        SubmittedWork::Script(script) => script.name.rsplit('/').next().unwrap_or_default(),
        SubmittedWork::Call(call) => call.service.as_str(),
        SubmittedWork::Batch(batch) => batch.executable.name(),
    };
    if accepted.name == asked {
        return Ok(accepted);
    }
    let JobRecord { handle, name, .. } = &*accepted;
    let problem = format!("--key: expected a key for `{asked}`, found that of {handle}, which runs `{name}`");
    Err(RequestError::input(problem).hint("use another key"))
}
