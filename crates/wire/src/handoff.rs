//! Waiting jobs that go from one server to another: what agents propose, what servers say to each other.

use pliant_control::handoff::{HandoffId, MoveOutcome, Order, Reply, Stays, Verdict};
use pliant_control::job::{Compared, Hop};
use pliant_control::names::{Key, User};
use pliant_control::reason::Survey;
use pliant_model::{MoveReason, Span, Time};
use pliant_staging::FileSpec;

use super::discovery::{called, service_call};
use super::proto::{self, handoff_reply, move_outcome, stays, verdict};
use super::types::AN_ESTIMATE;
use super::{Malformed, Pack, Script, Submitted, bounds, read, write};

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

fn reason_to(reason: MoveReason) -> i32 {
    let reason = match reason {
        MoveReason::EarlierCompletion => proto::MoveReason::EarlierCompletion,
        MoveReason::Resubmitted => proto::MoveReason::Resubmitted,
        MoveReason::FirstStart => proto::MoveReason::FirstStart,
    };
    reason.into()
}

fn reason_of(field: &str, number: i32) -> Result<MoveReason, Malformed> {
    match proto::MoveReason::try_from(number) {
        Ok(proto::MoveReason::EarlierCompletion) => Ok(MoveReason::EarlierCompletion),
        Ok(proto::MoveReason::Resubmitted) => Ok(MoveReason::Resubmitted),
        Ok(proto::MoveReason::FirstStart) => Ok(MoveReason::FirstStart),
        _ => Err(Malformed::new(field, "1 (earlier completion), 2 (resubmitted) or 3 (first start)", number)),
    }
}

impl From<&Hop> for proto::Hop {
    fn from(hop: &Hop) -> proto::Hop {
        proto::Hop {
            from: hop.from.to_string(),
            to: hop.to.to_string(),
            attempt: hop.attempt,
            at: write::time(hop.at),
            before: write::unless_never(hop.before),
            expected: Some((&hop.expected).into()),
            reason: reason_to(hop.reason),
        }
    }
}

impl TryFrom<proto::Hop> for Hop {
    type Error = Malformed;
    fn try_from(message: proto::Hop) -> Result<Hop, Malformed> {
        Ok(Hop {
            from: read::name("from", &message.from)?,
            to: read::name("to", &message.to)?,
            attempt: message.attempt,
            at: read::time("at", message.at)?,
            before: read::time_or_never("before", message.before)?,
            expected: read::required("expected", AN_ESTIMATE, message.expected)?,
            reason: reason_of("reason", message.reason)?,
        })
    }
}

impl From<&HandoffId> for proto::HandoffId {
    fn from(id: &HandoffId) -> proto::HandoffId {
        proto::HandoffId { job: id.job.to_string(), attempt: id.attempt }
    }
}

impl TryFrom<proto::HandoffId> for HandoffId {
    type Error = Malformed;
    fn try_from(message: proto::HandoffId) -> Result<HandoffId, Malformed> {
        Ok(HandoffId { job: read::handle("job", &message.job)?, attempt: message.attempt })
    }
}

/// Which attempt a message is about.
///
/// # Errors
///
/// [`Malformed`] in `id`.
pub fn handoff_id(id: Option<proto::HandoffId>) -> Result<HandoffId, Malformed> {
    read::required("id", "a job and an attempt", id)
}

impl From<&Prepare> for proto::PrepareRequest {
    fn from(prepare: &Prepare) -> proto::PrepareRequest {
        let what = match &prepare.what {
            Submitted::Service { name, arguments } => {
                proto::prepare_request::What::Service(service_call(name, arguments))
            }
            Submitted::Script(script) => proto::prepare_request::What::Script(script.into()),
            Submitted::Pack(pack) => proto::prepare_request::What::Pack(pack.into()),
        };
        proto::PrepareRequest {
            id: Some((&prepare.id).into()),
            address: prepare.address.clone(),
            key: prepare.key.0.to_vec(),
            owner: prepare.owner.to_string(),
            what: Some(what),
            inputs: prepare.inputs.iter().map(proto::InputFile::from).collect(),
            submitted: write::time(prepare.submitted),
            compared: write::list(&prepare.compared, bounds::COMPARED_MAX),
            survey: super::cause::survey(&prepare.survey),
            hops: write::list(&prepare.hops, bounds::HOPS_MAX),
            before: write::unless_never(prepare.before),
            latest: write::time(prepare.latest),
            reason: reason_to(prepare.reason),
            request: prepare.request.clone(),
            copy: prepare.copy,
        }
    }
}

