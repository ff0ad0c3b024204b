//! Questions of clients about servers and jobs, and the answers of agents.

use pliant_control::agent::{DayErrors, PromiseDay};
use pliant_control::job::{JobRecord, JobState};
use pliant_control::names::{Handle, Name, User};
use pliant_control::server_info::ServerInfo;
use pliant_model::{Procs, Span, Time};
#[cfg(test)]
use proptest::prelude::*;

use super::field::*;
use super::table::message;
use super::{Malformed, bounds, proto};

message! {
    /// A server of the federation, as its agent sees it.
    #[derive(Clone, PartialEq, Debug)]
    proto::ServerStatus <=> pub struct ServerStatus {
        /// Its description.
        info: ServerInfo = required("a server"),
        /// The child of the agent through which it is attached.
        via: Name = NAME,
        /// True if that child is up.
        attached: bool,
        /// Its waiting jobs in the agent's memory.
        queued: u32,
        /// Its running jobs in the agent's memory.
        active: u32,
        /// How far its clock is ahead of the agent's, if it is a child of the agent and that is more than it should be;
        /// below zero: behind.
        clock_ahead_s <=> clock_ahead: Option<Span> = optional(DIFFERENCE),
        /// Its processors that no job uses, neither of the federation nor of a local user, as it last reported; none if it is
        /// down or has not reported.
        free_procs <=> free: Option<Procs> = optional(ANY_PROCS),
        /// The last second of its certificate, as it last reported; none if it is down or has not reported.
        certificate_not_after: Option<Time> = optional(TIME),
        /// True if an operator has drained it, as it last reported; false if it is down.
        drained: bool,
    }

    /// A child of an agent that is an agent.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::AgentStatus <=> pub struct AgentStatus {
        /// Its name.
        name: Name = NAME,
        /// True if it is up.
        attached: bool,
        /// Since when it is up or down.
        since: Time = TIME,
        /// As in [`ServerStatus`].
        clock_ahead_s <=> clock_ahead: Option<Span> = optional(DIFFERENCE),
        /// As in [`ServerStatus`].
        certificate_not_after: Option<Time> = optional(TIME),
    }

    /// The daemons of a federation.
    #[derive(Clone, Default, PartialEq, Debug)]
    proto::ServersReply <=> pub struct Federation {
        /// The servers.
        servers: Vec<ServerStatus> = list(nested(), bounds::SERVERS_MAX),
        /// The agents below the one that was asked.
        agents: Vec<AgentStatus> = list(nested(), bounds::SERVERS_MAX),
        /// The time by the agent's clock.
        now: Option<Time> = optional(TIME),
        /// The last second of the certificate of the agent that was asked.
        certificate_not_after: Option<Time> = optional(TIME),
    }

    /// Which jobs a client asks for.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::JobsRequest <=> pub struct JobsQuery {
        /// The owner; none means the caller, unless `all`.
        owner: Option<User> = unless_empty(USER),
        /// The jobs of all users; for operators.
        all: bool,
        /// Only those of this server.
        server: Option<Name> = unless_empty(NAME),
        /// Only those in one of these states; none means every state.
        states: Vec<JobState> = list(enumeration(), JobState::ALL.len()).exact(),
        /// At most so many: 1 to [`bounds::JOBS_MAX`].
        limit: u32 = up_to("a number of jobs", bounds::JOBS_MAX as u32).or(bounds::JOBS_DEFAULT),
        /// The last job of the page before; none for the first page.
        before: Option<JobCursor> = optional(nested()),
    }

    /// The position of a job in the order of submission. Those of one second are ordered by server and number.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::JobPosition <=> pub struct JobCursor {
        /// Its submission.
        submitted: Time = TIME,
        /// The server that accepted it.
        server: Name = NAME,
        /// The number it gave it.
        number: u32,
    }

    /// Jobs, the last to be submitted first.
    #[derive(Clone, Default, PartialEq, Debug)]
    proto::JobsReply <=> pub struct JobsPage {
        /// The jobs.
        jobs: Vec<JobRecord> = list(nested(), bounds::JOBS_MAX),
        /// The position of the last one, if there are more.
        next: Option<JobCursor> = optional(nested()),
        /// The children of the agent that still report again what it has lost with its journal: jobs of theirs may be missing.
        reporting_again: Vec<Name> = list(NAME, bounds::SERVERS_MAX),
        /// How many children the agent knows, if any of them reports again.
        children: u32,
    }
}

