//! Events and commands of an agent.

use serde::{Deserialize, Serialize};

use pliant_policy::discovery::Summary;
use pliant_policy::reallocation::Reallocation;

use super::{
    ChildKind, Contradiction, DiscoveryQuery, DiscoveryResult, ReallocationChange, ReallocationReport,
    Requester,
};
use crate::audit::{Actor, AuditAct, AuditRecord};
use crate::job::JobRecord;
use crate::names::{Handle, Name, Token, User};
use crate::server_info::ServerInfo;

/// An event that changes an agent's state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A child has connected.
    Attached {
        /// The child.
        child: Name,
        /// The child's kind.
        kind: ChildKind,
        /// The journal that the child's status updates come from.
        journal: u64,
        /// The servers that the child is or has below it.
        servers: Vec<ServerInfo>,
    },
    /// A child reports again which servers it has.
    Announced {
        /// The child.
        child: Name,
        /// The servers that the child is or has below it.
        servers: Vec<ServerInfo>,
    },
    /// A child has disconnected.
    Detached {
        /// The child.
        child: Name,
    },
    /// A client, the parent or this agent sends a query.
    Queried {
        /// The requester that waits for the answer.
        requester: Requester,
        /// The query.
        query: Box<DiscoveryQuery>,
    },
    /// A child answers a query.
    Answered {
        /// The child.
        child: Name,
        /// This agent's number of the discovery.
        discovery: u64,
        /// The child's result.
        found: DiscoveryResult,
    },
    /// A child reports when work could start on its servers.
    Summarised {
        /// The child.
        child: Name,
        /// The bounds.
        summary: Summary,
    },
    /// A child reports a job's status.
    StatusUpdate {
        /// The child.
        child: Name,
        /// The child's sequence number of the status update.
        sequence: u64,
        /// The job.
        record: Box<JobRecord>,
    },
    /// The status updates of a child up to this one are acknowledged, and this one is not kept: the child may not report the job, the
    /// archive knows the job's end, or all jobs were reported again.
    StatusRefused {
        /// The child.
        child: Name,
        /// The child's sequence number of the status update.
        sequence: u64,
    },
    /// A child reports a job again: this agent had acknowledged its status updates, and has lost some of them.
    StatusAgain {
        /// The child.
        child: Name,
        /// The job.
        record: Box<JobRecord>,
    },
    /// Processors below a child have become free early, although no job of the federation has ended.
    Freed {
        /// The child.
        child: Name,
    },
    /// A caller requests a reallocation cycle now.
    Reallocate {
        /// The caller to answer.
        reply: Token,
        /// Only report the moves.
        dry_run: bool,
        /// The policy; none is the agent's own.
        policy: Option<Reallocation>,
    },
    /// An operator changes the reallocation of waiting jobs.
    Configure {
        /// The operator to answer.
        reply: Token,
        /// The change; none returns to the configuration.
        change: Option<ReallocationChange>,
        /// The operator; none in journals of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<User>,
    },
    /// An operator declares that a server which is not connected has lost its state: its jobs end, and it is no longer listed.
    Forget {
        /// The operator to answer.
        reply: Token,
        /// The server.
        server: Name,
        /// The operator.
        by: User,
        /// The operator's reason.
        why: String,
    },
    /// A caller did something that changes no state, or was refused for lack of rights. The driver limits how often it reports the
    /// latter.
    Audited {
        /// The caller.
        by: Actor,
        /// What was done.
        act: AuditAct,
        /// What was refused, or more about the act.
        why: String,
    },
    /// A point in time of [`Agent::next_due`](super::Agent::next_due) has come.
    Due,
}

/// A command of an agent to its driver.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Send a query to a child.
    Query {
        /// The child.
        child: Name,
        /// This agent's number of the discovery.
        discovery: u64,
        /// The query.
        query: Box<DiscoveryQuery>,
    },
    /// Answer a query.
    Answer {
        /// The requester that waits.
        to: Requester,
        /// The result.
        found: DiscoveryResult,
    },
    /// Report a reallocation cycle to the caller that requested it.
    ReportReallocation {
        /// The caller.
        to: Token,
        /// The report.
        report: Box<ReallocationReport>,
    },
    /// Confirm a change to an operator.
    Configured {
        /// The operator.
        to: Token,
    },
    /// Report to an operator how many jobs have ended with a server, or why the server is not forgotten.
    Forgotten {
        /// The operator.
        to: Token,
        /// The number of jobs, or the reason.
        ended: Result<u32, String>,
    },
    /// Acknowledge a child's status updates up to this one: they are kept.
    Acknowledge {
        /// The child.
        child: Name,
        /// The child's sequence number of the last one.
        sequence: u64,
    },
    /// Log that a child's status update was refused: it contradicts what is known of the job.
    RefuseStatus {
        /// The child.
        child: Name,
        /// The job.
        job: Handle,
        /// How.
        why: Contradiction,
    },
    /// Report a job's status to the parent, until it acknowledges.
    ReportStatus(Box<JobRecord>),
    /// Report the servers of this agent to the parent.
    Announce,
    /// The summary of this agent has changed: report it to the parent when that is due.
    Summarise,
    /// Report to the parent that processors have become free early, although no job of the federation has ended. This is of use at once
    /// or not at all.
    Freed,
    /// Keep the record of a job that has ended, or has gone to a server below another agent, for good. A later status
    /// update with less progress ([`JobRecord::progress`]) is outdated.
    Archive(Box<JobRecord>),
    /// Add a record to the audit trail.
    Audit(Box<AuditRecord>),
}
