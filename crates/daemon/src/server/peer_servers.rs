//! Calls to other servers, about jobs that go from one to the other.
//!
//! The machine repeats what is not answered, so a call that fails is only logged. No two calls about the same
//! step of the same attempt are under way at once.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use pliant_client::send_pieces;
use pliant_control::handoff::{Call, Handoff, HandoffDecision, HandoffId, Peer, Reply};
use pliant_control::server::{Event, Server};
use pliant_control::signed::{HandoffSignature, SignedClaim};
use pliant_staging::FileSpec;
use pliant_transport::{Connections, Role};
use pliant_wire::proto::server_client::ServerClient;
use pliant_wire::{CommitOrder, Malformed, Prepare, SignedDecision, Upload, UploadAnswer, proto};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::claims::Claims;
use super::execution::{Host, Program};
use crate::call_log::log_call;
use crate::calling::{UnderWay, timed};
use crate::host::Mailbox;
use crate::host::crash_points::{self, CrashPoint};
use crate::signatures::SignatureRefusal;

/// How long the files of a job may take on their way.
const FILES: Duration = Duration::from_secs(600);

/// The way to other servers.
#[derive(Clone)]
pub(super) struct PeerServers {
    /// Where we are reached.
    address: String,
    host: Arc<Host>,
    mailbox: Mailbox<Server>,
    claims: Claims,
    servers: Connections,
    calls: UnderWay<HandoffId>,
}

fn step(call: &Call) -> &'static str {
    match call {
        Call::Prepare(_) => "prepare",
        Call::Commit { cancelled: false, .. } => "commit",
        Call::Commit { cancelled: true, .. } => "commit and cancel",
        Call::Abort => "abort",
        Call::Inquire => "inquire",
        Call::Ready => "ready",
    }
}

/// Why a call came to nothing.
enum Failed {
    /// It may succeed later.
    Passing(String),
    /// It will not.
    Lasting(String),
}

impl From<Status> for Failed {
    fn from(status: Status) -> Failed {
        let why = status.message().to_owned();
        match status.code() {
            Code::InvalidArgument
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::Unimplemented
            | Code::OutOfRange
            | Code::AlreadyExists => Failed::Lasting(why),
            _ => Failed::Passing(why),
        }
    }
}

impl PeerServers {
    /// The peers of a server that is reached at an address, with the certificate that it signs with.
    pub(super) fn new(address: String, host: Arc<Host>, claims: Claims) -> PeerServers {
        let servers = Connections::new(Role::Server, claims.signing.clone());
        let mailbox = claims.mailbox.clone();
        PeerServers { address, host, mailbox, claims, servers, calls: UnderWay::default() }
    }

    /// Makes a call, unless the same one is under way. The answer is sent to the machine.
    pub(super) fn call(&self, to: Peer, id: HandoffId, call: Call) {
        let (own, step) = (self.clone(), step(&call));
        self.host.runtime.spawn(async move {
            match own.calls.once(&id, step, own.make(&to, &id, call)).await {
                Some(Ok(event)) => {
                    tracing::info!(job = %id.job, attempt = id.attempt, server = %to.name, step, answer = said(&event), "handoff");
                    // A server that has stopped finds out when it starts again.
                    let _ = own.mailbox.send(event);
                }
                Some(Err(why)) => {
                    tracing::warn!(job = %id.job, attempt = id.attempt, server = %to.name, step, why, "handoff: no answer");
                    own.servers.forget(&to.name);
                }
                None => {}
            }
        });
    }

    async fn make(&self, to: &Peer, id: &HandoffId, call: Call) -> Result<Event, String> {
        let mut server = self.server(to)?;
        let (wire_id, ready) = (Some(proto::HandoffId::from(id)), call == Call::Ready);
        let answered = |reply| Event::Answered { id: id.clone(), reply };
        let reply = match call {
            Call::Prepare(handoff) => match self.prepare(&mut server, &handoff).await {
                Ok(reply) => return Ok(answered(reply)),
                // Another target may take it.
                Err(Failed::Lasting(why)) => return Ok(answered(Reply::Refused(why))),
                Err(Failed::Passing(why)) => return Err(why),
            },
            Call::Commit { cancelled, attempts } => {
                let signed = self.claims.sign_handoff(id).await?;
                let order = CommitOrder { id: id.clone(), cancelled, attempts, signed };
                server.commit(timed((&order).into())).await
            }
            Call::Abort => server.abort(timed(proto::AbortRequest { id: wire_id })).await,
            Call::Inquire | Call::Ready => {
                let decision = server.inquire(timed(proto::InquireRequest { id: wire_id, ready })).await;
                let decision = decision.map_err(|status| status.message().to_owned())?.into_inner();
                let SignedDecision { decision, signed } =
                    decision.try_into().map_err(|malformed: Malformed| malformed.to_string())?;
                self.keep_signature(to, id, decision, signed).await?;
                return Ok(Event::Decided { id: id.clone(), decision });
            }
        };
        let reply = reply.map_err(|status| status.message().to_owned())?.into_inner();
        Reply::try_from(reply).map(answered).map_err(|malformed| malformed.to_string())
    }

