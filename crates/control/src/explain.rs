//! Why a job is where it is, or why it waits, as data.

use pliant_model::{Estimate, Procs, Time};
use serde::{Deserialize, Serialize};

use crate::job::JobRecord;
use crate::names::{Handle, Name};

/// The account of one job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// The job, with the estimates that were compared.
    pub record: JobRecord,
    /// When the account was made.
    pub at: Time,
    /// Why it waits; none if it does not, or if nobody knows until when.
    pub waits: Option<Wait>,
    /// It waits and its batch system does not plan it: why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unplanned: Option<String>,
}

/// Why a job waits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Wait {
    /// Jobs in front of it in the queue.
    pub ahead: u32,
    /// What is planned for it now.
    pub plan: Estimate,
    /// Processors that are free now.
    pub free: Procs,
    /// Running jobs that are expected to end before its planned start, the last of them last, with their
    /// expected ends and processors.
    pub until: Vec<Release>,
    /// The servers at which a copy of it waits as well.
    pub siblings: Vec<Name>,
}

/// A running job that will give processors back.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Release {
    /// The job; none if whoever asks may not know whose it is.
    pub handle: Option<Handle>,
    /// Its expected end: its start and walltime.
    pub end: Time,
    /// Its processors.
    pub procs: Procs,
}
