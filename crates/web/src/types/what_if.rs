//! Replays of the recorded history under other policies. The document is that of `pliant what-if`; what the pages do not show of it is
//! not read.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::SilentView;

/// What is to be replayed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhatIfBody {
    /// Compares jobs that were submitted in so many hours, 1 to 2208.
    pub(crate) hours: u32,
    /// The policies in the words of `pliant what-if --policy`, at most 4; none for its defaults.
    #[serde(default)]
    #[schema(example = json!(["regular/minmin,period=5m"]))]
    pub(crate) policies: Vec<String>,
}

/// The last replay of these pages.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct WhatIfView {
    /// `none`, `running`, `done`, `failed` or `cancelled`.
    pub(crate) state: &'static str,
    /// What was asked for.
    pub(crate) asked: Option<WhatIfBody>,
    /// When.
    pub(crate) began_s: Option<i64>,
    /// Why it failed.
    pub(crate) problem: Option<String>,
    /// The results.
    pub(crate) report: Option<ReplayReport>,
}

/// The results of a replay.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ReplayReport {
    /// The first submission that is compared, at the earliest.
    pub(crate) since_s: i64,
    /// The end of the history.
    pub(crate) until_s: i64,
    /// The numbers of jobs.
    pub(crate) jobs: ReplayedJobsView,
    /// Servers that did not answer.
    pub(crate) silent: Vec<SilentView>,
    /// What happened.
    pub(crate) happened: MeasuresView,
    /// How well the replay under the policy in force reproduces what happened; none if that cannot be said.
    pub(crate) calibration: Option<CalibrationView>,
    /// The replays; that under the policy in force is the first.
    pub(crate) replayed: Vec<ReplayedView>,
}

/// The numbers of jobs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ReplayedJobsView {
    /// Jobs that are compared.
    compared: u32,
    /// Jobs that were submitted before: load only.
    before: u32,
    /// Jobs that have not ended: load only.
    unfinished: u32,
    /// Jobs that never ran: left out.
    never_ran: u32,
    /// Jobs on servers that did not answer: left out.
    elsewhere: u32,
    /// Jobs of local users: load only.
    local: u32,
    /// Jobs that ask for memory, GPUs, licences, nodes or disk space: replayed by their processors alone.
    with_resources: u32,
    /// Jobs with a nice value: replayed in the order of submission.
    with_nice: u32,
    /// Jobs that ran again after a failure: only the last run is replayed.
    requeued: u32,
    /// Compared jobs with a deadline.
    with_deadline: u32,
}

/// Measures of the compared jobs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct MeasuresView {
    /// The number of jobs.
    jobs: usize,
    /// The mean response in seconds.
    mean_response_s: f64,
    /// The median response in seconds.
    median_response_s: f64,
    /// The mean bounded slowdown.
    mean_bounded_slowdown: f64,
    /// The number of moves.
    moves: u64,
}

/// How well a replay reproduces what happened.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct CalibrationView {
    /// The relative error of the mean response.
    mean_response_error: f64,
    /// The median error of the end of a job in seconds.
    median_end_error_s: f64,
}

/// A replay under a policy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ReplayedView {
    /// The policy.
    policy: ReplayedPolicyView,
    #[serde(flatten)]
    measures: MeasuresView,
    /// The difference of responses to those under the policy in force; none for that policy, and with few jobs.
    difference_s: Option<DifferenceView>,
    /// The number of jobs that would not have run: too late for their deadlines.
    too_late: u32,
}

/// The policy of a replay.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct ReplayedPolicyView {
    /// Its name.
    name: String,
}

/// A difference with its 95 % interval, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct DifferenceView {
    /// The mean.
    mean: f64,
    /// The lower end of the interval.
    low: f64,
    /// The upper end of the interval.
    high: f64,
}

/// The document of a replay.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(crate) struct ReplayDocument {
    #[serde(flatten)]
    pub(crate) report: ReplayReport,
    pub(crate) clusters: Vec<ReplayCluster>,
    pub(crate) schedules: Vec<ReplaySchedule>,
}

/// A cluster of a replay.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct ReplayCluster {
    pub(crate) server: String,
    pub(crate) procs: u32,
}

/// The compared jobs of a run.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct ReplaySchedule {
    pub(crate) name: String,
    pub(crate) jobs: Vec<ReplayJob>,
}

/// A job of a replay.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(crate) struct ReplayJob {
    pub(crate) number: usize,
    pub(crate) server: String,
    pub(crate) submitted_s: i64,
    pub(crate) started_s: i64,
    pub(crate) ended_s: i64,
    pub(crate) procs: u32,
    pub(crate) moves: u32,
}

/// A schedule on the processors of clusters.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ScheduleView {
    /// `recorded`, or the name of the policy.
    pub(crate) name: String,
    /// The first submission of all schedules.
    pub(crate) from_s: i64,
    /// The last end of all schedules.
    pub(crate) until_s: i64,
    /// The clusters.
    pub(crate) lanes: Vec<ScheduleLaneView>,
    /// How many more jobs there are than are drawn.
    pub(crate) left_out: usize,
}

/// The jobs of a cluster in a schedule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ScheduleLaneView {
    /// The server.
    pub(crate) server: String,
    /// Its processors.
    pub(crate) procs: u32,
    /// Jobs by their start.
    pub(crate) jobs: Vec<ScheduleJobView>,
}

/// A job of a schedule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ScheduleJobView {
    /// Its place in the order of submission: the same job has the same number in all schedules.
    pub(crate) number: usize,
    /// Its submission.
    pub(crate) submitted_s: i64,
    /// Its start.
    pub(crate) start_s: i64,
    /// Its end.
    pub(crate) end_s: i64,
    /// Its processors.
    pub(crate) procs: u32,
    /// How often it was moved while it waited.
    pub(crate) moves: u32,
    /// Where it is drawn: the first processor and the number, for each gap that it fills.
    pub(crate) pieces: Vec<(u32, u32)>,
}
