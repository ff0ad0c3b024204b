//! The signatures of users under jobs, and of servers under handoffs: what this server accepts, and what it signs.

use std::sync::Arc;

use pliant_control::coallocation::Subjob;
use pliant_control::handoff::{Handoff, HandoffId};
use pliant_control::handoff_chain::check_chain;
use pliant_control::job::JobRecord;
use pliant_control::names::{Key, Name, User};
use pliant_control::server::{Event, Server};
use pliant_control::signed::{
    CLOCK_TOLERANCE, Claim, ClaimSubject, Digest, Expected, HandoffSignature, HandoffStatement, SignedClaim,
};
use pliant_model::{Span, Time};
use pliant_transport::{ClientTls, Clock, Revocations, ServerTls, ValidAt};
use pliant_wire::{Prepare, SubmittedWork, claim_digest, placed_task_digest, submission_digest};

use crate::host::Mailbox;
use crate::signatures::{SignatureRefusal, check_claim, check_handoff, check_tasks};

/// How long after it was accepted a launch may prepare subjobs: the longest timeout of a launch.
const TASKS_WAIT: Span = Span(86_400);

/// How long a submission may wait until the machine accepts it.
const WAIT: Span = Span(60);

/// What it takes to verify and to sign.
#[derive(Clone)]
pub(super) struct Claims {
    pub(super) server: Name,
    pub(super) tls: Arc<ServerTls>,
    pub(super) signing: Arc<ClientTls>,
    pub(super) clock: Clock,
    pub(super) mailbox: Mailbox<Server>,
}

impl Claims {
    /// Checks that a user has signed a submission to this server.
    pub(super) fn check_submission(
        &self,
        owner: &User,
        (key, digest): (Key, Digest),
        claim: &SignedClaim,
    ) -> Result<(), SignatureRefusal> {
        let accepted = self.clock.now();
        let expected = Expected { owner, key, digest, audience: &self.server, accepted };
        // Other servers and agents compare with the acceptance by the machine, a moment later.
        claim.claim.check(&Expected { accepted: accepted + WAIT, ..expected })?;
        let valid = (ValidAt::Now, Revocations::Count);
        check_claim(&self.tls, ClaimSubject::Submission, claim, &expected, valid)
    }

    /// Checks that a job that another server wants to hand over is what its user submitted, and that it came there by
    /// handoffs that each server on the way has signed.
    pub(super) fn check_prepare(&self, from: &Name, prepare: &Prepare) -> Result<(), SignatureRefusal> {
        let Prepare { id, key, owner, what, inputs, submitted, hops, claim, .. } = prepare;
        // A job whose user chose its server is signed as one that does not move.
        let digest = submission_digest(what, inputs, false);
        let expected = Expected { owner, key: *key, digest, audience: &id.job.server, accepted: *submitted };
        // The certificate may have been renewed and have expired since: jobs wait.
        let valid = (ValidAt::Then(*submitted), Revocations::Count);
        check_claim(&self.tls, ClaimSubject::Submission, claim, &expected, valid)?;
        if matches!(what, SubmittedWork::Batch(_)) {
            return Err(SignatureRefusal::new("digest", "a batch of a sweep does not move"));
        }
        if !claim.claim.moves_at(self.clock.now()) {
            return Err(SignatureRefusal::new("old", "the user's signature is too old for a move"));
        }
        let chain = (&id.job, owner, *key, digest_of(claim));
        check_chain(chain, hops, from, |statement, signature| {
            self.check_time(statement.at, *submitted)?;
            check_handoff(&self.tls, statement, signature, Revocations::Count)
        })?;
        Ok(())
    }

    /// Checks that the tasks of a subjob are among those that their user signed for the agent of their launch.
    pub(super) fn check_subjob(&self, subjob: &Subjob) -> Result<(), SignatureRefusal> {
        let Subjob { id, owner, tasks, signed, .. } = subjob;
        let now = self.clock.now();
        // The agent accepted the launch in time, and may have waited for machines and for other subjobs since.
        let accepted = |claim: &Claim| {
            let last = claim.made + claim.lifetime;
            if now <= last + TASKS_WAIT { now.min(last) } else { now }
        };
        check_tasks(&self.tls, (&id.launch, owner), signed, tasks.iter().map(placed_task_digest), accepted)
    }

