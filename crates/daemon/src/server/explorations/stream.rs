//! One client's stream: its calls in their order, and the ends of its requests as they come.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use pliant_control::names::Token;
use pliant_control::names::{Key, User};
use pliant_control::optional::server::{
    Answer, Event, Journaled, Prospects, RequestKey, RequestState, Submit, TimedEvent, UserShare,
};
use pliant_control::payload::Payload;
use pliant_control::reason::{Cause, Reason};
use pliant_model::TimeMs;
use pliant_site::JobFolder;
use pliant_staging::{FileSpec, ResultName, StagingError};
use pliant_wire::bounds::OUTPUT_BYTES_MAX;
use pliant_wire::{
    Attempt, Call, Executable, ExplorationAnswer, ExplorationReply, ExplorationRequest, ParameterScript,
    proto,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tonic::{Status, Streaming};

use super::driver::{Answered, Ended};
use super::work::{RequestContext, is_pause, request_work};
use super::{Explorations, inputs, moment};
use crate::call_log::log_call;
use crate::host::{NoReply, Rejected, Stopped};
use crate::server::open_call::OpenCall;
use crate::server::service::{slow, stopping};

/// How long a call waits for the journal.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What a stream is about.
pub(in crate::server) struct ExplorationCall {
    explorations: Explorations,
    user: User,
    exploration: Key,
    executable: Executable,
    deadline: Option<TimeMs>,
    inputs: Vec<FileSpec>,
    /// The script among the files of the exploration, if its requests run one.
    script: Option<FileSpec>,
    /// After how long a silence the client is sent its user's usage, if it asked for that.
    shares_every: Option<Duration>,
    /// Ties its log lines together.
    request: String,
}

/// Where replies go.
type ReplySender = mpsc::Sender<Result<proto::ExploreReply, Status>>;

impl Explorations {
    /// Reads the first message of a stream, and makes sure that the service is offered, or that scripts are run.
    pub(in crate::server) async fn open_call(
        &self,
        user: User,
        request: String,
        calls: &mut Streaming<proto::ExploreRequest>,
    ) -> Result<ExplorationCall, Status> {
        let first = tokio::time::timeout(TIMEOUT, calls.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("begin: expected it, nothing came"))?;
        let first = first?.map(ExplorationRequest::try_from).transpose()?;
        let Some(ExplorationRequest::Begin { exploration, executable, deadline, inputs, shares_every_s }) =
            first
        else {
            return Err(Status::invalid_argument("begin: expected it first, found something else"));
        };
        if !(is_pause(&executable) && self.file.pause) {
            let found = self.offer.offers(&executable, &user);
            found.map_err(|refusal| Status::not_found(refusal.to_string()))?;
            let account = self.offer.accounts.of_owner(&user);
            account.map_err(|refusal| Status::permission_denied(refusal.to_string()))?;
        }
        let mut script = None;
        if !inputs.is_empty() || executable.script().is_some() {
            let host = &self.runner.host;
            self.unless_of_other(&user, exploration).await?;
            let (of, dir) = (inputs::uploads_of(&user, exploration), host.exploration_inputs(exploration));
            if let Some(ParameterScript { text, .. }) = executable.script() {
                let put = inputs::put_script(&host.store, &of, text, &dir).await;
                script = Some(put.map_err(|error| not_taken(&error))?);
            }
            let files: Vec<FileSpec> = inputs.iter().chain(&script).cloned().collect();
            let taken = inputs::take_in(&host.store, &of, &files, &dir).await;
            taken.map_err(|error| not_taken(&error))?;
        }
        log_call!(info, user, %user, %exploration, executable = executable.name(), "explores");
        let explorations = self.clone();
        let shares_every = (shares_every_s > 0).then(|| Duration::from_secs(shares_every_s.into()));
        Ok(ExplorationCall {
            explorations,
            user,
            exploration,
            executable,
            deadline,
            inputs,
            script,
            shares_every,
            request,
        })
    }

    /// The folder with the files of an exploration is named by its key alone: another user's is refused before anything is put there.
    async fn unless_of_other(&self, user: &User, exploration: Key) -> Result<(), Status> {
        let owner = self.mailbox.glance(move |machine, _| machine.requests().owner(exploration).cloned());
        match owner.await.map_err(|Stopped| stopping())? {
            Some(owner) if owner != *user => {
                Err(Status::already_exists("another user's exploration has this key"))
            }
            _ => Ok(()),
        }
    }
}

/// Why the files of an exploration cannot be taken, for its client.
fn not_taken(error: &StagingError) -> Status {
    match error {
        // The client sends it, and asks again.
        StagingError::Missing { .. } => Status::aborted(error.public_message()),
        error if error.may_pass() => Status::unavailable(error.public_message()),
        error => Status::invalid_argument(error.public_message()),
    }
}

impl ExplorationCall {
    /// Answers calls and reports ends until the client hangs up, or can be answered no more.
    pub(in crate::server) async fn serve(
        self,
        mut calls: Streaming<proto::ExploreRequest>,
        replies: ReplySender,
        open: &OpenCall,
    ) {
        // Before anything is answered, so that no end is missed.
        let mut ends = self.explorations.listeners.listen(&self.user, self.exploration);
        // Not all of those together who came together, and not while they still come.
        let first = |every: Duration| Instant::now() + every.mul_f64(0.5 + rand::random::<f64>());
        let mut shared = self.shares_every.map(first);
        // Each message counts as a request of the user. One beyond the limit is read later; ends are reported meanwhile.
        let mut may_read = false;
        loop {
            let silent_until = shared.unwrap_or_else(Instant::now);
            let reply = tokio::select! {
                () = open.message(), if !may_read => {
                    may_read = true;
                    continue;
                },
                call = calls.message(), if may_read => match call {
                    Ok(Some(call)) => {
                        may_read = false;
                        self.answer(call).await
                    },
                    // A client that hung up asks again.
                    Ok(None) | Err(_) => return,
                },
                ended = ends.recv() => match ended {
                    Some(ended) => Ok(self.ended(ended).await),
                    None => Err(Status::unavailable("too much has ended at once; ask again")),
                },
                () = sleep_until(silent_until), if shared.is_some() => self.usage().await,
            };
            let last = reply.is_err();
            if reply
                .as_ref()
                .is_ok_and(|said| said.share.is_some() || said.answer == ExplorationAnswer::Shared)
            {
                shared = self.shares_every.map(|every| Instant::now() + every);
            }
            let sent = replies.send(reply.map(|said| proto::ExploreReply::from(&said))).await;
            if last || sent.is_err() {
                return;
            }
        }
    }

    async fn ended(&self, (number, state, share): Ended) -> ExplorationReply {
        ExplorationReply { answer: self.status(number.into(), state).await, share }
    }

    /// The share of its user until now.
    async fn usage(&self) -> Result<ExplorationReply, Status> {
        let (user, clock) = (self.user.clone(), self.explorations.clock);
        let asked = self.explorations.mailbox.glance(move |machine, _| {
            let share = machine.requests().share(moment(&clock).max(machine.at()), &user)?;
            Some(UserShare { user, share })
        });
        let share = asked.await.map_err(|Stopped| stopping())?;
        Ok(ExplorationReply { answer: ExplorationAnswer::Shared, share })
    }

    async fn answer(&self, call: proto::ExploreRequest) -> Result<ExplorationReply, Status> {
        let asked = ExplorationRequest::try_from(call)?;
        let of_all = asked == ExplorationRequest::CancelAll;
        let (exploration, user) = (self.exploration, self.user.clone());
        let key = |number| RequestKey { exploration, number };
        let (id, (answer, share)) = match asked {
            ExplorationRequest::Call(call) => {
                let id = call.id();
                if let Some(state) = self.repeated(key(id.number), id.attempt).await? {
                    return Ok(ExplorationReply { answer: self.status(id, state).await, share: None });
                }
                let closed = self.closed_to(key(id.number)).await?;
                let submit = match closed.map_or_else(|| self.submit(call), Err) {
                    Ok(submit) => submit,
                    Err(why) => {
                        let said = ExplorationAnswer::Refused { number: id.number, why };
                        return Ok(ExplorationReply { answer: said, share: None });
                    }
                };
                let submit = Box::new(submit);
                (id, self.submit_event(|reply| Event::Submit { reply, submit }).await?)
            }
            ExplorationRequest::Cancel(id) => {
                let (key, attempt) = (key(id.number), id.attempt);
                (id, self.submit_event(|reply| Event::Cancel { reply, key, attempt, user }).await?)
            }
            ExplorationRequest::Withdraw(id) => {
                let (key, attempt) = (key(id.number), id.attempt);
                (id, self.submit_event(|reply| Event::Withdraw { reply, key, attempt, user }).await?)
            }
            ExplorationRequest::CancelAll => {
                (0.into(), self.submit_event(|reply| Event::CancelAll { reply, exploration, user }).await?)
            }
            ExplorationRequest::Expect => {
                let said = ExplorationAnswer::Expected(self.prospects().await?);
                return Ok(ExplorationReply { answer: said, share: None });
            }
            ExplorationRequest::Begin { .. } => {
                return Err(Status::invalid_argument("begin: expected it once, found it again"));
            }
        };
        let said = match answer {
            Answer::State(state) => self.status(id, state).await,
            Answer::AllCancelled => ExplorationAnswer::AllCancelled,
            Answer::Refused(why) if why.cause == Cause::KeyTaken => {
                return Err(Status::already_exists(why.why));
            }
            // There is no request to say it of: the client asks again, and gives this server up in the end.
            Answer::Refused(why) if of_all => return Err(Status::resource_exhausted(why.why)),
            Answer::Refused(why) => ExplorationAnswer::Refused { number: id.number, why },
        };
        Ok(ExplorationReply { answer: said, share })
    }

    /// What the client may expect of this server at the moment.
    async fn prospects(&self) -> Result<Prospects, Status> {
        let (exploration, user, clock) = (self.exploration, self.user.clone(), self.explorations.clock);
        let prospects = move |machine: &mut Journaled, _| {
            let at = moment(&clock).max(machine.at());
            machine.requests().prospects(at, exploration, &user)
        };
        // The more requests of the user wait here, the longer this takes.
        let asked = self.explorations.mailbox.ask_alone(&self.user, prospects);
        asked.await.map_err(|Stopped| stopping())
    }

    /// Why no request is accepted at the moment; none if it is, or if the server has that request already. A cancelled request is accepted
    /// again with a later attempt, so it counts as a new one.
    async fn closed_to(&self, key: RequestKey) -> Result<Option<Reason>, Status> {
        let Some(reason) = self.explorations.closures.refuses(&self.user) else { return Ok(None) };
        let known = self.explorations.mailbox.glance(move |machine, _| machine.requests().request_state(key));
        let known = known.await.map_err(|Stopped| stopping())?;
        Ok(known.is_none_or(|state| state == RequestState::Cancelled).then_some(reason))
    }

    /// The state of a request that is submitted again, once that is durable. Each event has all that the request runs, so repetitions in
    /// any number would fill the journal.
    async fn repeated(&self, key: RequestKey, attempt: u32) -> Result<Option<RequestState>, Status> {
        let (user, clock) = (self.user.clone(), self.explorations.clock);
        let mailbox = &self.explorations.mailbox;
        let repeated = mailbox.glance(move |machine, _| {
            let at = moment(&clock).max(machine.at());
            machine.requests().repeated(at, key, &user, attempt)
        });
        let state = repeated.await.map_err(|Stopped| stopping())?;
        if state.is_some() {
            let settled = tokio::time::timeout(TIMEOUT, mailbox.settled()).await;
            settled.map_err(|_| slow())?.map_err(|Stopped| stopping())?;
        }
        Ok(state)
    }

    fn submit(&self, call: Call) -> Result<Submit, Reason> {
        let Explorations { offer, file, .. } = &self.explorations;
        let Call { number, kind, attempt, arguments } = call;
        let ExplorationCall { user, executable, inputs, script, request, .. } = self;
        let context = RequestContext { user, executable, script: script.as_ref(), inputs, request };
        let work = request_work(offer, &context, arguments)?;
        Ok(Submit {
            key: RequestKey { exploration: self.exploration, number },
            user: self.user.clone(),
            weight: file.weight(&self.user),
            kind,
            attempt,
            deadline: self.deadline,
            payload: Payload::of(&work),
        })
    }

    /// Sends the machine an event, and waits until the answer is durable.
    async fn submit_event(&self, event: impl FnOnce(Token) -> Event) -> Result<Answered, Status> {
        let own = &self.explorations;
        let reply = own.replies.wait_with(self.user.clone());
        let event = event(reply.token());
        let bytes = match &event {
            Event::Submit { submit, .. } => submit.payload.bytes(),
            _ => 0,
        };
        let timed = TimedEvent { at: moment(&own.clock), event };
        own.mailbox.try_send(timed, bytes).map_err(|why| match why {
            Rejected::Busy => Status::unavailable("the server is busy; ask again"),
            Rejected::Stopped => stopping(),
        })?;
        // Whether it was done is not known: the client asks again under the same number.
        reply.within(TIMEOUT).await.map_err(|NoReply| slow())
    }

    /// The state of a request, with its output.
    async fn status(&self, id: Attempt, state: RequestState) -> ExplorationAnswer {
        let name = match state {
            RequestState::Completed => ResultName::Stdout,
            RequestState::Failed => ResultName::Stderr,
            RequestState::Waiting | RequestState::Running | RequestState::Cancelled => {
                return ExplorationAnswer::Status { id, state, output: Vec::new() };
            }
        };
        if is_pause(&self.executable) {
            return ExplorationAnswer::Status { id, state, output: Vec::new() };
        }
        let number = id.number;
        let key = RequestKey { exploration: self.exploration, number };
        let dir = self.explorations.runner.host.request_dir(key);
        let output = output_of(&dir, &name).await.unwrap_or_else(|error| {
            tracing::warn!(%error, exploration = %self.exploration, number, "the output of a request cannot be read");
            Vec::new()
        });
        ExplorationAnswer::Status { id, state, output }
    }
}

/// What a request has written, as much of it as is kept of one.
async fn output_of(dir: &Path, name: &ResultName) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    let mut output = Vec::new();
    let mut stream = JobFolder::open(dir, None, name, 0).await?;
    while output.len() < OUTPUT_BYTES_MAX {
        let (piece, rest) = stream.piece(OUTPUT_BYTES_MAX - output.len()).await?;
        if piece.is_empty() {
            break;
        }
        output.extend_from_slice(&piece);
        stream = rest;
    }
    Ok(output)
}
