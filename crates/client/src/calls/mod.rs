//! Calls of typed services: a function of a server with values for arguments, as GridRPC has it. A call is a job.

mod error;
mod files;
mod stored;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use pliant_calls::frame::{self, FrameKind};
use pliant_calls::{Parameter, ParameterType, Signature, Value, decode, encode};
use pliant_control::job::{Exit, JobRecord};
use pliant_control::names::{Handle, Key, Name};
use pliant_staging::ResultName;
use pliant_wire::bounds::CALL_BYTES_MAX;
use pliant_wire::{self as wire, CALL_ARGUMENTS, CallEnd as EndedJob, SubmittedWork, TypedCall};
use tokio::sync::Semaphore;
use tonic::Code;

use super::{Client, ClientError, DOWN_POLL, LOST_POLL, SubmitOrder};

pub use error::CallError;
pub use stored::{Keep, StoredData};

/// How many submissions of calls, and how many waits for calls, a client has under way at a time; others wait for their turn.
/// Both together are fewer than a server answers on one connection.
const AT_A_TIME: usize = 48;
/// How long the end of a call is waited for before another call has its turn, if many are waited for.
const SLICE: Duration = Duration::from_millis(250);
/// How long a call of the server waits for the end of a job, with what is between.
const WAIT: Duration = Duration::from_secs(60);

/// How many submissions of calls and waits for them may still begin: neither holds up the other.
pub(super) struct CallTurns {
    submissions: Semaphore,
    waits: Semaphore,
}

impl Default for CallTurns {
    fn default() -> CallTurns {
        CallTurns { submissions: Semaphore::new(AT_A_TIME), waits: Semaphore::new(AT_A_TIME) }
    }
}

/// A typed service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypedService {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub signature: Signature,
    /// The servers that offer it with this signature to the caller, by name.
    pub servers: Vec<Name>,
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
}

