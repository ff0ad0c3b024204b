//! What clients ask a server.

use std::sync::Arc;
use std::time::Duration;

use pliant_control::access::Caller;
use pliant_control::explain::Explanation;
use pliant_control::handoff::Reply;
use pliant_control::job::JobRecord;
use pliant_control::server::{Answer, Event, Server};
use pliant_staging::{ResultName, StagingError};
use pliant_telemetry::{RequestId, spawn_of_call};
use pliant_transport::ServerTls;
use pliant_wire::{self as wire, Prepare, ProspectsQuery, Submission, proto};
use prost::Message;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::claims::Claims;
use super::closures::Closures;
use super::cluster::FreshListings;
use super::execution::Host;
use super::explorations::Explorations;
use super::files::{self, Known};
use super::handover::source;
use super::job_ends::JobEnds;
use super::machines::Machines;
use super::offer::ServiceOffer;
use super::sealing::Sealing;
use crate::call_log::log_call;
use crate::denials::Denials;
use crate::gate::Gate;
use crate::host::SharedArchive;
use crate::host::{JournalHealth, Mailbox, Replies, stopped};

/// How long a call waits for the journal.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// The service that clients call.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) gate: Gate,
    /// Whether the server knows which numbers its jobs may have.
    pub(super) numbered: watch::Receiver<bool>,
    pub(super) tls: Arc<ServerTls>,
    pub(super) mailbox: Mailbox<Server>,
    pub(super) replies: Replies<Answer>,
    /// Whether the journal can be written.
    pub(super) health: JournalHealth,
    pub(super) archive: SharedArchive,
    /// What it has for launches.
    pub(super) machines: Machines,
    pub(super) offer: ServiceOffer,
    /// Its cores for explorations, if it has any.
    pub(super) explorations: Option<Explorations>,
    /// What operators have closed.
    pub(super) closures: Closures,
    /// The listings of a batch system that is not the embedded one.
    pub(super) fresh: Option<FreshListings>,
    pub(super) host: Arc<Host>,
    /// Verifies what users and other servers have signed.
    pub(super) claims: Claims,
    pub(super) sealing: Sealing,
    /// Which refusals for lack of rights the audit trail gets.
    pub(super) denials: Denials,
    pub(super) changes: broadcast::Sender<Arc<JobRecord>>,
    pub(super) ends: JobEnds,
    pub(super) stop: watch::Receiver<bool>,
}

