//! What clients ask of launches, and what servers say of their subjobs.

use std::collections::BTreeSet;
use std::sync::Arc;

use pliant_control::access::Caller;
use pliant_control::coallocation::{Answer, Coordinator, Event, LaunchId, LaunchRecord, TaskSpec};
use pliant_control::names::{Key, Name, Token, User};
use pliant_control::payload::Payload;
use pliant_model::Time;
use pliant_transport::{Clock, Role, ServerTls};
use pliant_wire::{
    DecidedSubjob, LaunchRequest, LaunchesPage, LaunchesQuery, SpawnRequest, SubjobReport, launch_reply,
    links_reply, proto, task_digest,
};
use prost::Message;
use tonic::{Request, Response, Status};

use super::archive;
use super::driver::Judged;
use super::probing;
use crate::agent::child_connection::stopped;
use crate::agent::service::{JOURNAL, late, rejected};
use crate::call_log::log_call;
use crate::gate::{self, Gate, for_operators};
use crate::host::Mailbox;
use crate::host::{Replies, Reply, SharedArchive};
use crate::signatures::check_tasks;

/// The threshold of the clustering if a launch does not say one: eq. 5 of paper 003.
const THRESHOLD: f64 = 0.5;

/// The launches of an agent, for those who call it.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) mailbox: Mailbox<Coordinator>,
    pub(super) archive: SharedArchive,
    pub(super) answers: Replies<Answer>,
    pub(super) verdicts: Replies<Judged>,
    /// The agent, for which users sign.
    pub(super) agent: Name,
    /// Verifies what they have signed.
    pub(super) verifier: Arc<ServerTls>,
    pub(super) clock: Clock,
}

/// The service that clients and servers call.
pub(in crate::agent) struct Service {
    pub(super) gate: Gate,
    /// Or why this agent coordinates none.
    pub(super) open: Result<Open, String>,
}

