//! Submits work: the calls of the submission machine of `control`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use pliant_control::agent::{DiscoveryResult, DiscoverySubject};
use pliant_control::client::{self, Command, Event, SubmissionOutcome};
use pliant_control::job::{ComparedEstimate, JobRecord};
use pliant_control::names::{Key, Name};
use pliant_control::reason::{Cause, DiscoverySummary, Reason};
use pliant_control::server::AdmissionRefusal;
use pliant_model::Time;
use pliant_staging::FileSpec;
use pliant_transport::Clock;
use pliant_transport::not_sent;
use pliant_wire::proto::server_client::ServerClient;
use pliant_wire::{CallAnswer, Submission, SubmissionRefusal, SubmitAnswer, SubmittedWork, bounds, proto};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::error::is_broken;
use super::gathering::Turn;
use super::{CALL, Client, ClientError};

/// The shortest deadline of a submission.
const SHORTEST_CALL: Duration = Duration::from_secs(2);
/// The shortest deadline with which the end of a call is waited for in its submission.
const CALL_LIMIT_MIN: Duration = Duration::from_secs(5);
/// How many candidates are asked for.
const BEST: u32 = 3;

/// How many estimates are listed at most.
const ESTIMATES: u32 = *bounds::BEST.end();

/// Work that a user submits.
#[derive(Clone, PartialEq, Debug)]
pub struct SubmitOrder {
    /// Makes the submission unique: the same key again gives the same job.
    pub key: Key,
    /// What the job runs.
    pub what: SubmittedWork,
    /// Its input files, with their local paths.
    pub inputs: Vec<(FileSpec, PathBuf)>,
    /// The only server to submit to, if the user chose one.
    pub only: Option<Name>,
    /// The timeout of the submission.
    pub timeout: Duration,
    /// The server that the key was sent to before without an answer: the work goes to no other one.
    pub sent_to: Option<Name>,
}

