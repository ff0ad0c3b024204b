//! What a client is told of its requests.

use pliant_control::names::Name;
use pliant_control::optional::server::{Prospects, Standing};
use pliant_control::reason::Reason;
use pliant_wire::Attempt;

/// Something that a client was told of its requests.
#[derive(Clone, PartialEq, Debug)]
pub enum RequestEvent {
    /// A request is over.
    Ended {
        /// Which.
        number: u32,
        /// Where.
        server: Name,
        /// How: completed, failed or cancelled.
        standing: Standing,
        /// What it wrote.
        output: Vec<u8>,
    },
    /// A server does not take a request.
    NotTaken {
        /// Which.
        number: u32,
        /// Where.
        server: Name,
        /// Why.
        why: Reason,
    },
    /// A server does not have a request any more, and has not run it: it was withdrawn.
    Withdrawn {
        /// Which.
        id: Attempt,
        /// Where.
        server: Name,
    },
    /// What may be expected of a server, as was asked for.
    Expected {
        /// Which.
        server: Name,
        /// What.
        prospects: Prospects,
    },
    /// A server cannot be reached any more. What it had may have been run.
    Lost {
        /// Which.
        server: Name,
        /// Why.
        why: String,
    },
}
