//! Calls on their way to the machine, and submissions above all: looked up, checked, and sent.

use pliant_control::payload::Payload;
use std::time::Duration;

use pliant_control::access::Caller;
use pliant_control::job::JobRecord;
use pliant_control::names::{Key, Token};
use pliant_control::reason::Cause;
use pliant_control::server::{AdmissionRefusal, Answer, Event, Submit};
use pliant_journal::Durability;
use pliant_site::services::Refusal;
use pliant_staging::{FileSpec, UploadSet};
use pliant_telemetry::{RequestId, names};
use pliant_wire::{Submission, SubmissionRefusal, SubmitAnswer, SubmittedWork, submission_digest};
use tonic::Status;

use super::execution::Program;
use super::offer::PreparedWork;
use super::service::{Service, TIMEOUT, blocking, slow, stopping};
use crate::call_log::log_call;
use crate::host::{NoReply, Rejected, Reply};

/// How long a submission waits for a server with a new journal to learn which numbers are taken: if its agent is
/// there, the answer is under way.
const NUMBERED_WITHIN: Duration = Duration::from_secs(1);

impl Service {
    pub(super) async fn accept(
        &self,
        caller: Caller,
        id: RequestId,
        submission: Submission,
        request_bytes: usize,
    ) -> Result<SubmitAnswer, Status> {
        self.accept_looked_up(caller, id, submission, request_bytes, false).await
    }

