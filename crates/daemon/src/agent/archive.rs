//! Ended jobs, for whoever asks.

use std::sync::Arc;

use parking_lot::Mutex;
use pliant_control::job::JobRecord;
use pliant_journal::{Archive, JobRow, JournalError};
use tonic::Status;

/// The archive, for whoever asks: a connection of its own.
pub(crate) type SharedArchive = Arc<Mutex<Box<dyn Archive>>>;

/// Asks the archive, off the threads that serve connections.
pub(crate) async fn archived<A: Send + 'static>(
    archive: &SharedArchive,
    look: impl FnOnce(&mut dyn Archive) -> Result<A, JournalError> + Send + 'static,
) -> Result<A, Status> {
    let archive = archive.clone();
    let found = tokio::task::spawn_blocking(move || look(archive.lock().as_mut())).await;
    let found = found.map_err(|_| Status::internal("looking into the archive failed"))?;
    found.map_err(|error| {
        tracing::error!(%error, "cannot read the archive");
        Status::unavailable("the archive cannot be read at the moment")
    })
}

/// The record in a row.
pub(crate) fn record(row: &JobRow) -> Result<JobRecord, Status> {
    serde_json::from_str(&row.record).map_err(|error| {
        tracing::error!(%error, server = %row.server, number = row.number, "unreadable record in the archive");
        Status::data_loss(format!("the record of {}.{} cannot be read", row.server, row.number))
    })
}