#[tonic::async_trait]
impl proto::server_server::Server for Service {
    async fn submit(
        &self,
        request: Request<proto::SubmitRequest>,
    ) -> Result<Response<proto::SubmitReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let id = RequestId::of_call(request.metadata());
        let bytes = request.get_ref().encoded_len();
        let submission = Submission::try_from(request.into_inner())?;
        let answer = self.accept(caller, id, submission, bytes).await?;
        Ok(Response::new((&answer).into()))
    }

    async fn submit_many(
        &self,
        request: Request<proto::SubmitManyRequest>,
    ) -> Result<Response<proto::SubmitManyReply>, Status> {
        let (caller, pass) = self.gate.user(&request)?;
        let id = RequestId::of_call(request.metadata());
        let submissions = wire::several("submissions", request.into_inner().submissions)?;
        let outcomes = self.accept_many((caller, pass), id, submissions).await;
        Ok(Response::new(proto::SubmitManyReply { outcomes: outcomes.iter().map(Into::into).collect() }))
    }

    async fn job(&self, request: Request<proto::JobRequest>) -> Result<Response<proto::Job>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let record = self.find(&caller, &request.into_inner().handle).await?;
        Ok(Response::new((&record).into()))
    }

    type WatchStream = ReceiverStream<Result<proto::Job, Status>>;

    async fn watch(
        &self,
        request: Request<proto::JobRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (caller, open) = self.open(&request)?;
        // Before the present state is looked up, so that no change is missed.
        let changes = self.changes.subscribe();
        let record = self.find(&caller, &request.into_inner().handle).await?;
        let (sender, receiver) = mpsc::channel(16);
        let own = self.clone();
        spawn_of_call(async move {
            let stop = stopped(own.stop.clone());
            let broken = tokio::select! {
                () = own.follow(caller, record, changes, &sender) => return,
                () = sender.closed() => return,
                status = open.refused() => status,
                // The client asks again elsewhere or later.
                () = stop => stopping(),
            };
            let _ = sender.send(Err(broken)).await;
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn cancel(&self, request: Request<proto::JobRequest>) -> Result<Response<proto::Job>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let handle = wire::handle_of(&request.into_inner().handle)?;
        log_call!(info, caller.user, job = %handle, by = %caller.user, "cancel");
        self.end(&caller, &handle, |reply, number, caller| Event::Cancel { reply, number, caller }).await
    }

    async fn withdraw(&self, request: Request<proto::JobRequest>) -> Result<Response<proto::Job>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let handle = wire::handle_of(&request.into_inner().handle)?;
        log_call!(info, caller.user, job = %handle, by = %caller.user, "withdraw");
        self.end(&caller, &handle, |reply, number, caller| Event::Withdraw { reply, number, caller }).await
    }

    async fn drain(
        &self,
        request: Request<proto::AdminRequest>,
    ) -> Result<Response<proto::DrainReply>, Status> {
        self.administer("drain a server", request, |reply, by, why| Event::Drain { reply, by, why }).await
    }

    async fn resume(
        &self,
        request: Request<proto::AdminRequest>,
    ) -> Result<Response<proto::DrainReply>, Status> {
        self.administer("resume a server", request, |reply, by, why| Event::Resume { reply, by, why }).await
    }

    async fn hold(&self, request: Request<proto::JobAdminRequest>) -> Result<Response<proto::Job>, Status> {
        let act = |reply, number, by, why| Event::Hold { reply, number, by, why };
        self.administer_job("hold a job", request, act).await
    }

    async fn release(
        &self,
        request: Request<proto::JobAdminRequest>,
    ) -> Result<Response<proto::Job>, Status> {
        let act = |reply, number, by, why| Event::Release { reply, number, by, why };
        self.administer_job("release a job", request, act).await
    }

    async fn prioritise(
        &self,
        request: Request<proto::PriorityRequest>,
    ) -> Result<Response<proto::Job>, Status> {
        self.change_priority(request).await
    }

    async fn ban(
        &self,
        request: Request<proto::UserAdminRequest>,
    ) -> Result<Response<proto::BanReply>, Status> {
        let act = |reply, user, by, why| Event::Ban { reply, user, by, why };
        self.administer_user("ban a user", request, act).await
    }

    async fn unban(
        &self,
        request: Request<proto::UserAdminRequest>,
    ) -> Result<Response<proto::BanReply>, Status> {
        let act = |reply, user, by, why| Event::Unban { reply, user, by, why };
        self.administer_user("end the ban of a user", request, act).await
    }

    async fn limit(
        &self,
        request: Request<proto::LimitRequest>,
    ) -> Result<Response<proto::LimitsReply>, Status> {
        self.change_limits(request).await
    }

    async fn limits(
        &self,
        request: Request<proto::LimitsRequest>,
    ) -> Result<Response<proto::LimitsReply>, Status> {
        self.list_limits(request).await
    }

    async fn forget(
        &self,
        request: Request<proto::ForgetRequest>,
    ) -> Result<Response<proto::ForgetReply>, Status> {
        self.forget_server(request).await
    }

    async fn audit(
        &self,
        request: Request<proto::AuditRequest>,
    ) -> Result<Response<proto::AuditReply>, Status> {
        self.audit_page(request).await
    }

    async fn explain(
        &self,
        request: Request<proto::JobRequest>,
    ) -> Result<Response<proto::ExplainReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let handle = wire::handle_of(&request.into_inner().handle)?;
        let (wanted, who) = (handle.clone(), caller.clone());
        let explain = move |server: &mut Server, now| {
            let number = server.number_of(&wanted);
            (number.and_then(|number| server.explain(now, number, &who)), now)
        };
        let (explanation, at) =
            self.mailbox.ask_alone(&caller.user, explain).await.map_err(|_| stopping())?;
        let explanation = match explanation {
            Some(explanation) => {
                Explanation { record: explanation.record.without_signatures(), ..explanation }
            }
            None => Explanation {
                record: self.archived(&caller, &handle).await?,
                at,
                waits: None,
                unplanned: None,
            },
        };
        Ok(Response::new((&explanation).into()))
    }

    type UploadStream = ReceiverStream<Result<proto::UploadReply, Status>>;

    async fn upload(
        &self,
        request: Request<Streaming<proto::UploadRequest>>,
    ) -> Result<Response<Self::UploadStream>, Status> {
        let (sender, open) = self.open_to_send(&request)?;
        self.has_room()?;
        log_call!(info, sender, %sender, "upload");
        let own = self.clone();
        let accepted = move |user, key| {
            let (own, who) = (own.clone(), Caller { user, operator: false });
            async move {
                let own_name = &own.offer.info.name;
                Ok(match own.accepted_before(&who, key).await? {
                    None => match own.closures.bans(&who.user) {
                        Some(why) => return Err(Status::permission_denied(why)),
                        None => Known::No,
                    },
                    Some(record) if !record.state.is_final() && record.server() == own_name => Known::Here,
                    Some(_) => Known::Before,
                })
            }
        };
        Ok(Response::new(files::upload(
            request.into_inner(),
            sender,
            open,
            self.claims.clone(),
            self.host.store.clone(),
            accepted,
        )))
    }

    async fn results(
        &self,
        request: Request<proto::JobRequest>,
    ) -> Result<Response<proto::ResultsReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let record = self.find_here(&caller, &request.into_inner().handle).await?;
        let dir = self.host.dir(&record.handle, record.requeues);
        files::results(&self.sealing, &record, dir).await.map(Response::new)
    }

    async fn submitted(
        &self,
        request: Request<proto::JobRequest>,
    ) -> Result<Response<proto::SubmittedReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let record = self.find_here(&caller, &request.into_inner().handle).await?;
        Ok(Response::new((&self.submitted_of(&record).await?).into()))
    }

    async fn call_end(
        &self,
        request: Request<proto::JobRequest>,
    ) -> Result<Response<proto::CallEndReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let end = self.end_of_call(&caller, &request.into_inner().handle).await?;
        Ok(Response::new((&end).into()))
    }

    async fn call(
        &self,
        request: Request<proto::SubmitRequest>,
    ) -> Result<Response<proto::CallReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let id = RequestId::of_call(request.metadata());
        let bytes = request.get_ref().encoded_len();
        let submission = Submission::try_from(request.into_inner())?;
        Ok(Response::new((&self.ended_call(caller, id, submission, bytes).await?).into()))
    }

    async fn stored_data(
        &self,
        request: Request<proto::StoredDataRequest>,
    ) -> Result<Response<proto::StoredDataReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let query = wire::StoredDataQuery::try_from(request.into_inner())?;
        Ok(Response::new((&self.data_of(&caller, query).await?).into()))
    }

    async fn prepare(
        &self,
        request: Request<proto::PrepareRequest>,
    ) -> Result<Response<proto::HandoffReply>, Status> {
        let (from, _pass) = source(&request)?;
        let bytes = request.get_ref().encoded_len();
        let prepare = Prepare::try_from(request.into_inner())?;
        log_call!(info, from, job = %prepare.id.job, attempt = prepare.id.attempt, %from, "asked to prepare a job");
        let reply = match self.taken_over(from, prepare).await? {
            Ok(handoff) => self.prepare_job(handoff, bytes).await?,
            Err(why) => Reply::Refused(why),
        };
        Ok(Response::new((&reply).into()))
    }

    async fn commit(
        &self,
        request: Request<proto::CommitRequest>,
    ) -> Result<Response<proto::HandoffReply>, Status> {
        let (from, _pass) = source(&request)?;
        let wire::CommitOrder { id, cancelled, attempts, signed } = request.into_inner().try_into()?;
        let mut reply = Reply::Unknown;
        if self.is_known_of(&from, &id).await? {
            self.keep_signature(&from, &id, signed).await?;
            let id = id.clone();
            reply = self.handoff(|reply| Event::Commit { reply, id, cancelled, attempts }, 0).await?;
        }
        // What was taken over long ago is in the archive only.
        if reply == Reply::Unknown {
            reply = self.archived_commit(&id).await?;
        }
        Ok(Response::new((&reply).into()))
    }

    async fn abort(
        &self,
        request: Request<proto::AbortRequest>,
    ) -> Result<Response<proto::HandoffReply>, Status> {
        let (from, _pass) = source(&request)?;
        let id = wire::handoff_id(request.into_inner().id)?;
        let reply = match self.is_known_of(&from, &id).await? {
            true => self.handoff(|reply| Event::Abort { reply, id }, 0).await?,
            false => Reply::Done,
        };
        Ok(Response::new((&reply).into()))
    }

    async fn inquire(
        &self,
        request: Request<proto::InquireRequest>,
    ) -> Result<Response<proto::HandoffDecision>, Status> {
        let (from, _pass) = source(&request)?;
        let proto::InquireRequest { id, ready } = request.into_inner();
        let id = wire::handoff_id(id)?;
        if ready {
            let decision = self.may_start(&from, id.clone()).await?;
            return Ok(Response::new((&self.signed(&id, decision).await?).into()));
        }
        let decision = self.verdict_for(&from, &id).await?;
        // What is answered must not be forgotten in a crash.
        let settled = tokio::time::timeout(TIMEOUT, self.mailbox.settled()).await;
        settled.map_err(|_| slow())?.map_err(|_| stopping())?;
        Ok(Response::new((&self.signed(&id, decision).await?).into()))
    }

    type DownloadStream = files::DownloadStream;

    async fn download(
        &self,
        request: Request<proto::DownloadRequest>,
    ) -> Result<Response<Self::DownloadStream>, Status> {
        let (caller, open) = self.open(&request)?;
        let download = wire::Download::try_from(request.into_inner())?;
        let record = self.find_here(&caller, &download.handle.to_string()).await?;
        // A job that runs still writes to its files.
        if matches!(download.name, ResultName::File(_)) {
            files::has_ended(&record)?;
        }
        let (own, requeues) = (self.clone(), record.requeues);
        if download.run.is_some_and(|run| run != requeues) {
            return Err(wire::requeued(&record.handle, requeues));
        }
        let ended = move || {
            let (own, caller, handle) = (own.clone(), caller.clone(), record.handle.to_string());
            async move {
                match own.find_here(&caller, &handle).await {
                    Ok(record) if record.requeues != requeues => {
                        Err(wire::requeued(&record.handle, record.requeues))
                    }
                    Ok(record) => Ok(record.state.is_final()),
                    Err(status) if wire::moved_to(&status).is_some() => Err(status),
                    Err(_) => Ok(false),
                }
            }
        };
        let dir = self.host.dir(&download.handle, requeues);
        Ok(Response::new(files::download(dir, download.into(), open, ended)))
    }

    type ExploreStream = ReceiverStream<Result<proto::ExploreReply, Status>>;

    async fn explore(
        &self,
        request: Request<Streaming<proto::ExploreRequest>>,
    ) -> Result<Response<Self::ExploreStream>, Status> {
        self.explored(request)
    }

    async fn users(
        &self,
        request: Request<proto::UsersRequest>,
    ) -> Result<Response<proto::UsersReply>, Status> {
        self.shares(&request).await
    }

    async fn prospects(
        &self,
        request: Request<proto::ProspectsRequest>,
    ) -> Result<Response<proto::ProspectsReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let query = ProspectsQuery::try_from(request.into_inner())?;
        Ok(Response::new(wire::prospects_reply(&self.prospects_of(&caller, query).await?)))
    }

    async fn locals(
        &self,
        request: Request<proto::LocalsRequest>,
    ) -> Result<Response<proto::LocalsReply>, Status> {
        self.local_jobs(request).await
    }

    async fn services(
        &self,
        request: Request<proto::ServicesRequest>,
    ) -> Result<Response<proto::ServicesReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        Ok(Response::new((&self.offer.offered(&caller)).into()))
    }
}

/// Runs something that blocks, off the threads that serve connections.
pub(super) async fn blocking<A: Send + 'static>(
    act: impl FnOnce() -> Result<A, StagingError> + Send + 'static,
) -> Result<A, Status> {
    let done = tokio::task::spawn_blocking(act).await;
    done.map_err(|_| Status::internal("a file operation failed"))?.map_err(|error| files::status(&error))
}

pub(super) fn slow() -> Status {
    Status::unavailable("the journal is slow; ask again")
}

pub(super) fn stopping() -> Status {
    Status::unavailable("the server is stopping")
}