impl TryFrom<proto::PrepareRequest> for Prepare {
    type Error = Malformed;
    fn try_from(message: proto::PrepareRequest) -> Result<Prepare, Malformed> {
        let what = match message.what {
            Some(proto::prepare_request::What::Service(call)) => {
                let (name, arguments) = called(call).map_err(|malformed| malformed.under("service"))?;
                Submitted::Service { name, arguments }
            }
            Some(proto::prepare_request::What::Script(script)) => {
                let script = Script::try_from(script).map_err(|malformed| malformed.under("script"))?;
                Submitted::Script(script)
            }
            Some(proto::prepare_request::What::Pack(pack)) => {
                Submitted::Pack(Pack::try_from(pack).map_err(|malformed| malformed.under("pack"))?)
            }
            None => return Err(Malformed::missing("", "service, script or pack")),
        };
        Ok(Prepare {
            id: handoff_id(message.id)?,
            address: read::address("address", message.address)?,
            key: read::key("key", &message.key)?,
            owner: read::user("owner", &message.owner)?,
            what,
            inputs: read::list("inputs", message.inputs, bounds::INPUTS_MAX, FileSpec::try_from)?,
            submitted: read::time("submitted", message.submitted)?,
            compared: read::list("compared", message.compared, bounds::COMPARED_MAX, Compared::try_from)?,
            survey: read::optional("survey", message.survey)?.unwrap_or_default(),
            hops: read::list("hops", message.hops, bounds::HOPS_MAX, Hop::try_from)?,
            before: read::time_or_never("before", message.before)?,
            latest: read::time("latest", message.latest)?,
            copy: message.copy,
            reason: reason_of("reason", message.reason)?,
            request: read::text("request", message.request, bounds::NAME_BYTES_MAX)?,
        })
    }
}

impl From<&Reply> for proto::HandoffReply {
    fn from(reply: &Reply) -> proto::HandoffReply {
        let reply = match reply {
            Reply::Prepared(estimate) => handoff_reply::Reply::Prepared(estimate.into()),
            Reply::Refused(why) => handoff_reply::Reply::Refused(write::text(why, bounds::TEXT_BYTES_MAX)),
            Reply::Done => handoff_reply::Reply::Done(true),
            Reply::Unknown => handoff_reply::Reply::Unknown(true),
        };
        proto::HandoffReply { reply: Some(reply) }
    }
}

impl TryFrom<proto::HandoffReply> for Reply {
    type Error = Malformed;
    fn try_from(message: proto::HandoffReply) -> Result<Reply, Malformed> {
        match message.reply.ok_or_else(|| Malformed::missing("", "prepared, refused, done or unknown"))? {
            handoff_reply::Reply::Prepared(estimate) => {
                let estimate =
                    estimate.try_into().map_err(|malformed: Malformed| malformed.under("prepared"))?;
                Ok(Reply::Prepared(estimate))
            }
            handoff_reply::Reply::Refused(why) => {
                Ok(Reply::Refused(read::text("refused", why, bounds::TEXT_BYTES_MAX)?))
            }
            handoff_reply::Reply::Done(_) => Ok(Reply::Done),
            handoff_reply::Reply::Unknown(_) => Ok(Reply::Unknown),
        }
    }
}

impl From<Verdict> for proto::Verdict {
    fn from(verdict: Verdict) -> proto::Verdict {
        let verdict = match verdict {
            Verdict::Undecided => verdict::Verdict::Undecided(true),
            Verdict::Commit { cancelled, attempts } => {
                verdict::Verdict::Commit(verdict::Commit { cancelled, attempts })
            }
            Verdict::Abort => verdict::Verdict::Abort(true),
        };
        proto::Verdict { verdict: Some(verdict) }
    }
}

impl TryFrom<proto::Verdict> for Verdict {
    type Error = Malformed;
    fn try_from(message: proto::Verdict) -> Result<Verdict, Malformed> {
        match message.verdict.ok_or_else(|| Malformed::missing("", "undecided, commit or abort"))? {
            verdict::Verdict::Undecided(_) => Ok(Verdict::Undecided),
            verdict::Verdict::Commit(verdict::Commit { cancelled, attempts }) => {
                Ok(Verdict::Commit { cancelled, attempts })
            }
            verdict::Verdict::Abort(_) => Ok(Verdict::Abort),
        }
    }
}

