//! What a replay is made from: the jobs of the federation, from its agent, and what local users ran, from each server.

use pliant_control::job::JobRecord;
use pliant_control::local::LocalJob;
use pliant_control::names::Name;
use pliant_model::Time;
use pliant_policy::nodes::{ClusterSnapshot, Shape};
use pliant_policy::tuning::Tuner;

use super::field::*;
use super::table::message;
use super::{bounds, proto};

message! {
    /// Which jobs of the federation.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::HistoryRequest <=> pub struct HistoryQuery {
        /// Those that ended at this time or later; those that have not ended come with the first page.
        since: Time = TIME,
        /// Where the page before ended; none for the first.
        after: Option<HistoryPlace> = optional(nested()),
        /// How many at most, those that have not ended left aside.
        limit: u32 = as_many_as(bounds::JOBS_MAX),
    }

    /// The place of an ended job among all, the last to end first.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::HistoryPlace <=> pub struct HistoryPlace {
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
        /// Where to go on; none if there are no more.
        next: Option<HistoryPlace> = optional(nested()),
    }

    /// Which runs of local users' jobs.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::LocalsRequest <=> pub struct LocalsQuery {
        /// Those that ended at this time or later; jobs that run or wait come with the first page.
        since: Time = TIME,
        /// Where the page before ended; none for the first.
        after: Option<LocalPlace> = optional(nested()),
        /// How many at most, those that have not ended left aside.
        limit: u32 = as_many_as(bounds::LOCALS_MAX),
    }

    /// The place of a run among all, the first to end first.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    proto::LocalPlace <=> pub struct LocalPlace {
        /// Its end.
        ended: Time = TIME,
        /// A number of its own.
        number: u64,
    }

    /// What local users ran on a cluster, and how the cluster is planned.
    #[derive(Clone, PartialEq, Debug)]
    proto::LocalsReply <=> pub struct LocalsPage {
        /// How it sizes moldable requests.
        tuner: Tuner = TUNER,
        /// Its nodes and how its batch system plans, without jobs; none for one of Pliant's own.
        nodes: Option<ClusterSnapshot> = optional(nested()),
        /// The jobs.
        jobs: Vec<LocalJob> = list(nested(), bounds::QUEUE_MAX),
        /// Where to go on; none if there are no more.
        next: Option<LocalPlace> = optional(nested()),
    }
}

message! {
    proto::LocalJob <=> LocalJob {
        shape: Shape { cores: PROCS, nodes: optional(as_is()), per_node: PROCS, exclusive },
        walltime_s <=> walltime: optional(SCALED_WALLTIME),
        partition: TEXT,
        submitted: TIME,
        started: optional(TIME),
        ended: optional(TIME),
    }
}

/// How clusters size moldable requests.
pub(super) const TUNER: Named<Tuner> = named("the name of a tuner", Tuner::ALL);

/// How many jobs are wanted; as many as there may be if that is absent.
fn as_many_as(most: usize) -> Number<u32, u32> {
    up_to("a number of jobs", most as u32).or(most as u32)
}
