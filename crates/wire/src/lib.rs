//! The protocol: messages as `proto/` defines them, and what they mean.
//!
//! - Everything that comes in is checked here, from any sender: `TryFrom` a message gives the type that the rest
//!   of Pliant works with, or [`Malformed`], which names the field. What is too long, too many, out of range or
//!   unprintable goes no further ([`bounds`]).
//! - Everything that goes out passes the same checks at the other end: `From` the type gives a message within
//!   [`bounds`]. A number beyond them becomes the nearest one within, a list keeps the items that matter most,
//!   and a text is escaped and cut. Otherwise one absurd estimate would end the connection between a daemon and its
//!   agent, or block the status updates of a job.
//! - A table says for each message which of its fields is which field of the domain type, and of which field type
//!   (module `table`, with the grammar). It gives both conversions, and the values that property tests draw.
//! - Types that only messages need are here: [`Submission`], [`SubmissionRefusal`], [`FromChild`],
//!   [`FromParent`], [`JobsQuery`], [`Upload`], [`Download`] and the replies that clients show.
//!
//! The identity of a caller comes from the certificate, never from a message; [`asked`] joins the two.

pub mod bounds;

mod admin;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod any_bytes;
mod attach;
mod cause;
mod cluster_snapshots;
pub(crate) mod codec;
mod digests;
mod discovery;
mod executable;
mod exploration;
mod field;
mod files;
mod handoff;
mod hint;
mod history;
mod job;
mod launch;
mod link;
mod listing;
mod malformed;
mod many;
mod moves;
mod multi_job;
mod nodes;
mod offer;
mod output;
mod pieces;
mod resources;
mod runtimes;
mod server;
mod signed;
mod stored_data;
mod submission;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod types;

pub use admin::{
    AdminOrder, AuditEntry, AuditPage, AuditQuery, ForgetOrder, JobAdminOrder, LimitOrder, LimitsList,
    ListedBan, ListedLimits, PriorityOrder, UserAdminOrder, ban_reply, banned, drain_reply, drained,
};
pub use attach::{FromChild, FromParent};
pub use digests::{claim_digest, placed_task_digest, submission_digest, task_digest, tasks_digest};
pub use discovery::{address_of, asked, discover};
pub use executable::{Executable, ParameterScript, TaskArray};
pub use exploration::{
    Attempt, Call, ExplorationAnswer, ExplorationReply, ExplorationRequest, OffersQuery, Shares, offers,
    offers_reply,
};
pub use files::{
    Download, Fetchable, JobResults, OmittedFile, RESULTS_PENDING, Upload, UploadAnswer, moved, moved_to,
    requeued, requeues_of,
};
pub use handoff::{CommitOrder, Prepare, SignedDecision, handoff_id};
pub use hint::{hint_of, with_hint};
pub use history::{HistoryCursor, HistoryPage, HistoryQuery, LocalJobCursor, LocalJobsPage, LocalJobsQuery};
pub use job::{CallEnd, handle_of, job_request};
pub use launch::{
    DecidedSubjob, HeldSubjobs, LaunchRequest, LaunchTask, LaunchesPage, LaunchesQuery, Program,
    SpawnRequest, SubjobReport, TaskDownload, TaskProgram, launch_answer, launch_reply, listed_machines,
    machines_reply,
};
pub use link::{DownloadProbe, LinkMeasurement, LinkProbe, links, links_reply};
pub use listing::{
    Accuracy, AccuracyQuery, AgentStatus, ChangePosition, ChangesPage, ChangesQuery, Federation, JobCursor,
    JobsPage, JobsQuery, LocatedJob, ServerStatus, accuracies, accuracy_reply,
};
pub use malformed::Malformed;
pub use many::{CallFailure, DiscoverOutcome, SubmitOutcome, several};
pub use moves::{
    JobMove, MOVES_DEFAULT, MovingChange, moves, moves_limit, moving_change, moving_reply, moving_request,
    reallocate_request,
};
pub use multi_job::{InstanceBatch, InstanceCall, ProspectsQuery, prospects_answer, prospects_reply};
pub use offer::{Offer, OfferedArgument, OfferedService};
pub use output::{InstanceEnd, Outcome, cut_notice, is_cut};
pub use runtimes::{Runtimes, expectation_reply};
pub use server::{CallAnswer, SubmissionRefusal, SubmitAnswer};
pub use signed::SignedTasks;
pub use stored_data::{StoredDataList, StoredDataQuery, StoredDatum};
pub use submission::{
    CALL_ARGUMENTS, CALL_OUTCOME, KeptParameter, Script, StoredArgument, Submission, SubmittedJob,
    SubmittedWork, TypedCall,
};

pub use pieces::{Pieces, in_pieces};

#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod proto {
    tonic::include_proto!("pliant.v1");
}
