//! Pages of reports about jobs, read from the journal.

use std::future::Future;
use std::pin::Pin;

use pliant_journal::StatusUpdate;
use pliant_wire::FromChild;
use tonic::Status;

use super::again::AgainPage;

/// A report about a job.
pub(super) enum Report {
    /// For the first time.
    Update(StatusUpdate),
    /// Again, or that all were.
    Again(FromChild),
}

/// A page of reports, while it is being read.
pub(super) type Reading = Pin<Box<dyn Future<Output = Result<ReadPage, Status>> + Send>>;

pub(super) enum ReadPage {
    /// Status updates, up to at least that number unless they fill the page.
    Updates(u64, Vec<StatusUpdate>),
    Again(AgainPage),
}

pub(super) async fn wait(reading: &mut Option<Reading>) -> Result<ReadPage, Status> {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}

pub(super) fn status_update(notice: &StatusUpdate) -> Result<FromChild, Status> {
    let record = serde_json::from_str(&notice.body);
    let record = record.map_err(|error| {
        Status::data_loss(format!("status update {} in the journal: {error}", notice.seq))
    })?;
    Ok(FromChild::StatusUpdate { sequence: notice.seq, record: Box::new(record) })
}
