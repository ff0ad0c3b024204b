//! What clients ask an agent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pliant_control::access::Caller;
use pliant_control::agent::{
    Agent, ChildKind, DiscoveryQuery, DiscoveryResult, Event, JobCounts, ReallocationChange,
    ReallocationReport, Requester,
};
use pliant_control::audit::{Actor, AuditAct};
use pliant_control::job::JobRecord;
use pliant_control::names::Token;
use pliant_control::names::{Handle, Name, User};
use pliant_control::server_info::ServerInfo;
use pliant_journal::Archive;
use pliant_model::{Span, Time};
use pliant_telemetry::{RequestId, names};
use pliant_transport::Clock;
use pliant_transport::ServerTls;
use pliant_wire::{
    self as wire, Accuracy, AccuracyQuery, AgentStatus, Federation, HistoryQuery, LocatedJob, ServerStatus,
    proto,
};
use prost::Message;
use tokio::sync::watch;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Response, Status, Streaming};

use super::child_connection::{attach, stopped};
use super::child_connections::{ChildConnections, ReportedCertificates, ReportedServers};
use super::history;
use super::listing::{self, OWN_JOBS};
use super::numbers::Numbers;
use super::runtimes;
use crate::audit;
use crate::call_log::log_call;
use crate::denials::Denials;
use crate::gate::{ASK_OPERATOR, Gate, Pass, for_operators};
use crate::host::{
    Mailbox, NoReply, Rejected, Replies, Reply, SharedArchive, archived, listed, no_such_job, record,
};

/// How long a reallocation cycle may take, with the moves that follow: as long as clients wait.
const ROUND: Duration = Duration::from_secs(600);
/// How long a change waits for the journal.
pub(super) const JOURNAL: Duration = Duration::from_secs(30);

/// The service that clients and children call.
pub(super) struct Service {
    pub(super) gate: Gate,
    pub(super) mailbox: Mailbox<Agent>,
    pub(super) connections: ChildConnections,
    pub(super) discoveries: Replies<DiscoveryResult, RequestId>,
    pub(super) reports: Replies<ReallocationReport>,
    pub(super) forgotten: Replies<Result<u32, String>>,
    pub(super) archive: SharedArchive,
    pub(super) numbers: Numbers,
    /// Which refusals for lack of rights the audit trail gets.
    pub(super) denials: Denials,
    pub(super) clock: Clock,
    /// Distinguishes this run of the agent from earlier ones.
    pub(super) run: u64,
    pub(super) tls: Arc<ServerTls>,
    pub(super) timeout: Span,
    pub(super) stop: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl proto::agent_server::Agent for Service {
    async fn discover(
        &self,
        request: Request<proto::DiscoverRequest>,
    ) -> Result<Response<proto::DiscoverReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let id = RequestId::of_call(request.metadata());
        let bytes = request.get_ref().encoded_len();
        let ask = wire::asked(request.into_inner(), caller, None)?;
        let found = self.find(ask, bytes, id).await?;
        Ok(Response::new(proto::DiscoverReply { found: Some((&found).into()) }))
    }

    async fn discover_many(
        &self,
        request: Request<proto::DiscoverManyRequest>,
    ) -> Result<Response<proto::DiscoverManyReply>, Status> {
        let (caller, pass) = self.gate.user(&request)?;
        let id = RequestId::of_call(request.metadata());
        let questions = wire::several("questions", request.into_inner().questions)?;
        let outcomes = self.find_many((caller, pass), id, questions).await;
        Ok(Response::new(proto::DiscoverManyReply { outcomes: outcomes.iter().map(Into::into).collect() }))
    }

    async fn offers(
        &self,
        request: Request<proto::OffersRequest>,
    ) -> Result<Response<proto::OffersReply>, Status> {
        let _pass = self.gate.user(&request)?;
        let wire::OffersQuery { offered, most, exploration } = request.into_inner().try_into()?;
        let offers = move |agent: &mut Agent, _| agent.offers(&offered, most as usize, exploration);
        let offers = self.mailbox.glance(offers).await.map_err(|_| stopped())?;
        Ok(Response::new(wire::offers_reply(&offers)))
    }

