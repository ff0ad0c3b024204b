//! Waiting jobs that go from one server to another: what agents propose, what servers say to each other.

use pliant_control::agent::{Moving, Proposal, Report};
use pliant_control::handoff::{HandoffId, Movable, MoveOutcome, Order, Picture, Reply, Stays, Verdict};
use pliant_control::job::{Compared, Hop};
use pliant_control::names::{Handle, Key, Name, User};
use pliant_control::reason::Survey;
use pliant_model::{JobId, MoveReason, Span, Time};
use pliant_policy::batch::{Dump, RunningJob, Start, Submission, Waiting};
use pliant_policy::reallocation::Reallocation;

use super::discovery::{called, service_call};
use super::proto::{self, handoff_reply, move_outcome, stays, verdict};
use super::types::AN_ESTIMATE;
use super::{Malformed, Script, Submitted, bounds, read, write};
use crate::staging::FileSpec;

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
    /// Why.
    pub reason: MoveReason,
    /// Ties the log lines of the submission together.
    pub request: String,
}

fn reason_to(reason: MoveReason) -> i32 {
    let reason = match reason {
        MoveReason::EarlierCompletion => proto::MoveReason::EarlierCompletion,
        MoveReason::Resubmitted => proto::MoveReason::Resubmitted,
    };
    reason.into()
}

fn reason_of(field: &str, number: i32) -> Result<MoveReason, Malformed> {
    match proto::MoveReason::try_from(number) {
        Ok(proto::MoveReason::EarlierCompletion) => Ok(MoveReason::EarlierCompletion),
        Ok(proto::MoveReason::Resubmitted) => Ok(MoveReason::Resubmitted),
        _ => Err(Malformed::new(field, "1 (earlier completion) or 2 (resubmitted)", number)),
    }
}

impl From<&Hop> for proto::Hop {
    fn from(hop: &Hop) -> proto::Hop {
        proto::Hop {
            from: hop.from.to_string(),
            to: hop.to.to_string(),
            attempt: hop.attempt,
            at: write::time(hop.at),
            before: write::time(hop.before),
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
            before: read::time("before", message.before)?,
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
            before: write::time(prepare.before),
            latest: write::time(prepare.latest),
            reason: reason_to(prepare.reason),
            request: prepare.request.clone(),
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
            None => return Err(Malformed::missing("", "service or script")),
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
            before: read::time("before", message.before)?,
            latest: read::time("latest", message.latest)?,
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
            Verdict::Commit { cancelled } => verdict::Verdict::Commit(verdict::Commit { cancelled }),
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
            verdict::Verdict::Commit(verdict::Commit { cancelled }) => Ok(Verdict::Commit { cancelled }),
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
        })
    }
}

impl From<&MoveOutcome> for proto::MoveOutcome {
    fn from(outcome: &MoveOutcome) -> proto::MoveOutcome {
        let outcome = match outcome {
            MoveOutcome::Moved(hop) => move_outcome::Outcome::Moved((&**hop).into()),
            MoveOutcome::Stays(stays) => move_outcome::Outcome::Stays(stays.into()),
        };
        proto::MoveOutcome { outcome: Some(outcome) }
    }
}

