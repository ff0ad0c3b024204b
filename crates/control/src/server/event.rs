//! Events, commands and answers of a server.

use std::sync::Arc;

use pliant_model::Procs;
use pliant_policy::batch::order::PrioritySettings;
use serde::{Deserialize, Serialize};

use super::{
    AdmissionRefusal, Ban, Drain, LimitChange, SubjobCommand, SubjobEvent, Submit, UserLimits, WaitingLimits,
};
use crate::access::Caller;
use crate::audit::AuditRecord;
use crate::batch;
use crate::batch::embedded::HostResources;
use crate::coallocation::SubjobState;
use crate::handoff::{Call, Handoff, HandoffDecision, HandoffId, MoveOutcome, MoveProposal, Peer, Reply};
use crate::job::JobRecord;
use crate::local::LocalJob;
use crate::names::{Handle, Name, Token, User};
use crate::payload::Payload;
use crate::signed::HandoffSignature;

/// A change of a server's state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A client submits a job.
    Submit {
        /// The caller to answer.
        reply: Token,
        /// The submission.
        submit: Box<Submit>,
    },
    /// A user cancels a job.
    Cancel {
        /// The caller to answer.
        reply: Token,
        /// The job.
        number: u32,
        /// The user.
        caller: Caller,
    },
    /// A user withdraws a job if it has not started; a running job goes on.
    Withdraw {
        /// The caller to answer.
        reply: Token,
        /// The job.
        number: u32,
        /// The user.
        caller: Caller,
    },
    /// The size, the policy and the host of the embedded batch system are set, at the first start and whenever they were changed.
    Configured {
        /// The processors of the cluster.
        procs: Procs,
        /// The name of the local policy.
        policy: String,
        /// The host, if what jobs need besides processors is counted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<Arc<HostResources>>,
    },
    /// Jobs that the agents know and that were submitted after the copy was made that was put back: before [`Event::Restored`], some at a
    /// time.
    RestoredLater(Vec<JobRecord>),
    /// What orders by usage depend on is set, at the first start and whenever it was changed.
    PrioritySettings(Box<PrioritySettings>),
    /// The bounds of what waits are set, at the first start and whenever they were changed: a replay refuses what was refused.
    WaitingLimits(WaitingLimits),
    /// An operator has the server accept no new jobs.
    Drain {
        /// The caller to answer.
        reply: Token,
        /// The operator.
        by: User,
        /// The operator's reason.
        why: String,
    },
    /// An operator has the server accept jobs again.
    Resume {
        /// The caller to answer.
        reply: Token,
        /// The operator, for readers of the journal.
        by: User,
        /// The operator's reason, for readers of the journal.
        why: String,
    },
    /// An operator keeps a waiting job from starting.
    Hold {
        /// The caller to answer.
        reply: Token,
        /// The job.
        number: u32,
        /// The operator.
        by: User,
        /// The operator's reason.
        why: String,
    },
    /// An operator lets a held job start again.
    Release {
        /// The caller to answer.
        reply: Token,
        /// The job.
        number: u32,
        /// The operator.
        by: User,
        /// The operator's reason.
        why: String,
    },
    /// An operator gives a waiting job a priority in the queue.
    Prioritise {
        /// The caller to answer.
        reply: Token,
        /// The job.
        number: u32,
        /// The highest is served first; others have 0.
        priority: i64,
        /// The operator.
        by: User,
        /// The operator's reason.
        why: String,
    },
    /// An operator has the server accept nothing of a user, and start none of the user's waiting jobs.
    Ban {
        /// The caller to answer.
        reply: Token,
        /// The user.
        user: User,
        /// The operator.
        by: User,
        /// The operator's reason.
        why: String,
    },
    /// An operator ends the ban of a user.
    Unban {
        /// The caller to answer.
        reply: Token,
        /// The user.
        user: User,
        /// The operator.
        by: User,
        /// The operator's reason.
        why: String,
    },
    /// An operator changes limits of a user.
    Limit {
        /// The caller to answer.
        reply: Token,
        /// The user.
        user: User,
        /// The limits that change; the others stay.
        changes: Vec<LimitChange>,
        /// The operator.
        by: User,
        /// The operator's reason.
        why: String,
    },
    /// An operator declares another server lost.
    Forget {
        /// The caller to answer.
        reply: Token,
        /// The lost server.
        server: Name,
        /// The operator.
        by: User,
        /// The operator's reason.
        why: String,
    },
    /// A user asked for something that only operators may do. The driver limits how often it reports that.
    Denied {
        /// The user.
        by: User,
        /// What the user asked for.
        act: String,
    },
    /// The agents know the job numbers that an earlier journal of this server used.
    Numbered {
        /// The highest number; 0 if there is none.
        highest: u32,
    },
    /// The host failed, and the journal may lack the last jobs of before that: their numbers, which their users may know, are not
    /// given again.
    SkipNumbers,
    /// The journal is an older copy of itself that was put back: what the agents know. From now on the journal has another number
    /// for the parent.
    Restored {
        /// The number of the journal for the parent.
        journal: u64,
        /// The highest job number that the agents know; 0 if there is none.
        highest: u32,
        /// The agents' records of the jobs that wait or run in the copy.
        known: Vec<JobRecord>,
    },
    /// The runtime of a batch's longest instance for each unit of its service, on this cluster and on the processors that
    /// its service is declared for. Comes just before the end of the batch.
    LongestInstance {
        /// The job.
        number: u32,
        /// The runtime in milliseconds.
        ms: u64,
    },
    /// An agent proposes to move a waiting job.
    ProposeMove {
        /// The agent, which gets the outcome.
        reply: Token,
        /// The proposal.
        proposal: Box<MoveProposal>,
    },
    /// A source asks to prepare a job.
    Prepare {
        /// The source to answer.
        reply: Token,
        /// The job.
        handoff: Box<Handoff>,
    },
    /// A source has signed that it hands a prepared job over. Comes just before its commit; the driver has verified it.
    HandoffSigned {
        /// The attempt.
        id: HandoffId,
        /// The signature.
        signed: Box<HandoffSignature>,
    },
    /// A source commits: the prepared job now belongs to this server.
    Commit {
        /// The source to answer.
        reply: Token,
        /// The attempt.
        id: HandoffId,
        /// The owner cancelled the job during the handoff.
        cancelled: bool,
        /// Number of attempts for this job so far.
        attempts: u32,
    },
    /// A sibling of one of our jobs is ready to start at another server, which asks for permission.
    Ready {
        /// The target to answer.
        reply: Token,
        /// The attempt.
        id: HandoffId,
    },
    /// A source aborts: the prepared job does not belong to this server.
    Abort {
        /// The source to answer.
        reply: Token,
        /// The attempt.
        id: HandoffId,
    },
    /// A target has answered a call.
    Answered {
        /// The attempt.
        id: HandoffId,
        /// Its reply.
        reply: Reply,
    },
    /// A source has decided about a prepared job.
    Decided {
        /// The attempt.
        id: HandoffId,
        /// Its decision.
        decision: HandoffDecision,
    },
    /// An event of a subjob of a launch.
    Subjob(SubjobEvent),
    /// An event of the batch system.
    Batch(batch::Event),
    /// All other events of this instant were applied.
    Due,
}