    async fn servers(
        &self,
        request: Request<proto::ServersRequest>,
    ) -> Result<Response<proto::ServersReply>, Status> {
        let _pass = self.gate.user(&request)?;
        let (apart, reported) = (self.connections.clocks_apart(), self.connections.servers());
        let certificates = self.connections.certificates();
        let federation = self
            .mailbox
            .ask(move |agent, now| federation(agent, now, &apart, &reported, &certificates))
            .await;
        let mut federation = federation.map_err(|_| stopped())?;
        federation.certificate_not_after = Some(self.tls.own().not_after);
        Ok(Response::new((&federation).into()))
    }

    async fn jobs(&self, request: Request<proto::JobsRequest>) -> Result<Response<proto::JobsReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let query = request.into_inner().try_into()?;
        let page = listing::page(&self.mailbox, &self.archive, &self.connections, &caller, query).await;
        let page = page.inspect_err(|refused| {
            if refused.code() == Code::PermissionDenied {
                self.denied(&caller, "see the jobs of other users");
            }
        })?;
        Ok(Response::new((&page).into()))
    }

    async fn changes(
        &self,
        request: Request<proto::ChangesRequest>,
    ) -> Result<Response<proto::ChangesReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let query = request.into_inner().try_into()?;
        let page = listing::changes(&self.mailbox, &self.archive, self.run, &caller, query).await;
        let page = page.inspect_err(|refused| {
            if refused.code() == Code::PermissionDenied {
                self.denied(&caller, "see the jobs of other users");
            }
        })?;
        Ok(Response::new((&page).into()))
    }

    async fn find_job(
        &self,
        request: Request<proto::FindJobRequest>,
    ) -> Result<Response<proto::FindJobReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let handle = wire::handle_of(&request.into_inner().handle)?;
        let wanted = handle.clone();
        let present = move |agent: &mut Agent, _| agent.job(&wanted).cloned();
        let job = self.mailbox.ask(present).await.map_err(|_| stopped())?;
        let record = match job {
            Some(job) => Some(job),
            None => self.archived_job(handle.clone()).await?,
        };
        // Only the owner may know whether it exists.
        let record = record.filter(|record| caller.may_access(&record.owner));
        let record = record.ok_or_else(|| no_such_job(&handle))?;
        let name = record.server().clone();
        let server = move |agent: &mut Agent, _| {
            let server = agent.servers().find(|(server, ..)| server.name == name);
            server.map(|(server, _, attached)| (server.address.clone(), attached))
        };
        let server = self.mailbox.ask(server).await.map_err(|_| stopped())?;
        let attached = server.as_ref().is_some_and(|(_, attached)| *attached);
        let located = LocatedJob { record, address: server.map(|(address, _)| address), attached };
        Ok(Response::new((&located).into()))
    }

    async fn accuracy(
        &self,
        request: Request<proto::AccuracyRequest>,
    ) -> Result<Response<proto::AccuracyReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let AccuracyQuery { last, days } = request.into_inner().try_into()?;
        let mut by_day = match days {
            0 => BTreeMap::new(),
            days => {
                let known = self.mailbox.ask(move |agent, now| agent.promise_days(now, days)).await;
                known.map_err(|_| stopped())?
            }
        };
        let names = listed(&self.archive, &caller.user, |archive| archive.servers()).await?;
        let mut servers = Vec::with_capacity(names.len());
        for name in names {
            let Ok(server) = name.parse() else { continue };
            // One server after another: between them it is the turn of others.
            let look = move |archive: &mut dyn Archive| archive.accuracy(&name, last);
            let errors = listed(&self.archive, &caller.user, look).await?;
            let (mut starts, mut completions): (Vec<i64>, Vec<i64>) = errors.into_iter().unzip();
            let (start_error, completion_error) = (quantiles(&mut starts), quantiles(&mut completions));
            let jobs = starts.len() as u32;
            let days = by_day.remove(&server).unwrap_or_default();
            if jobs > 0 || !days.is_empty() {
                servers.push(Accuracy { server, jobs, start_error, completion_error, days });
            }
        }
        // Those whose jobs the archive does not have yet, or any more.
        let of_days =
            |(server, days)| Accuracy { server, jobs: 0, start_error: None, completion_error: None, days };
        servers.extend(by_day.into_iter().map(of_days));
        servers.sort_by(|one, other| one.server.cmp(&other.server));
        Ok(Response::new(wire::accuracy_reply(&servers)))
    }

    async fn runtimes(
        &self,
        request: Request<proto::RuntimesRequest>,
    ) -> Result<Response<proto::RuntimesReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let known = self.mailbox.ask(move |agent, _| runtimes::known(agent, &caller)).await;
        let known = known.map_err(|_| stopped())?;
        Ok(Response::new((&known).into()))
    }

    async fn expectation(
        &self,
        request: Request<proto::ExpectationRequest>,
    ) -> Result<Response<proto::ExpectationReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let service = request.into_inner().service;
        let expected = self.mailbox.ask(move |agent, _| agent.expectation(&service, &caller.user)).await;
        let expected = expected.map_err(|_| stopped())?;
        Ok(Response::new(proto::ExpectationReply { expected: expected.as_ref().map(Into::into) }))
    }

    async fn reallocate(
        &self,
        request: Request<proto::ReallocateRequest>,
    ) -> Result<Response<proto::ReallocateReply>, Status> {
        let (caller, _pass) = self.operator(&request, "reallocate waiting jobs")?;
        let (dry_run, policy) = wire::reallocate_request(request.into_inner())?;
        if !dry_run {
            // Only a dry run may have a policy of its own.
            let present = self.mailbox.ask(|agent, _| agent.reallocation()).await.map_err(|_| stopped())?;
            let present = present.map_or(ReallocationChange::Off, ReallocationChange::Set);
            let (by, act, why) = (Actor::Operator(caller.user), AuditAct::Reallocate, present.to_string());
            let bytes = why.len();
            self.mailbox.try_send(Event::Audited { by, act, why }, bytes).map_err(rejected)?;
        }
        let event = |reply| Event::Reallocate { reply, dry_run, policy };
        let report = self.report(event, ROUND).await?;
        Ok(Response::new((&report).into()))
    }

    async fn moving(
        &self,
        request: Request<proto::MovingRequest>,
    ) -> Result<Response<proto::MovingReply>, Status> {
        let change = wire::moving_change(request.get_ref().clone())?;
        let (caller, _pass) = match change {
            Some(_) => self.operator(&request, "change the reallocation policy")?,
            None => self.gate.user(&request)?,
        };
        if let Some(change) = change {
            let change = match change {
                wire::MovingChange::Set(moving) => Some(ReallocationChange::Set(moving)),
                wire::MovingChange::Off => Some(ReallocationChange::Off),
                wire::MovingChange::Reset => None,
            };
            tracing::info!(?change, "an operator changes how waiting jobs are moved");
            let by = Some(caller.user);
            self.report(|reply| Event::Configure { reply, change, by }, JOURNAL).await?;
        }
        let moving = self.mailbox.ask(|agent, _| agent.reallocation()).await.map_err(|_| stopped())?;
        Ok(Response::new(proto::MovingReply { policy: moving.as_ref().map(proto::MovingPolicy::from) }))
    }

    async fn moves(
        &self,
        request: Request<proto::MovesRequest>,
    ) -> Result<Response<proto::MovesReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let proto::MovesRequest { all, limit } = request.into_inner();
        if all && !caller.operator {
            self.denied(&caller, "see the jobs of other users");
            return Err(for_operators("see the jobs of other users", OWN_JOBS));
        }
        let limit = wire::moves_limit(limit)? as usize;
        let recent = move |agent: &mut Agent, _| {
            let mine = |owner: &User| all || *owner == caller.user;
            let moves = agent.moves().rev().filter(|moved| mine(&moved.owner)).take(limit);
            moves.map(|moved| wire::JobMove { job: moved.job.clone(), hop: moved.hop.clone() }).collect()
        };
        let moves: Vec<wire::JobMove> = self.mailbox.ask(recent).await.map_err(|_| stopped())?;
        Ok(Response::new(proto::MovesReply { moves: moves.iter().map(proto::Moved::from).collect() }))
    }

    async fn history(
        &self,
        request: Request<proto::HistoryRequest>,
    ) -> Result<Response<proto::HistoryReply>, Status> {
        let (caller, _pass) = self.operator(&request, "read the history of the federation")?;
        let query = HistoryQuery::try_from(request.into_inner())?;
        let page = history::page(&self.mailbox, &self.archive, &caller.user, query).await?;
        Ok(Response::new((&page).into()))
    }

    async fn audit(
        &self,
        request: Request<proto::AuditRequest>,
    ) -> Result<Response<proto::AuditReply>, Status> {
        let (_, _pass) = self.operator(&request, "read the audit trail")?;
        let page = audit::page(&self.archive, request.into_inner().try_into()?).await?;
        Ok(Response::new((&page).into()))
    }

    async fn forget(
        &self,
        request: Request<proto::ForgetRequest>,
    ) -> Result<Response<proto::ForgetReply>, Status> {
        let (caller, _pass) = self.operator(&request, "declare a server lost")?;
        let wire::ForgetOrder { server, why } = request.into_inner().try_into()?;
        tracing::info!(%server, by = %caller.user, why, "an operator declares a server lost");
        let (bytes, by, reply) = (why.len(), caller.user, self.forgotten.wait());
        let event = Event::Forget { reply: reply.token(), server, by, why };
        self.mailbox.try_send(event, bytes).map_err(rejected)?;
        let jobs = reply.within(JOURNAL).await.map_err(late)?.map_err(Status::failed_precondition)?;
        Ok(Response::new(proto::ForgetReply { jobs, handoffs: 0 }))
    }

    type AttachStream = ReceiverStream<Result<proto::Down, Status>>;

    async fn attach(
        &self,
        request: Request<Streaming<proto::Up>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let Service { mailbox, connections, tls, numbers, clock, stop, .. } = self;
        let (mailbox, connections, tls) = (mailbox.clone(), connections.clone(), tls.clone());
        attach(request, mailbox, connections, tls, numbers.clone(), *clock, stop.clone()).await
    }
}

