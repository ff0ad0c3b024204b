//! What other servers may say about jobs that they hand over, and what this one makes of it.

use pliant_control::handoff::{Handoff, HandoffDecision, HandoffId, Peer as Other, Reply};
use pliant_control::job::{Hop, JobRecord};
use pliant_control::names::{Name, Token, User};
use pliant_control::payload::Payload;
use pliant_control::runtime_sample::{RuntimeSample, script_category};
use pliant_control::server::{AdmissionRefusal, Answer, Event, Server};
use pliant_control::signed::HandoffSignature;
use pliant_site::services::{Batch, Prepared};
use pliant_staging::UploadSet;
use pliant_transport::Role;
use pliant_wire::{Prepare, SignedDecision, SubmittedWork};
use tonic::{Request, Status};

use super::accepting::{answer_to, journaled_bytes};
use super::execution::Program;
use super::offer::PreparedWork;
use super::service::{Service, TIMEOUT, slow, stopping};
use crate::call_log::log_call;
use crate::gate::{self, Pass};
use crate::host::{archived, record};
use crate::signatures::SignatureRefusal;

impl Service {
    /// What another server hands over, as this one would run it; or why it does not.
    pub(super) async fn taken_over(
        &self,
        from: Name,
        prepare: Prepare,
    ) -> Result<Result<Handoff, String>, Status> {
        let mut checked = self.claims.check_prepare(&from, &prepare);
        if checked.is_ok() {
            checked = self.check_unknown(&prepare).await?;
        }
        if let Err(refusal) = checked {
            let (job, owner) = (&prepare.id.job, &prepare.owner);
            log_call!(warn, from, %job, %owner, %from, reason = %refusal, "handoff refused");
            return Ok(Err(refusal.counted().to_string()));
        }
        if let Some(why) = self.health.shortage() {
            return Ok(Err(why));
        }
        let Prepare { id, address, key, owner, what, inputs, submitted, requeues, .. } = prepare;
        let _lock = self.host.store.lock(&owner, key).await;
        let learned = match what.service() {
            Some(name) => self.offer.learned(name, &owner, &self.mailbox).await,
            None => None,
        };
        let made = match self.offer.prepare(&what, &owner, learned) {
            Ok(made) => made,
            Err(refusal) => return Ok(Err(refusal.to_string())),
        };
        let sample = self.sample(&owner, &what, &made);
        let PreparedWork { prepared, batch, account } = made;
        let account = account.map(String::from);
        if let Err(refusal) = prepared.check_inputs(&inputs) {
            return Ok(Err(refusal.to_string()));
        }
        let sent = UploadSet::of_server(owner.clone(), key, from.clone());
        let (store, files) = (self.host.store.clone(), inputs.clone());
        let complete = tokio::task::spawn_blocking(move || store.complete(&sent, &files)).await;
        if let Err(error) = complete.map_err(|_| Status::internal("a file operation failed"))? {
            return Ok(Err(error.public_message()));
        }
        let (name, work) = (prepared.name.clone(), prepared.work.clone());
        let request = prepare.request;
        let program = Program {
            prepared,
            submitted: Some(what),
            script: None,
            batch,
            inputs,
            shared: None,
            account,
            request,
        };
        Ok(Ok(Handoff {
            id,
            from: Other { name: from, address },
            key,
            owner,
            name,
            work,
            submitted,
            compared: prepare.compared,
            discovery: prepare.discovery,
            requeues,
            hops: prepare.hops,
            estimates: prepare.estimates,
            before: prepare.before,
            latest: prepare.latest,
            sibling: prepare.sibling,
            reason: prepare.reason,
            claim: Some(Box::new(prepare.claim)),
            payload: Payload::of(&program),
            sample,
        }))
    }

