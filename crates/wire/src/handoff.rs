//! Handoffs of waiting jobs: proposals of agents, and messages between servers.

use pliant_control::handoff::{HandoffDecision, HandoffId, MoveOutcome, MoveProposal, Reply, StayReason};
use pliant_control::job::{ComparedEstimate, ESTIMATES_MAX, EstimateChange, Hop};
use pliant_control::names::{Key, User};
use pliant_control::reason::DiscoverySummary;
use pliant_control::signed::{HandoffSignature, SignedClaim};
#[cfg(test)]
use pliant_model::Estimate;
use pliant_model::{MoveReason, Time};
use pliant_staging::FileSpec;
#[cfg(test)]
use proptest::prelude::*;

use super::field::*;
use super::proto::{self, stays};
use super::signed::A_CLAIM;
use super::table::{conversions, enumeration, message, one_of};
use super::types::AN_ESTIMATE;
use super::{Malformed, SubmittedWork, bounds};

message! {
    /// A request of a source to prepare a job. The name of the source comes from its certificate.
    #[derive(Clone, PartialEq, Debug)]
    proto::PrepareRequest <=> pub struct Prepare {
        /// The attempt.
        id: HandoffId = required(A_HANDOFF),
        /// The address of the source, `host:port`.
        address: String = ADDRESS,
        /// The key under which the job was submitted.
        key: Key = KEY,
        /// The owner of the job.
        owner: User = USER,
        /// What the job runs.
        what: SubmittedWork = one_of::<proto::prepare_request::What, _>(),
        /// The files that the source has sent under the key.
        inputs: Vec<FileSpec> = list(nested(), bounds::INPUTS_MAX).exact(),
        /// When the federation accepted it.
        submitted: Time = TIME,
        /// The estimates that were compared at first.
        compared: Vec<ComparedEstimate> = list(nested(), bounds::COMPARED_MAX),
        /// The answers of other servers at the submission.
        discovery: DiscoverySummary = unless(DiscoverySummary::default(), nested()),
        /// Its earlier moves.
        hops: Vec<Hop> = list(nested(), bounds::HOPS_MAX),
        /// The completion that is expected of it where it is.
        before: Time = unless(Time::MAX, TIME),
        /// The latest completion for which it is to be moved.
        latest: Time = TIME,
        /// True to queue it as a sibling.
        sibling: bool,
        /// Why.
        reason: MoveReason = enumeration(),
        /// Ties the log lines of the submission together.
        request: String = text(bounds::NAME_BYTES_MAX).exact(),
        /// The user's signature.
        claim: SignedClaim = required(A_CLAIM),
        /// How often it was queued again after a node had failed under it.
        requeues: u32 = REQUEUE,
        /// Its plans as they changed while it waited.
        estimates: Vec<EstimateChange> = list(nested(), ESTIMATES_MAX),
    }

    /// A source's commit of a handoff.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::CommitRequest <=> pub struct CommitOrder {
        /// The attempt.
        id: HandoffId = required(A_HANDOFF),
        /// The owner cancelled the job during the handoff.
        cancelled: bool,
        /// Number of attempts for this job so far.
        attempts: u32 = ATTEMPTS,
        /// The source's signature that it hands the job over.
        signed: HandoffSignature = required("the signature of the server that hands the job over"),
    }

    /// A source's decision about a prepared job, for its target.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::HandoffDecision <=> pub struct SignedDecision {
        /// The decision.
        decision: HandoffDecision = one_of(),
        /// With a commit: the source's signature that it hands the job over.
        signed: Option<HandoffSignature> = optional(nested()),
    }
}

enumeration! {
    proto::MoveReason <=> MoveReason: "1 (earlier completion), 2 (resubmitted), 3 (first start) or 4 (drained)" {
        EarlierCompletion,
        Resubmitted,
        FirstStart,
        Drained,
    }
}

message! {
    proto::Hop <=> Hop {
        from: NAME,
        to: NAME,
        attempt: ATTEMPTS,
        at: TIME,
        before: unless(Time::MAX, TIME),
        expected: required(AN_ESTIMATE),
        reason: enumeration(),
        signed: optional(boxed(nested())),
    }

    proto::HandoffId <=> HandoffId {
        job: HANDLE,
        attempt: ATTEMPTS,
    }

    proto::MoveProposal <=> MoveProposal {
        job: HANDLE,
        to: NAME,
        address: ADDRESS,
        expected: required(AN_ESTIMATE),
        gain_s <=> gain: optional(DIFFERENCE),
        reason: enumeration(),
        timeout_s <=> timeout: seconds(bounds::TIMEOUT_S),
        sibling,
    }
}

