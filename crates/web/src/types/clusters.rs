//! Clusters, daemons, and how well promises were kept.

use pliant_control::agent::{DayErrors, PromiseDay};
use pliant_model::Time;
use pliant_wire::{Accuracy, AgentStatus, Federation, JobMove, ServerStatus};
use serde::Serialize;
use utoipa::ToSchema;

use super::EstimateView;

/// How soon the end of a certificate is a warning: two weeks.
pub(crate) const CERTIFICATE_WARNING_S: i64 = 14 * 86_400;

/// The warning about a certificate of a daemon with that last second, if it has ended or ends soon.
pub(crate) fn certificate_warning(of: &str, not_after_s: Option<i64>, at_s: i64) -> Option<String> {
    match not_after_s?.saturating_sub(at_s) {
        left if left >= CERTIFICATE_WARNING_S => None,
        left if left <= 0 => Some(format!("the certificate of {of} has ended")),
        _ => Some(format!("the certificate of {of} ends within two weeks")),
    }
}

/// A cluster with its server.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct ClusterView {
    /// The name of its server.
    pub(crate) server: String,
    /// `up`, `drained` or `down`.
    pub(crate) state: &'static str,
    /// The number of its processors.
    pub(crate) procs: u32,
    /// The processors that no job uses; none if that is not known.
    pub(crate) free_procs: Option<u32>,
    /// The speed of its processors.
    pub(crate) speed: f64,
    /// Its batch policy.
    pub(crate) policy: String,
    /// Waiting jobs of the federation.
    pub(crate) queued: u32,
    /// Running jobs of the federation.
    pub(crate) active: u32,
    /// The child of the agent through which it is attached.
    pub(crate) via: String,
    /// How far its clock is ahead of the agent's, if that is more than it should be.
    pub(crate) clock_ahead_s: Option<i64>,
    /// The last second of its certificate.
    pub(crate) certificate_not_after_s: Option<i64>,
}

impl From<&ServerStatus> for ClusterView {
    fn from(status: &ServerStatus) -> ClusterView {
        let info = &status.info;
        ClusterView {
            server: info.name.to_string(),
            state: match (status.attached, status.drained) {
                (true, false) => "up",
                (true, true) => "drained",
                (false, _) => "down",
            },
            procs: info.procs.0,
            free_procs: status.free.map(|free| free.0),
            speed: info.speed.get(),
            policy: info.policy.clone(),
            queued: status.queued,
            active: status.active,
            via: status.via.to_string(),
            clock_ahead_s: status.clock_ahead.map(|ahead| ahead.0),
            certificate_not_after_s: status.certificate_not_after.map(|end| end.0),
        }
    }
}

/// An agent below the one that answers.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct AgentView {
    /// Its name.
    name: String,
    /// True if it is up.
    attached: bool,
    /// Since when it is up or down.
    since_s: i64,
    /// How far its clock is ahead, if that is more than it should be.
    clock_ahead_s: Option<i64>,
    /// The last second of its certificate.
    certificate_not_after_s: Option<i64>,
}

impl AgentView {
    /// What is not as it should be at that time, if something is.
    pub(crate) fn warning(&self, at_s: i64) -> Option<String> {
        let name = &self.name;
        if !self.attached {
            return Some(format!("agent {name} is down"));
        }
        if let Some(ahead) = self.clock_ahead_s {
            return Some(format!("the clock of agent {name} differs from the agent's by {ahead} s"));
        }
        certificate_warning(&format!("agent {name}"), self.certificate_not_after_s, at_s)
    }
}

impl From<&AgentStatus> for AgentView {
    fn from(status: &AgentStatus) -> AgentView {
        AgentView {
            name: status.name.to_string(),
            attached: status.attached,
            since_s: status.since.0,
            clock_ahead_s: status.clock_ahead.map(|ahead| ahead.0),
            certificate_not_after_s: status.certificate_not_after.map(|end| end.0),
        }
    }
}