#[tonic::async_trait]
impl proto::launches_server::Launches for Service {
    async fn launch(
        &self,
        request: Request<proto::LaunchRequest>,
    ) -> Result<Response<proto::LaunchReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let bytes = request.get_ref().encoded_len();
        let wanted = LaunchRequest::try_from(request.into_inner())?.of(caller.user, THRESHOLD);
        let open = self.open()?;
        open.check_signed(&wanted.owner, wanted.key, &wanted.signed, &wanted.application.tasks)?;
        // One that is long over is in the archive and nowhere else.
        if let Some(record) = archive::find(&open.archive, wanted.key).await? {
            let is_own = record.owner == wanted.owner;
            return Ok(replied(if is_own { Ok(record) } else { Err(KEY_TAKEN.to_owned()) }));
        }
        let id = LaunchId { agent: open.agent.clone(), key: wanted.key };
        let (known, by) = (id.clone(), Caller { user: wanted.owner.clone(), operator: false });
        let is_new =
            open.present(move |machine: &mut Coordinator, _| machine.record(&known, &by)).await?.is_none();
        let owner = wanted.owner.clone();
        let event = |reply| Event::Launch { reply, spec: Box::new(wanted) };
        let answer = self.add(open, (&owner, is_new), event, bytes).await?;
        answered(answer, || Status::internal("a launch that was accepted is not known"))
    }

    async fn spawn(
        &self,
        request: Request<proto::SpawnRequest>,
    ) -> Result<Response<proto::LaunchReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let bytes = request.get_ref().encoded_len();
        let SpawnRequest { launch, spawn } = request.into_inner().try_into()?;
        let (open, id, may_know) = (self.open()?, launch.clone(), caller.clone());
        let tasks = spawn.tasks.iter().map(|one| &one.task);
        open.check_signed(&caller.user, launch.key, &spawn.signed, tasks)?;
        let (of, by, key) = (launch.clone(), caller.clone(), spawn.key);
        let known = move |machine: &mut Coordinator, _| machine.has_spawned(&of, &by, key);
        let is_new = !open.present(known).await?;
        let owner = caller.user.clone();
        let event = |reply| Event::Spawn { reply, launch, caller, spawn: Box::new(spawn) };
        match self.add(open, (&owner, is_new), event, bytes).await? {
            Answer::NoSuchLaunch => {
                open.archived(&id, &may_know).await?;
                Ok(replied(Err("the launch is over; tasks are spawned into one that runs".to_owned())))
            }
            answer => answered(answer, || no_such_launch(&id)),
        }
    }

    async fn cancel(
        &self,
        request: Request<proto::LaunchId>,
    ) -> Result<Response<proto::LaunchReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let launch = LaunchId::try_from(request.into_inner())?;
        let (open, id, may_know) = (self.open()?, launch.clone(), caller.clone());
        match open.send(|reply| Event::Cancel { reply, launch, caller }, 0).await? {
            Answer::NoSuchLaunch => Ok(replied(Ok(open.archived(&id, &may_know).await?))),
            answer => answered(answer, || no_such_launch(&id)),
        }
    }

    async fn get(&self, request: Request<proto::LaunchId>) -> Result<Response<proto::Launch>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let id = LaunchId::try_from(request.into_inner())?;
        let (open, wanted, by) = (self.open()?, id.clone(), caller.clone());
        let present = move |machine: &mut Coordinator, _| machine.record(&wanted, &by);
        // In this order: what leaves the memory is in the archive by then.
        let record = match open.present(present).await? {
            Some(record) => record,
            None => open.archived(&id, &caller).await?,
        };
        Ok(Response::new((&record).into()))
    }

    async fn list(
        &self,
        request: Request<proto::LaunchesRequest>,
    ) -> Result<Response<proto::LaunchesReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let LaunchesQuery { all, limit } = request.into_inner().try_into()?;
        if all && !caller.operator {
            return Err(for_operators(
                "see the launches of other users",
                "your own launches are listed without --all",
            ));
        }
        let owner = (!all).then(|| caller.user.clone());
        let (open, mine) = (self.open()?, owner.clone());
        let present = move |machine: &mut Coordinator, _| -> Vec<LaunchRecord> {
            let is_wanted = |record: &LaunchRecord| mine.as_ref().is_none_or(|user| *user == record.owner);
            machine.records().filter(is_wanted).collect()
        };
        let mut launches = open.present(present).await?;
        let known: BTreeSet<LaunchId> = launches.iter().map(|record| record.id.clone()).collect();
        let over = archive::last(&open.archive, &caller.user, owner.as_ref(), limit).await?;
        launches.extend(over.into_iter().filter(|record| !known.contains(&record.id)));
        launches.sort_by(|one, other| (other.submitted, &other.id).cmp(&(one.submitted, &one.id)));
        launches.truncate(limit as usize);
        Ok(Response::new((&LaunchesPage(launches)).into()))
    }

    async fn links(
        &self,
        request: Request<proto::LinksRequest>,
    ) -> Result<Response<proto::LinksReply>, Status> {
        let (_, _pass) = self.gate.user(&request)?;
        let known = self.open()?.present(probing::known).await?;
        Ok(Response::new(links_reply(&known)))
    }

    async fn report_subjob(
        &self,
        request: Request<proto::SubjobReport>,
    ) -> Result<Response<proto::SubjobDecision>, Status> {
        let (caller, _pass) = gate::daemon(&request, &[Role::Server])?;
        let from: Name =
            caller.peer.name.parse().map_err(|error| Status::unauthenticated(format!("{error}")))?;
        let SubjobReport { id, state } = request.into_inner().try_into()?;
        let open = self.open()?;
        let (server, subjob) = (from.clone(), id.clone());
        let unknown =
            move |coordinator: &mut Coordinator, _| coordinator.answer_about_unknown(&server, &subjob);
        if let Some((decision, end_acknowledged)) = open.present(unknown).await? {
            return Ok(Response::new((&DecidedSubjob { decision, end_acknowledged }).into()));
        }
        let reply = open.verdicts.wait();
        log_call!(info, from, subjob = %id, server = %from, state = state.word(), "a server reports the state of its subjob");
        let status = Event::SubjobStatus { from, id, state, reply: Some(reply.token()) };
        open.mailbox.send(status).map_err(|_| stopped())?;
        let (decision, end_acknowledged) = reply.within(JOURNAL).await.map_err(late)?;
        Ok(Response::new((&DecidedSubjob { decision, end_acknowledged }).into()))
    }
}

