//! Removes files of jobs that ended long ago, and uploads without a submission.
//!
//! What is left of jobs is removed account by account ([`Removals`]): the processes that remove it run as the account, and its user can
//! stop them. A server that hung while another host took over still has its old memory, so it removes nothing before it knows that it
//! leads.

mod removals;
mod results;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use pliant_control::names::Handle;
use pliant_control::server::Server;
use pliant_model::{Span, Time};
use pliant_site::accounts::AccountRun;
use pliant_site::processes::FoundState;
use pliant_site::{FilesError, JobFolder};
use pliant_staging::{StagingError, UploadSet};
use pliant_transport::Clock;
use tokio::sync::watch;

use super::execution::{Host, SubjobFolder, blocking};
use crate::host::{Mailbox, stopped};
use crate::host::{SharedArchive, archived};

pub(super) use self::removals::{Account, Removal, Removals};
pub(super) use self::results::ResultsUsage;
use self::results::{Cycle, EndedFolder};

/// How often.
const EVERY: Duration = Duration::from_secs(600);
/// How often while the disk with the folders of jobs is almost full.
const EVERY_IF_SHORT: Duration = Duration::from_secs(5);

/// What is looked after.
pub(super) struct Upkeep {
    pub(super) host: Arc<Host>,
    pub(super) archive: SharedArchive,
    pub(super) mailbox: Mailbox<Server>,
    /// How long the files of a job are kept after its end.
    pub(super) kept: Span,
    /// How many bytes of files of ended jobs each user may have; none for any number.
    pub(super) results_bytes_per_user: Option<u64>,
    pub(super) results: ResultsUsage,
    /// Whether the disk with the folders of jobs is almost full.
    pub(super) is_short: watch::Receiver<bool>,
    pub(super) removals: Removals,
}

impl Upkeep {
    /// Goes on until the daemon is to stop.
    pub(super) async fn run(self, stop: watch::Receiver<bool>) {
        let clock = Clock::start(Time(0));
        loop {
            tokio::select! {
                () = stopped(stop.clone()) => return,
                () = tokio::time::sleep(EVERY) => {}
                () = self.short() => {}
            }
            tokio::select! {
                () = stopped(stop.clone()) => return,
                () = self.once(clock.now()) => {}
            }
        }
    }

    /// Waits until the disk with the folders of jobs is almost full, and at least for a while.
    async fn short(&self) {
        tokio::time::sleep(EVERY_IF_SHORT).await;
        let mut is_short = self.is_short.clone();
        if is_short.wait_for(|is_short| *is_short).await.is_err() {
            // Nothing looks at the disk.
            std::future::pending().await
        }
    }

    /// One upkeep cycle. Uploads come first: no account is asked for anything there.
    pub(super) async fn once(&self, now: Time) {
        self.collect_uploads().await;
        self.expire_data().await;
        // Start gates come first of what an account has.
        let mut left = self.gates().await;
        let (subjobs, present) = self.subjobs(now).await;
        left.extend(self.jobs(now, present).await);
        left.extend(subjobs);
        let mailbox = self.mailbox.clone();
        let leads = move || {
            let mailbox = mailbox.clone();
            async move { mailbox.leads().await }
        };
        self.removals.remove(left, leads).await;
    }

    /// Deletes data that no call has named for long.
    async fn expire_data(&self) {
        self.mailbox.leads().await;
        let data = self.host.data.clone();
        let deleted = blocking(&self.host.folder, move |_| data.expire()).await;
        if deleted > 0 {
            tracing::info!(data = deleted, "data of calls have expired");
        }
    }

    /// The start gates of no job.
    async fn gates(&self) -> Vec<(Account, Removal)> {
        let mut left = Vec::new();
        for number in self.host.gates() {
            let known = move |server: &mut Server, _| {
                let is_job = server.job(number).is_some() || server.prepared_as(number).is_some();
                is_job || server.subjob(number).is_some()
            };
            if self.mailbox.ask(known).await == Ok(false) {
                let host = self.host.clone();
                left.extend(blocking(&self.host.folder, move |_| start_gate(&host, number)).await);
            }
        }
        left
    }

    /// The folders of jobs that ended long ago, and the oldest of users who have too much by what was measured before. `present` are the
    /// folders of subjobs that have not ended.
    async fn jobs(&self, now: Time, mut present: Vec<PathBuf>) -> Vec<(Account, Removal)> {
        let (mut left, mut recent) = (Vec::new(), Vec::new());
        for (job, dir) in self.host.jobs() {
            let (name, before) = (format!("job {job}"), now - self.kept);
            match self.known(&job).await {
                KnownJob::Ended { at, .. } if at <= before => {
                    left.extend(blocking(&dir, |dir| folder(name, dir, |_| true)).await);
                }
                // Its record is deleted, or in a journal that is lost.
                KnownJob::No => {
                    let is_due = move |folder: &JobFolder| is_old(folder, before);
                    left.extend(blocking(&dir, move |dir| folder(name, dir, is_due)).await);
                }
                KnownJob::Ended { at, owner } => recent.push(EndedFolder { owner, ended: at, job, dir }),
                KnownJob::Yes => present.push(dir),
            }
        }
        if let Some(allowed) = self.results_bytes_per_user {
            for EndedFolder { owner, job, dir, .. } in self.results.excess(recent.clone(), allowed) {
                tracing::info!(%job, owner, allowed, "its results go: its user has more than `results_bytes_per_user`");
                left.extend(blocking(&dir, move |dir| folder(format!("job {job}"), dir, |_| true)).await);
            }
            // Nothing waits for it: a user can stop it.
            let unknown_bytes = self.host.cluster.limits.disk_bytes.bytes().unwrap_or(allowed);
            let is_short = *self.is_short.borrow();
            self.results.measure(Cycle { now, ended: recent, present, is_short, unknown_bytes });
        }
        left
    }