impl Service {
    /// Lets in only an operator. `what` completes the sentence "only an operator may ...".
    fn operator<T>(&self, request: &Request<T>, what: &str) -> Result<(Caller, Pass), Status> {
        let (caller, pass) = self.gate.user(request)?;
        if caller.operator {
            return Ok((caller, pass));
        }
        self.denied(&caller, what);
        Err(for_operators(what, ASK_OPERATOR))
    }

    /// Records that a caller may not do what was asked for.
    fn denied(&self, caller: &Caller, what: &str) {
        log_call!(warn, caller.user, by = %caller.user, act = what, "refused for lack of rights");
        if self.denials.admit(&caller.user, Instant::now()) {
            let (by, act) = (Actor::User(caller.user.clone()), AuditAct::Deny);
            // The log has it if the machine has too much to do.
            let _ = self.mailbox.try_send(Event::Audited { by, act, why: what.to_owned() }, what.len());
        }
    }

    /// Sends the machine an event that it answers with a report.
    async fn report(
        &self,
        event: impl FnOnce(Token) -> Event,
        timeout: Duration,
    ) -> Result<ReallocationReport, Status> {
        let reply = self.reports.wait();
        self.mailbox.try_send(event(reply.token()), 0).map_err(rejected)?;
        reply.within(timeout).await.map_err(late)
    }