/// The clusters of the federation.
#[derive(Clone, PartialEq, Debug, Default, Serialize, ToSchema)]
pub(crate) struct ClustersView {
    /// The clusters, by name.
    pub(crate) clusters: Vec<ClusterView>,
    /// The agents below the one that answers.
    pub(crate) agents: Vec<AgentView>,
    /// The last second of the certificate of the agent that answers.
    pub(crate) certificate_not_after_s: Option<i64>,
}

impl From<&Federation> for ClustersView {
    fn from(federation: &Federation) -> ClustersView {
        let mut clusters: Vec<ClusterView> = federation.servers.iter().map(Into::into).collect();
        clusters.sort_by(|one, other| one.server.cmp(&other.server));
        ClustersView {
            clusters,
            agents: federation.agents.iter().map(Into::into).collect(),
            certificate_not_after_s: federation.certificate_not_after.map(|end| end.0),
        }
    }
}

/// Whether the federation answers, and what an operator should look at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct HealthView {
    /// True if the last question to the agent was answered.
    pub(crate) reachable: bool,
    /// Why not, if it was not.
    pub(crate) problem: Option<String>,
    /// When the agent last answered.
    pub(crate) answered_s: Option<i64>,
    /// What is not as it should be: servers that are down, clocks, certificates that end soon, jobs that are not complete.
    pub(crate) warnings: Vec<String>,
}

impl HealthView {
    /// True if only the time of the last answer differs.
    pub(crate) fn says_the_same(&self, other: &HealthView) -> bool {
        let HealthView { reachable, problem, answered_s: _, warnings } = self;
        (reachable, problem, warnings) == (&other.reachable, &other.problem, &other.warnings)
    }
}

/// How well promises were kept by a server.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct AccuracyView {
    /// The server.
    pub(crate) server: String,
    /// How many ended jobs this is computed from.
    pub(crate) jobs: usize,
    /// Errors of promised starts; none if no job has ended.
    pub(crate) start: Option<ErrorsView>,
    /// Errors of promised completions; none if no job has ended.
    pub(crate) completion: Option<ErrorsView>,
}

/// Quantiles of errors; below zero is earlier than promised.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct ErrorsView {
    /// The quantile of 5 %.
    p5_s: i64,
    /// The median.
    p50_s: i64,
    /// The quantile of 95 %.
    p95_s: i64,
}

impl ErrorsView {
    /// The quantiles of these errors; none if there are none.
    pub(crate) fn of(mut errors: Vec<i64>) -> Option<ErrorsView> {
        errors.sort_unstable();
        let errors: Vec<f64> = errors.into_iter().map(|error| error as f64).collect();
        let quantile = |share| pliant_report::quantile(&errors, share).map(|seconds| seconds.round() as i64);
        Some(ErrorsView { p5_s: quantile(0.05)?, p50_s: quantile(0.5)?, p95_s: quantile(0.95)? })
    }
}

impl From<&Accuracy> for AccuracyView {
    fn from(accuracy: &Accuracy) -> AccuracyView {
        let errors = |quantiles: Option<[pliant_model::Span; 5]>| {
            quantiles.map(|[p5, _, p50, _, p95]| ErrorsView { p5_s: p5.0, p50_s: p50.0, p95_s: p95.0 })
        };
        AccuracyView {
            server: accuracy.server.to_string(),
            jobs: accuracy.jobs as usize,
            start: errors(accuracy.start_error),
            completion: errors(accuracy.completion_error),
        }
    }
}

/// How well promises were kept, by server.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct PromisesView {
    /// All users' jobs: the last thousand that ended at each server, as the agent computes it.
    pub(crate) federation: Vec<AccuracyView>,
    /// The jobs that you may see that ended in the last 24 hours.
    pub(crate) day: Vec<AccuracyView>,
    /// The jobs that you may see that ended in the last four weeks.
    pub(crate) four_weeks: Vec<AccuracyView>,
    /// All users' jobs by server and day, the last four weeks.
    pub(crate) days: Vec<ServerDaysView>,
}

