//! Calls of typed services: a function of a server with values for arguments, as GridRPC has it. A call is a job.

mod earlier;
mod ends;
mod error;
mod files;
mod large;
mod outcome;
mod services;
mod stored;
mod submission;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pliant_calls::{Signature, Value};
use pliant_control::job::{Exit, JobRecord};
use pliant_control::names::{Handle, Key, Name};
use pliant_wire::{self as wire, CallEnd as EndedJob};
use tokio::sync::Semaphore;
use tonic::Code;

use super::{Client, ClientError, DOWN_POLL, LOST_POLL};
use ends::CallEnds;

pub use earlier::EarlierCall;
pub use error::CallError;
pub use large::bytes_of;
pub use services::TypedService;
pub use stored::{Keep, StoredData};
pub use submission::CallSubmission;

/// How many submissions of calls a client has under way at a time; others wait. All of these numbers together are fewer than a server answers on
/// one connection.
const SUBMISSIONS: usize = 48;
/// How many calls a client waits for by a question to the server, which answers once the call has ended. The ends of others come from the agent.
const LONG_QUESTIONS: usize = 32;
/// How many questions that are answered at once are under way at a time.
const SHORT_QUESTIONS: usize = 32;
/// How long a call of the server waits for the end of a job, with what is between.
const WAIT: Duration = Duration::from_secs(60);
/// How long the results of a call that has completed are asked for while its server is down.
const RESULTS_WITHIN: Duration = Duration::from_secs(300);

/// Which submissions of calls and waits for them may still begin: neither holds up the other.
pub(super) struct CallTurns {
    submissions: Semaphore,
    long_questions: Semaphore,
    short_questions: Semaphore,
    ends: CallEnds,
}

impl Default for CallTurns {
    fn default() -> CallTurns {
        CallTurns {
            submissions: Semaphore::new(SUBMISSIONS),
            long_questions: Semaphore::new(LONG_QUESTIONS),
            short_questions: Semaphore::new(SHORT_QUESTIONS),
            ends: CallEnds::default(),
        }
    }
}

/// A call that is to be made.
#[derive(Clone, PartialEq, Debug)]
pub struct CallOrder {
    /// The service.
    pub service: TypedService,
    /// The only server that may carry it out; the one that would complete it first (MCT) if there is none.
    pub server: Option<Name>,
    /// The arguments, one for each parameter of the signature: none for those that only come back, and none for files.
    pub values: Vec<Option<Value>>,
    /// The local paths of files, by the position of their parameter: read before the call, or written after it.
    pub files: BTreeMap<usize, PathBuf>,
    /// Arguments that are at the server from earlier calls, by the position of their parameter. The call goes to that server.
    pub stored: BTreeMap<usize, StoredData>,
    /// Values that stay at the server after the call, by the position of their parameter: the result of one that comes back, the
    /// argument of another.
    pub keep: BTreeMap<usize, Keep>,
    /// How long the submission is tried.
    pub timeout: Duration,
}

/// A call that a server has accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartedCall {
    /// Its job.
    pub job: Handle,
    signature: Signature,
    files: BTreeMap<usize, PathBuf>,
    keep: BTreeMap<usize, Keep>,
}

/// How a call ended.
#[derive(Clone, PartialEq, Debug)]
pub enum CallEnd {
    /// With these results: one for each parameter of the signature, none for those that only go to the service. Files were
    /// written to the paths of the order.
    Completed(Vec<Option<Value>>),
    /// The service, or what carries it out, has failed.
    Failed {
        /// How its job ended.
        exit: Exit,
        /// Why.
        reason: String,
    },
    /// It was cancelled.
    Cancelled,
}

impl CallOrder {
    /// A call of the service with these arguments, at the best server, without files, tried for a minute.
    pub fn new(service: TypedService, values: Vec<Option<Value>>) -> CallOrder {
        let (files, stored, keep) = Default::default();
        CallOrder { service, server: None, values, files, stored, keep, timeout: Duration::from_secs(60) }
    }

    /// The call that was accepted as this job.
    pub fn started(&self, job: Handle) -> StartedCall {
        let (signature, files) = (self.service.signature.clone(), self.files.clone());
        StartedCall { job, signature, files, keep: self.keep.clone() }
    }
}

impl StartedCall {
    /// The call that another process has begun as this job, with the signature of its service. Its files are not fetched.
    pub fn of_job(job: Handle, signature: Signature) -> StartedCall {
        StartedCall { job, signature, files: BTreeMap::new(), keep: BTreeMap::new() }
    }
}

impl Client {
    /// Submits a call, once its values are checked; returns when a server has accepted it.
    ///
    /// # Errors
    ///
    /// The values are not what the signature says, a file cannot be read, or no server accepts the call.
    pub async fn start_call(&self, order: &CallOrder) -> Result<StartedCall, CallError> {
        self.submitted_call(order, false).await.map(|(call, ..)| call)
    }