message! {
    /// What a client asks for that knows the jobs up to some change.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::ChangesRequest <=> pub struct ChangesQuery {
        /// The jobs of all users; for operators.
        all: bool,
        /// The position of the last answer; none asks for the present position alone.
        after: Option<ChangePosition> = optional(nested()),
    }

    /// A position among the changes of jobs at an agent.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    proto::ChangePosition <=> pub struct ChangePosition {
        /// The run of the agent: after a restart positions begin again.
        run: u64,
        /// The number of the change.
        number: u64,
    }

    /// Jobs that changed, each as it is now.
    #[derive(Clone, PartialEq, Debug)]
    proto::ChangesReply <=> pub struct ChangesPage {
        /// The jobs.
        jobs: Vec<JobRecord> = list(nested(), bounds::JOBS_MAX),
        /// Where the next question begins.
        position: ChangePosition = required("a position"),
        /// True if there are more changes now.
        more: bool,
        /// True if the agent does not know any more what changed: lists are to be read again.
        forgotten: bool,
    }
}

impl JobCursor {
    /// The position of this job.
    pub fn of(record: &JobRecord) -> JobCursor {
        let Handle { server, number } = record.handle.clone();
        JobCursor { submitted: record.submitted, server, number }
    }
}

impl JobsQuery {
    /// The caller's own jobs in some states, of any server.
    pub fn of_caller(states: Vec<JobState>, limit: u32) -> JobsQuery {
        JobsQuery { owner: None, all: false, server: None, states, limit, before: None }
    }
}

message! {
    /// A job, and how to reach its server.
    #[derive(Clone, PartialEq, Debug)]
    proto::FindJobReply <=> pub struct LocatedJob {
        /// The job.
        job <=> record: JobRecord = required("a job"),
        /// The address of its server; none if the server is not known any more.
        address: Option<String> = unless_empty(ADDRESS),
        /// True if its server is up.
        attached: bool,
    }

    /// The errors of the estimates of a server. Quantiles 5, 25, 50, 75 and 95 %; later than
    /// expected is positive; none if no job has ended.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::ServerAccuracy <=> pub struct Accuracy {
        /// The server.
        server: Name = NAME,
        /// How many jobs it is computed from.
        jobs: u32,
        /// Errors of the start.
        start_error_s <=> start_error: Option<[Span; 5]> = Quantiles,
        /// Errors of the completion.
        completion_error_s <=> completion_error: Option<[Span; 5]> = Quantiles,
        /// The last days, the newest first, as far as they were asked for.
        days: Vec<PromiseDay> = list(nested(), bounds::PROMISE_DAYS_MAX as usize),
    }
}

message! {
    proto::PromiseDay <=> PromiseDay {
        day_s <=> day: TIME,
        jobs,
        start: required("errors of starts"),
        completion: required("errors of completions"),
    }

    proto::DayErrors <=> DayErrors {
        median_s <=> median: DIFFERENCE,
        absolute_median_s <=> absolute_median: DIFFERENCE,
        absolute_p90_s <=> absolute_p90: DIFFERENCE,
        kept,
    }
}

message! {
    /// What is asked about the accuracy of estimates.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    proto::AccuracyRequest <=> pub struct AccuracyQuery {
        /// How many of the last jobs of each server.
        last: u32 = up_to("a number of jobs", bounds::ACCURACY_JOBS_MAX).or(bounds::ACCURACY_JOBS_DEFAULT),
        /// How many of the last days.
        days: u32 = number("a number of days", 0..=bounds::PROMISE_DAYS_MAX),
    }
}

/// Five quantiles of differences of instants, or none.
#[derive(Clone)]
struct Quantiles;

impl FieldType for Quantiles {
    type Value = Option<[Span; 5]>;
    type Wire = Vec<i64>;
    fn encode(&self, value: &Option<[Span; 5]>) -> Vec<i64> {
        value.iter().flatten().map(|span| DIFFERENCE.encode(span)).collect()
    }
    fn decode(&self, field: &str, found: Vec<i64>) -> Result<Option<[Span; 5]>, Malformed> {
        if found.is_empty() {
            return Ok(None);
        }
        let spans = list(DIFFERENCE, 5).decode(field, found)?;
        let wrong = |short: Vec<Span>| Malformed::new(field, "5 quantiles or none", short.len());
        spans.try_into().map(Some).map_err(wrong)
    }
    #[cfg(test)]
    fn strategy(&self) -> BoxedStrategy<Option<[Span; 5]>> {
        proptest::option::of([(); 5].map(|()| DIFFERENCE.strategy())).boxed()
    }
}

/// The answer to an [`AccuracyQuery`].
pub fn accuracy_reply(servers: &[Accuracy]) -> proto::AccuracyReply {
    proto::AccuracyReply { servers: servers.iter().take(bounds::SERVERS_MAX).map(Into::into).collect() }
}

/// What it says.
///
/// # Errors
///
/// [`Malformed`], with a path from [`proto::AccuracyReply`].
pub fn accuracies(reply: proto::AccuracyReply) -> Result<Vec<Accuracy>, Malformed> {
    list(nested(), bounds::SERVERS_MAX).decode("servers", reply.servers)
}
