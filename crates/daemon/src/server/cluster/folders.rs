//! The folders of jobs in a cluster: made ready, asked for an end, looked into, taken out of the way.
//!
//! A standby on another host has the same folders. So a server changes none before it knows that it still leads.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use pliant_model::{Procs, Span};
use pliant_policy::alternatives::Alternative;
use pliant_site::processes::FoundState;
use pliant_site::{FilesError, JobFolder};
use pliant_staging::WORK;

use super::{Cluster, Job};
use crate::server::execution::{Allocation, Failure, Ready, Retry, bounded};

/// Why a job is not made ready, for its owner.
#[derive(Debug)]
pub(super) enum NotReady {
    /// It never will be.
    Failed(String),
    /// It is not to be submitted any more.
    Unwanted,
}

impl NotReady {
    pub(super) fn failed(why: String) -> NotReady {
        NotReady::Failed(bounded(why))
    }
}

impl Cluster {
    /// Makes a job's folder ready to be run, with other processors and walltime if some are given and in whichever of its sizes,
    /// as soon as there is what that takes.
    pub(super) async fn prepared(
        &self,
        job: &Job,
        size: Option<(Procs, Span)>,
        alternatives: &[Alternative],
    ) -> Result<Ready, NotReady> {
        let unknown = || NotReady::failed("the server does not know it any more".to_owned());
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

    /// Does something in a job's folders until it works or never will, or the job is not to be submitted any more.
    pub(super) async fn until_ready<A: Send + 'static>(
        &self,
        job: &Job,
        act: impl Fn() -> Result<A, Failure> + Clone + Send + 'static,
    ) -> Result<A, NotReady> {
        let (number, mut retry) = (job.number, Retry::new("prepare a job", &job.number));
        loop {
            self.mailbox.leads().await;
            let done = tokio::task::spawn_blocking(act.clone()).await;
            match done {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(failure)) if !failure.may_pass => return Err(NotReady::failed(failure.public)),
                Ok(Err(failure)) => retry.after(&failure.reason).await,
                Err(error) => retry.after(&error).await,
            }
            // Between two tries: nothing else is done in its folders then.
            if let Ok(true) = self.mailbox.ask(move |server, _| server.is_unwanted(number)).await {
                return Err(NotReady::Unwanted);
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
