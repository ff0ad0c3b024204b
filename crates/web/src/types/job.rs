//! Jobs in lists.

use pliant_control::job::{Exit, JobRecord, JobState};
use pliant_model::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{EstimateView, SweepId};

/// The state of a job, named as in PSI/J.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum StateView {
    /// Accepted by its server, not yet in a queue.
    New,
    /// Waits in the queue.
    Queued,
    /// Runs.
    Active,
    /// Ended with exit code 0.
    Completed,
    /// Ended in any other way.
    Failed,
    /// Cancelled by its owner or an operator.
    Canceled,
}

impl StateView {
    /// Every state, in the order in which a job goes through them.
    pub(crate) const ALL: [StateView; 6] =
        [Self::New, Self::Queued, Self::Active, Self::Completed, Self::Failed, Self::Canceled];

    /// True if the state is final.
    pub(crate) fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }

    /// The name in links and lists.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Queued => "QUEUED",
            Self::Active => "ACTIVE",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Canceled => "CANCELED",
        }
    }
}

impl From<JobState> for StateView {
    fn from(state: JobState) -> StateView {
        match state {
            JobState::New => Self::New,
            JobState::Queued => Self::Queued,
            JobState::Active => Self::Active,
            JobState::Completed => Self::Completed,
            JobState::Failed => Self::Failed,
            JobState::Canceled => Self::Canceled,
        }
    }
}

/// How a job ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ExitView {
    /// One of `code`, `signal`, `over-walltime`, `over-limit`, `cancelled`, `not-started`, `lost`.
    how: &'static str,
    /// The exit code, if it ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i32>,
    /// The number of the signal, if one ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    /// The same for people.
    text: String,
}

impl From<&Exit> for ExitView {
    fn from(exit: &Exit) -> ExitView {
        let how = match exit {
            Exit::Code(_) => "code",
            Exit::Signal(_) => "signal",
            Exit::OverWalltime => "over-walltime",
            Exit::OverLimit(_) => "over-limit",
            Exit::Cancelled => "cancelled",
            Exit::NotStarted(_) => "not-started",
            Exit::Lost(_) => "lost",
        };
        let code = if let Exit::Code(code) = exit { Some(*code) } else { None };
        let signal = if let Exit::Signal(signal) = exit { Some(*signal) } else { None };
        ExitView { how, code, signal, text: exit.to_string() }
    }
}

/// A job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct JobView {
    /// The job ID.
    #[schema(example = "lyon.17")]
    pub(crate) job_id: String,
    /// The service, or the name of the script.
    pub(crate) name: String,
    /// The user who submitted it.
    pub(crate) owner: String,
    /// The server that has it.
    pub(crate) server: String,
    /// Its state.
    pub(crate) state: StateView,
    /// The number of processors that it runs or ran on.
    pub(crate) procs: u32,
    /// The walltime on these processors.
    pub(crate) walltime_s: i64,
    /// When it was accepted.
    pub(crate) submitted_s: i64,
    /// When it started.
    pub(crate) started_s: Option<i64>,
    /// When it ended.
    pub(crate) ended_s: Option<i64>,
    /// What its server promised when it accepted the job.
    pub(crate) expected: EstimateView,
    /// The start minus the promised start; below zero if it was earlier.
    pub(crate) start_error_s: Option<i64>,
    /// The end minus the promised completion; below zero if it was earlier.
    pub(crate) completion_error_s: Option<i64>,
    /// How it ended.
    pub(crate) exit: Option<ExitView>,
    /// How often it was moved to another server.
    pub(crate) moves: usize,
    /// How often it was queued again after a node failed under it.
    pub(crate) requeues: u32,
    /// What it has in common with the other jobs of its sweep, if it is of one.
    #[serde(skip)]
    pub(crate) sweep: SweepId,
}

impl JobView {
    /// When it started, or is to start by what was promised.
    pub(crate) fn start(&self) -> i64 {
        self.started_s.unwrap_or(self.expected.start_s)
    }

    /// When it ended, or will have at the latest: by its walltime once it runs, before by what was promised.
    pub(crate) fn end(&self) -> i64 {
        let running = || self.started_s.map(|started| started.saturating_add(self.walltime_s));
        self.ended_s.or_else(running).unwrap_or(self.expected.completion_s)
    }
}

impl From<&JobRecord> for JobView {
    fn from(record: &JobRecord) -> JobView {
        let seconds = |time: Time| time.0;
        JobView {
            job_id: record.handle.to_string(),
            name: record.name.clone(),
            owner: record.owner.to_string(),
            server: record.server().to_string(),
            state: record.state.into(),
            procs: record.procs.0,
            walltime_s: record.walltime.0,
            submitted_s: record.submitted.0,
            started_s: record.started.map(seconds),
            ended_s: record.ended.map(seconds),
            expected: (&record.expected).into(),
            start_error_s: record.start_error().map(|error| error.0),
            completion_error_s: record.completion_error().map(|error| error.0),
            exit: record.exit.as_ref().map(Into::into),
            moves: record.hops.len(),
            requeues: record.requeues,
            sweep: SweepId::of(record.key),
        }
    }
}

/// A page of jobs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct JobsView {
    /// The jobs of the page.
    pub(crate) jobs: Vec<JobView>,
    /// How many jobs match, on all pages.
    pub(crate) matching: usize,
    /// How many of the jobs that match in all but their state are in each state.
    pub(crate) states: Vec<GroupView>,
    /// The number of the page, from 1.
    pub(crate) page: usize,
    /// How many jobs a page has at most.
    pub(crate) per_page: usize,
    /// False while older jobs are still being read from the agent.
    pub(crate) complete: bool,
    /// True if there are more jobs than are kept: the oldest that have ended are left out.
    pub(crate) cut: bool,
}

/// Jobs that have something in common.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct GroupView {
    /// What they have in common: a state, a server, a user or a name.
    pub(crate) value: String,
    /// How many there are.
    pub(crate) jobs: usize,
}

impl JobGroupView {
    /// Counts more jobs that are in a state.
    pub(crate) fn add(&mut self, state: StateView, jobs: usize) {
        self.jobs += jobs;
        *match state {
            StateView::New | StateView::Queued => &mut self.waiting,
            StateView::Active => &mut self.running,
            StateView::Completed => &mut self.completed,
            StateView::Failed => &mut self.failed,
            StateView::Canceled => &mut self.canceled,
        } += jobs;
    }
}

/// Groups of jobs.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct GroupsView {
    /// The largest groups, the largest first.
    pub(crate) groups: Vec<JobGroupView>,
    /// How many groups there are.
    pub(crate) total: usize,
}

/// A group of jobs with its states.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, ToSchema)]
pub(crate) struct JobGroupView {
    /// What the jobs have in common.
    pub(crate) value: String,
    /// How many there are.
    pub(crate) jobs: usize,
    /// How many wait.
    pub(crate) waiting: usize,
    /// How many run.
    pub(crate) running: usize,
    /// How many completed.
    pub(crate) completed: usize,
    /// How many failed.
    pub(crate) failed: usize,
    /// How many were cancelled.
    pub(crate) canceled: usize,
}
