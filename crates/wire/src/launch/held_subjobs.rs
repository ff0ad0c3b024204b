//! The subjobs of launches at a server, for listings.

use pliant_control::server::ListedSubjob;
use pliant_model::Time;

use super::super::field::*;
use super::super::table::message;
use super::super::{bounds, proto};
use super::{A_SUBJOB, A_SUBJOB_STATE};

message! {
    /// The subjobs at a server that are not over.
    #[derive(Clone, PartialEq, Debug)]
    proto::HeldSubjobsReply <=> pub struct HeldSubjobs {
        /// The time there.
        now: Time = TIME,
        /// The subjobs.
        subjobs: Vec<ListedSubjob> = list(nested(), bounds::PARTS_MAX),
    }
}

message! {
    proto::ListedSubjob <=> ListedSubjob {
        id: required(A_SUBJOB),
        owner: USER,
        name: text(bounds::NAME_BYTES_MAX),
        tasks,
        procs: PROCS,
        state: required(A_SUBJOB_STATE),
        ending,
        since: TIME,
        last_contact: TIME,
    }
}
