//! The handoff: moves a waiting job between servers without losing it or running it twice (invariant 11; paper 000 left
//! the live protocol open).
//!
//! An agent proposes a move ([`MoveProposal`]). The server that has the job, the *source*, leads a two-phase commit with
//! the *target*. Each step is journaled before it is answered, and is idempotent:
//!
//! 1. *prepare*: the target sizes the job on its present state. It queues the job so that it does not start (*prepared*), or
//!    refuses if the gain is too small, which is a normal result.
//! 2. *withdraw*: the source withdraws the job if it still waits. If it has started, it stays.
//! 3. *commit*: the target releases the job. Once the source has journaled the withdrawal it never runs the job, and
//!    repeats the commit until the target acknowledges it.
//!
//! Before the withdrawal the source may abort at any time. A target without a decision asks the source
//! ([`HandoffDecision`]). So at no moment may both start the job, and at no moment is neither bound to it. The attempts
//! for a job are numbered, and an attempt that was given up is never resumed.
//!
//! # Siblings
//!
//! A *sibling* is a handoff that stays open, at several targets at once, as in a Slurm federation: the job waits everywhere
//! and runs where it starts first (`pliant_policy::reallocation::siblings`).
//!
//! 1. *prepare*: the target queues the job *tentatively*, in its queue like any other job. The job keeps waiting at the
//!    source, which lists its siblings.
//! 2. *ready*: a sibling that gets its processors starts nothing. The target asks the source.
//! 3. *withdraw* and *commit*: the source withdraws its own job if it still waits, and commits to this target. The
//!    withdrawal is the lock: the first sibling that asked starts, and all others are aborted.
//!
//! A job that starts, ends or is cancelled at its source aborts all siblings; a sibling that asks later is aborted, too. A
//! sibling starts only after a commit, a commit follows only the withdrawal, and the source withdraws for one attempt at a
//! time. So at most one sibling starts.
//!
//! A ready sibling without a decision *yields* after a while: it gives its processors back and leaves the queue until the
//! source answers. The target does not forget it, as a commit may be under way. If the source is undecided, the sibling
//! is queued again.

use crate::payload::Payload;
use pliant_model::{Estimate, MoveReason, Owner, Span, Time};
use pliant_policy::batch::Dump;
use pliant_policy::nodes;
use pliant_policy::tuning::Tuner;
use serde::{Deserialize, Serialize};

use crate::job::{ComparedEstimate, EstimateChange, Hop, JobRecord, Work, is_false};
use crate::names::{Handle, Key, Name, User};
use crate::reason::DiscoverySummary;
use crate::runtime_sample::RuntimeSample;
use crate::server_info::ServerInfo;
use crate::signed::SignedClaim;

/// An attempt to hand a job over.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct HandoffId {
    /// The job.
    pub job: Handle,
    /// The attempt's number among all attempts for this job, on whichever server.
    pub attempt: u32,
}

/// An agent's proposal to move a job, sent to the server that has it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MoveProposal {
    /// The job.
    pub job: Handle,
    /// The target.
    pub to: Name,
    /// The target's address, `host:port`.
    pub address: String,
    /// The agent's estimate for the job at the target.
    pub expected: Estimate,
    /// The least gain in completion time, by the plans of both servers; none moves the job whatever the gain.
    pub gain: Option<Span>,
    /// The reason.
    pub reason: MoveReason,
    /// How long the target may take to prepare the job.
    pub timeout: Span,
    /// Queue a sibling at the target instead of a move.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sibling: bool,
}

/// The outcome of a proposal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveOutcome {
    /// The job now waits at the target.
    Moved(Box<Hop>),
    /// A sibling waits at the target, in this shape.
    SiblingQueued(Estimate),
    /// The job stays at its server.
    Stays(StayReason),
}

/// Why a job stays. A normal result, not an error.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StayReason {
    /// It does not wait here: it runs, has ended or was moved.
    NotWaiting,
    /// Its user chose this server.
    Pinned,
    /// A user or an administrator holds it in the batch system.
    Held,
    /// It is being handed over already.
    AlreadyMoving,
    /// It completes early enough at its server.
    TooLittleGain {
        /// The present plan of the job.
        plan: Estimate,
    },
    /// The target refused it.
    Refused(String),
    /// The target did not answer in time.
    NoAnswer,
    /// A reason of a server of another version.
    Other(String),
}

impl StayReason {
    /// The stable word for scripts and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotWaiting => "not-waiting",
            Self::Pinned => "pinned",
            Self::Held => "held",
            Self::AlreadyMoving => "already-moving",
            Self::TooLittleGain { .. } => "too-little-gain",
            Self::Refused(_) => "refused",
            Self::NoAnswer => "no-answer",
            Self::Other(_) => "other",
        }
    }
}

