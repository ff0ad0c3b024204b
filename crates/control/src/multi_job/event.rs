//! What the client of a multi-job is told, and what it wants done.

use std::collections::BTreeSet;

use pliant_model::SpanMs;

use super::Prospects;
use crate::names::Name;
use crate::reason::Cause;

/// What happened to the client.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// It begins, or goes on after all that it had noted was told.
    Begin,
    /// These servers offer the service now. A server that is not among them gets nothing more.
    Found {
        /// What they say, as if no pack waited there.
        servers: Vec<(Name, Prospects)>,
        /// The packs that wait there.
        waiting: BTreeSet<u32>,
    },
    /// An earlier client handed this out.
    Recalled {
        /// The pack.
        pack: u32,
        /// To whom.
        server: Name,
        /// What is in it.
        instances: Vec<u32>,
    },
    /// A server does not take a pack: none of it was begun.
    Refused {
        /// The pack.
        pack: u32,
        /// What stands in the way.
        cause: Cause,
    },
    /// An instance of an open pack has ended.
    Ended {
        /// The pack.
        pack: u32,
        /// The instance.
        instance: u32,
        /// True if it ended well.
        completed: bool,
        /// How long it took.
        took: SpanMs,
    },
    /// A pack has ended: what it was not heard of has not been run to its end.
    Over {
        /// The pack.
        pack: u32,
        /// What it was not heard of was not begun either.
        unbegun: bool,
    },
    /// What is not done is not wanted any more.
    Cancel,
}

/// What the client is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Look at the servers, soon.
    Look,
    /// Submit a pack, to that server and no other one.
    Submit {
        /// Its number.
        pack: u32,
        /// The server.
        server: Name,
        /// The instances, in order.
        instances: Vec<u32>,
    },
    /// Withdraw a pack, unless it has started.
    Withdraw {
        /// Its number.
        pack: u32,
    },
    /// End a pack, whether it has started or not.
    Cancel {
        /// Its number.
        pack: u32,
    },
    /// No server that is there takes an instance.
    Unplaced {
        /// The instance.
        instance: u32,
    },
    /// Every instance is done or given up, or nothing more is wanted and every pack has ended.
    Done,
}
