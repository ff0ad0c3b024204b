//! Pages of reports about jobs, read from the journal.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use pliant_control::masters::MasterShare;
use pliant_journal::Archive;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tonic::Status;

use super::again::AgainPage;
use super::reports::{Report, last_reports};
use crate::host::{SharedArchive, archived};

/// Status updates that are read from the journal at a time: as many again wait in memory.
pub(super) const PAGE: u32 = 256;
/// The least time between two pages of status updates that are not full: updates that come meanwhile share a page, and jobs that
/// end within it are reported once.
pub(super) const PAGE_PAUSE: Duration = Duration::from_millis(20);

/// A page of reports, while it is being read.
pub(super) type Reading = Pin<Box<dyn Future<Output = Result<ReadPage, Status>> + Send>>;

pub(super) enum ReadPage {
    Updates {
        /// The page has all up to this number that are for the parent and that it has not kept.
        read_to: u64,
        /// There may be more after it.
        is_full: bool,
        reports: Vec<Report>,
    },
    Again(AgainPage),
}

pub(super) async fn wait(reading: &mut Option<Reading>) -> Result<ReadPage, Status> {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}

/// Reads the status updates after `last_sent` once it is `earliest`, and takes those of a share.
pub(super) fn updates_page(
    archive: SharedArchive,
    last_update: watch::Receiver<u64>,
    last_sent: u64,
    earliest: Instant,
    share: MasterShare,
) -> Reading {
    Box::pin(async move {
        sleep_until(earliest).await;
        let last = *last_update.borrow();
        let look = move |archive: &mut dyn Archive| archive.status_updates(last_sent, PAGE);
        let mut page = archived(&archive, look).await?;
        // Later ones are in the journal, and may not be synced.
        page.retain(|update| update.seq <= last);
        let is_full = page.len() == PAGE as usize;
        let read_to = page.last().filter(|_| is_full).map_or(last, |last| last.seq);
        Ok(ReadPage::Updates { read_to, is_full, reports: last_reports(&page, &share)? })
    })
}