one_of! {
    proto::HandoffReply { reply: proto::handoff_reply::Reply } <=> Reply {
        Prepared <=> Prepared(nested()),
        Refused <=> Refused(TEXT),
        Done(FLAG) <=> Done,
        Unknown(FLAG) <=> Unknown,
    }

    proto::handoff_decision::Decision <=> HandoffDecision {
        Undecided(FLAG) <=> Undecided,
        Commit(proto::handoff_decision::Commit) <=> Commit { cancelled, attempts: ATTEMPTS },
        Abort(FLAG) <=> Abort,
    }

    proto::MoveOutcome { outcome: proto::move_outcome::Outcome } <=> MoveOutcome {
        Moved <=> Moved(boxed(nested())),
        Stays <=> Stays(nested()),
        SiblingQueued <=> SiblingQueued(nested()),
    }
}

const A_HANDOFF: &str = "a job and an attempt";
/// The next attempt is one more.
const ATTEMPTS: Number<u32, u32> = number("a number of attempts", bounds::ATTEMPTS);

/// Which attempt a message is about.
///
/// # Errors
///
/// [`Malformed`] in `id`.
pub fn handoff_id(id: Option<proto::HandoffId>) -> Result<HandoffId, Malformed> {
    required(A_HANDOFF).decode("id", id)
}

/// By hand: an `enum` says the variant, and the values are other fields of the message.
impl HasMessage for StayReason {
    type Message = proto::Stays;

    fn to_message(&self) -> proto::Stays {
        let (why, plan) = match self {
            StayReason::NotWaiting => (stays::Why::NotWaiting, None),
            StayReason::Pinned => (stays::Why::Pinned, None),
            StayReason::Held => (stays::Why::Held, None),
            StayReason::AlreadyMoving => (stays::Why::AlreadyMoving, None),
            StayReason::TooLittleGain { plan } => (stays::Why::TooLittleGain, Some(plan.into())),
            StayReason::Refused(_) => (stays::Why::Refused, None),
            StayReason::NoAnswer => (stays::Why::NoAnswer, None),
            StayReason::Other(_) => (stays::Why::Unspecified, None),
        };
        let text = match self {
            StayReason::Refused(why) | StayReason::Other(why) => TEXT.encode(why),
            other => other.to_string(),
        };
        proto::Stays { why: why.into(), plan, text }
    }

    fn from_message(message: proto::Stays) -> Result<StayReason, Malformed> {
        let text = TEXT.decode("text", message.text)?;
        Ok(match stays::Why::try_from(message.why) {
            Ok(stays::Why::NotWaiting) => StayReason::NotWaiting,
            Ok(stays::Why::Pinned) => StayReason::Pinned,
            Ok(stays::Why::Held) => StayReason::Held,
            Ok(stays::Why::AlreadyMoving) => StayReason::AlreadyMoving,
            Ok(stays::Why::TooLittleGain) => {
                StayReason::TooLittleGain { plan: required(AN_ESTIMATE).decode("plan", message.plan)? }
            }
            Ok(stays::Why::Refused) => StayReason::Refused(text),
            Ok(stays::Why::NoAnswer) => StayReason::NoAnswer,
            // One of a later version.
            Ok(stays::Why::Unspecified) | Err(_) => StayReason::Other(text),
        })
    }

    #[cfg(test)]
    fn strategy() -> BoxedStrategy<StayReason> {
        let plain = [
            StayReason::NotWaiting,
            StayReason::Pinned,
            StayReason::Held,
            StayReason::AlreadyMoving,
            StayReason::NoAnswer,
        ];
        prop_oneof![
            proptest::sample::select(plain.to_vec()),
            Estimate::strategy().prop_map(|plan| StayReason::TooLittleGain { plan }),
            TEXT.strategy().prop_map(StayReason::Refused),
            TEXT.strategy().prop_map(StayReason::Other),
        ]
        .boxed()
    }
}

conversions! { proto::Stays <=> StayReason; }