    async fn find(
        &self,
        ask: DiscoveryQuery,
        bytes: usize,
        id: RequestId,
    ) -> Result<DiscoveryResult, Status> {
        let user = ask.caller.user.clone();
        let asked = self.ask(ask, bytes, id)?;
        self.found(asked, &user).await
    }

    /// Sends the machine the question of a client.
    pub(super) fn ask(&self, ask: DiscoveryQuery, bytes: usize, id: RequestId) -> Result<Asked, Status> {
        let begun = Instant::now();
        let reply = self.discoveries.wait_with(id);
        let asked = Event::Queried { requester: Requester::Client(reply.token()), query: Box::new(ask) };
        self.mailbox.try_send(asked, bytes).map_err(rejected)?;
        Ok(Asked { reply, begun })
    }

    /// The answer to such a question.
    pub(super) async fn found(&self, asked: Asked, user: &User) -> Result<DiscoveryResult, Status> {
        let Asked { reply, begun } = asked;
        // The machine times out by itself; this is for one that has stopped.
        let limit = Duration::from_secs(self.timeout.0 as u64 + 5);
        let found = reply.within(limit).await.map_err(late)?;
        metrics::histogram!(names::DISCOVERY_SECONDS).record(begun.elapsed().as_secs_f64());
        let outcome = if found.vectors.is_empty() { "refused" } else { "found" };
        metrics::counter!(names::DISCOVERIES, "outcome" => outcome).increment(1);
        let best = found.vectors.first().map(|vector| vector.server.to_string());
        log_call!(info, user, %user, best, answers = found.vectors.len(), "discovery");
        Ok(found)
    }