impl Client {
    /// Finds a typed service at one server, or at any.
    ///
    /// # Errors
    ///
    /// There is no such server, it does not offer such a service to the caller, or no agent or server answers.
    pub async fn typed_service(&self, name: &str, server: Option<&Name>) -> Result<TypedService, CallError> {
        let all = self.servers().await?.servers;
        let wanted: Vec<_> =
            all.into_iter().filter(|found| server.is_none_or(|only| found.info.name == *only)).collect();
        if let (Some(server), true) = (server, wanted.is_empty()) {
            return Err(CallError::NoSuchServer(server.clone()));
        }
        let (mut found, mut is_untyped, mut failure) = (None::<TypedService>, false, None);
        for server in wanted {
            let (server, address) = (server.info.name, server.info.address);
            let offer = match self.offer(&server, &address).await {
                Ok(offer) => offer,
                Err(error) => {
                    failure = Some(error);
                    continue;
                }
            };
            let Some(service) =
                offer.services.into_iter().find(|service| service.name == name && !service.for_others)
            else {
                continue;
            };
            let Ok(signature) = service.signature.parse::<Signature>() else { continue };
            if service.signature.is_empty() {
                is_untyped = true;
                continue;
            }
            match &mut found {
                // The first one decides: a call has one signature.
                Some(service) if service.signature == signature => service.servers.push(server),
                Some(_) => {}
                None => {
                    found = Some(TypedService { name: name.to_owned(), signature, servers: vec![server] })
                }
            }
        }
        match (found, failure) {
            (Some(service), _) => Ok(service),
            (None, _) if is_untyped => Err(CallError::NotTyped(name.to_owned())),
            (None, Some(error)) => Err(error.into()),
            (None, None) => Err(CallError::NoSuchService(name.to_owned())),
        }
    }

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
        let CallOrder { service, files, timeout, .. } = order;
        let signature = &service.signature;
        let server = stored::server_of(order)?;
        let values = with_file_names(order);
        let is_stored = |parameter: &Parameter| {
            signature.position(&parameter.name).is_some_and(|at| order.stored.contains_key(&at))
        };
        signature.check_arguments_but(&values, is_stored)?;
        let arguments = numbers(signature, &values);
        let encoded = encode(&values)?;
        let mut staged = files::staged(signature, files).await?;
        let (stored, kept) = (stored::arguments(order)?, stored::kept(order)?);
        let mut call =
            TypedCall { service: service.name.clone(), arguments, values: Default::default(), stored, kept };
        // Until the submission is over.
        let mut _arguments = None;
        if encoded.len() <= CALL_BYTES_MAX {
            call.values = encoded.into();
        } else {
            let (file, input) = files::arguments_file(CALL_ARGUMENTS, encoded).await?;
            staged.push(input);
            _arguments = Some(file);
        }
        let submission = SubmitOrder {
            inputs: staged,
            only: server,
            timeout: *timeout,
            ..SubmitOrder::new(Key(rand::random()), SubmittedWork::Call(call))
        };
        let submitted = match waits {
            true => self.submit_call(&submission).await,
            false => self.submit(&submission, |_| Ok(())).await.map(|record| (record, Vec::new())),
        };
        let (record, outcome) = submitted.map_err(CallError::of_submission)?;
        let (signature, files, keep) = (signature.clone(), files.clone(), order.keep.clone());
        Ok((StartedCall { job: record.handle.clone(), signature, files, keep }, *record, outcome))
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
        loop {
            let turn = self.call_turns.waits.acquire().await.expect("it is never closed");
            let ended = if self.call_turns.waits.available_permits() >= AT_A_TIME / 2 {
                self.ended_job(&call.job).await
            } else {
                match tokio::time::timeout(SLICE, self.ended_job(&call.job)).await {
                    Ok(ended) => ended,
                    // A call that runs for long must not hide the ends of others.
                    Err(_) => continue,
                }
            };
            drop(turn);
            match ended {
                Ok(EndedJob { job, outcome }) if job.state.is_final() => {
                    return self.end_of(call, job, outcome).await;
                }
                Ok(_) => {}
                Err(error) => {
                    let may_pass = error.may_pass();
                    match self.agent_record(&call.job, error).await {
                        Ok(record) if record.state.is_final() => {
                            return self.end_of(call, record, Vec::new()).await;
                        }
                        Ok(_) => {}
                        Err(_) if may_pass => {}
                        Err(error) => return Err(error.into()),
                    }
                    // Its server comes back with its journal, or the agent ends the job.
                    tokio::time::sleep(if may_pass { DOWN_POLL } else { LOST_POLL }).await;
                }
            }
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

    /// Makes a call, and waits for its end.
    ///
    /// # Errors
    ///
    /// As for [`Client::start_call`] and [`Client::wait_call`].
    pub async fn call(&self, order: &CallOrder) -> Result<CallEnd, CallError> {
        let (call, record, outcome) = self.submitted_call(order, true).await?;
        // A call that was moved is asked for where it is.
        match record.state.is_final() && *record.server() == call.job.server {
            true => self.end_of(&call, record, outcome).await,
            false => self.wait_call(&call).await,
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

    async fn end_of(
        &self,
        call: &StartedCall,
        record: JobRecord,
        outcome: Vec<u8>,
    ) -> Result<CallEnd, CallError> {
        let exit = record.exit.unwrap_or(Exit::Lost("its end is not known".to_owned()));
        if exit == Exit::Cancelled {
            return Ok(CallEnd::Cancelled);
        }
        let is_success = exit == Exit::Code(0);
        let needs_files =
            is_success && call.signature.outputs().any(|parameter| parameter.kind == ParameterType::File);
        let has_outcome = !outcome.is_empty();
        let outcome = match has_outcome {
            true => outcome,
            // Of one that was lost there may be nothing.
            false => match self.fetched_outcome(&call.job).await {
                Ok(outcome) => outcome,
                Err(error) if is_success => return Err(error),
                Err(_) => return Ok(CallEnd::Failed { reason: exit.to_string(), exit }),
            },
        };
        let read = frame::read(&mut &outcome[..]).map_err(|error| ClientError::protocol(error).into());
        match (read, is_success) {
            (Ok(Some((header, payload))), true) if header.kind == FrameKind::Result => {
                let results = decode(&payload).map_err(ClientError::protocol)?;
                if results.len() != call.signature.parameters().len() {
                    return Err(
                        ClientError::protocol("expected one value for each parameter, found others").into()
                    );
                }
                if needs_files {
                    self.fetch_files(call, &results).await?;
                }
                Ok(CallEnd::Completed(results))
            }
            (Ok(Some((header, payload))), false) if header.kind == FrameKind::Failure => {
                Ok(CallEnd::Failed { exit, reason: String::from_utf8_lossy(&payload).into_owned() })
            }
            (Err(error), true) => Err(error),
            (Ok(_), true) => {
                Err(ClientError::protocol("expected the outcome of a call, found another").into())
            }
            // It has ended after its outcome was written.
            (_, false) => Ok(CallEnd::Failed { reason: exit.to_string(), exit }),
        }
    }

    /// The local copies of files that come back.
    async fn fetch_files(&self, call: &StartedCall, results: &[Option<Value>]) -> Result<(), CallError> {
        let listed = self.results(&call.job).await?.files;
        for (at, value) in results.iter().enumerate() {
            let (Some(Value::File(name)), Some(path)) = (value, call.files.get(&at)) else { continue };
            let wanted =
                |name_of: &ResultName| matches!(name_of, ResultName::File(file) if file.as_str() == name);
            match listed.iter().find(|file| wanted(&file.name)) {
                Some(file) => self.fetch_to(&call.job, file, path).await?,
                // A file that was not changed is no result: the local one has its content.
                None if call.signature.parameters()[at].direction.is_input() => {}
                None => {
                    return Err(ClientError::failed(format!(
                        "the result {name} of job {} is missing",
                        call.job
                    ))
                    .into());
                }
            }
        }
        Ok(())
    }

    /// The outcome of a call that did not come with the end of its job.
    async fn fetched_outcome(&self, job: &Handle) -> Result<Vec<u8>, CallError> {
        let listed = self.results(job).await?.files;
        let is_outcome =
            |name: &ResultName| matches!(name, ResultName::File(file) if file.as_str() == wire::CALL_OUTCOME);
        let Some(file) = listed.iter().find(|file| is_outcome(&file.name)) else {
            return Err(ClientError::failed(format!("the outcome of job {job} is missing")).into());
        };
        let folder = files::folder()?;
        self.fetch(job, file, folder.path()).await?;
        files::read(&folder.path().join(pliant_staging::WORK).join(wire::CALL_OUTCOME))
    }
}

/// The values with the names that files have in the work folder of the job: those of their parameters.
fn with_file_names(order: &CallOrder) -> Vec<Option<Value>> {
    let mut values = order.values.clone();
    for (at, parameter) in order.service.signature.parameters().iter().enumerate() {
        if parameter.kind == ParameterType::File
            && parameter.direction.is_input()
            && order.files.contains_key(&at)
            && let Some(value) = values.get_mut(at)
        {
            *value = Some(Value::File(parameter.name.clone()));
        }
    }
    values
}

/// The numbers among the arguments by which servers plan the job.
fn numbers(signature: &Signature, values: &[Option<Value>]) -> BTreeMap<String, String> {
    let named = signature.parameters().iter().zip(values);
    named
        .filter_map(|(parameter, value)| Some((parameter.name.clone(), value.as_ref()?.finite_number()?)))
        .collect()
}