    /// Submits a call; if it is waited for, and ends soon, with its record and its outcome.
    async fn submitted_call(
        &self,
        order: &CallOrder,
        waits: bool,
    ) -> Result<(StartedCall, JobRecord, Vec<u8>), CallError> {
        let _turn = self.call_turns.submissions.acquire().await.expect("it is never closed");
        let submission = order.submission(Key(rand::random())).await?;
        let submitted = match waits {
            true => self.submit_call(&submission.order).await,
            false => self.submit(&submission.order, |_| Ok(())).await.map(|record| (record, Vec::new())),
        };
        let (record, outcome) = submitted.map_err(CallError::of_submission)?;
        Ok((order.started(record.handle.clone()), *record, outcome))
    }

    /// How a call ended; none if it has not.
    ///
    /// # Errors
    ///
    /// No daemon knows its state, or its results cannot be fetched.
    pub async fn probe_call(&self, call: &StartedCall) -> Result<Option<CallEnd>, CallError> {
        let record = self.job(&call.job).await?;
        match record.state.is_final() {
            false => Ok(None),
            true => self.end_of(call, record, Vec::new()).await.map(Some),
        }
    }

    /// Waits for the end of a call, wherever its job goes, and across restarts of daemons.
    ///
    /// # Errors
    ///
    /// The federation does not know the job, or its results cannot be fetched.
    pub async fn wait_call(&self, call: &StartedCall) -> Result<CallEnd, CallError> {
        let mut completed = None;
        loop {
            let ended = match self.call_turns.long_questions.try_acquire() {
                Ok(_permit) => self.ended_job(&call.job).await,
                Err(_) => self.noticed_end(&call.job).await,
            };
            let (record, outcome, pause) = match ended {
                Ok(EndedJob { job, outcome }) => (job, outcome, Duration::ZERO),
                Err(error) => {
                    let may_pass = error.may_pass();
                    // Its server comes back with its journal, or the agent ends the job.
                    let pause = if may_pass { DOWN_POLL } else { LOST_POLL };
                    match self.agent_record(&call.job, error).await {
                        Ok(record) => (record, Vec::new(), pause),
                        Err(_) if may_pass => {
                            tokio::time::sleep(pause).await;
                            continue;
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            };
            if record.state.is_final() {
                match self.end_of(call, record, outcome).await {
                    // The server had ended the job, and is down now.
                    Err(error)
                        if error.may_pass()
                            && completed.get_or_insert_with(Instant::now).elapsed() < RESULTS_WITHIN =>
                    {
                        tokio::time::sleep(DOWN_POLL).await;
                        continue;
                    }
                    end => return end,
                }
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Cancels a call, and waits until it has ended.
    ///
    /// # Errors
    ///
    /// No daemon that knows the job answers.
    pub async fn cancel_call(&self, call: &StartedCall) -> Result<CallEnd, CallError> {
        self.cancel(&call.job).await?;
        self.wait_call(call).await
    }

    /// Submits a call, and waits a moment for its end: a short call takes one question to the server.
    ///
    /// # Errors
    ///
    /// As for [`Client::start_call`]; and its results cannot be fetched.
    pub async fn begin_call(&self, order: &CallOrder) -> Result<(StartedCall, Option<CallEnd>), CallError> {
        let (call, record, outcome) = self.submitted_call(order, true).await?;
        // A call that was moved is asked for where it is.
        if !record.state.is_final() || *record.server() != call.job.server {
            return Ok((call, None));
        }
        match self.end_of(&call, record, outcome).await {
            Ok(end) => Ok((call, Some(end))),
            // Its server has gone down since: its results are fetched later.
            Err(error) if error.may_pass() => Ok((call, None)),
            Err(error) => Err(error),
        }
    }

    /// Makes a call, and waits for its end.
    ///
    /// # Errors
    ///
    /// As for [`Client::start_call`] and [`Client::wait_call`].
    pub async fn call(&self, order: &CallOrder) -> Result<CallEnd, CallError> {
        match self.begin_call(order).await? {
            (_, Some(end)) => Ok(end),
            (call, None) => self.wait_call(&call).await,
        }
    }

    /// The job once it has ended, as the agent reports it: for one of many calls that are waited for.
    async fn noticed_end(&self, job: &Handle) -> Result<EndedJob, ClientError> {
        let CallTurns { short_questions, ends, .. } = &*self.call_turns;
        // Before the present state is looked up, so that no end is missed.
        let mut awaited = ends.register(job);
        let mut has_ended = false;
        loop {
            let permit = short_questions.acquire().await.expect("it is never closed");
            if has_ended || self.job(job).await?.state.is_final() {
                return self.ended_job(job).await;
            }
            drop(permit);
            has_ended = self.until_noticed(&mut awaited).await;
        }
    }

    /// The job as soon as it has ended, or after a while.
    async fn ended_job(&self, handle: &Handle) -> Result<EndedJob, ClientError> {
        loop {
            let mut server = self.server_of(handle).await?;
            let reply = server.call_end(self.request_within(wire::job_request(handle), WAIT)).await;
            let reply = match reply {
                Ok(reply) => reply.into_inner(),
                // An earlier version of the server.
                Err(status) if status.code() == Code::Unimplemented => {
                    let job = self.wait(handle, |_| {}).await?;
                    return Ok(EndedJob { job, outcome: Vec::new() });
                }
                Err(status) => return Err(self.server_failed(handle, &status)),
            };
            let ended = EndedJob::try_from(reply).map_err(ClientError::protocol)?;
            if self.is_there(&ended.job) {
                return Ok(ended);
            }
        }
    }
}
