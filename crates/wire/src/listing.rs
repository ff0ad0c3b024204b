//! What clients ask an agent about servers and jobs, and what it answers.

use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::{Name, User};
use pliant_control::server_info::ServerInfo;
use pliant_model::{Span, Time};

use super::job::state;
use super::proto;
use super::{Malformed, bounds, read, write};

/// A server of the federation, as its agent sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct ServerStatus {
    /// What it says of itself.
    pub info: ServerInfo,
    /// The child of the agent that it is or hangs on.
    pub via: Name,
    /// True if that child is there.
    pub attached: bool,
    /// Its waiting jobs in the agent's memory.
    pub queued: u32,
    /// Its running jobs in the agent's memory.
    pub active: u32,
    /// How far its clock is ahead of the agent's, if it is a child of the agent and that is more than it should be;
    /// below zero: behind.
    pub clock_ahead: Option<Span>,
}

/// A child of an agent that is an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentStatus {
    /// Its name.
    pub name: Name,
    /// True if it is there.
    pub attached: bool,
    /// Since when it is, or is not.
    pub since: Time,
    /// As in [`ServerStatus`].
    pub clock_ahead: Option<Span>,
}

/// Everybody in a federation.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Federation {
    /// The servers.
    pub servers: Vec<ServerStatus>,
    /// The agents below the one that was asked.
    pub agents: Vec<AgentStatus>,
    /// The time by its clock, if it says.
    pub now: Option<Time>,
}

/// Which jobs a client asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobsQuery {
    /// Whose; none means the caller's own, unless `all`.
    pub owner: Option<User>,
    /// Everybody's; for operators.
    pub all: bool,
    /// Only those of this server.
    pub server: Option<Name>,
    /// Only those in one of these states; none means every state.
    pub states: Vec<JobState>,
    /// At most so many: 1 to [`bounds::JOBS_MAX`].
    pub limit: u32,
    /// Only those that have not ended, or ended after this.
    pub ended_after: Option<Time>,
}

/// Jobs, newest first.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct JobsPage {
    /// The jobs.
    pub jobs: Vec<JobRecord>,
    /// True if there are more.
    pub more: bool,
}

/// A job, and how to reach its server.
#[derive(Clone, PartialEq, Debug)]
pub struct LocatedJob {
    /// The job.
    pub record: JobRecord,
    /// Where its server is reached; none if the server is not known any more.
    pub address: Option<String>,
    /// True if its server is there.
    pub attached: bool,
}

/// How far the estimates of a server were from what happened. Quantiles 5, 25, 50, 75 and 95 %; later than
/// expected is positive; none if no job has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accuracy {
    /// The server.
    pub server: Name,
    /// How many jobs it is computed from.
    pub jobs: u32,
    /// Errors of the start.
    pub start_error: Option<[Span; 5]>,
    /// Errors of the completion.
    pub completion_error: Option<[Span; 5]>,
}

impl From<&Federation> for proto::ServersReply {
    fn from(federation: &Federation) -> proto::ServersReply {
        proto::ServersReply {
            servers: write::list(&federation.servers, bounds::SERVERS_MAX),
            agents: write::list(&federation.agents, bounds::SERVERS_MAX),
            now: write::optional_time(federation.now),
        }
    }
}

impl TryFrom<proto::ServersReply> for Federation {
    type Error = Malformed;
    fn try_from(message: proto::ServersReply) -> Result<Federation, Malformed> {
        Ok(Federation {
            servers: read::list("servers", message.servers, bounds::SERVERS_MAX, ServerStatus::try_from)?,
            agents: read::list("agents", message.agents, bounds::SERVERS_MAX, AgentStatus::try_from)?,
            now: read::optional_time("now", message.now)?,
        })
    }
}

impl From<&ServerStatus> for proto::ServerStatus {
    fn from(status: &ServerStatus) -> proto::ServerStatus {
        let ServerStatus { info, via, attached, queued, active, clock_ahead } = status;
        proto::ServerStatus {
            info: Some(info.into()),
            via: via.to_string(),
            attached: *attached,
            queued: *queued,
            active: *active,
            clock_ahead_s: write::optional_span(*clock_ahead),
        }
    }
}

impl TryFrom<proto::ServerStatus> for ServerStatus {
    type Error = Malformed;
    fn try_from(message: proto::ServerStatus) -> Result<ServerStatus, Malformed> {
        Ok(ServerStatus {
            info: read::required("info", "a server", message.info)?,
            via: read::name("via", &message.via)?,
            attached: message.attached,
            queued: message.queued,
            active: message.active,
            clock_ahead: read::optional_span("clock_ahead_s", message.clock_ahead_s)?,
        })
    }
}

impl From<&AgentStatus> for proto::AgentStatus {
    fn from(status: &AgentStatus) -> proto::AgentStatus {
        proto::AgentStatus {
            name: status.name.to_string(),
            attached: status.attached,
            since: write::time(status.since),
            clock_ahead_s: write::optional_span(status.clock_ahead),
        }
    }
}

impl TryFrom<proto::AgentStatus> for AgentStatus {
    type Error = Malformed;
    fn try_from(message: proto::AgentStatus) -> Result<AgentStatus, Malformed> {
        Ok(AgentStatus {
            name: read::name("name", &message.name)?,
            attached: message.attached,
            since: read::time("since", message.since)?,
            clock_ahead: read::optional_span("clock_ahead_s", message.clock_ahead_s)?,
        })
    }
}

