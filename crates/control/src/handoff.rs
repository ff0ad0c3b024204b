//! How a waiting job goes from one server to another without ever being lost or run twice (invariant 11; paper 000
//! planned the live side and left it open).
//!
//! The server that has the job, the *source*, leads; the agent only proposes an [`MoveProposal`]. Three steps, each journaled
//! before it is answered and each the same however often it is told:
//!
//! 1. *prepare*: the target sizes the job on its present state. If that is still worth it, it queues the job *held*;
//!    otherwise it refuses, which is a normal result.
//! 2. *release*: the source withdraws the job if it still waits. If it has started meanwhile, it stays.
//! 3. *commit*: the target lets the job go. From the moment at which the source has journaled the withdrawal it never
//!    runs the job, and repeats the commit until it is acknowledged.
//!
//! Before that moment the source may give up at any time; a target that hears nothing asks the source ([`HandoffDecision`]) and
//! drops or takes what it holds as told. So there is never a moment at which both may start the job, and none at which
//! neither is bound to it. Attempts of one job are numbered, and an attempt that was given up is never taken up again.
//!
//! # Copies
//!
//! A *copy* is a handoff that is left open, at several targets at once: the baseline in which a job waits everywhere and
//! runs where it starts first (`pliant_policy::reallocation::siblings`).
//!
//! 1. *prepare*: the target queues the job *tentatively*. It keeps a place like any other job; the job goes on waiting
//!    at the source, which has a list of its copies.
//! 2. *ready*: when the copy's turn comes, it takes its processors, starts nothing, and the target asks the source.
//! 3. *release* and *commit*: the source withdraws its own job if that still waits, and commits to this target as
//!    above. That is the lock: the copy that was asked for first goes on, all others are aborted.
//!
//! A job that starts at its source, ends there or is cancelled aborts all copies. So a copy starts only after a commit, a
//! commit follows only the withdrawal, and of all attempts only one is ever being withdrawn for: what is said above holds
//! for each copy by itself, and no two of them get as far. Whoever asks later is told to abort, and so is a copy that the
//! source has given up. A target that is ready and hears nothing *steps back* after a while: it takes the copy out of its
//! queue and keeps it in mind until the source can be asked; it never forgets it by itself, since a commit may be on
//! its way. If nothing is decided by then, it queues the copy again.

use crate::payload::Payload;
use pliant_model::{Estimate, MoveReason, Owner, Span, Time};
use pliant_policy::batch::Dump;
use pliant_policy::nodes;
use pliant_policy::tuning::Tuner;
use serde::{Deserialize, Serialize};

use crate::job::{ComparedEstimate, Hop, Work, is_false};
use crate::names::{Handle, Key, Name, User};
use crate::reason::DiscoverySummary;
use crate::runtime_sample::RuntimeSample;
use crate::server_info::ServerInfo;

/// One attempt to hand a job over.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct HandoffId {
    /// The job.
    pub job: Handle,
    /// The how-manieth attempt of this job, wherever it was.
    pub attempt: u32,
}

/// What an agent proposes to the server that has a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MoveProposal {
    /// The job.
    pub job: Handle,
    /// Where it is to wait.
    pub to: Name,
    /// Where other servers reach that one, `host:port`.
    pub address: String,
    /// What the target would give it, as far as the agent knows.
    pub expected: Estimate,
    /// Move it only if it completes earlier by that much, by what both servers know now; none moves it whatever it
    /// gains.
    pub gain: Option<Span>,
    /// Why.
    pub reason: MoveReason,
    /// How long the target may take to prepare.
    pub timeout: Span,
    /// It is to wait there as well, and to run where it starts first.
    #[serde(default, skip_serializing_if = "is_false")]
    pub copy: bool,
}

/// What came of an order.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveOutcome {
    /// The job waits at the target now.
    Moved(Box<Hop>),
    /// A copy of it waits at the target as well, in this shape.
    Copied(Estimate),
    /// It stays where it is.
    Stays(StayReason),
}

/// Why a job stays. Normal results, not errors.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StayReason {
    /// It does not wait here, or not any more: it runs, has ended, or went elsewhere.
    NotWaiting,
    /// Its user chose this server.
    Pinned,
    /// Somebody holds it back in the batch system: an administrator, or its user.
    Kept,
    /// It is being handed over already.
    OnItsWay,
    /// Where it is it completes early enough by now.
    NotWorthIt {
        /// What is planned for it where it is.
        plan: Estimate,
    },
    /// The target does not take it, and why.
    Refused(String),
    /// The target did not answer in time.
    Silent,
    /// What a server of another version said.
    Other(String),
}

