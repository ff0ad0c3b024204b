//! What came of looks at the waiting jobs, and how these are moved.

use pliant_control::agent::{Moving, Proposal, Report};
use pliant_control::job::Hop;
use pliant_control::names::{Handle, Name};
use pliant_model::Span;
use pliant_policy::reallocation::Reallocation;

use super::proto;
use super::types::AN_ESTIMATE;
use super::{Malformed, bounds, read, write};

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
            before: write::unless_never(proposal.before),
            expected: Some((&proposal.expected).into()),
            outcome: proposal.outcome.as_ref().map(proto::MoveOutcome::from),
            copy: proposal.copy,
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
            before: read::time_or_never("before", message.before)?,
            expected: read::required("expected", AN_ESTIMATE, message.expected)?,
            outcome: read::optional("outcome", message.outcome)?,
            copy: message.copy,
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

/// Whether a look at the waiting jobs is a dry run, and under which policy.
///
/// # Errors
///
/// [`Malformed`] in `policy`, also if jobs were to be moved under one that the agent does not have.
pub fn reallocate_request(
    request: proto::ReallocateRequest,
) -> Result<(bool, Option<Reallocation>), Malformed> {
    let proto::ReallocateRequest { dry_run, policy } = request;
    let policy: Option<Moving> = read::optional("policy", policy)?;
    match policy {
        Some(_) if !dry_run => Err(Malformed::new("policy", "none unless it is a dry run", "one")),
        policy => Ok((dry_run, policy.map(|moving| moving.policy))),
    }
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
            closed: report
                .closed
                .iter()
                .take(bounds::SERVERS_MAX)
                .map(|(server, why)| proto::ClosedServer {
                    server: server.to_string(),
                    why: write::text(why, bounds::TEXT_BYTES_MAX),
                })
                .collect(),
            movable: report.movable,
            proposals: write::list(&report.proposals, bounds::QUEUE_MAX),
        }
    }
}

impl TryFrom<proto::ReallocateReply> for Report {
    type Error = Malformed;
    fn try_from(message: proto::ReallocateReply) -> Result<Report, Malformed> {
        let refused = |why| read::text("refused", why, bounds::TEXT_BYTES_MAX);
        let closed = |one: proto::ClosedServer| {
            Ok((read::name("server", &one.server)?, read::text("why", one.why, bounds::TEXT_BYTES_MAX)?))
        };
        Ok(Report {
            refused: read::unless_empty(message.refused, refused)?,
            servers: message.servers,
            silent: read::list("silent", message.silent, bounds::SERVERS_MAX, |name| read::name("", &name))?,
            closed: read::list("closed", message.closed, bounds::SERVERS_MAX, closed)?,
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
    read::or_else(MOVES_DEFAULT, "limit", "a number of moves", &(1..=bounds::MOVES_MAX as u32), limit)
}

/// The moves that were asked for.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::MovesReply`].
pub fn moves(reply: proto::MovesReply) -> Result<Vec<Moved>, Malformed> {
    read::list("moves", reply.moves, bounds::MOVES_MAX, Moved::try_from)
}
