//! Where a job is and why: everything of the page of one job.

use pliant_client::{PlacementReason, placement_reason};
use pliant_control::explain::{Explanation, Release, Shortage, Wait};
use pliant_control::job::{ComparedEstimate, EstimateChange, JobRecord};
use pliant_control::names::Name;
use pliant_policy::tuning::slack;
use serde::Serialize;
use utoipa::ToSchema;

use super::{EstimateView, JobView, MoveView, SweepPartView};

/// Everything that is known of a job.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct JobDetailView {
    /// The job.
    job: JobView,
    /// When this was true.
    at_s: i64,
    /// What was asked for.
    requested: RequestView,
    /// The estimates that were compared when it was submitted, the best first.
    compared: Vec<ComparedView>,
    /// Why it was first submitted to its server: `unknown`, `only-one`, `earliest-completion`, `tie` or `passed-over`.
    reason: &'static str,
    /// The server that it was compared with, if there was one.
    reason_server: Option<String>,
    /// Servers that were asked and do not take it, as far as known.
    passed: Vec<PassedView>,
    /// How many servers the agents knew when it was submitted; 0 if unknown.
    servers: u32,
    /// How many of them answered.
    answered: u32,
    /// True if its user chose the server: the job is not moved.
    pinned: bool,
    /// How its server planned it while it waited, as the start changed by at least a minute and a tenth of the wait; the first
    /// one first, at most 32. After a move it begins again.
    estimates: Vec<EstimateChangeView>,
    /// Its moves, the first one first.
    moves: Vec<MoveView>,
    /// The size that would have completed first, if its server chose another one for the sake of other jobs.
    size_choice: Option<SizeChoiceView>,
    /// Why it waits; none if it does not, or has no plan.
    waits: Option<WaitView>,
    /// Why a waiting job has no plan.
    unplanned: Option<String>,
    /// True if an operator holds it.
    held: bool,
    /// The sweep that it is of; none if no other job of it is known.
    pub(crate) sweep: Option<SweepPartView>,
}

/// A changed plan of a waiting job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct EstimateChangeView {
    /// When its server noticed the change.
    at_s: i64,
    /// The plan from then on.
    plan: EstimateView,
}

impl From<&EstimateChange> for EstimateChangeView {
    fn from(change: &EstimateChange) -> EstimateChangeView {
        EstimateChangeView { at_s: change.at.0, plan: (&change.plan).into() }
    }
}

/// What was asked for.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct RequestView {
    /// The processors that the walltime refers to.
    procs: u32,
    /// The walltime on these processors.
    walltime_s: i64,
    /// True if it is the same on processors of every speed.
    fixed_time: bool,
    /// True if the number of processors is chosen by servers.
    moldable: bool,
    /// Memory, GPUs, licences and the like.
    resources: Option<String>,
    /// The earliest start.
    begin_s: Option<i64>,
    /// The latest completion.
    deadline_s: Option<i64>,
    /// How far it stands back behind other jobs of its owner.
    nice: u32,
    /// How often it is run again after a node failed under it.
    requeue: u32,
}

/// An estimate that was compared.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ComparedView {
    /// The server.
    server: String,
    /// Its estimate.
    estimate: EstimateView,
    /// True if the job was submitted there.
    chosen: bool,
}

/// A server that does not take a job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct PassedView {
    /// The server.
    server: String,
    /// Why, in a word such as `too-large`.
    cause: &'static str,
}

/// A size that would have completed earlier.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct SizeChoiceView {
    /// The estimate for that size.
    earliest: EstimateView,
    /// How much earlier it would have completed.
    later_s: i64,
    /// The processor-seconds that it would have taken from other jobs.
    saved_processor_s: i64,
    /// How many other jobs ran or waited there.
    other_jobs: u32,
}

/// Why a job waits.
#[derive(Clone, PartialEq, Debug, Serialize, ToSchema)]
pub(crate) struct WaitView {
    /// How many jobs are ahead of it.
    ahead: u32,
    /// Its present plan.
    plan: EstimateView,
    /// Idle processors.
    free_procs: u32,
    /// Running jobs that are expected to end before its planned start, in the order of their ends; the last ones decide.
    until: Vec<ReleaseView>,
    /// Servers at which a sibling job waits: the first to start runs.
    siblings: Vec<String>,
    /// Its priority, if the queue is ordered by one.
    priority: Option<f64>,
    /// The priority that an operator gave it.
    operator_priority: i64,
    /// What running jobs leave too little of for it to start now; empty if only the jobs ahead of it keep it from starting, or if that
    /// is not known.
    shortages: Vec<ShortageView>,
}

/// A resource of which running jobs leave too little for a job to start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ShortageView {
    /// `processors`, `memory`, `gpus`, `scratch` or `licences:NAME`.
    resource: String,
    /// How much the job needs: memory and scratch in MiB, the others by number.
    needed: u32,
    /// How much is free, in the same unit.
    free: u32,
}