    /// The same. `is_new` says that no job had the key a moment ago: the machine remembers keys for longer.
    pub(super) async fn accept_looked_up(
        &self,
        caller: Caller,
        id: RequestId,
        submission: Submission,
        request_bytes: usize,
        is_new: bool,
    ) -> Result<SubmitAnswer, Status> {
        let Submission { key, what, inputs, latest, compared, discovery, pinned, claim } = submission;
        // No input is begun anew or thrown away until the answer is known.
        let _lock = self.host.store.lock(&caller.user, key).await;
        // Its inputs are gone if it was accepted before: this comes first.
        let before = match is_new && inputs.is_empty() {
            true => None,
            false => self.accepted_before(&caller, key).await?,
        };
        if let Some(record) = before {
            // Its acceptance may still be on its way to the disk.
            let settled = tokio::time::timeout(TIMEOUT, self.mailbox.settled()).await;
            settled.map_err(|_| slow())?.map_err(|_| stopping())?;
            return Ok(SubmitAnswer::Accepted(Box::new(record)));
        }
        let signed_for = (key, submission_digest(&what, &inputs, pinned));
        self.claims.check_submission(&caller.user, signed_for, &claim).map_err(|refusal| {
            log_call!(warn, caller.user, owner = %caller.user, %key, reason = %refusal, "submission refused: it is not signed");
            refusal.counted().status()
        })?;
        if let Some(refused) = self.is_unnumbered().await {
            metrics::counter!(names::SUBMISSIONS_REFUSED, "reason" => refused.word()).increment(1);
            log_call!(info, caller.user, owner = %caller.user, reason = refused.word(), "refused");
            return Ok(SubmitAnswer::Refused(SubmissionRefusal::from(&refused)));
        }
        self.can_write()?;
        let learned = match what.service() {
            Some(name) => self.offer.learned(name, &caller.user, &self.mailbox).await,
            None => None,
        };
        let shared = match &what {
            SubmittedWork::Batch(batch) => batch.inputs_key,
            SubmittedWork::Service { .. } | SubmittedWork::Script(_) | SubmittedWork::Call(_) => None,
        };
        let made = self.offer.prepare(&what, &caller.user, learned).map_err(|refusal| refused(&refusal))?;
        let sample = self.sample(&caller.user, &what, &made);
        let PreparedWork { prepared, batch, account } = made;
        let account = account.map(String::from);
        let has_data = prepared.call.as_ref().is_some_and(|call| call.has_data());
        if has_data && let Err(refusal) = self.check_data(&caller.user, &prepared, account.is_some()).await {
            let refused = AdmissionRefusal::Other(refusal.cause().because(with_hint(&refusal)));
            metrics::counter!(names::SUBMISSIONS_REFUSED, "reason" => refused.word()).increment(1);
            log_call!(info, caller.user, owner = %caller.user, reason = refused.word(), "refused");
            return Ok(SubmitAnswer::Refused(SubmissionRefusal::from(&refused)));
        }
        // The estimates of a batch are those of its server alone, and data are at one.
        let pinned = pinned || batch.is_some() || has_data;
        prepared.check_inputs(&inputs).map_err(|refusal| refused(&refusal))?;
        let sent = UploadSet::of_owner(caller.user.clone(), shared.unwrap_or(key));
        let (store, files) = (self.host.store.clone(), inputs.clone());
        let uploaded = move || {
            if shared.is_some() {
                // Other batches may need them for long.
                store.renew(&sent)?;
            }
            store.complete(&sent, &files)
        };
        if shared.is_some() || !inputs.is_empty() {
            blocking(uploaded).await?;
        }
        let (name, work) = (prepared.name.clone(), prepared.work.clone());
        // Its caller waits, and a call that is lost with its host is reported.
        let durability = if prepared.is_resident() { Durability::Process } else { Durability::Power };
        // A batch says what it runs by itself, and goes to no other server.
        let submitted = batch.is_none().then_some(what);
        let links = shared.map(|key| (key, inputs.clone()));
        let program = Program {
            prepared,
            submitted,
            script: None,
            batch,
            inputs,
            shared,
            account,
            request: id.to_string(),
        };
        let payload = Payload::of(&program);
        let bytes = payload.bytes();
        let mut reserved = match self.gate.reserve(&caller.user, journaled_bytes(request_bytes, &payload)) {
            Ok(reserved) => reserved,
            Err(why) => {
                let refused = AdmissionRefusal::Other(Cause::TooMany.because(why));
                metrics::counter!(names::SUBMISSIONS_REFUSED, "reason" => refused.word()).increment(1);
                log_call!(info, caller.user, owner = %caller.user, reason = refused.word(), "refused");
                return Ok(SubmitAnswer::Refused(SubmissionRefusal::from(&refused)));
            }
        };
        let owner = caller.user.clone();
        let submit = Submit {
            key,
            owner,
            name,
            work,
            own_time: false,
            pinned,
            latest,
            compared,
            discovery,
            payload,
            sample,
            claim: Some(Box::new(claim)),
        };
        self.refresh_listing().await;
        let event = |reply| Event::Submit { reply, submit: Box::new(submit) };
        let sent = self.send_durable(event, bytes, durability);
        match answer_to(reserved.sent(sent)?).await? {
            Answer::Accepted(record) => {
                tracing::info!(
                    job = %record.handle, owner = %record.owner, name = %record.name, procs = record.procs.0,
                    start = record.expected.start.0, "accepted"
                );
                if let Some((key, files)) = links
                    && let Err(status) = self.link(&record, key, files).await
                {
                    // It is tried again when it starts.
                    tracing::warn!(job = %record.handle, why = status.message(), "cannot link its inputs yet");
                }
                Ok(SubmitAnswer::Accepted(Box::new(record.without_signatures())))
            }
            Answer::Refused(refused) => {
                reserved.give_back();
                log_call!(info, caller.user, owner = %caller.user, reason = refused.word(), "refused");
                Ok(SubmitAnswer::Refused(SubmissionRefusal::from(&refused)))
            }
            Answer::Known(handle) => {
                reserved.give_back();
                let record = self.archived(&caller, &handle).await?;
                Ok(SubmitAnswer::Accepted(Box::new(record)))
            }
            Answer::Cancelling(_)
            | Answer::Elsewhere(_)
            | Answer::MoveOutcome(_)
            | Answer::Handoff(_)
            | Answer::NotPrepared(_)
            | Answer::Decision(_)
            | Answer::Subjob(_)
            | Answer::Drained(_)
            | Answer::Banned(_)
            | Answer::Limited(_)
            | Answer::Forgotten(_)
            | Answer::Job(_)
            | Answer::Unsuited(_)
            | Answer::NoSuchJob => Err(Status::internal("not an answer to a submission")),
        }
    }

    /// Gives a batch its inputs at once: they may be thrown away before it starts.
    async fn link(&self, record: &JobRecord, key: Key, files: Vec<FileSpec>) -> Result<(), Status> {
        let sent = UploadSet::of_owner(record.owner.clone(), key);
        let (store, dir) = (self.host.store.clone(), self.host.dir(&record.handle, record.requeues));
        blocking(move || store.share(&sent, &files, &dir)).await
    }

    /// Sends the machine an event of so many bytes, and waits until the answer is durable.
    pub(super) async fn call(
        &self,
        event: impl FnOnce(Token) -> Event,
        bytes: usize,
    ) -> Result<Answer, Status> {
        answer_to(self.send(event, bytes)?).await
    }

