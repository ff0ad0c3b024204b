//! Jobs in a server's memory.

use pliant_model::{JobId, Speed, Time};
use pliant_policy::batch::Submission;
use serde::{Deserialize, Serialize};

use super::Hold;
use crate::batch;
use crate::job::{JobRecord, is_false};
use crate::payload::Payload;
use crate::runtime_sample::RuntimeSample;

/// A job in the server's memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct ServerJob {
    /// The job's number here; differs from the number in its handle if the job came from another server.
    pub(super) number: u32,
    pub(super) record: JobRecord,
    /// What the job runs, as the driver describes it.
    pub(super) payload: Payload,
    /// How the job's runtime is learned from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) sample: Option<RuntimeSample>,
    /// How the job runs, once it has started.
    pub(super) run: Option<batch::Run>,
    /// Of a batch: the runtime of its longest instance in milliseconds ([`Event::LongestInstance`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) longest: Option<u64>,
    /// When the job had started before an older copy of the journal was put back: it is looked for, and never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) started_before: Option<Time>,
    /// The job was cancelled while it ran.
    pub(super) cancelling: bool,
    /// Its owner withdraws it if it has not started; the batch system has not answered yet.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) recalled: bool,
    /// The act of an operator that holds the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) held: Option<Hold>,
    /// The instant before which the job does not start, until that has come ([`super::deferring`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deferred: Option<Time>,
    /// It cannot keep its deadline any more: it is given up here unless another server takes it over.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_too_late: bool,
    /// It is kept back for other jobs of its owner ([`super::nice`]).
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) is_behind_own: bool,
    /// Its walltimes are those of this cluster, whatever its speed ([`super::Submit::own_time`]).
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) own_time: bool,
    /// Number of handoffs that were attempted.
    pub(super) attempts: u32,
}

impl ServerJob {
    /// A job whose number here is that of its handle.
    pub(super) fn new(record: JobRecord, payload: Payload, sample: Option<RuntimeSample>) -> ServerJob {
        let number = record.handle.number;
        ServerJob {
            number,
            record,
            payload,
            sample,
            run: None,
            longest: None,
            started_before: None,
            cancelling: false,
            recalled: false,
            held: None,
            deferred: None,
            is_too_late: false,
            is_behind_own: false,
            own_time: false,
            attempts: 0,
        }
    }

    /// The speed for which it is sized on processors of `speed`.
    pub(super) fn speed_on(&self, speed: Speed) -> Speed {
        if self.own_time { Speed::REFERENCE } else { speed }
    }

    /// The GPUs that its table of times gives it in its shape, on processors of `speed`; 0 if it has no such table.
    pub(super) fn gpus_of_size(&self, speed: Speed) -> u32 {
        let JobRecord { procs, walltime, submitted, work, .. } = &self.record;
        work.request(JobId(self.number), *submitted).gpus_at(self.speed_on(speed), *procs, *walltime)
    }

    /// The job as it is submitted to the batch system, on processors of `speed`.
    pub(super) fn submission(&self, speed: Speed) -> Submission {
        let speed = self.speed_on(speed);
        let JobRecord { procs, walltime, submitted, owner, work, .. } = &self.record;
        let submission = Submission::new(JobId(self.number), *procs, *walltime);
        let request = work.request(JobId(self.number), *submitted);
        let resources = request.resources_at(speed, *procs, *walltime);
        Submission { submit: work.eligible(*submitted), owner: owner.owner(), resources, ..submission }
    }
}