const KEY_TAKEN: &str = "another user's launch has this key; draw another key";

impl Service {
    fn open(&self) -> Result<&Open, Status> {
        self.open.as_ref().map_err(|why| Status::failed_precondition(why.clone()))
    }

    /// Sends the machine a launch or a spawn of a user, which counts if it is new: what is known takes nothing of the journal.
    async fn add(
        &self,
        open: &Open,
        (owner, is_new): (&User, bool),
        event: impl FnOnce(Token) -> Event,
        bytes: usize,
    ) -> Result<Answer, Status> {
        if !is_new {
            return open.send(event, bytes).await;
        }
        let mut reserved = match self.gate.reserve(owner, bytes) {
            Ok(reserved) => reserved,
            Err(why) => return Ok(Answer::Refused(why)),
        };
        let answer = answer_to(reserved.sent(open.begin(event, bytes))?).await?;
        if !matches!(answer, Answer::Launch(_)) {
            reserved.give_back();
        }
        Ok(answer)
    }
}

impl Open {
    /// Refuses tasks that their user has not signed. Servers look, too: they need not trust this agent.
    fn check_signed<'a>(
        &self,
        owner: &User,
        key: Key,
        signed: &Payload,
        tasks: impl IntoIterator<Item = &'a TaskSpec>,
    ) -> Result<(), Status> {
        let launch = LaunchId { agent: self.agent.clone(), key };
        let now = self.clock.now();
        let digests = tasks.into_iter().map(task_digest);
        let checked = check_tasks(&self.verifier, (&launch, owner), signed, digests, |_| now);
        checked.map_err(|refusal| {
            log_call!(warn, owner, %owner, %launch, reason = %refusal, "tasks refused: they are not signed");
            refusal.counted().status()
        })
    }

    /// Notifies the machine of what a user wants, in so many bytes, and waits until the answer is durable.
    async fn send(&self, event: impl FnOnce(Token) -> Event, bytes: usize) -> Result<Answer, Status> {
        answer_to(self.begin(event, bytes)?).await
    }

    /// Notifies the machine of what a user wants, in so many bytes.
    fn begin(&self, event: impl FnOnce(Token) -> Event, bytes: usize) -> Result<Reply<Answer>, Status> {
        let reply = self.answers.wait();
        self.mailbox.try_send(event(reply.token()), bytes).map_err(rejected)?;
        Ok(reply)
    }

    /// Asks the machine. Every answer is durable: a launch that is said to have ended has.
    async fn present<A: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Coordinator, Time) -> A + Send + 'static,
    ) -> Result<A, Status> {
        let answer = self.mailbox.ask(question).await.map_err(|_| stopped())?;
        self.mailbox.settled().await.map_err(|_| stopped())?;
        Ok(answer)
    }

    /// A launch that is not in memory.
    async fn archived(&self, id: &LaunchId, caller: &Caller) -> Result<LaunchRecord, Status> {
        let record = archive::find(&self.archive, id.key).await?;
        // Only the owner may know whether it exists.
        let record = record.filter(|record| record.id == *id && caller.may_access(&record.owner));
        record.ok_or_else(|| no_such_launch(id))
    }
}

async fn answer_to(reply: Reply<Answer>) -> Result<Answer, Status> {
    reply.within(JOURNAL).await.map_err(late)
}

fn replied(answer: Result<LaunchRecord, String>) -> Response<proto::LaunchReply> {
    Response::new(launch_reply(&answer))
}

fn answered(
    answer: Answer,
    missing: impl FnOnce() -> Status,
) -> Result<Response<proto::LaunchReply>, Status> {
    match answer {
        Answer::Launch(record) => Ok(replied(Ok(*record))),
        Answer::Refused(why) => Ok(replied(Err(why))),
        Answer::NoSuchLaunch => Err(missing()),
    }
}

/// The answer about a launch that does not exist or is another user's.
fn no_such_launch(id: &LaunchId) -> Status {
    Status::not_found(format!("no launch {id} of yours"))
}
