//! The audit trail: each acceptance, cancellation and move of a job, each act of an operator, and refusals for lack of rights,
//! with the caller. A driver keeps each record in the commit of the event that it follows from.

use std::fmt;

use pliant_model::Time;
use serde::{Deserialize, Serialize};

use crate::access::Caller;
use crate::names::{Handle, Name, User};

/// A record of the audit trail.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AuditRecord {
    /// When the act took effect or was refused.
    pub at: Time,
    /// Who acted.
    pub by: Actor,
    /// What was done.
    pub act: AuditAct,
    /// The job; none if the act is about a user or the whole server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Handle>,
    /// The user whom the act is about, for bans and limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<User>,
    /// The reason that the operator gave, or what was refused; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// Who acts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Actor {
    /// A user, as proven by a certificate.
    User(User),
    /// An operator, as proven by a certificate.
    Operator(User),
    /// The server of this name, for an agent that moves jobs, or for itself.
    Server(Name),
}

/// An act that the audit trail records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuditAct {
    /// A job was accepted.
    Accept,
    /// A job was cancelled.
    Cancel,
    /// A job was to be withdrawn if it had not started.
    Withdraw,
    /// A job was handed over to the server that `why` names.
    HandOver,
    /// A job was taken over from the server of the actor.
    TakeOver,
    /// The server was drained.
    Drain,
    /// The server accepts jobs again.
    Resume,
    /// A job waits again after a node failed under it, as `why` says.
    Requeue,
    /// A waiting job is held.
    Hold,
    /// A held job may start again.
    Release,
    /// A waiting job got the priority before the colon of `why`.
    Priority,
    /// A user was banned.
    Ban,
    /// A user is no longer banned.
    Unban,
    /// Limits of a user were changed, to those before the colon of `why`.
    Limit,
    /// An agent's reallocation policy was changed, to what `why` says.
    Configure,
    /// A reallocation cycle of an agent was started.
    Reallocate,
    /// A server was declared lost, which `why` begins with.
    Forget,
    /// A launch was accepted, which `why` names.
    Launch,
    /// Tasks were spawned into the launch that `why` names.
    Spawn,
    /// The launch that `why` names was cancelled.
    CancelLaunch,
    /// A caller without the right to it asked for an act, which `why` names.
    Deny,
}

impl AuditAct {
    /// Every act.
    pub const ALL: [AuditAct; 21] = [
        Self::Accept,
        Self::Cancel,
        Self::Withdraw,
        Self::HandOver,
        Self::TakeOver,
        Self::Requeue,
        Self::Drain,
        Self::Resume,
        Self::Hold,
        Self::Release,
        Self::Priority,
        Self::Ban,
        Self::Unban,
        Self::Limit,
        Self::Configure,
        Self::Reallocate,
        Self::Forget,
        Self::Launch,
        Self::Spawn,
        Self::CancelLaunch,
        Self::Deny,
    ];

    /// The stable word for scripts.
    pub fn word(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Cancel => "cancel",
            Self::Withdraw => "withdraw",
            Self::HandOver => "hand-over",
            Self::TakeOver => "take-over",
            Self::Requeue => "requeue",
            Self::Drain => "drain",
            Self::Resume => "resume",
            Self::Hold => "hold",
            Self::Release => "release",
            Self::Priority => "priority",
            Self::Ban => "ban",
            Self::Unban => "unban",
            Self::Limit => "limit",
            Self::Configure => "configure",
            Self::Reallocate => "reallocate",
            Self::Forget => "forget",
            Self::Launch => "launch",
            Self::Spawn => "spawn",
            Self::CancelLaunch => "cancel-launch",
            Self::Deny => "deny",
        }
    }
}

impl From<&Caller> for Actor {
    fn from(caller: &Caller) -> Actor {
        if caller.operator { Actor::Operator(caller.user.clone()) } else { Actor::User(caller.user.clone()) }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(user) => write!(f, "user/{user}"),
            Self::Operator(user) => write!(f, "operator/{user}"),
            Self::Server(name) => write!(f, "server/{name}"),
        }
    }
}
