//! The folders of jobs in a cluster: made ready, asked for an end, looked into, taken out of the way.
//!
//! A standby on another host has the same folders. So a server changes none before it knows that it still leads.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pliant_model::{Procs, Span};
use pliant_policy::alternatives::Alternative;
use pliant_site::processes::{self, AccountFailures, FoundState};
use pliant_site::{FilesError, JobFolder};
use pliant_staging::WORK;

use super::{Cluster, Job};
use crate::server::execution::{Allocation, Execution, Failure, Ready, Retry};

/// How long what runs as an account may keep a job from being queued or released.
const ACCOUNT_TIMEOUT: Duration =
    if cfg!(test) { Duration::from_secs(2) } else { processes::ACCOUNT_TIMEOUT_MIN };

/// Why a job cannot be made ready, for its owner.
#[derive(Debug)]
pub(super) struct NotReady(pub(super) String);

impl Cluster {
    /// Makes a job's folder ready to be run, with other processors and walltime if some are given and in whichever of its sizes,
    /// as soon as there is what that takes.
    pub(super) async fn prepared(
        &self,
        job: &Job,
        size: Option<(Procs, Span)>,
        alternatives: &[Alternative],
    ) -> Result<Ready, NotReady> {
        let unknown = || NotReady("the server does not know it any more".to_owned());
        let mut execution = job.execution.as_deref().cloned().ok_or_else(unknown)?;
        let host = &self.host;
        // The batch system hands out cores by numbers of its own.
        if let Some((procs, walltime)) = size {
            execution = execution.with(host, procs, 0..procs.0, walltime);
        }
        let size = |size: &Alternative| Allocation::of(host, size.procs, 0..size.procs.0, size.walltime);
        let sizes: Vec<Allocation> = alternatives.iter().map(size).collect();
        let wanted = Arc::new((host.clone(), execution, sizes));
        self.until_ready(job, move || {
            let (host, execution, sizes) = &*wanted;
            execution.prepare(host, sizes)
        })
        .await
    }

    /// Does something in a job's folders until it works, never will, or what runs as its account has failed for too long.
    pub(super) async fn until_ready<A: Send + 'static>(
        &self,
        job: &Job,
        act: impl Fn() -> Result<A, Failure> + Clone + Send + 'static,
    ) -> Result<A, NotReady> {
        let mut retry = Retry::new("prepare a job", &job.number);
        let mut failures = AccountFailures::default();
        loop {
            self.mailbox.leads().await;
            let done = tokio::task::spawn_blocking(act.clone()).await;
            match done {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(failure)) => {
                    let is_over = |execution: &Arc<Execution>| {
                        failure.is_of_account && failures.last_too_long(&execution.dir, ACCOUNT_TIMEOUT)
                    };
                    if !failure.may_pass || job.execution.as_ref().is_some_and(is_over) {
                        return Err(NotReady(failure.public));
                    }
                    retry.after(&failure.reason).await;
                }
                Err(error) => retry.after(&error).await,
            }
        }
    }

    /// Has the supervisor of a job end it, or start nothing.
    pub(super) async fn ask_end(&self, job: &Job) {
        let Some(folder) = job.folder.clone() else { return };
        let (execution, host) = (job.execution.clone(), self.host.clone());
        self.mailbox.leads().await;
        let asked = tokio::task::spawn_blocking(move || -> Result<(), Failure> {
            if let Some(execution) = &execution {
                execution.note_account(&host)?;
            }
            // One that is ours gets its folder now if it has none yet: what is submitted or released meanwhile starts nothing then.
            Ok(folder.ask_end(execution.is_some())?)
        });
        if let Ok(Err(error)) = asked.await {
            tracing::error!(
                job = job.number,
                error = error.reason,
                "cannot ask a job to end: the batch system does"
            );
        }
    }

    /// True if a supervisor has the job.
    pub(super) async fn runs(&self, job: &Job) -> bool {
        let Some(folder) = job.folder.clone() else { return false };
        let found = tokio::task::spawn_blocking(move || folder.find()).await;
        matches!(found, Ok(Ok(FoundState::Running)))
    }

    /// True if a job has no folder any more, though it was given one before it could start.
    pub(super) async fn was_removed(&self, job: &Job) -> bool {
        let Some(folder) = job.folder.clone() else { return false };
        let exists = tokio::task::spawn_blocking(move || folder.exists());
        matches!(exists.await, Ok(Ok(false)))
    }

    /// Takes the folder of a job that will not run here out of the way, so that a submission which comes to light later
    /// finds nothing to run. False if it was begun.
    pub(super) async fn remove_folder(&self, job: &Job) -> bool {
        let Some(folder) = job.folder.clone() else { return true };
        // The launcher takes no name that begins with a point.
        let aside = match folder.account() {
            Some(_) => format!("{}-withdrawn-{}", self.host.server, job.number),
            None => format!(".withdrawn-{}", job.number),
        };
        let mut retry = Retry::new("remove the folder of a job", &job.number);
        loop {
            let (folder, aside) = (folder.clone(), aside.clone());
            self.mailbox.leads().await;
            match tokio::task::spawn_blocking(move || folder.remove_unclaimed(&aside)).await {
                Ok(Ok(is_removed)) => return is_removed,
                Ok(Err(error)) => retry.after(&error).await,
                Err(error) => retry.after(&error).await,
            }
        }
    }
}

/// Removes the server's own copies of the input files of a job that has ended, and that ran as an account: it moves no more.
pub(super) async fn remove_copies(records: PathBuf) {
    let removed = tokio::task::spawn_blocking(move || -> Result<(), FilesError> {
        if JobFolder::at(&records)?.account().is_some() {
            let _ = fs::remove_dir_all(records.join(WORK));
        }
        Ok(())
    });
    if let Ok(Err(error)) = removed.await {
        tracing::warn!(%error, "cannot see as whom a job ran");
    }
}
