//! Removes files of jobs that ended long ago, and uploads without a submission.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use pliant_control::coallocation::SubjobId;
use pliant_control::names::Handle;
use pliant_control::server::Server;
use pliant_model::{Span, Time};
use pliant_site::processes::FoundState;
use pliant_site::{FilesError, JobFolder};
use pliant_staging::{StagingError, UploadSet};
use pliant_transport::Clock;
use tokio::sync::watch;

use super::execution::{Host, blocking};
use crate::host::{Mailbox, stopped};
use crate::host::{SharedArchive, archived};

/// How often.
const EVERY: Duration = Duration::from_secs(600);

/// What is looked after.
pub(super) struct Upkeep {
    pub(super) host: Arc<Host>,
    pub(super) archive: SharedArchive,
    pub(super) mailbox: Mailbox<Server>,
    /// How long the files of a job are kept after its end.
    pub(super) kept: Span,
}

impl Upkeep {
    /// Goes on until the daemon is to stop.
    pub(super) async fn run(self, stop: watch::Receiver<bool>) {
        let clock = Clock::start(Time(0));
        loop {
            tokio::select! {
                () = stopped(stop.clone()) => return,
                () = tokio::time::sleep(EVERY) => {}
            }
            self.once(clock.now()).await;
        }
    }

    /// One upkeep cycle.
    pub(super) async fn once(&self, now: Time) {
        for job in self.host.jobs() {
            if self.is_due(now, &job).await {
                let dir = self.host.dir(&job);
                tracing::info!(%job, "its files are removed: it ended long ago");
                if let Err(error) = blocking(&dir, removed).await {
                    tracing::warn!(%error, dir = %dir.display(), "cannot remove the files of a job");
                }
            }
        }
        for subjob in self.host.subjobs() {
            let dir = self.host.subjob_dir(&subjob);
            if self.is_due_subjob(now, subjob, &dir).await
                && let Err(error) = blocking(&dir, removed).await
            {
                tracing::warn!(%error, dir = %dir.display(), "cannot remove the files of a subjob");
            }
        }
        for number in self.host.gates() {
            let known = move |server: &mut Server, _| {
                let is_job = server.job(number).is_some() || server.prepared_as(number).is_some();
                is_job || server.subjob(number).is_some()
            };
            if self.mailbox.ask(known).await == Ok(false)
                && let host = self.host.clone()
                && let removing = tokio::task::spawn_blocking(move || host.gate(number, None)?.remove())
                && let Ok(Err(error)) = removing.await
            {
                tracing::warn!(%error, number, "cannot remove the start gate of a job");
            }
        }
        let mut removed = 0;
        for of in self.host.store.upload_sets() {
            removed += usize::from(self.collect(of).await);
        }
        if removed > 0 {
            tracing::info!(sets = removed, "uploads without a submission are removed");
        }
    }

    /// Throws away a set of uploads if it rests and no job waits for it; true if it did.
    async fn collect(&self, of: UploadSet) -> bool {
        // A file is as old as the system's clock says, which may have been set while this daemon ran.
        let now = Clock::start(Time(0)).now();
        let (store, asked) = (self.host.store.clone(), of.clone());
        if !resting(move || store.rests(&asked, now)).await {
            return false;
        }
        // It cannot be submitted, or accepted, from here on.
        let _lock = self.host.store.lock(&of.user, of.key).await;
        let key = of.key;
        let wanted = self.mailbox.ask(move |server, _| server.needs_files_of(&key)).await;
        if wanted != Ok(false) {
            return false;
        }
        let store = self.host.store.clone();
        resting(move || store.collect(&of, now)).await
    }

    /// True if the files of a subjob are there longer than they are kept: since its end, or since its folder was
    /// changed if it never began.
    async fn is_due_subjob(&self, now: Time, subjob: SubjobId, dir: &Path) -> bool {
        let known = self.mailbox.ask(move |server, _| server.has_subjob(&subjob)).await;
        if known != Ok(false) {
            return false;
        }
        let ended = match blocking(dir, |dir| JobFolder::at(dir)?.find()).await {
            Ok(FoundState::Ended(exit)) => i64::try_from(exit.ended_unix_ms / 1000).ok().map(Time),
            Ok(FoundState::NeverStarted | FoundState::Lost(_)) => changed(dir),
            Ok(FoundState::Running) | Err(_) => None,
        };
        ended.is_some_and(|ended| ended + self.kept <= now)
    }

    /// True if the files of a job are there longer than they are kept.
    async fn is_due(&self, now: Time, job: &Handle) -> bool {
        let wanted = job.clone();
        let known = move |server: &mut Server, _| {
            server.number_of(&wanted).and_then(|number| server.job(number)).is_some()
        };
        let in_memory = self.mailbox.ask(known).await;
        if in_memory != Ok(false) {
            return false;
        }
        let wanted = job.clone();
        let row =
            archived(&self.archive, move |archive| archive.job(wanted.server.as_str(), wanted.number)).await;
        // An upload in neither is left alone.
        matches!(row, Ok(Some(row)) if Time(row.ended) + self.kept <= now)
    }
}

/// Removes all files and records of an execution.
fn removed(dir: &Path) -> Result<(), FilesError> {
    JobFolder::at(dir)?.remove()
}

/// When a folder was changed, as the system's clock said.
fn changed(dir: &Path) -> Option<Time> {
    let modified = fs::metadata(dir).ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok().map(Time)
}

/// Makes a query of the store that blocks; false if it fails.
async fn resting(ask: impl FnOnce() -> Result<bool, StagingError> + Send + 'static) -> bool {
    match tokio::task::spawn_blocking(ask).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            tracing::warn!(%error, "cannot remove old uploads");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "removing old uploads failed");
            false
        }
    }
}

#[cfg(test)]
mod tests;
