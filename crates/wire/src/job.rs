//! Jobs as the federation keeps them.

use pliant_control::job::{ESTIMATES_MAX, EstimateChange, Exit, JobRecord, JobState, SizeChoice};
use pliant_control::names::Handle;
use pliant_control::reason::DiscoverySummary;

use super::field::*;
use super::table::{enumeration, message, one_of};
use super::types::AN_ESTIMATE;
use super::{Malformed, bounds, proto};

enumeration! {
    proto::JobState <=> JobState: "a job state from 1 to 6" { New, Queued, Active, Completed, Failed, Canceled }
}

one_of! {
    proto::Exit { how: proto::exit::How } <=> Exit {
        Code <=> Code(as_is()),
        Signal <=> Signal(as_is()),
        OverWalltime(TrueFlag) <=> OverWalltime,
        OverLimit <=> OverLimit(TEXT),
        Cancelled(TrueFlag) <=> Cancelled,
        NotStarted <=> NotStarted(TEXT),
        Lost <=> Lost(TEXT),
    }
}

message! {
    proto::Job <=> JobRecord {
        handle: HANDLE,
        key: KEY,
        owner: USER,
        name: text(bounds::NAME_BYTES_MAX),
        work: required("the work"),
        state: enumeration(),
        submitted: TIME,
        expected: required(AN_ESTIMATE),
        procs: PROCS,
        walltime_s <=> walltime: SCALED_WALLTIME,
        started: optional(TIME),
        ended: optional(TIME),
        exit: optional(nested()),
        requeues: REQUEUE,
        compared: list(nested(), bounds::COMPARED_MAX),
        discovery: unless(DiscoverySummary::default(), nested()),
        pinned,
        hops: list(nested(), bounds::HOPS_MAX),
        unit_runtime_ms <=> unit_runtime: optional(SPAN_MS),
        runtime_ms <=> runtime: optional(SPAN_MS),
        size_choice: optional(nested()),
        gpus: optional(as_is()),
        estimates: list(nested(), ESTIMATES_MAX),
        claim: optional(boxed(nested())),
    }

    proto::EstimateChange <=> EstimateChange {
        at: TIME,
        plan: required(AN_ESTIMATE),
    }

    proto::SizeChoice <=> SizeChoice {
        earliest: required(AN_ESTIMATE),
        other_jobs,
    }
}

message! {
    /// The record of a job, with its outcome if it is a call.
    #[derive(Clone, PartialEq, Debug)]
    proto::CallEndReply <=> pub struct CallEnd {
        /// The record; present, if the job has not ended in time.
        job: JobRecord = required("the job"),
        /// The outcome of a call: a frame. Empty of other jobs, and if it is long or the job has not ended.
        outcome: Vec<u8> = bytes_to(bounds::CALL_BYTES_MAX).exact(),
    }
}

/// A question about one job.
pub fn job_request(handle: &Handle) -> proto::JobRequest {
    proto::JobRequest { handle: handle.to_string() }
}

/// The job that is asked about: [`proto::JobRequest`] and [`proto::FindJobRequest`] say nothing else.
///
/// # Errors
///
/// [`Malformed`] in `handle`.
pub fn handle_of(handle: &str) -> Result<Handle, Malformed> {
    HANDLE.decode("handle", handle.to_owned())
}
