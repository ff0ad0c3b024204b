//! Explanations of where a job is and why it waits, as data.

use pliant_model::{Estimate, Procs, Time};
use pliant_policy::batch::order::PriorityParts;
use serde::{Deserialize, Serialize};

use crate::job::JobRecord;
use crate::names::{Handle, Name};

/// The explanation of one job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// The job's record, with the estimates that were compared.
    pub record: JobRecord,
    /// Time of the explanation.
    pub at: Time,
    /// Why it waits; none if it does not wait or has no plan.
    pub waits: Option<Wait>,
    /// Why a waiting job has no plan, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplanned: Option<String>,
}

/// Why a job waits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Wait {
    /// Number of jobs ahead of it in the queue.
    pub ahead: u32,
    /// Its present plan.
    pub plan: Estimate,
    /// Idle processors.
    pub free: Procs,
    /// Running jobs that are expected to end before its planned start, in the order of their ends.
    pub until: Vec<Release>,
    /// The servers at which a sibling waits.
    pub siblings: Vec<Name>,
    /// The parts of its priority, if the queue order has such parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<PriorityParts>,
    /// The priority that an operator has given to it, which comes first; 0 if there is none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub operator_priority: i64,
    /// What running jobs leave too little of for it to start now; empty if only the jobs ahead of it keep it from starting, or if that
    /// is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortages: Vec<Shortage>,
}

/// A resource of which running jobs leave too little for a job to start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Shortage {
    /// `processors`, `memory`, `gpus`, `scratch` or `licences:NAME`.
    pub resource: String,
    /// How much the job needs: memory and scratch in MiB, the others by number.
    pub needed: u32,
    /// How much is free, in the same unit.
    pub free: u32,
}

impl Shortage {
    /// The resource, if less of it is free than is needed.
    pub fn of(resource: impl Into<String>, needed: u32, free: u32) -> Option<Shortage> {
        (needed > free).then(|| Shortage { resource: resource.into(), needed, free })
    }
}

fn is_zero(priority: &i64) -> bool {
    *priority == 0
}

/// A running job that will release processors.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Release {
    /// The job; none if the caller may not know its owner.
    pub handle: Option<Handle>,
    /// Its expected end: its start and walltime.
    pub end: Time,
    /// Its processors.
    pub procs: Procs,
}