    async fn archived_job(&self, handle: Handle) -> Result<Option<JobRecord>, Status> {
        let look = move |archive: &mut dyn Archive| archive.job(handle.server.as_str(), handle.number);
        archived(&self.archive, look).await?.as_ref().map(record).transpose()
    }
}

/// A question of a client that the machine has.
pub(super) struct Asked {
    reply: Reply<DiscoveryResult, RequestId>,
    begun: Instant,
}

/// The answer to a call whose own did not come in time.
pub(super) fn late(_: NoReply) -> Status {
    Status::deadline_exceeded("no answer in time")
}

pub(super) fn rejected(why: Rejected) -> Status {
    match why {
        Rejected::Busy => Status::unavailable("the agent is busy; ask again"),
        Rejected::Stopped => stopped(),
    }
}

/// The federation at that time: how far the clocks of children are ahead if they are `apart`, what servers have `reported`,
/// and until when `certificates` are valid.
fn federation(
    agent: &mut Agent,
    now: Time,
    apart: &BTreeMap<Name, Span>,
    reported: &ReportedServers,
    certificates: &ReportedCertificates,
) -> Federation {
    let ahead = |child: &Name, is_there: bool| apart.get(child).copied().filter(|_| is_there);
    let status = |(info, via, attached): (&ServerInfo, &Name, bool)| {
        let JobCounts { queued, active } = agent.job_counts(&info.name);
        let clock_ahead = ahead(&info.name, attached && *via == info.name);
        let free = reported.free.get(&info.name).copied().filter(|_| attached);
        let certificate_not_after = certificates.servers.get(&info.name).copied().filter(|_| attached);
        ServerStatus {
            info: info.clone(),
            via: via.clone(),
            attached,
            queued,
            active,
            clock_ahead,
            free,
            certificate_not_after,
            drained: attached && reported.drained.contains(&info.name),
        }
    };
    let servers = agent.servers().map(status).collect();
    let agents = agent.children().filter(|(_, kind, ..)| *kind == ChildKind::Agent).map(
        |(name, _, attached, since)| AgentStatus {
            name: name.clone(),
            attached,
            since,
            clock_ahead: ahead(name, attached),
            certificate_not_after: certificates.agents.get(name).copied().filter(|_| attached),
        },
    );
    Federation { servers, agents: agents.collect(), now: Some(now), certificate_not_after: None }
}

/// The 5, 25, 50, 75 and 95 % quantiles, the lower of two neighbours; none of nothing.
fn quantiles(values: &mut [i64]) -> Option<[Span; 5]> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    Some([5, 25, 50, 75, 95].map(|percent| Span(values[last * percent / 100])))
}