    /// Checks that a server sends a file for a job of a user who has signed it: whatever else is wrong shows when the job
    /// is to be prepared.
    pub(super) fn check_sender(&self, key: Key, claim: &SignedClaim) -> Result<User, SignatureRefusal> {
        let SignedClaim { claim: said, .. } = claim;
        let (owner, audience) = (&said.owner, &said.audience);
        let expected = Expected { owner, key, digest: said.digest, audience, accepted: said.made };
        let check = |valid| {
            let valid = (valid, Revocations::Count);
            check_claim(&self.tls, ClaimSubject::Submission, claim, &expected, valid)
        };
        // When the job was accepted shows when it is to be prepared.
        check(ValidAt::Then(said.made)).or_else(|_| check(ValidAt::Now))?;
        if !said.moves_at(self.clock.now()) {
            return Err(SignatureRefusal::new("old", "the user's signature is too old for a move"));
        }
        Ok(owner.clone())
    }

    /// Checks that the source of a prepared job has signed that it hands the job over, and has the machine keep the
    /// signature. Comes before each commit; does nothing if the job is not prepared, or its signature is kept.
    pub(super) async fn keep_signature(
        &self,
        from: &Name,
        id: &HandoffId,
        signed: HandoffSignature,
    ) -> Result<(), SignatureRefusal> {
        let wanted = id.clone();
        let prepared = move |server: &mut Server, _| {
            let (handoff, is_kept) = server.prepared_by(&wanted)?;
            (!is_kept).then(|| handoff.clone())
        };
        let prepared = self.mailbox.ask(prepared).await.map_err(|_| stopping())?;
        let Some(Handoff { owner, key, claim, submitted, from: source, .. }) = prepared else {
            return Ok(());
        };
        if source.name != *from {
            return Err(SignatureRefusal::new("chain", "another server hands this job over"));
        }
        if claim.as_deref().map(digest_of) != Some(signed.claim) {
            let why = "the handoff was signed for another submission";
            return Err(SignatureRefusal::new("claim", why));
        }
        let HandoffSignature { claim, at, ref signature } = signed;
        let (job, to, attempt) = (&id.job, &self.server, id.attempt);
        let statement = HandoffStatement { job, owner: &owner, key, claim, from, to, attempt, at };
        self.check_time(at, submitted)
            .and_then(|()| check_handoff(&self.tls, &statement, signature, Revocations::Count))
            .map_err(|why| SignatureRefusal::new("signature", why))?;
        let event = Event::HandoffSigned { id: id.clone(), signed: Box::new(signed) };
        self.mailbox.send(event).map_err(|_| stopping())
    }

    /// Checks that a handoff is dated between the submission of its job and the present: a key whose certificate has expired signs nothing
    /// that is later.
    fn check_time(&self, at: Time, submitted: Time) -> Result<(), String> {
        let (first, last) = (submitted - CLOCK_TOLERANCE, self.clock.now() + CLOCK_TOLERANCE);
        if (first..=last).contains(&at) {
            return Ok(());
        }
        Err("the handoff is not dated between the submission of its job and now".to_owned())
    }

    /// This server's signature that it hands a job over, once it has committed that.
    pub(super) async fn sign_handoff(&self, id: &HandoffId) -> Result<HandoffSignature, String> {
        let wanted = id.clone();
        let committed = move |server: &mut Server, _| {
            let (JobRecord { owner, key, claim, .. }, to) = server.committed(&wanted)?;
            Some((owner.clone(), *key, claim.clone(), to.clone()))
        };
        let committed = self.mailbox.ask(committed).await.map_err(|_| "the server is stopping".to_owned())?;
        let (owner, key, claim, to) = committed.ok_or("the handoff is not committed")?;
        let claim = digest_of(&*claim.ok_or("the job has no signature of its user")?);
        let (job, from, attempt, at) = (&id.job, &self.server, id.attempt, self.clock.now());
        let statement = HandoffStatement { job, owner: &owner, key, claim, from, to: &to, attempt, at };
        let signature = self.signing.sign(&statement.signed_bytes()).map_err(|error| error.to_string())?;
        Ok(HandoffSignature { claim, at, signature })
    }
}

/// The digest of what a user signed.
fn digest_of(claim: &SignedClaim) -> Digest {
    claim_digest(&claim.claim.signed_bytes(ClaimSubject::Submission))
}

fn stopping() -> SignatureRefusal {
    SignatureRefusal::new("stopping", "the server is stopping")
}