/// How promises of a server were kept, by day.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct ServerDaysView {
    /// The server.
    server: String,
    /// The days, the newest first; those on which no job ended are left out.
    days: Vec<PromiseDayView>,
}

/// How promises of a server were kept on a day.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct PromiseDayView {
    /// The beginning of the day (UTC).
    day_s: i64,
    /// The number of jobs that ran and ended on that day.
    jobs: u32,
    /// Errors of starts.
    start: DayErrorsView,
    /// Errors of completions.
    completion: DayErrorsView,
}

/// Errors of promises on a day, exact to an eighth; below zero is earlier than promised.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct DayErrorsView {
    /// The median.
    median_s: i64,
    /// The median of the absolute values.
    absolute_median_s: i64,
    /// The quantile of 90 % of the absolute values.
    absolute_p90_s: i64,
    /// How many jobs were late by at most a tenth of the promised response time, or by a minute.
    kept: u32,
}

impl From<&DayErrors> for DayErrorsView {
    fn from(errors: &DayErrors) -> DayErrorsView {
        DayErrorsView {
            median_s: errors.median.0,
            absolute_median_s: errors.absolute_median.0,
            absolute_p90_s: errors.absolute_p90.0,
            kept: errors.kept,
        }
    }
}

impl From<&Accuracy> for ServerDaysView {
    fn from(accuracy: &Accuracy) -> ServerDaysView {
        let day = |day: &PromiseDay| PromiseDayView {
            day_s: day.day.0,
            jobs: day.jobs,
            start: (&day.start).into(),
            completion: (&day.completion).into(),
        };
        ServerDaysView { server: accuracy.server.to_string(), days: accuracy.days.iter().map(day).collect() }
    }
}

/// A move of a waiting job to another server.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct MoveView {
    /// The job ID.
    job_id: String,
    /// The server where it waited.
    from: String,
    /// The server where it waits from then on.
    to: String,
    /// When it was moved.
    at_s: i64,
    /// One of `moved-earlier`, `resubmitted`, `first-start`, `drained`.
    reason: &'static str,
    /// The completion that was expected where it waited; none if it was not planned there.
    before_s: Option<i64>,
    /// What the new server promised.
    expected: EstimateView,
    /// How much earlier it is to complete; below zero: later. None if it was not planned where it waited.
    gain_s: Option<i64>,
}

impl MoveView {
    /// A move of that job.
    pub(crate) fn of(job: &pliant_control::names::Handle, hop: &pliant_control::job::Hop) -> MoveView {
        let before = Some(hop.before).filter(|before| *before != Time::MAX);
        MoveView {
            job_id: job.to_string(),
            from: hop.from.to_string(),
            to: hop.to.to_string(),
            at_s: hop.at.0,
            reason: pliant_model::Reason::Moved(hop.reason).word(),
            before_s: before.map(|before| before.0),
            expected: (&hop.expected).into(),
            gain_s: before.map(|before| (before - hop.expected.completion()).0),
        }
    }
}

impl From<&JobMove> for MoveView {
    fn from(one: &JobMove) -> MoveView {
        MoveView::of(&one.job, &one.hop)
    }
}

/// Moves of jobs.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct MovesView {
    /// The moves, the newest first.
    pub(crate) moves: Vec<MoveView>,
}

/// Who uses the page.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct SessionView {
    /// The user in the certificate.
    pub(crate) user: String,
    /// True for operators, who see the jobs of all users.
    pub(crate) operator: bool,
    /// The last second in which the certificate is valid.
    pub(crate) certificate_not_after_s: i64,
    /// The version of `pliant web`.
    pub(crate) version: &'static str,
    /// True if replays of the history can be started here.
    pub(crate) replays: bool,
    /// True if tokens can be created here.
    pub(crate) tokens: bool,
}