    /// The folders of subjobs that the machine does not know any more. Whether they ended long ago shows there.
    /// Then those of subjobs that it knows.
    async fn subjobs(&self, now: Time) -> (Vec<(Account, Removal)>, Vec<PathBuf>) {
        let (mut left, kept) = (Vec::new(), self.kept);
        // Before the machine is asked: a folder is made for a subjob that it knows.
        let folders = self.host.subjobs();
        let known = self
            .mailbox
            .ask(|server, _| server.known_subjobs().map(SubjobFolder::of).collect::<BTreeSet<_>>());
        let Ok(known) = known.await else { return (left, Vec::new()) };
        let (known, others): (Vec<_>, Vec<_>) =
            folders.into_iter().partition(|(name, _)| known.contains(name));
        for (name, dir) in others {
            let is_due = move |folder: &JobFolder| is_old(folder, now - kept);
            left.extend(blocking(&dir, move |dir| folder(name.to_string(), dir, is_due)).await);
        }
        (left, known.into_iter().map(|(_, dir)| dir).collect())
    }

    /// Throws away the uploads that rest and that no job waits for.
    async fn collect_uploads(&self) {
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
        self.mailbox.leads().await;
        resting(move || store.collect(&of, now)).await
    }

    /// What is known of a job that has a folder.
    async fn known(&self, job: &Handle) -> KnownJob {
        let wanted = job.clone();
        let in_memory = self.mailbox.ask(move |server: &mut Server, _| {
            let is_job = server.number_of(&wanted).and_then(|number| server.job(number)).is_some();
            is_job || server.prepared().any(|handoff| handoff.id.job == wanted)
        });
        if in_memory.await != Ok(false) {
            return KnownJob::Yes;
        }
        // In this order: what leaves the memory is in the archive by then.
        let wanted = job.clone();
        let row =
            archived(&self.archive, move |archive| archive.job(wanted.server.as_str(), wanted.number)).await;
        match row {
            Ok(Some(row)) => KnownJob::Ended { at: Time(row.ended), owner: row.owner },
            Ok(None) => KnownJob::No,
            Err(_) => KnownJob::Yes,
        }
    }
}

/// What the server knows of a job.
enum KnownJob {
    /// It has not ended, or only just, or the archive cannot be read.
    Yes,
    /// It ended then, and was of that user.
    Ended { at: Time, owner: String },
    /// Nothing.
    No,
}

/// A start gate, to be removed.
fn start_gate(host: &Host, number: u32) -> Option<(Account, Removal)> {
    let gate = host.gate(number, None).inspect_err(|error| {
        tracing::warn!(%error, number, "cannot see whose the start gate of a job is");
    });
    let gate = gate.ok()?;
    let account = account(gate.account());
    Some((account, Removal::new(format!("start gate {number}"), move || gate.remove().map(|()| true))))
}

/// All files and records of an execution, to be removed if they are due by then.
fn folder(
    name: String,
    dir: &Path,
    is_due: impl FnOnce(&JobFolder) -> bool + Send + 'static,
) -> Option<(Account, Removal)> {
    let folder = JobFolder::at(dir).inspect_err(|error| {
        tracing::warn!(%error, dir = %dir.display(), "cannot see whose the files of a job are");
    });
    let folder = folder.ok()?;
    let account = account(folder.account());
    let remove = move || -> Result<bool, FilesError> {
        let is_due = is_due(&folder);
        if is_due {
            folder.remove()?;
        }
        Ok(is_due)
    };
    Some((account, Removal::new(name, remove)))
}

fn account(run: Option<&AccountRun>) -> Account {
    run.map(|run| run.name.clone())
}

/// True if what runs in a folder ended before that time, or if its folder was changed before that time and it never began.
fn is_old(folder: &JobFolder, before: Time) -> bool {
    let ended = match folder.find() {
        Ok(FoundState::Ended(exit)) => i64::try_from(exit.ended_unix_ms / 1000).ok().map(Time),
        Ok(FoundState::NeverStarted | FoundState::Lost(_)) => changed(folder.records()),
        Ok(FoundState::Running) | Err(_) => None,
    };
    ended.is_some_and(|ended| ended <= before)
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