impl StayReason {
    /// The stable word for scripts and metrics.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotWaiting => "not-waiting",
            Self::Pinned => "pinned",
            Self::Kept => "kept",
            Self::OnItsWay => "on-its-way",
            Self::NotWorthIt { .. } => "not-worth-it",
            Self::Refused(_) => "refused",
            Self::Silent => "silent",
            Self::Other(_) => "other",
        }
    }
}

impl std::fmt::Display for StayReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotWaiting => write!(f, "it does not wait there any more"),
            Self::Pinned => write!(f, "its user chose the server"),
            Self::Kept => write!(f, "somebody holds it back there"),
            Self::OnItsWay => write!(f, "it is being moved already"),
            Self::NotWorthIt { plan } => write!(f, "it completes at {} where it is", plan.completion()),
            Self::Refused(why) => write!(f, "the target refuses: {why}"),
            Self::Silent => write!(f, "the target did not answer in time"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

/// All that a target needs to know of a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Handoff {
    /// Which attempt this is.
    pub id: HandoffId,
    /// The server that has the job.
    pub from: Peer,
    /// The key under which it was submitted.
    pub key: Key,
    /// Whose it is.
    pub owner: User,
    /// The service, or the script's name.
    pub name: String,
    /// What is asked for.
    pub work: Work,
    /// When the federation accepted it.
    pub submitted: Time,
    /// The estimates that were compared at first.
    pub compared: Vec<ComparedEstimate>,
    /// What came of asking the others at first.
    #[serde(default, skip_serializing_if = "DiscoverySummary::is_empty")]
    pub survey: DiscoverySummary,
    /// How it came to its present place.
    pub hops: Vec<Hop>,
    /// The completion that is expected of it where it is; [`Time::MAX`] if it is not planned there.
    pub before: Time,
    /// The latest completion for which it is to be moved.
    pub latest: Time,
    /// It is to be queued as a copy, whatever its completion.
    #[serde(default, skip_serializing_if = "is_false")]
    pub copy: bool,
    /// Why.
    pub reason: MoveReason,
    /// What to run: as its driver describes it. On the way by the source's driver, at the target by the target's.
    pub payload: Payload,
    /// What its run teaches, if runtimes of its kind are learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<RuntimeSample>,
}

/// Another server, and where it is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Peer {
    /// Its name.
    pub name: Name,
    /// Where it is reached, `host:port`.
    pub address: String,
}

/// What one server asks of another. A call that is not answered is made again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// Queue this job, held.
    Prepare(Box<Handoff>),
    /// Let it go; with `cancelled`, and cancel it then.
    Commit {
        /// Its owner has cancelled it on its way.
        cancelled: bool,
        /// How many attempts there were of this job: what is tried from then on is numbered after these.
        attempts: u32,
    },
    /// Forget it.
    Abort,
    /// Is it to be taken or forgotten? Asked of the source.
    Inquire,
    /// The turn of this copy has come: may it start? Asked of the source.
    Ready,
}

/// What a target says to its source.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// It is held, in this shape.
    Prepared(Estimate),
    /// It is not, and why.
    Refused(String),
    /// What was asked for is done, now or before.
    Done,
    /// The target knows nothing of such a job.
    Unknown,
}

/// What a source says to a target that asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandoffDecision {
    /// Not decided yet: keep it held.
    Undecided,
    /// It is the target's.
    Commit {
        /// Its owner has cancelled it on its way.
        cancelled: bool,
        /// As in [`Call::Commit`].
        attempts: u32,
    },
    /// It is not, and never will be by this attempt.
    Abort,
}

/// A server as an agent sees it when it looks for better places: what a listing would show, and which of the waiting
/// jobs may be moved.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServerSnapshot {
    /// The server.
    pub info: ServerInfo,
    /// How it sizes moldable requests.
    pub tuner: Tuner,
    /// What runs and waits under its policy. The numbers of jobs are the server's own.
    pub queue: Dump,
    /// The same of a cluster that is planned by its nodes, in place of the queue; none if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<nodes::ClusterSnapshot>,
    /// The waiting jobs that may be moved.
    pub movable: Vec<Movable>,
    /// Why it takes no jobs from elsewhere at the moment, for people; none if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<String>,
}

/// A waiting job that may be moved.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Movable {
    /// Its number in the queue.
    pub number: u32,
    /// Its handle.
    pub job: Handle,
    /// Its key, which decides between jobs of one second.
    pub key: Key,
    /// What was asked for.
    pub work: Work,
    /// When the federation accepted it.
    pub submitted: Time,
    /// Stands for its owner in queue orders.
    pub owner: Owner,
    /// How often it was moved.
    pub moves: u32,
    /// The servers that have a copy of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<Name>,
    /// The servers that it is not to go back to for now ([`crate::job::avoided_servers`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub avoids: Vec<Name>,
}
