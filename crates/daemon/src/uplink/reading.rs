//! Pages of reports about jobs, read from the journal.

use std::future::Future;
use std::pin::Pin;

use tonic::Status;

use super::again::AgainPage;
use super::reports::Report;

/// A page of reports, while it is being read.
pub(super) type Reading = Pin<Box<dyn Future<Output = Result<ReadPage, Status>> + Send>>;

pub(super) enum ReadPage {
    /// Status updates, up to at least that number unless they fill the page.
    Updates(u64, Vec<Report>),
    Again(AgainPage),
}

pub(super) async fn wait(reading: &mut Option<Reading>) -> Result<ReadPage, Status> {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}
