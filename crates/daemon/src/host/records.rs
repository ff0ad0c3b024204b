//! Records of jobs: as the journal keeps them, as rows of the archive, and what requests for them are answered.

use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use pliant_journal::JobRow;
use tonic::Status;

/// The record in a row.
pub(crate) fn record(row: &JobRow) -> Result<JobRecord, Status> {
    serde_json::from_str(&row.record).map_err(|error| {
        tracing::error!(%error, server = %row.server, number = row.number, "unreadable record in the archive");
        Status::data_loss(format!("the record of {}.{} cannot be read", row.server, row.number))
    })
}

/// The answer about a job that does not exist or is another user's.
pub(crate) fn no_such_job(handle: &Handle) -> Status {
    Status::not_found(format!("no job {handle} of yours"))
}

/// The metrics of estimates that have been checked by what happened.
pub(crate) fn observe_accuracy(record: &JobRecord) {
    use pliant_telemetry::names::{ESTIMATE_COMPLETION_ERROR_SECONDS, ESTIMATE_START_ERROR_SECONDS};
    if let Some(error) = record.start_error() {
        metrics::histogram!(ESTIMATE_START_ERROR_SECONDS).record(error.0 as f64);
    }
    if let Some(error) = record.completion_error() {
        metrics::histogram!(ESTIMATE_COMPLETION_ERROR_SECONDS).record(error.0 as f64);
    }
}

/// A record as the journal keeps it.
pub(crate) fn json(record: &JobRecord) -> String {
    serde_json::to_string(record).expect("records are plain data with text keys")
}

/// The row of a job that has ended, or has gone to another server: then its age counts from there.
pub(crate) fn row(record: &JobRecord) -> JobRow {
    JobRow {
        server: record.handle.server.to_string(),
        number: record.handle.number,
        key: Some(record.key.0),
        owner: record.owner.to_string(),
        name: record.name.clone(),
        state: record.state.word().to_owned(),
        submitted: record.submitted.0,
        started: record.started.map(|at| at.0),
        ended: record.ended.or(record.hops.last().map(|hop| hop.at)).unwrap_or(record.submitted).0,
        expected_start: record.started.map(|_| record.expected.start.0),
        expected_completion: record.started.map(|_| record.expected.completion().0),
        record: json(record),
        last_server: record.server().to_string(),
    }
}