impl std::fmt::Display for StayReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotWaiting => write!(f, "it does not wait there any more"),
            Self::Pinned => write!(f, "its user chose the server"),
            Self::Held => write!(f, "a user or an administrator holds it there"),
            Self::AlreadyMoving => write!(f, "it is being moved already"),
            Self::TooLittleGain { plan } => {
                write!(f, "it completes at {} where it is", plan.completion().utc())
            }
            Self::Refused(why) => write!(f, "the target refuses: {why}"),
            Self::NoAnswer => write!(f, "the target did not answer in time"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

/// The description of a job for its target.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Handoff {
    /// The attempt.
    pub id: HandoffId,
    /// The source.
    pub from: Peer,
    /// The key under which it was submitted.
    pub key: Key,
    /// The owner.
    pub owner: User,
    /// The service, or the script's name.
    pub name: String,
    /// The requested work.
    pub work: Work,
    /// When the federation accepted it.
    pub submitted: Time,
    /// The estimates that were compared at the submission.
    pub compared: Vec<ComparedEstimate>,
    /// The answers of other servers at the submission.
    #[serde(default, skip_serializing_if = "DiscoverySummary::is_empty")]
    pub discovery: DiscoverySummary,
    /// How often the job was queued again after a node had failed under it.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub requeues: u32,
    /// The earlier moves of the job.
    pub hops: Vec<Hop>,
    /// The plans of the job as they changed while it waited, with what was promised at first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub estimates: Vec<EstimateChange>,
    /// The completion that its source expects; [`Time::MAX`] if the job has no plan there.
    pub before: Time,
    /// The latest completion at the target for which the job moves.
    pub latest: Time,
    /// Queue a sibling, whatever its completion.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sibling: bool,
    /// The reason of the move.
    pub reason: MoveReason,
    /// The user's signature, as it was when the federation accepted the job; none in simulations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Box<SignedClaim>>,
    /// What the job runs: as described by the source's driver until the target's driver describes it.
    pub payload: Payload,
    /// How its runtime is learned from, if its service learns runtimes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<RuntimeSample>,
}

impl Handoff {
    /// Checks that a job may come by that path to a server that knows this record of it: the path goes on from the known one, and
    /// the job has left the server. Otherwise the job would run twice, because an earlier server hands it over once more.
    ///
    /// # Errors
    ///
    /// Why the job may not come.
    pub fn check_return(job: &Handle, hops: &[Hop], known: &JobRecord, own: &Name) -> Result<(), String> {
        Handoff::check_path(job, hops, &known.hops)?;
        // The target may have the job before this server knows that.
        let has_left =
            known.server() != own || hops.get(known.hops.len()).is_some_and(|hop| hop.from == *own);
        let what = if known.state.is_final() { "has ended" } else { "is" };
        if has_left { Ok(()) } else { Err(format!("job {job} {what} here already")) }
    }

    /// Checks that a path of a job goes on from another one.
    pub(crate) fn check_path(job: &Handle, hops: &[Hop], known: &[Hop]) -> Result<(), String> {
        let goes_on =
            hops.len() >= known.len() && hops.iter().zip(known).all(|(hop, known)| hop.is_same(known));
        if goes_on { Ok(()) } else { Err(format!("job {job} took another path than this handoff says")) }
    }
}

/// Another server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub name: Name,
    /// Its address, `host:port`.
    pub address: String,
}

/// A call from one server to another. Repeated until it is answered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// Prepare this job.
    Prepare(Box<Handoff>),
    /// Take the job over; with `cancelled`, cancel it then.
    Commit {
        /// The owner cancelled the job during the handoff.
        cancelled: bool,
        /// Number of attempts for this job so far: later attempts get higher numbers.
        attempts: u32,
    },
    /// Drop the job.
    Abort,
    /// Ask the source for its decision about a prepared job.
    Inquire,
    /// Ask the source whether a ready sibling may start.
    Ready,
}

/// A target's reply to its source.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The job is prepared, in this shape.
    Prepared(Estimate),
    /// The job is refused.
    Refused(String),
    /// The call was carried out, now or before.
    Done,
    /// The target has no record of the job.
    Unknown,
}

/// A source's decision about a prepared job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandoffDecision {
    /// Not decided yet: keep the job prepared.
    Undecided,
    /// The job belongs to the target.
    Commit {
        /// The owner cancelled the job during the handoff.
        cancelled: bool,
        /// As in [`Call::Commit`].
        attempts: u32,
    },
    /// The job does not belong to the target, and never will by this attempt.
    Abort,
}

/// A server's snapshot for an agent's reallocation cycle: what a listing would show, and which waiting jobs may move.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerSnapshot {
    /// The server.
    pub info: ServerInfo,
    /// The rule that sizes moldable requests.
    pub tuner: Tuner,
    /// Running and waiting jobs under the server's policy, by the server's job numbers.
    pub queue: Dump,
    /// Replaces the queue for a cluster that is planned by its nodes; none otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<nodes::ClusterSnapshot>,
    /// The waiting jobs that may move.
    pub movable: Vec<Movable>,
    /// Why the server takes no jobs from other servers at the moment, for people; none if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
    /// An operator has drained the server: its waiting jobs go to any other.
    #[serde(default, skip_serializing_if = "is_false")]
    pub drained: bool,
}

/// A waiting job that may move.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Movable {
    /// Its number in the queue.
    pub number: u32,
    /// Its handle.
    pub job: Handle,
    /// Its key, the tie-breaker between jobs of one second.
    pub key: Key,
    /// The requested work.
    pub work: Work,
    /// When the federation accepted it.
    pub submitted: Time,
    /// Its owner in queue orders.
    pub owner: Owner,
    /// Number of its moves.
    pub moves: u32,
    /// The servers at which it has a sibling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub siblings: Vec<Name>,
    /// The servers to which it does not go back for now ([`crate::job::avoided_servers`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoids: Vec<Name>,
}