    /// Sends the machine an event of so many bytes.
    pub(super) fn send(
        &self,
        event: impl FnOnce(Token) -> Event,
        bytes: usize,
    ) -> Result<Reply<Answer>, Status> {
        self.send_durable(event, bytes, Durability::Power)
    }

    /// The same, where the commit of the event must survive no more than that before it is answered.
    fn send_durable(
        &self,
        event: impl FnOnce(Token) -> Event,
        bytes: usize,
        durability: Durability,
    ) -> Result<Reply<Answer>, Status> {
        let reply = self.replies.wait();
        let sent = self.mailbox.try_send_durable(event(reply.token()), bytes, durability);
        sent.map(|()| reply).map_err(|why| match why {
            Rejected::Busy => Status::unavailable("the server is busy; ask again"),
            Rejected::Stopped => stopping(),
        })
    }

    /// What is decided now is decided on what others have submitted by now.
    pub(super) async fn refresh_listing(&self) {
        if let Some(fresh) = &self.fresh {
            fresh.refresh().await;
        }
    }

    /// Why no job is taken while it is not known which numbers are taken.
    pub(super) async fn is_unnumbered(&self) -> Option<AdmissionRefusal> {
        let mut numbered = self.numbered.clone();
        let reported = tokio::time::timeout(NUMBERED_WITHIN, numbered.wait_for(|numbered| *numbered)).await;
        let reason = || {
            Cause::NotConnected.because(
                "the server's journal is new, and the agents above it have not said which job numbers are taken",
            )
        };
        (!matches!(reported, Ok(Ok(_)))).then(|| AdmissionRefusal::Other(reason()))
    }

    /// An error while the journal cannot be written, or the disk is almost full: nothing is accepted then, and no client has
    /// to wait for that answer. It says that nothing was done this time, so that clients try elsewhere; what they sent before
    /// may still wait here.
    pub(super) fn can_write(&self) -> Result<(), Status> {
        if let Some(why) = self.health.failure() {
            let why = format!("the server cannot write its journal at the moment: {why}");
            return Err(Status::resource_exhausted(why));
        }
        self.has_room()
    }

    /// An error while the disk is almost full. What was accepted goes on: the journal has space of its own.
    pub(super) fn has_room(&self) -> Result<(), Status> {
        match self.health.shortage() {
            Some(why) => {
                let why = format!("the server accepts no new work at the moment: {why}");
                Err(Status::resource_exhausted(why))
            }
            None => Ok(()),
        }
    }
}

/// Waits for the answer to an event until it is durable.
pub(super) async fn answer_to(reply: Reply<Answer>) -> Result<Answer, Status> {
    // Whether it was done is not known: the caller asks again with the same key.
    reply.within(TIMEOUT).await.map_err(|NoReply| slow())
}

/// How many bytes of the journal a submission takes: those of its payload, or of the request if that has more. The payload of a
/// batch can be ten times as long as its request, because it has a walltime for each instance.
pub(super) fn journaled_bytes(request_bytes: usize, payload: &Payload) -> usize {
    payload.bytes().max(request_bytes)
}

fn with_hint(refusal: &Refusal) -> String {
    let hint = refusal.hint();
    if hint.is_empty() { refusal.to_string() } else { format!("{refusal}; {hint}") }
}

fn refused(refusal: &Refusal) -> Status {
    let message = with_hint(refusal);
    match refusal {
        // Asking again changes nothing.
        Refusal::InputBytes { .. } => Status::out_of_range(message),
        _ => Status::invalid_argument(message),
    }
}

#[cfg(test)]
mod tests {
    use pliant_site::services::Batch;
    use pliant_wire::{InstanceCall, proto};
    use prost::Message;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_batch_counts_with_what_the_journal_keeps_of_it() {
        let sent = |number| proto::instance_batch::Instance::from(&InstanceCall { number, values: vec![] });
        let request_bytes = (0..10_000).map(|number| sent(number).encoded_len() + 2).sum();
        let kept = |number| json!({ "number": number, "values": [], "walltime": 3_600, "scale": 1.0 });
        let instances: Vec<_> = (0..10_000).map(kept).collect();
        let batch =
            json!({ "command": [], "environment": {}, "varied": [], "instances": instances, "wider": 1.0 });
        let payload = Payload::of(&serde_json::from_value::<Batch>(batch).unwrap());
        assert!(payload.bytes() > 8 * request_bytes, "{} of {request_bytes}", payload.bytes());
        assert_eq!(journaled_bytes(request_bytes, &payload), payload.bytes());
        assert_eq!(journaled_bytes(1 << 20, &payload), 1 << 20);
    }
}
