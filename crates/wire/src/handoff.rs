//! Waiting jobs that go from one server to another: what agents propose, what servers say to each other.

use pliant_control::handoff::{HandoffId, MoveOutcome, Order, Reply, Stays, Verdict};
use pliant_control::job::{Compared, Hop};
use pliant_control::names::{Key, User};
use pliant_control::reason::Survey;
#[cfg(test)]
use pliant_model::Estimate;
use pliant_model::{MoveReason, Time};
use pliant_staging::FileSpec;
#[cfg(test)]
use proptest::prelude::*;

use super::field::*;
use super::proto::{self, stays};
use super::table::{conversions, enumeration, message, one_of};
use super::types::AN_ESTIMATE;
use super::{Malformed, Submitted, bounds};

/// What a source asks a target to hold. Where the source is reached and what it is called comes from its certificate
/// and its message.
#[derive(Clone, PartialEq, Debug)]
pub struct Prepare {
    /// Which attempt this is.
    pub id: HandoffId,
    /// Where the source is reached, `host:port`.
    pub address: String,
    /// The key under which the job was submitted.
    pub key: Key,
    /// Whose it is.
    pub owner: User,
    /// What is to run.
    pub what: Submitted,
    /// The files that the source has sent under the key.
    pub inputs: Vec<FileSpec>,
    /// When the federation accepted it.
    pub submitted: Time,
    /// The estimates that were compared at first.
    pub compared: Vec<Compared>,
    /// What came of asking the others at first.
    pub survey: Survey,
    /// How it came to its present place.
    pub hops: Vec<Hop>,
    /// The completion that is expected of it where it is.
    pub before: Time,
    /// The latest completion for which it is to be moved.
    pub latest: Time,
    /// It is to be queued as a copy.
    pub copy: bool,
    /// Why.
    pub reason: MoveReason,
    /// Ties the log lines of the submission together.
    pub request: String,
}

enumeration! {
    proto::MoveReason <=> MoveReason: "1 (earlier completion), 2 (resubmitted) or 3 (first start)" {
        EarlierCompletion,
        Resubmitted,
        FirstStart,
    }
}

message! {
    proto::Hop <=> Hop {
        from: NAME,
        to: NAME,
        attempt,
        at: TIME,
        before: unless(Time::MAX, TIME),
        expected: required(AN_ESTIMATE),
        reason: enumeration(),
    }

    proto::HandoffId <=> HandoffId {
        job: HANDLE,
        attempt,
    }

    proto::PrepareRequest <=> Prepare {
        id: required(A_HANDOFF),
        address: ADDRESS,
        key: KEY,
        owner: USER,
        what: one_of::<proto::prepare_request::What, _>(),
        inputs: list(nested(), bounds::INPUTS_MAX).exact(),
        submitted: TIME,
        compared: list(nested(), bounds::COMPARED_MAX),
        survey: unless(Survey::default(), nested()),
        hops: list(nested(), bounds::HOPS_MAX),
        before: unless(Time::MAX, TIME),
        latest: TIME,
        reason: enumeration(),
        request: text(bounds::NAME_BYTES_MAX).exact(),
        copy,
    }

    proto::Order <=> Order {
        job: HANDLE,
        to: NAME,
        address: ADDRESS,
        expected: required(AN_ESTIMATE),
        gain_s <=> gain: optional(DIFFERENCE),
        reason: enumeration(),
        patience_s <=> patience: seconds(bounds::PATIENCE_S),
        copy,
    }
}

one_of! {
    proto::HandoffReply { reply: proto::handoff_reply::Reply } <=> Reply {
        Prepared <=> Prepared(nested()),
        Refused <=> Refused(TEXT),
        Done(FLAG) <=> Done,
        Unknown(FLAG) <=> Unknown,
    }

    proto::Verdict { verdict: proto::verdict::Verdict } <=> Verdict {
        Undecided(FLAG) <=> Undecided,
        Commit(proto::verdict::Commit) <=> Commit { cancelled, attempts },
        Abort(FLAG) <=> Abort,
    }

    proto::MoveOutcome { outcome: proto::move_outcome::Outcome } <=> MoveOutcome {
        Moved <=> Moved(boxed(nested())),
        Stays <=> Stays(nested()),
        Copied <=> Copied(nested()),
    }
}

const A_HANDOFF: &str = "a job and an attempt";

/// Which attempt a message is about.
///
/// # Errors
///
/// [`Malformed`] in `id`.
pub fn handoff_id(id: Option<proto::HandoffId>) -> Result<HandoffId, Malformed> {
    required(A_HANDOFF).decode("id", id)
}

/// By hand: the variants are told apart by an `enum`, and what they hold is in fields of the message beside it.
impl HasMessage for Stays {
    type Message = proto::Stays;

    fn to_message(&self) -> proto::Stays {
        let (why, plan) = match self {
            Stays::NotWaiting => (stays::Why::NotWaiting, None),
            Stays::Pinned => (stays::Why::Pinned, None),
            Stays::Kept => (stays::Why::Kept, None),
            Stays::OnItsWay => (stays::Why::OnItsWay, None),
            Stays::NotWorthIt { plan } => (stays::Why::NotWorthIt, Some(plan.into())),
            Stays::Refused(_) => (stays::Why::Refused, None),
            Stays::Silent => (stays::Why::Silent, None),
            Stays::Other(_) => (stays::Why::Unspecified, None),
        };
        let text = match self {
            Stays::Refused(why) | Stays::Other(why) => TEXT.encode(why),
            other => other.to_string(),
        };
        proto::Stays { why: why.into(), plan, text }
    }

    fn from_message(message: proto::Stays) -> Result<Stays, Malformed> {
        let text = TEXT.decode("text", message.text)?;
        Ok(match stays::Why::try_from(message.why) {
            Ok(stays::Why::NotWaiting) => Stays::NotWaiting,
            Ok(stays::Why::Pinned) => Stays::Pinned,
            Ok(stays::Why::Kept) => Stays::Kept,
            Ok(stays::Why::OnItsWay) => Stays::OnItsWay,
            Ok(stays::Why::NotWorthIt) => {
                Stays::NotWorthIt { plan: required(AN_ESTIMATE).decode("plan", message.plan)? }
            }
            Ok(stays::Why::Refused) => Stays::Refused(text),
            Ok(stays::Why::Silent) => Stays::Silent,
            // One of a later version.
            Ok(stays::Why::Unspecified) | Err(_) => Stays::Other(text),
        })
    }

    #[cfg(test)]
    fn strategy() -> BoxedStrategy<Stays> {
        let plain = [Stays::NotWaiting, Stays::Pinned, Stays::Kept, Stays::OnItsWay, Stays::Silent];
        prop_oneof![
            proptest::sample::select(plain.to_vec()),
            Estimate::strategy().prop_map(|plan| Stays::NotWorthIt { plan }),
            TEXT.strategy().prop_map(Stays::Refused),
            TEXT.strategy().prop_map(Stays::Other),
        ]
        .boxed()
    }
}

conversions! { proto::Stays <=> Stays; }