    /// Has the machine prepare a job, unless it has. What is prepared counts as submitted by the owner, as the journal keeps it.
    pub(super) async fn prepare_job(&self, handoff: Handoff, bytes: usize) -> Result<Reply, Status> {
        let id = handoff.id.clone();
        let known =
            move |server: &mut Server, _| (server.prepared_by(&id).is_some(), server.prepared_estimate(&id));
        match self.mailbox.ask(known).await.map_err(|_| stopping())? {
            (_, Some(estimate)) => {
                let settled = tokio::time::timeout(TIMEOUT, self.mailbox.settled()).await;
                settled.map_err(|_| slow())?.map_err(|_| stopping())?;
                return Ok(Reply::Prepared(estimate));
            }
            // The batch system has not confirmed it yet; the first call is answered when it does.
            (true, None) => return Err(Status::unavailable("the job is being prepared; ask again")),
            (false, None) => {}
        }
        let kept = journaled_bytes(bytes, &handoff.payload);
        let mut reserved = match self.gate.reserve(&handoff.owner, kept) {
            Ok(reserved) => reserved,
            Err(why) => return Ok(Reply::Refused(why)),
        };
        self.refresh_listing().await;
        let sent = self.send(|reply| Event::Prepare { reply, handoff: Box::new(handoff) }, bytes);
        match answer_to(reserved.sent(sent)?).await? {
            Answer::Handoff(reply) => Ok(reply),
            Answer::NotPrepared(why) => {
                reserved.give_back();
                Ok(Reply::Refused(why))
            }
            _ => Err(Status::internal("not an answer to a server")),
        }
    }

    /// Checks that a job which is handed over has not been here, or has left by the path that the handoff says, and that no other
    /// job came here with its key. An earlier server of the job keeps its signatures, and could hand it over again.
    async fn check_unknown(&self, prepare: &Prepare) -> Result<Result<(), SignatureRefusal>, Status> {
        let (job, key) = (prepare.id.job.clone(), prepare.key);
        let wanted = job.clone();
        let present = move |server: &mut Server, _| {
            let by_job = server.number_of(&wanted).and_then(|number| server.job(number));
            [by_job.cloned(), server.job_of_key(&key).cloned()]
        };
        // In this order: what leaves the memory is in the archive by then.
        let present = self.mailbox.ask(present).await.map_err(|_| stopping())?;
        let look = move |archive: &mut dyn pliant_journal::Archive| {
            Ok([archive.job(job.server.as_str(), job.number)?, archive.job_by_key(&key.0)?])
        };
        let ended = archived(&self.archive, look).await?;
        let ended = ended.iter().flatten().map(record).collect::<Result<Vec<JobRecord>, Status>>()?;
        let (job, own) = (&prepare.id.job, &self.offer.info.name);
        Ok(present.iter().flatten().chain(&ended).try_for_each(|known| {
            if known.handle != *job {
                return Err(SignatureRefusal::new("replay", AdmissionRefusal::KeyTaken.to_string()));
            }
            Handoff::check_return(job, &prepare.hops, known, own)
                .map_err(|why| SignatureRefusal::new("replay", why))
        }))
    }

    /// What is learned from a run of a service, or from a batch; nothing else is known of a script that runs once.
    pub(super) fn sample(
        &self,
        owner: &User,
        what: &SubmittedWork,
        made: &PreparedWork,
    ) -> Option<RuntimeSample> {
        let Prepared { name, scale, .. } = &made.prepared;
        let instances = made.batch.as_ref().map_or(1, Batch::count);
        let scale = scale.max(f64::MIN_POSITIVE);
        // A script has the walltime that its user gives, whatever services are called.
        let (category, promises) = match what.service() {
            Some(_) => (name.clone(), self.offer.catalogue.is_learned(name)),
            None => (script_category(owner, name), false),
        };
        let is_batch = made.batch.is_some();
        (what.service().is_some() || is_batch).then_some(RuntimeSample {
            category,
            scale,
            promises,
            instances,
            is_batch,
        })
    }

    /// Notifies the machine about a job that another server hands over.
    pub(super) async fn handoff(
        &self,
        event: impl FnOnce(Token) -> Event,
        bytes: usize,
    ) -> Result<Reply, Status> {
        match self.call(event, bytes).await? {
            Answer::Handoff(reply) => Ok(reply),
            _ => Err(Status::internal("not an answer to a server")),
        }
    }

    /// Has the machine keep the source's signature under a handoff, before its commit.
    pub(super) async fn keep_signature(
        &self,
        from: &Name,
        id: &HandoffId,
        signed: HandoffSignature,
    ) -> Result<(), Status> {
        self.claims.keep_signature(from, id, signed).await.map_err(|refusal| {
            log_call!(warn, from, job = %id.job, %from, reason = %refusal, "commit refused: it is not signed");
            refusal.counted().status()
        })
    }