impl From<&Order> for proto::Order {
    fn from(order: &Order) -> proto::Order {
        proto::Order {
            job: order.job.to_string(),
            to: order.to.to_string(),
            address: order.address.clone(),
            expected: Some((&order.expected).into()),
            gain_s: write::optional_span(order.gain),
            reason: reason_to(order.reason),
            patience_s: write::number(&bounds::PATIENCE_S, order.patience.0),
            copy: order.copy,
        }
    }
}

impl TryFrom<proto::Order> for Order {
    type Error = Malformed;
    fn try_from(message: proto::Order) -> Result<Order, Malformed> {
        Ok(Order {
            job: read::handle("job", &message.job)?,
            to: read::name("to", &message.to)?,
            address: read::address("address", message.address)?,
            expected: read::required("expected", AN_ESTIMATE, message.expected)?,
            gain: read::optional_span("gain_s", message.gain_s)?,
            reason: reason_of("reason", message.reason)?,
            patience: Span(read::number("patience_s", "seconds", &bounds::PATIENCE_S, message.patience_s)?),
            copy: message.copy,
        })
    }
}

impl From<&MoveOutcome> for proto::MoveOutcome {
    fn from(outcome: &MoveOutcome) -> proto::MoveOutcome {
        let outcome = match outcome {
            MoveOutcome::Moved(hop) => move_outcome::Outcome::Moved((&**hop).into()),
            MoveOutcome::Stays(stays) => move_outcome::Outcome::Stays(stays.into()),
            MoveOutcome::Copied(estimate) => move_outcome::Outcome::Copied(estimate.into()),
        };
        proto::MoveOutcome { outcome: Some(outcome) }
    }
}

impl TryFrom<proto::MoveOutcome> for MoveOutcome {
    type Error = Malformed;
    fn try_from(message: proto::MoveOutcome) -> Result<MoveOutcome, Malformed> {
        match message.outcome.ok_or_else(|| Malformed::missing("", "moved, stays or copied"))? {
            move_outcome::Outcome::Copied(estimate) => {
                let estimate =
                    estimate.try_into().map_err(|malformed: Malformed| malformed.under("copied"))?;
                Ok(MoveOutcome::Copied(estimate))
            }
            move_outcome::Outcome::Moved(hop) => {
                let hop = Hop::try_from(hop).map_err(|malformed| malformed.under("moved"))?;
                Ok(MoveOutcome::Moved(Box::new(hop)))
            }
            move_outcome::Outcome::Stays(stays) => {
                Stays::try_from(stays).map(MoveOutcome::Stays).map_err(|malformed| malformed.under("stays"))
            }
        }
    }
}

impl From<&Stays> for proto::Stays {
    fn from(stays: &Stays) -> proto::Stays {
        let (why, plan) = match stays {
            Stays::NotWaiting => (stays::Why::NotWaiting, None),
            Stays::Pinned => (stays::Why::Pinned, None),
            Stays::Kept => (stays::Why::Kept, None),
            Stays::OnItsWay => (stays::Why::OnItsWay, None),
            Stays::NotWorthIt { plan } => (stays::Why::NotWorthIt, Some(plan.into())),
            Stays::Refused(_) => (stays::Why::Refused, None),
            Stays::Silent => (stays::Why::Silent, None),
            Stays::Other(_) => (stays::Why::Unspecified, None),
        };
        let text = match stays {
            Stays::Refused(why) | Stays::Other(why) => write::text(why, bounds::TEXT_BYTES_MAX),
            other => other.to_string(),
        };
        proto::Stays { why: why.into(), plan, text }
    }
}

impl TryFrom<proto::Stays> for Stays {
    type Error = Malformed;
    fn try_from(message: proto::Stays) -> Result<Stays, Malformed> {
        let text = read::text("text", message.text, bounds::TEXT_BYTES_MAX)?;
        Ok(match stays::Why::try_from(message.why) {
            Ok(stays::Why::NotWaiting) => Stays::NotWaiting,
            Ok(stays::Why::Pinned) => Stays::Pinned,
            Ok(stays::Why::Kept) => Stays::Kept,
            Ok(stays::Why::OnItsWay) => Stays::OnItsWay,
            Ok(stays::Why::NotWorthIt) => {
                Stays::NotWorthIt { plan: read::required("plan", AN_ESTIMATE, message.plan)? }
            }
            Ok(stays::Why::Refused) => Stays::Refused(text),
            Ok(stays::Why::Silent) => Stays::Silent,
            // One of a later version.
            Ok(stays::Why::Unspecified) | Err(_) => Stays::Other(text),
        })
    }
}