impl From<&JobsQuery> for proto::JobsRequest {
    fn from(query: &JobsQuery) -> proto::JobsRequest {
        proto::JobsRequest {
            owner: query.owner.as_ref().map(User::to_string).unwrap_or_default(),
            all: query.all,
            server: write::optional_name(query.server.as_ref()),
            states: query.states.iter().map(|state| proto::JobState::from(*state).into()).collect(),
            limit: write::number(&(1..=bounds::JOBS_MAX as u32), query.limit),
            ended_after: write::optional_time(query.ended_after),
        }
    }
}

impl TryFrom<proto::JobsRequest> for JobsQuery {
    type Error = Malformed;
    fn try_from(message: proto::JobsRequest) -> Result<JobsQuery, Malformed> {
        let states = read::list("states", message.states, JobState::ALL.len(), |number| state("", number))?;
        let most = 1..=bounds::JOBS_MAX as u32;
        Ok(JobsQuery {
            owner: read::unless_empty(message.owner, |owner| read::user("owner", &owner))?,
            all: message.all,
            server: read::optional_name("server", &message.server)?,
            states,
            limit: read::or_else(bounds::JOBS_DEFAULT, "limit", "a number of jobs", &most, message.limit)?,
            ended_after: read::optional_time("ended_after", message.ended_after)?,
        })
    }
}

impl From<&JobsPage> for proto::JobsReply {
    fn from(page: &JobsPage) -> proto::JobsReply {
        proto::JobsReply {
            jobs: write::list(&page.jobs, bounds::JOBS_MAX),
            more: page.more || page.jobs.len() > bounds::JOBS_MAX,
        }
    }
}

impl TryFrom<proto::JobsReply> for JobsPage {
    type Error = Malformed;
    fn try_from(message: proto::JobsReply) -> Result<JobsPage, Malformed> {
        let jobs = read::list("jobs", message.jobs, bounds::JOBS_MAX, JobRecord::try_from)?;
        Ok(JobsPage { jobs, more: message.more })
    }
}

impl From<&LocatedJob> for proto::FindJobReply {
    fn from(located: &LocatedJob) -> proto::FindJobReply {
        proto::FindJobReply {
            job: Some((&located.record).into()),
            address: located.address.clone().unwrap_or_default(),
            attached: located.attached,
        }
    }
}

impl TryFrom<proto::FindJobReply> for LocatedJob {
    type Error = Malformed;
    fn try_from(message: proto::FindJobReply) -> Result<LocatedJob, Malformed> {
        Ok(LocatedJob {
            record: read::required("job", "a job", message.job)?,
            address: read::unless_empty(message.address, |address| read::address("address", address))?,
            attached: message.attached,
        })
    }
}

/// How many of the last jobs of each server accuracy is asked for.
///
/// # Errors
///
/// [`Malformed`] if that is more than [`bounds::ACCURACY_JOBS_MAX`].
pub fn accuracy_query(request: proto::AccuracyRequest) -> Result<u32, Malformed> {
    let most = 1..=bounds::ACCURACY_JOBS_MAX;
    read::or_else(bounds::ACCURACY_JOBS_DEFAULT, "last", "a number of jobs", &most, request.last)
}

/// The answer to it.
pub fn accuracy_reply(servers: &[Accuracy]) -> proto::AccuracyReply {
    proto::AccuracyReply { servers: write::list(servers, bounds::SERVERS_MAX) }
}

/// What it says.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::AccuracyReply`].
pub fn accuracies(reply: proto::AccuracyReply) -> Result<Vec<Accuracy>, Malformed> {
    read::list("servers", reply.servers, bounds::SERVERS_MAX, Accuracy::try_from)
}

impl From<&Accuracy> for proto::ServerAccuracy {
    fn from(accuracy: &Accuracy) -> proto::ServerAccuracy {
        let written = |quantiles: &Option<[Span; 5]>| {
            let seconds = |span: &Span| write::number(&bounds::TIME_S, span.0);
            quantiles.iter().flatten().map(seconds).collect()
        };
        proto::ServerAccuracy {
            server: accuracy.server.to_string(),
            jobs: accuracy.jobs,
            start_error_s: written(&accuracy.start_error),
            completion_error_s: written(&accuracy.completion_error),
        }
    }
}

impl TryFrom<proto::ServerAccuracy> for Accuracy {
    type Error = Malformed;
    fn try_from(message: proto::ServerAccuracy) -> Result<Accuracy, Malformed> {
        Ok(Accuracy {
            server: read::name("server", &message.server)?,
            jobs: message.jobs,
            start_error: quantiles("start_error_s", message.start_error_s)?,
            completion_error: quantiles("completion_error_s", message.completion_error_s)?,
        })
    }
}

/// Five quantiles or none.
fn quantiles(field: &str, found: Vec<i64>) -> Result<Option<[Span; 5]>, Malformed> {
    if found.is_empty() {
        return Ok(None);
    }
    let error = |found| read::number("", "seconds", &bounds::TIME_S, found).map(Span);
    let spans = read::list(field, found, 5, error)?;
    let wrong = |short: Vec<Span>| Malformed::new(field, "5 quantiles or none", short.len());
    spans.try_into().map(Some).map_err(wrong)
}
