//! The events and commands of a multi-job, and its progress.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::SpanMs;
use pliant_policy::allocation::Strategy;
use serde::{Deserialize, Serialize};

use super::{InstanceProspects, RuntimeSource};
use crate::job::is_false;
use crate::names::Name;
use crate::reason::Cause;

/// The highest retry limit.
pub const RETRIES_MAX: u8 = 100;

/// The plan of a multi-job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The number of instances, numbered from 0.
    pub instances: u32,
    /// The retry limit of an instance, at most [`RETRIES_MAX`].
    pub retries: u8,
    /// The allocation strategy.
    pub strategy: Strategy,
    /// The most instances in a batch.
    pub batch_most: u32,
    /// Allocate once, at the start: instances stay on their servers as long as these accept them.
    #[serde(default, skip_serializing_if = "is_false")]
    pub once: bool,
    /// The most batches that are open at a time, and with them the most instances that run; none for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_once: Option<u32>,
    /// Only an instance that was lost is run again, not one that failed: as Slurm does it with the tasks of an array.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lost_only: bool,
}

/// An event of a multi-job.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// The client starts, or continues after all journaled events were replayed.
    Begin,
    /// The servers that offer the service now. Other servers get no more instances.
    Found {
        /// Their prospects, without the waiting batches.
        servers: Vec<(Name, InstanceProspects)>,
        /// The batches that wait there.
        waiting: BTreeSet<u32>,
        /// The servers that would take instances and complete none by the deadline.
        late: BTreeSet<Name>,
    },
    /// An earlier client submitted this batch.
    BatchRestored {
        /// The batch.
        batch: u32,
        /// The server.
        server: Name,
        /// The instances.
        instances: Vec<u32>,
    },
    /// An earlier client recorded these shares ([`Command::RecordShares`]).
    SharesRestored {
        /// The instances still to be submitted to each server.
        shares: BTreeMap<Name, u64>,
    },
    /// A server has accepted a batch as a job.
    Accepted {
        /// The batch.
        batch: u32,
    },
    /// A server refuses a batch, which has not started; by [`Cause::Deadline`] also one that it had accepted.
    Refused {
        /// The batch.
        batch: u32,
        /// The cause.
        cause: Cause,
    },
    /// An instance of an open batch has ended.
    InstanceEnded {
        /// The batch.
        batch: u32,
        /// The instance.
        instance: u32,
        /// True if it completed.
        completed: bool,
        /// The runtime.
        took: SpanMs,
        /// The runtime in units of the service; positive.
        scale: f64,
    },
    /// A batch has ended. The first instance without a reported end did not complete, and those behind it did not begin.
    BatchEnded {
        /// The batch.
        batch: u32,
        /// True if that one did not begin either.
        unbegun: bool,
        /// Its server went down, or nothing is known of it any more.
        lost: bool,
    },
    /// No server takes an instance ([`Command::Unplaced`]): it has failed for good.
    Unplaced {
        /// The instance.
        instance: u32,
    },
    /// No server completes a waiting instance by the deadline ([`Command::TooLate`]): none of them runs.
    TooLate,
    /// The user cancels the multi-job.
    Cancel,
}

/// A command of a multi-job to its driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Query the servers soon.
    QueryServers,
    /// Record the shares of servers, because instances stay on their servers.
    RecordShares {
        /// The instances still to be submitted to each server.
        shares: BTreeMap<Name, u64>,
    },
    /// Submit a batch to this server only.
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
    /// Cancel a batch, started or not.
    Cancel {
        /// Its number.
        batch: u32,
    },
    /// No known server takes an instance, and no other work is left. Repeated until [`Event::Unplaced`], since a further
    /// server may take it.
    Unplaced {
        /// The instance.
        instance: u32,
    },
    /// No known server completes a waiting instance by the deadline, and no batch is open. Repeated until [`Event::TooLate`], since a further
    /// server may take them.
    TooLate,
    /// Every instance is done or has failed for good, none of the rest runs because of the deadline, or the multi-job is cancelled and every batch has ended.
    Done,
}

/// The progress of a multi-job.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    /// Completed instances.
    pub done: u32,
    /// Instances that failed for good, or that no server takes.
    pub failed: u32,
    /// Instances that will not run because the multi-job is cancelled.
    pub cancelled: u32,
    /// Instances that never run because no server completes them by the deadline.
    pub not_started: u32,
    /// Instances in open batches.
    pub open: u32,
    /// Outcomes that were followed by a retry.
    pub retried: u32,
    /// Submitted batches.
    pub batches: u32,
}

/// The share of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Share {
    /// The server.
    pub server: Name,
    /// The further instances for the server.
    pub instances: u64,
    /// The number of instances that run at a time.
    pub slots: u32,
    /// The expected runtime of an instance there.
    pub instance: SpanMs,
    /// The source of that expectation.
    pub source: RuntimeSource,
    /// When the last of them is expected to end, from now.
    pub makespan: SpanMs,
}
