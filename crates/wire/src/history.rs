//! The history for replays: jobs of the federation from an agent, jobs of local users from servers.

use pliant_control::job::JobRecord;
use pliant_control::local::LocalJob;
use pliant_control::names::Name;
use pliant_model::Time;
use pliant_policy::nodes::{ClusterSnapshot, Needs, Shape};
use pliant_policy::tuning::Tuner;

use super::field::*;
use super::table::message;
use super::{bounds, proto};

message! {
    /// A query for jobs of the federation.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::HistoryRequest <=> pub struct HistoryQuery {
        /// Those that ended at this time or later; those that have not ended come with the first page.
        since: Time = TIME,
        /// The end of the page before; none for the first.
        after: Option<HistoryCursor> = optional(nested()),
        /// How many at most, those that have not ended left aside.
        limit: u32 = as_many_as(bounds::JOBS_MAX),
    }

    /// The position of an ended job, the last to end first.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::HistoryPosition <=> pub struct HistoryCursor {
        /// Its end.
        ended: Time = TIME,
        /// The server that accepted it.
        server: Name = NAME,
        /// The number it gave it.
        number: u32,
    }

    /// Jobs of the federation.
    #[derive(Clone, PartialEq, Debug)]
    proto::HistoryReply <=> pub struct HistoryPage {
        /// The jobs.
        jobs: Vec<JobRecord> = list(nested(), bounds::QUEUE_MAX),
        /// The start of the next page, if there is one.
        next: Option<HistoryCursor> = optional(nested()),
    }

    /// A query for jobs of local users.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::LocalsRequest <=> pub struct LocalJobsQuery {
        /// Those that ended at this time or later; jobs that run or wait come with the first page.
        since: Time = TIME,
        /// The end of the page before; none for the first.
        after: Option<LocalJobCursor> = optional(nested()),
        /// How many at most, those that have not ended left aside.
        limit: u32 = as_many_as(bounds::LOCALS_MAX),
    }

    /// The position of a job, the first to end first.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    proto::LocalPosition <=> pub struct LocalJobCursor {
        /// Its end.
        ended: Time = TIME,
        /// A number of its own.
        number: u64,
    }

    /// The jobs of local users on a cluster, with the description of the cluster.
    #[derive(Clone, PartialEq, Debug)]
    proto::LocalsReply <=> pub struct LocalJobsPage {
        /// Its tuner.
        tuner: Tuner = TUNER,
        /// Its nodes and the rules of its batch system, without jobs; none for the embedded one.
        nodes: Option<ClusterSnapshot> = optional(nested()),
        /// The jobs.
        jobs: Vec<LocalJob> = list(nested(), bounds::QUEUE_MAX),
        /// The start of the next page, if there is one.
        next: Option<LocalJobCursor> = optional(nested()),
    }
}

message! {
    proto::LocalJob <=> LocalJob {
        shape: Shape { cores: PROCS, nodes: optional(as_is()), per_node: PROCS, exclusive, needs = Needs::NONE },
        walltime_s <=> walltime: optional(SCALED_WALLTIME),
        partition: TEXT,
        submitted: TIME,
        started: optional(TIME),
        ended: optional(TIME),
    }
}

/// The tuner of a cluster.
pub(super) const TUNER: NamedValue<Tuner> = named("the name of a tuner", Tuner::ALL);

/// A number of jobs; the largest if it is absent.
fn as_many_as(most: usize) -> Number<u32, u32> {
    up_to("a number of jobs", most as u32).or(most as u32)
}
