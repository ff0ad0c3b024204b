//! Reports of reallocation cycles, moves of jobs and the reallocation policy.

use pliant_control::agent::{ProposedMove, ReallocationConfig, ReallocationReport};
use pliant_control::job::Hop;
use pliant_control::names::{Handle, Name};
use pliant_model::{Span, Time};
use pliant_policy::reallocation::{Algorithm, Heuristic, Reallocation};

use super::field::*;
use super::table::{message, one_of};
use super::types::AN_ESTIMATE;
use super::{Malformed, bounds, proto};

message! {
    /// A move of a job, as `pliant queue --moves` lists them.
    #[derive(Clone, PartialEq, Debug)]
    proto::Moved <=> pub struct JobMove {
        /// The job.
        job: Handle = HANDLE,
        /// Source, target, time and reason.
        hop: Hop = required("a move"),
    }
}

/// The default number of listed moves.
pub const MOVES_DEFAULT: u32 = 100;

/// A change of the reallocation policy.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum MovingChange {
    /// A new policy.
    Set(ReallocationConfig),
    /// No reallocation.
    Off,
    /// The policy of the agent's file.
    Reset,
}

message! {
    proto::ProposedMove <=> ProposedMove {
        job: HANDLE,
        from: NAME,
        to: NAME,
        before: unless(Time::MAX, TIME),
        expected: required(AN_ESTIMATE),
        outcome: optional(nested()),
        sibling,
    }

    proto::MovingPolicy <=> ReallocationConfig {
        policy: Reallocation {
            algorithm: named(A_POLICY, Algorithm::ALL),
            heuristic: named(A_POLICY, Heuristic::ALL),
            period_s <=> period: period(1),
            threshold_s <=> threshold: period(0),
            window: converted(up_to("a number of jobs", u32::MAX).exact(), |jobs| jobs as usize, window_jobs),
        },
        early_s <=> early: optional(period(1)),
    }

    proto::ReallocateReply <=> ReallocationReport {
        refused: unless_empty(TEXT),
        servers,
        silent: list(NAME, bounds::SERVERS_MAX),
        closed: list(nested(), bounds::SERVERS_MAX),
        movable,
        proposals: list(nested(), bounds::QUEUE_MAX),
    }

    proto::ClosedServer <=> (Name, String) (server: NAME, why: TEXT)
}

one_of! {
    proto::moving_request::Change <=> MovingChange {
        Set <=> Set(nested()),
        Off(FLAG) <=> Off,
        Reset(FLAG) <=> Reset,
    }
}

const A_POLICY: &str = "a name that `pliant policies` lists";

/// A duration up to the longest period between two reallocation cycles.
fn period(least: i64) -> Number<i64, Span> {
    seconds(least..=*bounds::PERIOD_S.end()).exact()
}

fn window_jobs(jobs: &usize) -> u32 {
    u32::try_from(*jobs).unwrap_or(u32::MAX)
}

/// A question about the reallocation policy, or a change of it.
pub fn moving_request(change: Option<&MovingChange>) -> proto::MovingRequest {
    proto::MovingRequest { change: change.map(OneOf::to_variant) }
}

/// The requested change, if there is one.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::MovingRequest`].
pub fn moving_change(request: proto::MovingRequest) -> Result<Option<MovingChange>, Malformed> {
    request.change.map(OneOf::from_variant).transpose()
}

/// The reallocation policy, if there is one.
///
/// # Errors
///
/// [`Malformed`] in `policy`.
pub fn moving_reply(reply: proto::MovingReply) -> Result<Option<ReallocationConfig>, Malformed> {
    optional(nested()).decode("policy", reply.policy)
}

/// True for a dry run, and its policy.
///
/// # Errors
///
/// [`Malformed`] in `policy`, also if jobs were to be moved under one that the agent does not have.
pub fn reallocate_request(
    request: proto::ReallocateRequest,
) -> Result<(bool, Option<Reallocation>), Malformed> {
    let proto::ReallocateRequest { dry_run, policy } = request;
    let policy: Option<ReallocationConfig> = optional(nested()).decode("policy", policy)?;
    match policy {
        Some(_) if !dry_run => Err(Malformed::new("policy", "none unless it is a dry run", "one")),
        policy => Ok((dry_run, policy.map(|moving| moving.policy))),
    }
}

/// The requested number of moves.
///
/// # Errors
///
/// [`Malformed`] in `limit`.
pub fn moves_limit(limit: u32) -> Result<u32, Malformed> {
    up_to("a number of moves", bounds::MOVES_MAX as u32).or(MOVES_DEFAULT).decode("limit", limit)
}

/// The moves of a reply.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::MovesReply`].
pub fn moves(reply: proto::MovesReply) -> Result<Vec<JobMove>, Malformed> {
    list(nested(), bounds::MOVES_MAX).decode("moves", reply.moves)
}
