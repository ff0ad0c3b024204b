//! Signatures of users and of other servers: whose they are, and what a daemon refuses because of them.
//!
//! `pliant_control::signed` decides what must match, `pliant_transport` who signed; this puts the two together.

use std::collections::BTreeSet;
use std::fmt;

use pliant_control::coallocation::LaunchId;
use pliant_control::handoff_chain::{ChainFault, ReportFault};
use pliant_control::names::User;
use pliant_control::payload::Payload;
use pliant_control::signed::{
    Claim, ClaimFault, ClaimSubject, Digest, Expected, HandoffStatement, Signature, SignedClaim,
};
use pliant_model::Time;
use pliant_telemetry::names;
use pliant_transport::{Peer, Revocations, Role, ServerTls, SignatureError, ValidAt};
use pliant_wire::{SignedTasks, tasks_digest};
use tonic::Status;

/// Why something is refused that a user or a server has not signed as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SignatureRefusal {
    /// The stable word for metrics.
    word: &'static str,
    /// Why, for people.
    why: String,
}

impl SignatureRefusal {
    /// A refusal for a reason of its own.
    pub(crate) fn new(word: &'static str, why: impl Into<String>) -> SignatureRefusal {
        SignatureRefusal { word, why: why.into() }
    }

    /// The stable word for metrics.
    pub(crate) fn word(&self) -> &'static str {
        self.word
    }

    /// Counts the refusal.
    pub(crate) fn counted(self) -> SignatureRefusal {
        metrics::counter!(names::SIGNATURES_REFUSED, "reason" => self.word).increment(1);
        self
    }

    /// The answer to the caller.
    pub(crate) fn status(&self) -> Status {
        Status::permission_denied(self.why.clone())
    }
}

impl fmt::Display for SignatureRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<ClaimFault> for SignatureRefusal {
    fn from(fault: ClaimFault) -> SignatureRefusal {
        SignatureRefusal::new(fault.word(), fault.to_string())
    }
}

impl From<ChainFault> for SignatureRefusal {
    fn from(fault: ChainFault) -> SignatureRefusal {
        SignatureRefusal::new(fault.word(), fault.to_string())
    }
}

impl From<ReportFault> for SignatureRefusal {
    fn from(fault: ReportFault) -> SignatureRefusal {
        SignatureRefusal::new(fault.word(), fault.to_string())
    }
}

impl From<SignatureError> for SignatureRefusal {
    fn from(error: SignatureError) -> SignatureRefusal {
        SignatureRefusal::new(error.word(), error.to_string())
    }
}

/// Checks that a claim is about this work, and that its user has signed it with a certificate that was valid then, and that has
/// not been revoked if revocations count.
pub(crate) fn check_claim(
    tls: &ServerTls,
    subject: ClaimSubject,
    signed: &SignedClaim,
    expected: &Expected<'_>,
    (valid, revocations): (ValidAt, Revocations),
) -> Result<(), SignatureRefusal> {
    let SignedClaim { claim, signature } = signed;
    claim.check(expected)?;
    let bytes = claim.signed_bytes(subject);
    let signer = tls.signer(&bytes, signature, valid, revocations)?;
    is_of_user(&signer, claim)
}

fn is_of_user(signer: &Peer, claim: &Claim) -> Result<(), SignatureRefusal> {
    let is_user = matches!(signer.role, Role::User | Role::Operator);
    if is_user && signer.name == claim.owner.as_str() {
        return Ok(());
    }
    let why = format!("expected the signature of user {}, found that of {signer}", claim.owner);
    Err(SignatureRefusal::new("owner", why))
}

/// Checks that a user has signed each of these tasks for a launch, and that the agent accepted the launch then.
pub(crate) fn check_tasks(
    tls: &ServerTls,
    (launch, owner): (&LaunchId, &User),
    signed: &Payload,
    tasks: impl IntoIterator<Item = Digest>,
    accepted: impl Fn(&Claim) -> Time,
) -> Result<(), SignatureRefusal> {
    let signed: SignedTasks =
        signed.read().map_err(|_| SignatureRefusal::new("unsigned", "the tasks are not signed"))?;
    let (digest, accepted) = (tasks_digest(&signed.tasks), accepted(&signed.claim.claim));
    let expected = Expected { owner, key: launch.key, digest, audience: &launch.agent, accepted };
    // The certificate may have expired since: launches wait for machines.
    let valid = (ValidAt::Then(accepted), Revocations::Count);
    check_claim(tls, ClaimSubject::Launch, &signed.claim, &expected, valid)?;
    let known: BTreeSet<Digest> = signed.tasks.into_iter().collect();
    match tasks.into_iter().all(|task| known.contains(&task)) {
        true => Ok(()),
        false => Err(SignatureRefusal::new("digest", "a task is not among those that the user has signed")),
    }
}

/// Checks that a server has signed that it hands a job over, with a certificate that was valid then.
pub(crate) fn check_handoff(
    tls: &ServerTls,
    statement: &HandoffStatement<'_>,
    signature: &Signature,
    revocations: Revocations,
) -> Result<(), String> {
    let signer = tls.signer(&statement.signed_bytes(), signature, ValidAt::Then(statement.at), revocations);
    let signer = signer.map_err(|error| error.to_string())?;
    if signer.role == Role::Server && signer.name == statement.from.as_str() {
        return Ok(());
    }
    Err(format!("expected the signature of server {}, found that of {signer}", statement.from))
}