    /// A decision for the target of a handoff, signed if it is a commit.
    pub(super) async fn signed(
        &self,
        id: &HandoffId,
        decision: HandoffDecision,
    ) -> Result<SignedDecision, Status> {
        let signed = match decision {
            HandoffDecision::Commit { .. } => {
                let signed = self.claims.sign_handoff(id).await;
                Some(signed.map_err(|why| Status::internal(format!("cannot sign the handoff: {why}")))?)
            }
            HandoffDecision::Undecided | HandoffDecision::Abort => None,
        };
        Ok(SignedDecision { decision, signed })
    }

    /// What is to become of a sibling job that is ready to start at another server: that is decided by the question.
    pub(super) async fn may_start(&self, from: &Name, id: HandoffId) -> Result<HandoffDecision, Status> {
        let wanted = id.clone();
        let target = move |server: &mut Server, _| server.target_of(&wanted).cloned();
        match self.mailbox.ask(target).await.map_err(|_| stopping())? {
            Some(target) if target != *from => {
                log_call!(warn, from, %from, %target, job = %id.job, "request refused: this sibling job is at another server");
                return Err(Status::permission_denied("this sibling job is at another server"));
            }
            Some(_) => {}
            // As for a decision: another server's sibling job of that ID may come before the question reaches the machine.
            None => return Ok(HandoffDecision::Abort),
        }
        match self.call(|reply| Event::Ready { reply, id }, 0).await? {
            Answer::Decision(decision) => Ok(decision),
            _ => Err(Status::internal("not a decision")),
        }
    }

    /// Whether a handoff is known here. Refuses a server that decides about what another one hands over.
    ///
    /// A decision about an unknown handoff must not reach the machine: another server's handoff of that ID may arrive before it.
    pub(super) async fn is_known_of(&self, from: &Name, id: &HandoffId) -> Result<bool, Status> {
        let wanted = id.clone();
        let source = move |server: &mut Server, _| server.source_of(&wanted).cloned();
        match self.mailbox.ask(source).await.map_err(|_| stopping())? {
            Some(source) if source != *from => {
                log_call!(warn, from, %from, %source, job = %id.job, "request refused: another server hands this job over");
                let refusal = SignatureRefusal::new("chain", "another server hands this job over");
                Err(refusal.counted().status())
            }
            Some(_) => Ok(true),
            None => {
                tracing::debug!(%from, job = %id.job, attempt = id.attempt, "a decision about a handoff that is not known here");
                Ok(false)
            }
        }
    }

    /// What is to become of a job that is handed over, for the server that is to take it and for no other.
    pub(super) async fn verdict_for(&self, from: &Name, id: &HandoffId) -> Result<HandoffDecision, Status> {
        let wanted = id.clone();
        let look =
            move |server: &mut Server, _| (server.target_of(&wanted).cloned(), server.decision(&wanted));
        match self.mailbox.ask(look).await.map_err(|_| stopping())? {
            (Some(target), _) if target != *from => {
                log_call!(warn, from, %from, %target, job = %id.job, "request refused: this job goes to another server");
                Err(Status::permission_denied("this job goes to another server"))
            }
            (_, decision) => Ok(decision),
        }
    }

    /// The answer to the commit of a handoff that the machine does not know: whether a job came here by that attempt, as the archive knows.
    pub(super) async fn archived_commit(&self, id: &HandoffId) -> Result<Reply, Status> {
        let wanted = id.job.clone();
        let look = move |archive: &mut dyn pliant_journal::Archive| {
            archive.job(wanted.server.as_str(), wanted.number)
        };
        let row = archived(&self.archive, look).await?;
        let found = row.as_ref().map(record).transpose()?;
        let own = &self.offer.info.name;
        let came = |hop: &Hop| hop.attempt == id.attempt && hop.to == *own;
        let was_taken = found.is_some_and(|record| record.hops.iter().any(came));
        Ok(if was_taken { Reply::Done } else { Reply::Unknown })
    }
}

/// The server that calls, and its pass.
pub(super) fn source<T>(request: &Request<T>) -> Result<(Name, Option<Pass>), Status> {
    let (caller, pass) = gate::daemon(request, &[Role::Server])?;
    let name = caller.peer.name.parse().map_err(|error| Status::unauthenticated(format!("{error}")))?;
    Ok((name, pass))
}
