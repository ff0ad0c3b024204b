//! Acts of operators, the state of a server after them, and the audit trail.

use pliant_control::names::{Handle, Name, User};
use pliant_control::server::{Ban, Drain, LIMITED_USERS_MAX, LimitChange, LimitKey};
use pliant_model::Time;

use super::field::*;
use super::table::{enumeration, message};
use super::{Malformed, bounds, proto};

message! {
    /// An act of an operator.
    #[derive(Clone, PartialEq, Debug)]
    proto::AdminRequest <=> pub struct AdminOrder {
        /// The reason.
        why: String = word("a reason", bounds::TEXT_BYTES_MAX).exact(),
    }
}

message! {
    /// An operator declares a server lost.
    #[derive(Clone, PartialEq, Debug)]
    proto::ForgetRequest <=> pub struct ForgetOrder {
        /// The server.
        server: Name = NAME,
        /// The reason.
        why: String = word("a reason", bounds::TEXT_BYTES_MAX).exact(),
    }
}

message! {
    /// An act of an operator about a job.
    #[derive(Clone, PartialEq, Debug)]
    proto::JobAdminRequest <=> pub struct JobAdminOrder {
        /// The job.
        handle <=> job: Handle = HANDLE,
        /// The reason.
        why: String = word("a reason", bounds::TEXT_BYTES_MAX).exact(),
    }
}

message! {
    /// An act of an operator that gives a waiting job a priority.
    #[derive(Clone, PartialEq, Debug)]
    proto::PriorityRequest <=> pub struct PriorityOrder {
        /// The job.
        handle <=> job: Handle = HANDLE,
        /// The reason.
        why: String = word("a reason", bounds::TEXT_BYTES_MAX).exact(),
        /// The highest is served first; others have 0.
        priority: i64 = number("a priority", bounds::JOB_PRIORITY).exact(),
    }
}

message! {
    /// An act of an operator about a user.
    #[derive(Clone, PartialEq, Debug)]
    proto::UserAdminRequest <=> pub struct UserAdminOrder {
        /// The user.
        user: User = USER,
        /// The reason.
        why: String = word("a reason", bounds::TEXT_BYTES_MAX).exact(),
    }
}

message! {
    proto::drain_reply::Drained <=> Drain {
        at: TIME,
        by: USER,
        why: TEXT,
    }
}

message! {
    proto::ban_reply::Banned <=> Ban {
        at: TIME,
        by: USER,
        why: TEXT,
    }
}

enumeration! {
    proto::user_limit::Key <=> LimitKey: "1 (running jobs), 2 (processors), 3 (waiting jobs) or 4 (bytes of waiting jobs)" {
        RunningJobs,
        Processors,
        WaitingJobs,
        WaitingBytes,
    }
}

message! {
    proto::UserLimit <=> LimitChange {
        key: enumeration(),
        value: optional(as_is()),
    }
}

message! {
    /// An act of an operator about the limits of a user.
    #[derive(Clone, PartialEq, Debug)]
    proto::LimitRequest <=> pub struct LimitOrder {
        /// The user.
        user: User = USER,
        /// The reason.
        why: String = word("a reason", bounds::TEXT_BYTES_MAX).exact(),
        /// The limits that change.
        changes: Vec<LimitChange> = list(nested(), LimitKey::ALL.len()).not_empty("a limit").exact(),
    }

    /// The limits of a user at a server.
    #[derive(Clone, PartialEq, Debug)]
    proto::UserLimits <=> pub struct ListedLimits {
        /// The user.
        user: User = USER,
        /// The limits, each with a value.
        limits: Vec<LimitChange> = list(nested(), LimitKey::ALL.len()),
        /// When they were last changed.
        at: Time = TIME,
        /// The operator.
        by: User = USER,
        /// The operator's reason.
        why: String = TEXT,
    }

    /// The limits of users at a server.
    #[derive(Clone, PartialEq, Debug)]
    proto::LimitsReply <=> pub struct LimitsList {
        /// The users with limits.
        users: Vec<ListedLimits> = list(nested(), LIMITED_USERS_MAX),
        /// The banned users; none after an act of an operator.
        bans: Vec<ListedBan> = list(nested(), bounds::BANS_MAX),
    }

    /// A banned user.
    #[derive(Clone, PartialEq, Debug)]
    proto::BannedUser <=> pub struct ListedBan {
        /// The user.
        user: User = USER,
        /// The act that banned the user.
        ban: Ban = required("the act of an operator"),
    }
}

message! {
    /// A query for records of the audit trail of a server.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::AuditRequest <=> pub struct AuditQuery {
        /// Those after this number; 0 for the first page.
        after: u64,
        /// How many at most.
        limit: u32 = up_to("a number of records", bounds::AUDIT_MAX as u32).or(bounds::AUDIT_MAX as u32),
    }

    /// A page of the audit trail of a server.
    #[derive(Clone, PartialEq, Debug)]
    proto::AuditReply <=> pub struct AuditPage {
        /// The records, in the order of their numbers.
        records: Vec<AuditEntry> = list(nested(), bounds::AUDIT_MAX),
        /// The number after which the next page starts, if there is one.
        next: Option<u64> = optional(as_is()),
    }

    /// An act, or the refusal of one for lack of rights. A server of a later version may have acts that this version does not
    /// know.
    #[derive(Clone, PartialEq, Debug)]
    proto::AuditRecord <=> pub struct AuditEntry {
        /// Its number in the audit trail of the server.
        number: u64,
        /// When.
        at: Time = TIME,
        /// The caller, as `user/alice`, `operator/root` or `server/lyon`.
        by: String = TEXT,
        /// The act, by its word ([`AuditAct::word`](pliant_control::audit::AuditAct::word)).
        act: String = word("an act", bounds::NAME_BYTES_MAX),
        /// The job, if the act is about one.
        job: Option<Handle> = unless_empty(HANDLE),
        /// The reason that an operator gave, the other server of a move, or what was refused.
        why: String = TEXT,
        /// The user, if an operator's act is about one.
        user: Option<User> = unless_empty(USER),
    }
}

/// The answer to an operator who drains a server or has it resume.
pub fn drain_reply(drained: Option<&Drain>) -> proto::DrainReply {
    proto::DrainReply { drained: drained.map(Into::into) }
}

/// The act that drained the server, as its answer says.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::DrainReply`].
pub fn drained(reply: proto::DrainReply) -> Result<Option<Drain>, Malformed> {
    optional(nested()).decode("drained", reply.drained)
}

/// The answer to an operator who bans a user or ends that.
pub fn ban_reply(banned: Option<&Ban>) -> proto::BanReply {
    proto::BanReply { banned: banned.map(Into::into) }
}

/// The act that banned the user, as its answer says.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::BanReply`].
pub fn banned(reply: proto::BanReply) -> Result<Option<Ban>, Malformed> {
    optional(nested()).decode("banned", reply.banned)
}
