//! The subjobs of launches at a server, for listings.

use pliant_control::server::HeldPart;
use pliant_model::Time;

use super::super::field::*;
use super::super::table::message;
use super::super::{bounds, proto};
use super::{A_PART, A_STANDING};

message! {
    /// The parts at a server that are not over.
    #[derive(Clone, PartialEq, Debug)]
    proto::HeldPartsReply <=> pub struct HeldParts {
        /// The time there.
        now: Time = TIME,
        /// The parts.
        parts: Vec<HeldPart> = list(nested(), bounds::PARTS_MAX),
    }
}

message! {
    proto::HeldPart <=> HeldPart {
        id: required(A_PART),
        owner: USER,
        name: text(bounds::NAME_BYTES_MAX),
        tasks,
        procs: PROCS,
        standing: required(A_STANDING),
        ending,
        since: TIME,
        heard: TIME,
    }
}
