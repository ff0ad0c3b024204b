//! The protocol: messages as `proto/` defines them, and what they mean.
//!
//! - Everything that comes in is checked here, whoever sent it: `TryFrom` a message gives the type that the rest
//!   of Pliant works with, or [`Malformed`], which names the field. What is too long, too many, out of range or
//!   unprintable goes no further ([`bounds`]).
//! - Everything that goes out passes the same checks at the other end: `From` the type gives a message within
//!   [`bounds`]. A number beyond them becomes the nearest one within, a list keeps the items that matter most,
//!   and a text is escaped and cut. Otherwise one absurd estimate would end the line between a daemon and its
//!   agent, or keep the news of a job from ever being understood.
//! - A table says for each message which of its fields is which field of the domain type, and of which field type
//!   (module `table`, with the grammar). It gives both conversions, and the values that property tests draw.
//! - What is spoken of only on the wire has a type here: [`Submission`], [`Declined`], [`FromChild`],
//!   [`FromParent`], [`JobsQuery`], [`Upload`], [`Download`] and the replies that clients show.
//!
//! Who somebody is comes from their certificate, never from a message; [`asked`] joins the two.

pub mod bounds;

mod attach;
mod cause;
pub(crate) mod codec;
mod discovery;
mod exploration;
mod field;
mod files;
mod handoff;
mod history;
mod job;
mod launch;
mod link;
mod listing;
mod malformed;
mod moves;
mod multi_job;
mod nodes;
mod offer;
mod output;
mod pictures;
mod pieces;
mod runtimes;
mod server;
mod submission;
mod table;
#[cfg(test)]
mod tests;
mod types;

pub use attach::{FromChild, FromParent};
pub use discovery::{address_of, asked, discover};
pub use exploration::{Attempt, Call, FromServer, OffersQuery, Said, Shares, ToServer, offers, offers_reply};
pub use files::{AT_WORK, Download, Fetchable, JobResults, Upload, UploadAnswer, Withheld, moved, moved_to};
pub use handoff::{Prepare, handoff_id};
pub use history::{HistoryPage, HistoryPlace, HistoryQuery, LocalPlace, LocalsPage, LocalsQuery};
pub use job::{handle_of, job_request};
pub use launch::{
    Decided, HeldParts, LaunchRequest, LaunchTask, LaunchesPage, LaunchesQuery, Program, SpawnRequest,
    Stands, TaskDownload, TaskProgram, launch_answer, launch_reply, survey_reply, surveyed,
};
pub use link::{GiveOrder, ProbeOrder, Probed, links, links_reply};
pub use listing::{
    Accuracy, AgentStatus, Federation, JobsPage, JobsQuery, LocatedJob, ServerStatus, accuracies,
    accuracy_query, accuracy_reply,
};
pub use malformed::Malformed;
pub use moves::{
    MOVES_DEFAULT, Moved, MovingChange, moves, moves_limit, moving_change, moving_reply, moving_request,
    reallocate_request,
};
pub use multi_job::{Pack, PackedCall, ProspectsQuery, prospects_answer, prospects_reply};
pub use offer::{Offer, OfferedArgument, OfferedService};
pub use output::{Outcome, PackedEnd, cut_notice, is_cut};
pub use runtimes::{Runtimes, expectation_reply};
pub use server::{Declined, SubmitAnswer};
pub use submission::{Script, Submission, Submitted};

pub use pieces::{Pieces, in_pieces};

#[allow(missing_docs, unreachable_pub, clippy::all)]
pub mod proto {
    tonic::include_proto!("pliant.v1");
}
