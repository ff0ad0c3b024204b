//! What a replay is made from: the jobs of the federation, from its agent, and what local users ran, from each server.

use pliant_control::job::JobRecord;
use pliant_control::local::LocalJob;
use pliant_control::names::Name;
use pliant_model::Time;
use pliant_policy::nodes::{Picture, Shape};
use pliant_policy::tuning::Tuner;

use super::proto;
use super::{Malformed, bounds, read, write};

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

impl From<&HistoryQuery> for proto::HistoryRequest {
    fn from(query: &HistoryQuery) -> proto::HistoryRequest {
        proto::HistoryRequest {
            since: write::time(query.since),
            after: query.after.as_ref().map(proto::HistoryPlace::from),
            limit: write::number(&(1..=bounds::JOBS_MAX as u32), query.limit),
        }
    }
}

impl TryFrom<proto::HistoryRequest> for HistoryQuery {
    type Error = Malformed;
    fn try_from(message: proto::HistoryRequest) -> Result<HistoryQuery, Malformed> {
        Ok(HistoryQuery {
            since: read::time("since", message.since)?,
            after: read::optional("after", message.after)?,
            limit: limit(message.limit, bounds::JOBS_MAX)?,
        })
    }
}

impl From<&HistoryPlace> for proto::HistoryPlace {
    fn from(place: &HistoryPlace) -> proto::HistoryPlace {
        let HistoryPlace { ended, server, number } = place;
        proto::HistoryPlace { ended: write::time(*ended), server: server.to_string(), number: *number }
    }
}

impl TryFrom<proto::HistoryPlace> for HistoryPlace {
    type Error = Malformed;
    fn try_from(message: proto::HistoryPlace) -> Result<HistoryPlace, Malformed> {
        let (ended, server) = (read::time("ended", message.ended)?, read::name("server", &message.server)?);
        Ok(HistoryPlace { ended, server, number: message.number })
    }
}

impl From<&HistoryPage> for proto::HistoryReply {
    fn from(page: &HistoryPage) -> proto::HistoryReply {
        proto::HistoryReply {
            jobs: write::list(&page.jobs, bounds::QUEUE_MAX),
            next: page.next.as_ref().map(proto::HistoryPlace::from),
        }
    }
}

impl TryFrom<proto::HistoryReply> for HistoryPage {
    type Error = Malformed;
    fn try_from(message: proto::HistoryReply) -> Result<HistoryPage, Malformed> {
        Ok(HistoryPage {
            jobs: read::list("jobs", message.jobs, bounds::QUEUE_MAX, JobRecord::try_from)?,
            next: read::optional("next", message.next)?,
        })
    }
}

impl From<&LocalsQuery> for proto::LocalsRequest {
    fn from(query: &LocalsQuery) -> proto::LocalsRequest {
        proto::LocalsRequest {
            since: write::time(query.since),
            after: query.after.map(proto::LocalPlace::from),
            limit: write::number(&(1..=bounds::LOCALS_MAX as u32), query.limit),
        }
    }
}

impl TryFrom<proto::LocalsRequest> for LocalsQuery {
    type Error = Malformed;
    fn try_from(message: proto::LocalsRequest) -> Result<LocalsQuery, Malformed> {
        Ok(LocalsQuery {
            since: read::time("since", message.since)?,
            after: read::optional("after", message.after)?,
            limit: limit(message.limit, bounds::LOCALS_MAX)?,
        })
    }
}

impl From<LocalPlace> for proto::LocalPlace {
    fn from(place: LocalPlace) -> proto::LocalPlace {
        proto::LocalPlace { ended: write::time(place.ended), number: place.number }
    }
}

impl TryFrom<proto::LocalPlace> for LocalPlace {
    type Error = Malformed;
    fn try_from(message: proto::LocalPlace) -> Result<LocalPlace, Malformed> {
        Ok(LocalPlace { ended: read::time("ended", message.ended)?, number: message.number })
    }
}

impl From<&LocalsPage> for proto::LocalsReply {
    fn from(page: &LocalsPage) -> proto::LocalsReply {
        proto::LocalsReply {
            tuner: page.tuner.to_string(),
            nodes: page.nodes.as_ref().map(proto::NodesPicture::from),
            jobs: write::list(&page.jobs, bounds::QUEUE_MAX),
            next: page.next.map(proto::LocalPlace::from),
        }
    }
}

impl TryFrom<proto::LocalsReply> for LocalsPage {
    type Error = Malformed;
    fn try_from(message: proto::LocalsReply) -> Result<LocalsPage, Malformed> {
        let tuner = message.tuner.parse();
        Ok(LocalsPage {
            tuner: tuner.map_err(|_| Malformed::text("tuner", "the name of a tuner", &message.tuner))?,
            nodes: read::optional("nodes", message.nodes)?,
            jobs: read::list("jobs", message.jobs, bounds::QUEUE_MAX, LocalJob::try_from)?,
            next: read::optional("next", message.next)?,
        })
    }
}

impl From<&LocalJob> for proto::LocalJob {
    fn from(job: &LocalJob) -> proto::LocalJob {
        let LocalJob { shape, walltime, partition, submitted, started, ended } = job;
        proto::LocalJob {
            cores: write::procs(shape.cores),
            nodes: shape.nodes,
            per_node: write::procs(shape.per_node),
            exclusive: shape.exclusive,
            walltime_s: walltime.map(write::scaled_walltime),
            partition: write::text(partition, bounds::TEXT_BYTES_MAX),
            submitted: write::time(*submitted),
            started: write::optional_time(*started),
            ended: write::optional_time(*ended),
        }
    }
}

impl TryFrom<proto::LocalJob> for LocalJob {
    type Error = Malformed;
    fn try_from(message: proto::LocalJob) -> Result<LocalJob, Malformed> {
        let walltime = message.walltime_s.map(|found| read::scaled_walltime("walltime_s", found));
        Ok(LocalJob {
            shape: Shape {
                cores: read::procs("cores", message.cores)?,
                nodes: message.nodes,
                per_node: read::procs("per_node", message.per_node)?,
                exclusive: message.exclusive,
            },
            walltime: walltime.transpose()?,
            partition: read::text("partition", message.partition, bounds::TEXT_BYTES_MAX)?,
            submitted: read::time("submitted", message.submitted)?,
            started: read::optional_time("started", message.started)?,
            ended: read::optional_time("ended", message.ended)?,
        })
    }
}

/// How many are wanted; as many as there may be if that is not said.
fn limit(found: u32, most: usize) -> Result<u32, Malformed> {
    let most = most as u32;
    let said = if found == 0 { most } else { found };
    read::number("limit", "a number of jobs", &(1..=most), said)
}