/// A step of a submission.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum SubmissionStep<'a> {
    /// The agent has named these servers, the best one first.
    Compared(&'a DiscoveryResult),
    /// The work is sent to this server, which may accept it from now on.
    Submitting(&'a Name),
    /// The submission is tried again soon, for this reason.
    Waiting(&'a str),
}

impl SubmitOrder {
    /// An order without input files, for the best server, with a timeout of a minute.
    pub fn new(key: Key, what: SubmittedWork) -> SubmitOrder {
        let timeout = Duration::from_secs(60);
        SubmitOrder { key, what, inputs: Vec::new(), only: None, timeout, sent_to: None }
    }

    /// The question to the agent.
    pub fn question(&self) -> DiscoverySubject {
        match &self.what {
            SubmittedWork::Service { name, arguments } => {
                DiscoverySubject::Service { name: name.clone(), arguments: arguments.clone() }
            }
            SubmittedWork::Call(call) => {
                DiscoverySubject::Service { name: call.service.clone(), arguments: call.arguments.clone() }
            }
            SubmittedWork::Script(script) => match &script.folder {
                None => DiscoverySubject::Work(script.work.clone()),
                Some(folder) => {
                    DiscoverySubject::InPlace { work: script.work.clone(), folder: folder.clone() }
                }
            },
            // Any of its instances will do.
            SubmittedWork::Batch(batch) => DiscoverySubject::Service {
                name: batch.executable.name().to_owned(),
                arguments: batch
                    .instances
                    .first()
                    .map_or_else(Default::default, |call| batch.arguments_of(call)),
            },
        }
    }
}

/// The error of an order that no server takes, as a discovery found.
pub fn without_estimate(order: &SubmitOrder, found: &DiscoveryResult) -> ClientError {
    let reasons = [client::refusals(found), client::down_instead(found)].concat();
    refused(&reasons, order.only.as_ref())
}

impl Client {
    /// Submits an order until it is accepted or given up, and reports each step. To resume after a crash, record the server of
    /// [`SubmissionStep::Submitting`] and pass it as [`SubmitOrder::sent_to`].
    ///
    /// # Errors
    ///
    /// If no server takes the work, with every reason; if the outcome is unknown, with the server that knows it; or if `step`
    /// fails, after which nothing is sent.
    pub async fn submit(
        &self,
        order: &SubmitOrder,
        step: impl FnMut(SubmissionStep<'_>) -> io::Result<()>,
    ) -> Result<Box<JobRecord>, ClientError> {
        self.submitted_order(order, step, None).await
    }

    /// Submits a call, and waits a little for its end: the record, and the outcome if the call has ended.
    pub(super) async fn submit_call(
        &self,
        order: &SubmitOrder,
    ) -> Result<(Box<JobRecord>, Vec<u8>), ClientError> {
        let outcome = Mutex::default();
        let record = self.submitted_order(order, |_| Ok(()), Some(&outcome)).await?;
        Ok((record, outcome.into_inner()))
    }

    async fn submitted_order(
        &self,
        order: &SubmitOrder,
        mut step: impl FnMut(SubmissionStep<'_>) -> io::Result<()>,
        outcome: Option<&Mutex<Vec<u8>>>,
    ) -> Result<Box<JobRecord>, ClientError> {
        let mut step = |reported: SubmissionStep<'_>| {
            step(reported).map_err(|error| ClientError::failed(error.to_string()))
        };
        let clock = Clock::start(Time(0));
        let until = Time(clock.now().0 + order.timeout.as_secs() as i64);
        let mut machine = match (&order.sent_to, &order.only, &order.what) {
            (Some(server), ..) => client::Submission::resumed(until, server.clone()),
            // A call takes milliseconds, and so does a discovery.
            (None, Some(server), SubmittedWork::Call(_)) if self.servers.known(server).is_some() => {
                client::Submission::chosen(until, server.clone())
            }
            _ => client::Submission::new(until),
        };
        let mut event = Event::Begin;
        let mut why = String::new();
        let mut turn = Turn::default();
        loop {
            match &event {
                Event::Found(found) => step(SubmissionStep::Compared(found))?,
                Event::AgentUnreachable(reason) | Event::Unreachable(reason) | Event::Interrupted(reason) => {
                    why.clone_from(reason);
                }
                Event::Refused(refused) => why = refused.to_string(),
                _ => {}
            }
            if let (Event::Found(found), Some(only)) = (&event, &order.only)
                && *found == DiscoveryResult::default()
            {
                self.expect_known(only).await?;
            }
            let command = machine.on(clock.now(), event).expect("each event answers the command before it");
            event = match command {
                Command::Discover => {
                    turn.take(self.gathered.as_deref()).await;
                    match self.discover(&order.question(), BEST, order.only.as_ref()).await {
                        Ok(found) => Event::Found(found),
                        Err(error) if error.may_pass() => Event::AgentUnreachable(error.to_string()),
                        Err(error) => return Err(error),
                    }
                }
                Command::Submit { to, latest, compared, discovery } => {
                    step(SubmissionStep::Submitting(&to.server))?;
                    let limit = limit(clock, until);
                    let asked = (compared, discovery);
                    match self.server(&to.server, &to.address) {
                        Ok(server) => {
                            self.send(order, (&to.server, server), latest, asked, limit, outcome).await
                        }
                        Err(error) => Event::Rejected(Cause::Invalid.because(error.to_string())),
                    }
                }
                Command::Repeat { server } => {
                    step(SubmissionStep::Submitting(&server))?;
                    let event = match self.server_named(&server).await {
                        Ok(channel) => {
                            let asked = (Vec::new(), DiscoverySummary::default());
                            let limit = limit(clock, until);
                            self.send(order, (&server, channel), None, asked, limit, outcome).await
                        }
                        Err(error) => Event::Unreachable(error.to_string()),
                    };
                    if matches!(event, Event::Unreachable(_) | Event::Interrupted(_)) {
                        // It may come up at another address.
                        self.forget_server(&server);
                    }
                    event
                }
                Command::WakeAt(at) => {
                    if turn.end(machine.is_outdated()) {
                        Event::OthersAccepted
                    } else {
                        step(SubmissionStep::Waiting(&why))?;
                        tokio::time::sleep(clock.until(at)).await;
                        Event::Due
                    }
                }
                Command::Done(outcome) => {
                    turn.accepted(matches!(*outcome, SubmissionOutcome::Accepted(_)));
                    return ended(*outcome, order.only.as_ref());
                }
            };
        }
    }

    /// The estimates of all servers for an order, best first, at most [`bounds::BEST`]; nothing is submitted.
    ///
    /// # Errors
    ///
    /// If no agent answers.
    pub async fn estimates(&self, order: &SubmitOrder) -> Result<DiscoveryResult, ClientError> {
        self.discover(&order.question(), ESTIMATES, order.only.as_ref()).await
    }

    /// An error if the federation has never had a server of that name.
    async fn expect_known(&self, name: &Name) -> Result<(), ClientError> {
        match self.address(name).await {
            Err(error) if error.is_missing() => Err(error),
            // The submission shows whether it is up.
            _ => Ok(()),
        }
    }

    /// Sends the files and the submission to a server.
    async fn send(
        &self,
        order: &SubmitOrder,
        (to, mut server): (&Name, ServerClient<Channel>),
        latest: Option<Time>,
        (compared, discovery): (Vec<ComparedEstimate>, DiscoverySummary),
        limit: Duration,
        outcome: Option<&Mutex<Vec<u8>>>,
    ) -> Event {
        let inputs: Vec<FileSpec> = order.inputs.iter().map(|(spec, _)| spec.clone()).collect();
        // An agent must not move a job from a server that the user chose.
        let pinned = order.only.is_some();
        let sign = || self.sign_submission(order.key, (&order.what, &inputs, pinned), to);
        let claim = match sign() {
            Ok(claim) => claim,
            Err(error) => return Event::Rejected(Cause::Invalid.because(error.to_string())),
        };
        let (key, what) = (order.key, order.what.clone());
        let inputs = inputs.clone();
        let mut submission = Submission { key, what, inputs, latest, compared, discovery, pinned, claim };
        // A repetition takes any completion. It goes without files first: a server with the job needs none, and they may be gone.
        if latest.is_none() {
            match self.answered((to, &mut server), &submission, limit, outcome).await {
                Err(status) if lacks_files(&status) => {}
                answer => return answer.unwrap_or_else(|status| failed(&status)),
            }
        }
        for (spec, path) in &order.inputs {
            if let Err(error) = self.upload(&mut server, order.key, spec, path).await {
                // Nothing was submitted. The server removes uploaded files in time.
                return upload_failed(&error);
            }
        }
        if !order.inputs.is_empty() {
            // The files may have taken longer than a signature lasts.
            match sign() {
                Ok(claim) => submission.claim = claim,
                Err(error) => return Event::Rejected(Cause::Invalid.because(error.to_string())),
            }
        }
        let answer = self.answered((to, &mut server), &submission, limit, outcome).await;
        answer.unwrap_or_else(|status| failed(&status))
    }

    /// The event of an answered submission. If the outcome of a call is wanted, its end is waited for a little.
    async fn answered(
        &self,
        (to, server): (&Name, &mut ServerClient<Channel>),
        submission: &Submission,
        limit: Duration,
        outcome: Option<&Mutex<Vec<u8>>>,
    ) -> Result<Event, Status> {
        let request = proto::SubmitRequest::from(submission);
        let request = match &self.gathered {
            Some(gathered) if outcome.is_none() => {
                match gathered.submit(self, (to, server), request, limit).await {
                    Some(answer) => return answer.map(answer_event),
                    None => proto::SubmitRequest::from(submission),
                }
            }
            _ => request,
        };
        let Some(outcome) = outcome.filter(|_| limit >= CALL_LIMIT_MIN) else {
            let answer = server.submit(self.request_within(request, limit)).await?;
            return Ok(submit_event(Ok(answer)));
        };
        let answer = match server.call(self.request_within(request.clone(), limit)).await {
            // An earlier version of the server.
            Err(status) if status.code() == Code::Unimplemented => {
                let answer = server.submit(self.request_within(request, limit)).await?;
                return Ok(submit_event(Ok(answer)));
            }
            answer => answer?.into_inner(),
        };
        Ok(match CallAnswer::try_from(answer) {
            Ok(CallAnswer::Accepted(end)) => {
                *outcome.lock() = end.outcome;
                Event::Accepted(Box::new(end.job))
            }
            Ok(CallAnswer::Refused(declined)) => declined_event(declined),
            Err(malformed) => Event::Interrupted(malformed.to_string()),
        })
    }
}

/// The deadline of a submission, within the remaining timeout.
fn limit(clock: Clock, until: Time) -> Duration {
    clock.until(until).clamp(SHORTEST_CALL, CALL)
}

/// True if a submission was refused because its files are missing.
pub(super) fn lacks_files(status: &Status) -> bool {
    status.code() == Code::FailedPrecondition && !is_broken(status)
}

/// The event of a file that was not uploaded, so that nothing was submitted.
fn upload_failed(error: &ClientError) -> Event {
    let why = error.to_string();
    if error.may_pass() {
        Event::Unreachable(why)
    } else if error.is_denied() {
        // By this server, which may have been closed to the user since its offer.
        Event::Refused(AdmissionRefusal::Other(Cause::Unknown.because(why)))
    } else {
        rejected(why)
    }
}

/// The event of an answered submission.
pub(super) fn submit_event(answer: Result<tonic::Response<proto::SubmitReply>, Status>) -> Event {
    match answer.map(|reply| SubmitAnswer::try_from(reply.into_inner())) {
        Ok(Ok(answer)) => answer_event(answer),
        Ok(Err(malformed)) => Event::Interrupted(malformed.to_string()),
        Err(status) => failed(&status),
    }
}

fn answer_event(answer: SubmitAnswer) -> Event {
    match answer {
        SubmitAnswer::Accepted(record) => Event::Accepted(record),
        SubmitAnswer::Refused(declined) => declined_event(declined),
    }
}

fn declined_event(declined: SubmissionRefusal) -> Event {
    match declined.now {
        Some(now) => Event::Refused(AdmissionRefusal::Stale { now }),
        // No server takes another user's key, and no other one has the data.
        None if matches!(declined.cause, Cause::KeyTaken | Cause::NoData) => {
            Event::Rejected(declined.cause.because(declined.why))
        }
        None => Event::Refused(AdmissionRefusal::Other(declined.cause.because(declined.why))),
    }
}

/// The event of a failed call: it says whether the server may have accepted the work.
fn failed(status: &Status) -> Event {
    if let Some(error) = not_sent(status) {
        return Event::Unreachable(error.to_string());
    }
    let why = status.message().to_owned();
    match status.code() {
        _ if is_broken(status) => Event::Interrupted(why),
        Code::InvalidArgument | Code::FailedPrecondition | Code::PermissionDenied => rejected(why),
        Code::Unauthenticated | Code::NotFound => rejected(why),
        Code::AlreadyExists => Event::Rejected(Cause::KeyTaken.because(why)),
        // The message is too large.
        Code::OutOfRange => rejected(why),
        // The server has done nothing this time. It may have accepted the work before.
        Code::ResourceExhausted => Event::Unreachable(why),
        _ => Event::Interrupted(why),
    }
}

fn rejected(why: String) -> Event {
    Event::Rejected(Cause::Invalid.because(why))
}

fn ended(outcome: SubmissionOutcome, only: Option<&Name>) -> Result<Box<JobRecord>, ClientError> {
    match outcome {
        SubmissionOutcome::Accepted(record) => Ok(record),
        SubmissionOutcome::Refused(reasons) => Err(refused(&reasons, only)),
        SubmissionOutcome::Unknown { server, why } => Err(ClientError::failed(format!(
            "the connection to server {server} broke ({why}): it may have accepted the job"
        ))
        .with_hint("submit again with the same key: the server does not accept it a second time")),
    }
}

/// The error of an order that no server takes, for these reasons.
fn refused(reasons: &[(Option<Name>, Reason)], only: Option<&Name>) -> ClientError {
    if reasons.is_empty() {
        return ClientError::unavailable(match only {
            Some(name) => format!("server {name} is not connected to the federation"),
            None => "no server is connected to the federation".to_owned(),
        });
    }
    let text = grouped(reasons).join("\n  ");
    // Without an answer of a server it may work later.
    let is_unanswered = reasons.iter().all(|(server, _)| server.is_none());
    match is_unanswered {
        true => ClientError::unavailable(text),
        false => ClientError::usage(format!("no server accepts the job\n  {text}")),
    }
    .because(reasons.iter().map(|(_, reason)| reason.cause).collect())
}

/// Each reason once, with the servers that gave it.
fn grouped(reasons: &[(Option<Name>, Reason)]) -> Vec<String> {
    let mut grouped: Vec<(&str, Vec<&str>)> = Vec::new();
    for (server, Reason { why, .. }) in reasons {
        let position = grouped.iter().position(|(known, _)| *known == why.as_str()).unwrap_or(grouped.len());
        if position == grouped.len() {
            grouped.push((why, Vec::new()));
        }
        let servers = &mut grouped[position].1;
        if let Some(server) = server
            && !servers.contains(&server.as_str())
        {
            servers.push(server.as_str());
        }
    }
    let line = |(why, servers): &(&str, Vec<&str>)| match servers[..] {
        [] => (*why).to_owned(),
        _ => format!("{}: {why}", servers.join(", ")),
    };
    grouped.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_server_is_tried_when_one_refuses_a_file_of_the_user() {
        let event = |status: Status| upload_failed(&ClientError::call("in.dat", &status));
        let banned = event(Status::permission_denied("alice is banned"));
        let Event::Refused(AdmissionRefusal::Other(reason)) = banned else { panic!("{banned:?}") };
        assert_eq!(reason.why, "alice is banned");
        assert!(matches!(event(Status::invalid_argument("the file is too long")), Event::Rejected(_)));
        assert!(matches!(event(Status::resource_exhausted("busy")), Event::Unreachable(_)));
    }
}
