//! What a replay is made from: the jobs of the federation, from its agent, and what local users ran, from each server.

use pliant_control::job::JobRecord;
use pliant_control::local::LocalJob;
use pliant_control::names::Name;
use pliant_model::Time;
use pliant_policy::nodes::{Picture, Shape};
use pliant_policy::tuning::Tuner;

use super::field::*;
use super::table::message;
use super::{bounds, proto};

/// Which jobs of the federation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryQuery {
    /// Those that ended at this time or later; those that have not ended come with the first page.
    pub since: Time,
    /// Where the page before ended; none for the first.
    pub after: Option<HistoryPlace>,
    /// How many at most, those that have not ended left aside.
    pub limit: u32,
}

/// The place of an ended job among all, the last to end first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryPlace {
    /// Its end.
    pub ended: Time,
    /// The server that accepted it.
    pub server: Name,
    /// The number it gave it.
    pub number: u32,
}

/// Jobs of the federation.
#[derive(Clone, PartialEq, Debug)]
pub struct HistoryPage {
    /// The jobs.
    pub jobs: Vec<JobRecord>,
    /// Where to go on; none if there are no more.
    pub next: Option<HistoryPlace>,
}

/// Which runs of local users' jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocalsQuery {
    /// Those that ended at this time or later; jobs that run or wait come with the first page.
    pub since: Time,
    /// Where the page before ended; none for the first.
    pub after: Option<LocalPlace>,
    /// How many at most, those that have not ended left aside.
    pub limit: u32,
}

/// The place of a run among all, the first to end first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalPlace {
    /// Its end.
    pub ended: Time,
    /// A number of its own.
    pub number: u64,
}

/// What local users ran on a cluster, and how the cluster is planned.
#[derive(Clone, PartialEq, Debug)]
pub struct LocalsPage {
    /// How it sizes moldable requests.
    pub tuner: Tuner,
    /// Its nodes and how its batch system plans, without jobs; none for one of Pliant's own.
    pub nodes: Option<Picture>,
    /// The jobs.
    pub jobs: Vec<LocalJob>,
    /// Where to go on; none if there are no more.
    pub next: Option<LocalPlace>,
}

message! {
    proto::HistoryRequest <=> HistoryQuery {
        since: TIME,
        after: optional(nested()),
        limit: as_many_as(bounds::JOBS_MAX),
    }

    proto::HistoryPlace <=> HistoryPlace {
        ended: TIME,
        server: NAME,
        number,
    }

    proto::HistoryReply <=> HistoryPage {
        jobs: list(nested(), bounds::QUEUE_MAX),
        next: optional(nested()),
    }

    proto::LocalsRequest <=> LocalsQuery {
        since: TIME,
        after: optional(nested()),
        limit: as_many_as(bounds::LOCALS_MAX),
    }

    proto::LocalPlace <=> LocalPlace {
        ended: TIME,
        number,
    }

    proto::LocalsReply <=> LocalsPage {
        tuner: TUNER,
        nodes: optional(nested()),
        jobs: list(nested(), bounds::QUEUE_MAX),
        next: optional(nested()),
    }

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
fn as_many_as(most: usize) -> OrDefault<u32, u32> {
    up_to("a number of jobs", most as u32).or(most as u32)
}