/// An action that a server asks its driver to carry out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Answer a call.
    Reply {
        /// The caller.
        to: Token,
        /// The answer.
        answer: Answer,
    },
    /// An action of the batch system.
    Batch(batch::Command),
    /// Call another server. Repeated until an answer is recorded.
    Call {
        /// The server.
        to: Peer,
        /// The job and the attempt.
        id: HandoffId,
        /// The call.
        call: Call,
    },
    /// An action for a subjob of a launch.
    Subjob(SubjobCommand),
    /// Report a job's record to the agent, again and again until it is acknowledged.
    Report(Box<JobRecord>),
    /// Archive the record of an ended job.
    Archive(Box<JobRecord>),
    /// Keep what was submitted as a job that has ended without a start: nothing of it is on the disk, and the machine forgets it.
    KeepSubmitted {
        /// The job's record.
        record: Box<JobRecord>,
        /// What it would have run.
        payload: Payload,
    },
    /// Archive a finished run of a local user's job for replays.
    ArchiveLocal(Box<LocalJob>),
    /// Add a record to the audit trail.
    Audit(Box<AuditRecord>),
    /// Notify the agent that processors became free earlier than planned although none of its jobs ended. Dropped if it
    /// cannot be sent at once.
    Freed,
}

/// The answer to a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The submission is accepted, now or at an earlier try.
    Accepted(Box<JobRecord>),
    /// The submission is refused.
    Refused(AdmissionRefusal),
    /// The submission was accepted earlier; its job has ended and is in the archive.
    Known(Handle),
    /// The job's record after the cancellation: ended, or about to end.
    Cancelling(Box<JobRecord>),
    /// The job was moved to another server ([`JobRecord::server`]), which can cancel it.
    Elsewhere(Box<JobRecord>),
    /// No such job, as far as this caller may know.
    NoSuchJob,
    /// The outcome of an agent's proposal.
    MoveOutcome(MoveOutcome),
    /// The reply to a source.
    Handoff(Reply),
    /// A source's request to prepare a job is refused for this reason, and nothing has changed.
    NotPrepared(String),
    /// The decision about a prepared job or a sibling.
    Decision(HandoffDecision),
    /// The state of a subjob of a launch.
    Subjob(SubjobState),
    /// The job's record after an act of an operator.
    Job(Box<JobRecord>),
    /// An act of an operator does not suit the job or the server, for this reason.
    Unsuited(String),
    /// Whether the server is drained now.
    Drained(Option<Drain>),
    /// Whether the user is banned now.
    Banned(Option<Ban>),
    /// The limits that the user has now.
    Limited(Option<UserLimits>),
    /// How many handoffs and siblings from and to a lost server were given up.
    Forgotten(u32),
}