    /// Has the machine keep the source's signature under a commit. A commit without a good one is not believed.
    async fn keep_signature(
        &self,
        from: &Peer,
        id: &HandoffId,
        decision: HandoffDecision,
        signed: Option<HandoffSignature>,
    ) -> Result<(), String> {
        let HandoffDecision::Commit { .. } = decision else { return Ok(()) };
        let kept = match signed {
            Some(signed) => self.claims.keep_signature(&from.name, id, signed).await,
            None => Err(SignatureRefusal::new("unsigned", "the decision is not signed")),
        };
        kept.map_err(|refusal| {
            log_call!(warn, from.name, job = %id.job, from = %from.name, reason = %refusal, "commit refused: it is not signed");
            refusal.counted().to_string()
        })
    }

    async fn prepare(&self, server: &mut ServerClient<Channel>, handoff: &Handoff) -> Result<Reply, Failed> {
        let program: Program = handoff.payload.read().map_err(|error| Failed::Lasting(error.to_string()))?;
        let what = program
            .submitted
            .ok_or_else(|| Failed::Lasting("a batch of instances goes to no other server".to_owned()))?;
        let claim = handoff
            .claim
            .as_deref()
            .ok_or_else(|| Failed::Lasting("the job has no signature of its user".to_owned()))?;
        for file in &program.inputs {
            let sent = tokio::time::timeout(FILES, self.send(server, handoff, claim, file)).await;
            sent.map_err(|_| Failed::Passing(format!("{} took too long", file.name.as_str())))??;
        }
        crash_points::reached(CrashPoint::FilesSent, ["prepare"].iter());
        let prepare = Prepare {
            id: handoff.id.clone(),
            address: self.address.clone(),
            key: handoff.key,
            owner: handoff.owner.clone(),
            what,
            inputs: program.inputs,
            submitted: handoff.submitted,
            compared: handoff.compared.clone(),
            discovery: handoff.discovery.clone(),
            hops: handoff.hops.clone(),
            before: handoff.before,
            latest: handoff.latest,
            sibling: handoff.sibling,
            reason: handoff.reason,
            request: program.request,
            claim: claim.clone(),
            requeues: handoff.requeues,
            estimates: handoff.estimates.clone(),
        };
        let reply = server.prepare(timed((&prepare).into())).await?.into_inner();
        Reply::try_from(reply).map_err(|malformed| Failed::Lasting(malformed.to_string()))
    }

    /// Sends an input file, going on where an earlier attempt was cut.
    async fn send(
        &self,
        server: &mut ServerClient<Channel>,
        handoff: &Handoff,
        claim: &SignedClaim,
        file: &FileSpec,
    ) -> Result<(), Failed> {
        let (host, spec, key) = (self.host.clone(), file.clone(), handoff.key);
        let sent = host.sent_files(&handoff.owner, key, &handoff.hops);
        // Jobs that wait in an external batch system, or run again, have their files already.
        let has_files = host.cluster.external().is_some() || handoff.requeues > 0;
        let adopted = has_files.then(|| host.input(handoff, &spec));
        let found = tokio::task::spawn_blocking(move || {
            let there = adopted.and_then(|path| File::open(path).ok());
            there.map_or_else(|| host.store.open_done(&sent, &spec), Ok)
        });
        let found = found.await;
        let found = found.map_err(|_| Failed::Passing("reading a file failed".to_owned()))?;
        let content = found.map_err(|error| Failed::Lasting(error.public_message()))?;
        let (sender, receiver) = mpsc::channel(4);
        let begin = Upload::Begin { key, file: file.clone(), claim: Some(Box::new(claim.clone())) };
        // It fits into the channel.
        let _ = sender.send((&begin).into()).await;
        let mut answers = server.upload(Request::new(ReceiverStream::new(receiver))).await?.into_inner();
        let cut = || Failed::Passing("the other server broke the upload off".to_owned());
        let malformed = |malformed: pliant_wire::Malformed| Failed::Lasting(malformed.to_string());
        let first = answers.message().await?.map(UploadAnswer::try_from).transpose().map_err(malformed)?;
        let offset = match first {
            Some(UploadAnswer::Offset(offset)) => offset,
            Some(UploadAnswer::Complete) => return Ok(()),
            None => return Err(cut()),
        };
        let reading = tokio::task::spawn_blocking(move || send_pieces(content, offset, &sender));
        let last = answers.message().await;
        let read = reading.await.map_err(|_| Failed::Passing("reading a file failed".to_owned()))?;
        read.map_err(|error| Failed::Passing(error.to_string()))?;
        match last?.map(UploadAnswer::try_from).transpose().map_err(malformed)? {
            Some(UploadAnswer::Complete) => Ok(()),
            _ => Err(cut()),
        }
    }

    fn server(&self, to: &Peer) -> Result<ServerClient<Channel>, String> {
        let channel = self.servers.to(&to.name, &to.address).map_err(|error| error.to_string())?;
        Ok(ServerClient::new(channel))
    }
}

/// An answer in a word.
fn said(event: &Event) -> &'static str {
    match event {
        Event::Answered { reply: Reply::Prepared(_), .. } => "prepared",
        Event::Answered { reply: Reply::Refused(_), .. } => "refused",
        Event::Answered { reply: Reply::Done, .. } => "done",
        Event::Answered { reply: Reply::Unknown, .. } => "unknown",
        Event::Decided { decision: HandoffDecision::Undecided, .. } => "undecided",
        Event::Decided { decision: HandoffDecision::Commit { .. }, .. } => "commit",
        Event::Decided { decision: HandoffDecision::Abort, .. } => "abort",
        _ => "",
    }
}