impl TryFrom<proto::MoveOutcome> for MoveOutcome {
    type Error = Malformed;
    fn try_from(message: proto::MoveOutcome) -> Result<MoveOutcome, Malformed> {
        match message.outcome.ok_or_else(|| Malformed::missing("", "moved or stays"))? {
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

impl From<&Picture> for proto::Picture {
    fn from(picture: &Picture) -> proto::Picture {
        let Picture { info, tuner, queue, nodes, movable } = picture;
        let planned = |one: &Waiting| proto::Planned { job: one.job.0, plan: Some((&one.plan).into()) };
        let in_line = |job: JobId, procs, walltime| proto::InLine {
            job: job.0,
            procs: write::procs(procs),
            walltime_s: write::scaled_walltime(walltime),
        };
        proto::Picture {
            info: Some(info.into()),
            tuner: tuner.name().to_owned(),
            running: queue
                .running
                .iter()
                .map(|one| proto::RunningJob {
                    job: one.job.0,
                    procs: write::procs(one.procs),
                    end: write::time(one.end),
                })
                .collect(),
            placed: queue.placed.iter().map(planned).collect(),
            line: queue.line.iter().map(|one| in_line(one.job, one.procs, one.walltime)).collect(),
            head: queue.head.as_ref().map(|one| in_line(one.job, one.procs, one.walltime)),
            movable: movable.iter().map(proto::Movable::from).collect(),
            nodes: nodes.as_ref().map(proto::NodesPicture::from),
        }
    }
}

impl TryFrom<proto::Picture> for Picture {
    type Error = Malformed;
    fn try_from(message: proto::Picture) -> Result<Picture, Malformed> {
        let planned = |one: proto::Planned| {
            let plan = read::required("plan", AN_ESTIMATE, one.plan)?;
            Ok(Waiting { job: JobId(one.job), plan })
        };
        let running = |one: proto::RunningJob| {
            let (procs, end) = (read::procs("procs", one.procs)?, read::time("end", one.end)?);
            Ok(RunningJob { job: JobId(one.job), procs, end })
        };
        let shape = |one: &proto::InLine| {
            let procs = read::procs("procs", one.procs)?;
            Ok((JobId(one.job), procs, read::scaled_walltime("walltime_s", one.walltime_s)?))
        };
        let in_line = |one: proto::InLine| {
            shape(&one).map(|(job, procs, walltime)| Submission { job, procs, walltime })
        };
        let head = message.head.as_ref().map(shape).transpose();
        let head = head.map_err(|malformed: Malformed| malformed.under("head"))?;
        let tuner = message.tuner.parse();
        let queue = Dump {
            running: read::list("running", message.running, bounds::QUEUE_MAX, running)?,
            placed: read::list("placed", message.placed, bounds::QUEUE_MAX, planned)?,
            line: read::list("line", message.line, bounds::QUEUE_MAX, in_line)?,
            head: head.map(|(job, procs, walltime)| Start { job, procs, walltime }),
        };
        Ok(Picture {
            info: read::required("info", "a server", message.info)?,
            tuner: tuner.map_err(|_| Malformed::text("tuner", "the name of a tuner", &message.tuner))?,
            queue,
            nodes: read::optional("nodes", message.nodes)?,
            movable: read::list("movable", message.movable, bounds::QUEUE_MAX, Movable::try_from)?,
        })
    }
}

impl From<&Movable> for proto::Movable {
    fn from(job: &Movable) -> proto::Movable {
        proto::Movable {
            number: job.number,
            job: job.job.to_string(),
            key: job.key.0.to_vec(),
            work: Some((&job.work).into()),
            submitted: write::time(job.submitted),
            moves: job.moves,
        }
    }
}

impl TryFrom<proto::Movable> for Movable {
    type Error = Malformed;
    fn try_from(message: proto::Movable) -> Result<Movable, Malformed> {
        Ok(Movable {
            number: message.number,
            job: read::handle("job", &message.job)?,
            key: read::key("key", &message.key)?,
            work: read::required("work", "the work", message.work)?,
            submitted: read::time("submitted", message.submitted)?,
            moves: message.moves,
        })
    }
}

/// A move of a job, as `pliant moves` lists them.
#[derive(Clone, PartialEq, Debug)]
pub struct Moved {
    /// The job.
    pub job: Handle,
    /// From where to where, when and why.
    pub hop: Hop,
}

impl From<&Moved> for proto::Moved {
    fn from(moved: &Moved) -> proto::Moved {
        proto::Moved { job: moved.job.to_string(), hop: Some((&moved.hop).into()) }
    }
}

impl TryFrom<proto::Moved> for Moved {
    type Error = Malformed;
    fn try_from(message: proto::Moved) -> Result<Moved, Malformed> {
        Ok(Moved {
            job: read::handle("job", &message.job)?,
            hop: read::required("hop", "a move", message.hop)?,
        })
    }
}

impl From<&Proposal> for proto::Proposal {
    fn from(proposal: &Proposal) -> proto::Proposal {
        proto::Proposal {
            job: proposal.job.to_string(),
            from: proposal.from.to_string(),
            to: proposal.to.to_string(),
            before: write::time(proposal.before),
            expected: Some((&proposal.expected).into()),
            outcome: proposal.outcome.as_ref().map(proto::MoveOutcome::from),
        }
    }
}

impl TryFrom<proto::Proposal> for Proposal {
    type Error = Malformed;
    fn try_from(message: proto::Proposal) -> Result<Proposal, Malformed> {
        Ok(Proposal {
            job: read::handle("job", &message.job)?,
            from: read::name("from", &message.from)?,
            to: read::name("to", &message.to)?,
            before: read::time("before", message.before)?,
            expected: read::required("expected", AN_ESTIMATE, message.expected)?,
            outcome: read::optional("outcome", message.outcome)?,
        })
    }
}

/// How many moves are told if the question does not say.
pub const MOVES_DEFAULT: u32 = 100;

/// How an operator changes the way in which waiting jobs are moved.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum MovingChange {
    /// Like this from now on.
    Set(Moving),
    /// Not any more.
    Off,
    /// As the agent's file says.
    Reset,
}

impl From<&Moving> for proto::MovingPolicy {
    fn from(moving: &Moving) -> proto::MovingPolicy {
        let Moving { policy, early } = moving;
        proto::MovingPolicy {
            algorithm: policy.algorithm.name().to_owned(),
            heuristic: policy.heuristic.name().to_owned(),
            period_s: policy.period.0,
            threshold_s: policy.threshold.0,
            window: u32::try_from(policy.window).unwrap_or(u32::MAX),
            early_s: write::optional_span(*early),
        }
    }
}

impl TryFrom<proto::MovingPolicy> for Moving {
    type Error = Malformed;
    fn try_from(message: proto::MovingPolicy) -> Result<Moving, Malformed> {
        let unknown = |field: &'static str, found: &str| {
            Malformed::text(field, "a name that `pliant policies` lists", found)
        };
        let algorithm = message.algorithm.parse().map_err(|_| unknown("algorithm", &message.algorithm))?;
        let heuristic = message.heuristic.parse().map_err(|_| unknown("heuristic", &message.heuristic))?;
        let span = |field: &str, least: i64, found: i64| {
            let range = least..=*bounds::PERIOD_S.end();
            read::number(field, "seconds", &range, found).map(Span)
        };
        let policy = Reallocation {
            algorithm,
            heuristic,
            period: span("period_s", *bounds::PERIOD_S.start(), message.period_s)?,
            threshold: span("threshold_s", 0, message.threshold_s)?,
            window: read::number("window", "a number of jobs", &(1..=u32::MAX), message.window)? as usize,
        };
        let early =
            message.early_s.map(|found| span("early_s", *bounds::PERIOD_S.start(), found)).transpose()?;
        Ok(Moving { policy, early })
    }
}

/// A question about how waiting jobs are moved, or an order to change that.
pub fn moving_request(change: Option<&MovingChange>) -> proto::MovingRequest {
    let change = change.map(|change| match change {
        MovingChange::Set(moving) => proto::moving_request::Change::Set(moving.into()),
        MovingChange::Off => proto::moving_request::Change::Off(true),
        MovingChange::Reset => proto::moving_request::Change::Reset(true),
    });
    proto::MovingRequest { change }
}

/// What is to be changed, if anything is.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::MovingRequest`].
pub fn moving_change(request: proto::MovingRequest) -> Result<Option<MovingChange>, Malformed> {
    Ok(match request.change {
        None => None,
        Some(proto::moving_request::Change::Set(policy)) => {
            Some(MovingChange::Set(Moving::try_from(policy).map_err(|malformed| malformed.under("set"))?))
        }
        Some(proto::moving_request::Change::Off(_)) => Some(MovingChange::Off),
        Some(proto::moving_request::Change::Reset(_)) => Some(MovingChange::Reset),
    })
}

/// How waiting jobs are moved, if they are.
///
/// # Errors
///
/// [`Malformed`] in `policy`.
pub fn moving_reply(reply: proto::MovingReply) -> Result<Option<Moving>, Malformed> {
    read::optional("policy", reply.policy)
}

impl From<&Report> for proto::ReallocateReply {
    fn from(report: &Report) -> proto::ReallocateReply {
        proto::ReallocateReply {
            refused: report
                .refused
                .as_deref()
                .map(|why| write::text(why, bounds::TEXT_BYTES_MAX))
                .unwrap_or_default(),
            servers: report.servers,
            silent: report.silent.iter().take(bounds::SERVERS_MAX).map(Name::to_string).collect(),
            movable: report.movable,
            proposals: write::list(&report.proposals, bounds::QUEUE_MAX),
        }
    }
}

impl TryFrom<proto::ReallocateReply> for Report {
    type Error = Malformed;
    fn try_from(message: proto::ReallocateReply) -> Result<Report, Malformed> {
        let refused = read::text("refused", message.refused, bounds::TEXT_BYTES_MAX)?;
        Ok(Report {
            refused: Some(refused).filter(|why| !why.is_empty()),
            servers: message.servers,
            silent: read::list("silent", message.silent, bounds::SERVERS_MAX, |name| read::name("", &name))?,
            movable: message.movable,
            proposals: read::list("proposals", message.proposals, bounds::QUEUE_MAX, Proposal::try_from)?,
        })
    }
}

/// How many moves are asked for.
///
/// # Errors
///
/// [`Malformed`] in `limit`.
pub fn moves_limit(limit: u32) -> Result<u32, Malformed> {
    let said = if limit == 0 { MOVES_DEFAULT } else { limit };
    read::number("limit", "a number of moves", &(1..=bounds::MOVES_MAX as u32), said)
}

/// The moves that were asked for.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::MovesReply`].
pub fn moves(reply: proto::MovesReply) -> Result<Vec<Moved>, Malformed> {
    read::list("moves", reply.moves, bounds::MOVES_MAX, Moved::try_from)
}
