//! Events of the requests of an exploration.

use pliant_control::names::Name;
use pliant_control::optional::server::{Prospects, RequestState};
use pliant_control::reason::Reason;
use pliant_wire::Attempt;

/// An event of a client's requests.
#[derive(Clone, PartialEq, Debug)]
pub enum RequestEvent {
    /// A request is over.
    Ended {
        /// Which.
        number: u32,
        /// Where.
        server: Name,
        /// How: completed, failed or cancelled.
        state: RequestState,
        /// What it wrote.
        output: Vec<u8>,
    },
    /// A server does not take a request.
    Refused {
        /// Which.
        number: u32,
        /// Where.
        server: Name,
        /// Why.
        why: Reason,
    },
    /// A request was withdrawn: its server has not run it and does not have it any more.
    Withdrawn {
        /// Which.
        id: Attempt,
        /// Where.
        server: Name,
    },
    /// What requests may expect of a server.
    Expected {
        /// Which.
        server: Name,
        /// What.
        prospects: Prospects,
    },
    /// A server cannot be reached any more. It may have run its requests.
    Lost {
        /// Which.
        server: Name,
        /// Why.
        why: String,
    },
}
