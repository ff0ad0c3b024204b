//! What a multi-job is told, what it wants done, and what it says of itself.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::SpanMs;
use pliant_policy::allocation::Strategy;
use serde::{Deserialize, Serialize};

use super::{Prospects, RuntimeSource};
use crate::job::is_false;
use crate::names::Name;
use crate::reason::Cause;

/// The most that an instance may be tried again.
pub const RETRIES_MAX: u8 = 100;

/// What a user wants.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// How many instances, numbered from 0.
    pub instances: u32,
    /// How often one that failed is tried again: at most [`RETRIES_MAX`].
    pub retries: u8,
    /// How they are spread.
    pub strategy: Strategy,
    /// The most instances of a batch.
    pub batch_most: u32,
    /// They are spread once, in the beginning, and stay where they were put as long as their server takes them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub once: bool,
}

/// What happened to the client.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// It begins, or goes on after all that it had noted was told.
    Begin,
    /// These servers offer the service now. A server that is not among them gets nothing more.
    Found {
        /// What they say, as if no batch waited there.
        servers: Vec<(Name, Prospects)>,
        /// The batches that wait there.
        waiting: BTreeSet<u32>,
    },
    /// An earlier client handed this out.
    Recalled {
        /// The batch.
        batch: u32,
        /// To whom.
        server: Name,
        /// What is in it.
        instances: Vec<u32>,
    },
    /// An earlier client spread the rest so ([`Command::Keep`]).
    Kept {
        /// How many instances each server was to get that had not been handed out.
        shares: BTreeMap<Name, u64>,
    },
    /// A server does not take a batch: none of it was begun.
    Refused {
        /// The batch.
        batch: u32,
        /// What stands in the way.
        cause: Cause,
    },
    /// An instance of an open batch has ended.
    Ended {
        /// The batch.
        batch: u32,
        /// The instance.
        instance: u32,
        /// True if it ended well.
        completed: bool,
        /// How long it took.
        took: SpanMs,
        /// In how many units of its service that is; positive.
        scale: f64,
    },
    /// A batch has ended: what it was not heard of has not been run to its end.
    Over {
        /// The batch.
        batch: u32,
        /// What it was not heard of was not begun either.
        unbegun: bool,
    },
    /// Nobody takes an instance ([`Command::Unplaced`]): it failed for good.
    Unplaced {
        /// The instance.
        instance: u32,
    },
    /// What is not done is not wanted any more.
    Cancel,
}

/// What the client is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Look at the servers, soon.
    Look,
    /// Note how the rest is spread, as it is to stay so.
    Keep {
        /// How many instances each server is to get that are not handed out.
        shares: BTreeMap<Name, u64>,
    },
    /// Submit a batch, to that server and no other one.
    Submit {
        /// Its number.
        batch: u32,
        /// The server.
        server: Name,
        /// The instances, in order.
        instances: Vec<u32>,
    },
    /// Withdraw a batch, unless it has started.
    Withdraw {
        /// Its number.
        batch: u32,
    },
    /// End a batch, whether it has started or not.
    Cancel {
        /// Its number.
        batch: u32,
    },
    /// No server that is there takes an instance, and nothing else is left to do. Said again until it is told to have failed
    /// ([`Event::Unplaced`]), since one may come that does.
    Unplaced {
        /// The instance.
        instance: u32,
    },
    /// Every instance is done or given up, or nothing more is wanted and every batch has ended.
    Done,
}

/// How far a multi-job is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// Instances that ended well.
    pub done: u32,
    /// Instances that failed for good, or that nobody takes.
    pub failed: u32,
    /// Instances that will not be run to an end, because they are not wanted any more.
    pub cancelled: u32,
    /// Instances in open batches.
    pub open: u32,
    /// Outcomes after which an instance was tried again.
    pub retried: u32,
    /// Batches that were handed out.
    pub batches: u32,
}

/// What a server gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// The server.
    pub server: Name,
    /// Instances that are to go there, beside those that have.
    pub instances: u64,
    /// How many run there at a time.
    pub places: u32,
    /// How long one is expected to take there.
    pub instance: SpanMs,
    /// From where that is known.
    pub told: RuntimeSource,
    /// When the last of them is expected to end, from now.
    pub makespan: SpanMs,
}
