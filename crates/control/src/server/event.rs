//! What a server is told, and what it wants done.

use serde::{Deserialize, Serialize};

use super::{AdmissionRefusal, SubjobCommand, SubjobEvent, Submit};
use crate::access::Caller;
use crate::batch;
use crate::coallocation::SubjobState;
use crate::handoff::{Call, Handoff, HandoffDecision, HandoffId, MoveOutcome, MoveProposal, Peer, Reply};
use crate::job::JobRecord;
use crate::local::LocalJob;
use crate::names::Handle;
use crate::names::Token;

/// What changes a server's state.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Somebody submits.
    Submit {
        /// Whom to answer.
        reply: Token,
        /// What.
        submit: Box<Submit>,
    },
    /// Somebody cancels a job.
    Cancel {
        /// Whom to answer.
        reply: Token,
        /// The job.
        number: u32,
        /// Who.
        caller: Caller,
    },
    /// Somebody wants a job back that has not started; one that has goes on.
    Withdraw {
        /// Whom to answer.
        reply: Token,
        /// The job.
        number: u32,
        /// Who.
        caller: Caller,
    },
    /// The agents above tell which numbers the jobs of a server of this name have had, from another journal.
    Numbered {
        /// The highest one; 0 if there were none.
        highest: u32,
    },
    /// Of a batch that has ended, which is told next: how long its longest instance took for each unit of its service, on the
    /// processors that runtimes of that are learned for, on this cluster.
    LongestInstance {
        /// The job.
        number: u32,
        /// In milliseconds.
        ms: u64,
    },
    /// An agent proposes to move a waiting job.
    Order {
        /// Whom to tell what came of it.
        reply: Token,
        /// What it proposes.
        order: Box<MoveProposal>,
    },
    /// Another server wants to hand a job over: hold it.
    Prepare {
        /// Whom to answer.
        reply: Token,
        /// The job.
        handoff: Box<Handoff>,
    },
    /// A job that is held is ours from now on.
    Commit {
        /// Whom to answer.
        reply: Token,
        /// Which.
        id: HandoffId,
        /// Its owner has cancelled it on its way.
        cancelled: bool,
        /// How many attempts there were of this job.
        attempts: u32,
    },
    /// The turn of a copy of one of our jobs has come at another server: may it start?
    Ready {
        /// Whom to answer.
        reply: Token,
        /// Which.
        id: HandoffId,
    },
    /// A job that is held is not ours.
    Abort {
        /// Whom to answer.
        reply: Token,
        /// Which.
        id: HandoffId,
    },
    /// The server that is to take a job has answered.
    Answered {
        /// Which.
        id: HandoffId,
        /// What it said.
        reply: Reply,
    },
    /// The server that wanted to hand a job over has said what is to become of it.
    Decided {
        /// Which.
        id: HandoffId,
        /// What it said.
        decision: HandoffDecision,
    },
    /// Something about a subjob of a launch.
    Subjob(SubjobEvent),
    /// Something happened in the batch system.
    Batch(batch::Event),
    /// The other events of this instant are in.
    Due,
}

/// What is to be done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Answer a call.
    Reply {
        /// Whom.
        to: Token,
        /// What.
        answer: Answer,
    },
    /// For the batch system's outside.
    Batch(batch::Command),
    /// Ask something of another server. Made again if no answer is told.
    Call {
        /// Whom.
        to: Peer,
        /// About which job.
        id: HandoffId,
        /// What.
        call: Call,
    },
    /// For a subjob of a launch.
    Subjob(SubjobCommand),
    /// Tell the agent how a job stands. Told until it is acknowledged.
    Report(Box<JobRecord>),
    /// A job has ended: keep its record for good.
    Archive(Box<JobRecord>),
    /// A run of a local user's job is over: keep it for replays.
    ArchiveLocal(Box<LocalJob>),
    /// Tell the agent that processors are free earlier than planned although no job of its own has ended. Of use at once or
    /// not at all.
    Freed,
}

/// The answer to a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The submission is accepted, now or when it was first sent.
    Accepted(Box<JobRecord>),
    /// It is not, and why.
    Refused(AdmissionRefusal),
    /// It was accepted, and the job has ended and left the memory: it is in the archive.
    Known(Handle),
    /// The job as it stands after the cancellation: ended, or about to be ended.
    Cancelling(Box<JobRecord>),
    /// The job waits, runs or has ended at another server, to which it was moved: [`JobRecord::server`]. Whoever cancels
    /// asks there.
    Elsewhere(Box<JobRecord>),
    /// There is no such job, as far as this caller may know.
    NoSuchJob,
    /// What came of an agent's order.
    Order(MoveOutcome),
    /// What another server is told about a job that it wants to hand over.
    Handoff(Reply),
    /// What is to become of a copy whose turn has come.
    Decision(HandoffDecision),
    /// How a subjob of a launch stands.
    Subjob(SubjobState),
}