impl From<&Shortage> for ShortageView {
    fn from(shortage: &Shortage) -> ShortageView {
        let Shortage { resource, needed, free } = shortage.clone();
        ShortageView { resource, needed, free }
    }
}

/// A running job that will release processors.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, ToSchema)]
pub(crate) struct ReleaseView {
    /// The job ID; none if you may not know whose it is.
    job_id: Option<String>,
    /// When it ends at the latest.
    end_s: i64,
    /// Its processors.
    procs: u32,
}

impl From<&JobRecord> for RequestView {
    fn from(record: &JobRecord) -> RequestView {
        let work = &record.work;
        RequestView {
            procs: work.procs.0,
            walltime_s: work.walltime.0,
            fixed_time: work.fixed_time,
            moldable: !matches!(work.speedup, pliant_model::Speedup::Rigid),
            resources: work.resources.as_ref().map(ToString::to_string),
            begin_s: work.begin.map(|begin| begin.0),
            deadline_s: work.deadline.map(|deadline| deadline.0),
            nice: work.nice,
            requeue: work.requeue,
        }
    }
}

impl From<&Wait> for WaitView {
    fn from(wait: &Wait) -> WaitView {
        let release = |one: &Release| ReleaseView {
            job_id: one.handle.as_ref().map(ToString::to_string),
            end_s: one.end.0,
            procs: one.procs.0,
        };
        WaitView {
            ahead: wait.ahead,
            plan: (&wait.plan).into(),
            free_procs: wait.free.0,
            until: wait.until.iter().map(release).collect(),
            siblings: wait.siblings.iter().map(Name::to_string).collect(),
            priority: wait.priority.as_ref().map(|parts| parts.total()),
            operator_priority: wait.operator_priority,
            shortages: wait.shortages.iter().map(Into::into).collect(),
        }
    }
}

impl From<&Explanation> for JobDetailView {
    fn from(explanation: &Explanation) -> JobDetailView {
        let Explanation { record, at, waits, unplanned } = explanation;
        let compared = |one: &ComparedEstimate| ComparedView {
            server: one.server.to_string(),
            estimate: (&one.estimate).into(),
            chosen: one.server == record.handle.server,
        };
        let reason = placement_reason(record);
        let size_choice = record.size_choice.as_ref().map(|choice| {
            let saving = slack::saving(&record.expected, &choice.earliest);
            SizeChoiceView {
                earliest: (&choice.earliest).into(),
                later_s: saving.later.0,
                saved_processor_s: saving.processor_s,
                other_jobs: choice.other_jobs,
            }
        });
        let passed = record.discovery.passed.iter();
        JobDetailView {
            job: record.into(),
            at_s: at.0,
            requested: record.into(),
            compared: record.compared.iter().map(compared).collect(),
            reason: reason.word(),
            reason_server: compared_with(&reason).map(|other| other.server.to_string()),
            passed: passed
                .map(|(server, cause)| PassedView { server: server.to_string(), cause: cause.word() })
                .collect(),
            servers: record.discovery.servers,
            answered: record.discovery.answered,
            pinned: record.pinned,
            estimates: record.estimates.iter().map(Into::into).collect(),
            moves: record.hops.iter().map(|hop| MoveView::of(&record.handle, hop)).collect(),
            size_choice,
            waits: waits.as_ref().map(Into::into),
            unplanned: unplanned.clone(),
            held: unplanned.as_deref().is_some_and(is_hold),
            sweep: None,
        }
    }
}

/// True if a server says by this that an operator holds the job: `OPERATOR has held the job since`. Names of operators have no spaces,
/// so no reason that somebody gives is taken for it.
fn is_hold(unplanned: &str) -> bool {
    unplanned.split_once(' ').is_some_and(|(_, rest)| rest.starts_with("has held the job since "))
}

fn compared_with<'a>(reason: &PlacementReason<'a>) -> Option<&'a ComparedEstimate> {
    match *reason {
        PlacementReason::Unknown | PlacementReason::Only => None,
        PlacementReason::Earliest(other)
        | PlacementReason::Tie(other)
        | PlacementReason::PassedOver(other) => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use pliant_control::server::Hold;
    use pliant_model::Time;

    use super::*;

    #[test]
    fn what_a_server_says_of_a_hold_is_one() {
        let hold = |why: &str| Hold { at: Time(1_000), by: "root".parse().unwrap(), why: why.to_owned() };
        assert!(is_hold(&hold("a question").to_string()));
        let quoted = format!("root has banned alice since yesterday: {}", hold("x"));
        assert!(!is_hold(&quoted) && !is_hold("its server was down") && !is_hold(""));
    }
}
