//! The folders of jobs in a cluster: made ready, asked for an end, looked into, taken out of the way.

use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use pliant_model::{Procs, Span};
use pliant_policy::alternatives::Alternative;
use pliant_site::processes::{self, ProcessState};

use super::{Cluster, Job};
use crate::server::execution::{Allocation, Failure, Ready, Retry};

impl Cluster {
    /// Makes a job's folder ready to be run, with other processors and walltime if some are given and in whichever of its sizes,
    /// as soon as there is what that takes.
    pub(super) async fn prepared(
        &self,
        job: &Job,
        size: Option<(Procs, Span)>,
        alternatives: &[Alternative],
    ) -> Result<Ready, String> {
        let mut execution =
            job.execution.as_deref().cloned().ok_or("the server does not know it any more")?;
        let host = &self.host;
        // The batch system hands out cores by numbers of its own.
        if let Some((procs, walltime)) = size {
            execution = execution.with(host, procs, 0..procs.0, walltime);
        }
        let size = |size: &Alternative| Allocation::of(host, size.procs, 0..size.procs.0, size.walltime);
        let sizes: Vec<Allocation> = alternatives.iter().map(size).collect();
        let wanted = Arc::new((host.clone(), execution, sizes));
        self.until_ready(job.number, move || {
            let (host, execution, sizes) = &*wanted;
            execution.prepare(host, sizes)
        })
        .await
    }

    /// Does something in folders until it works, or never will.
    pub(super) async fn until_ready<A: Send + 'static>(
        &self,
        number: u32,
        act: impl Fn() -> Result<A, Failure> + Clone + Send + 'static,
    ) -> Result<A, String> {
        let mut retry = Retry::new("prepare a job", &number);
        loop {
            let done = tokio::task::spawn_blocking(act.clone()).await;
            match done {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(failure)) if !failure.may_pass => return Err(failure.public),
                Ok(Err(failure)) => retry.after(&failure.reason).await,
                Err(error) => retry.after(&error).await,
            }
        }
    }

    /// Has the supervisor of a job end it, or start nothing.
    pub(super) async fn ask_end(&self, job: &Job) {
        let Some(dir) = job.dir.clone() else { return };
        let is_ours = job.execution.is_some();
        let asked = tokio::task::spawn_blocking(move || ask_end(&dir, is_ours));
        if let Ok(Err(error)) = asked.await {
            tracing::error!(job = job.number, error, "cannot ask a job to end: the batch system does");
        }
    }

    /// True if a supervisor has the job.
    pub(super) async fn runs(&self, job: &Job) -> bool {
        let Some(dir) = job.dir.clone() else { return false };
        let found = tokio::task::spawn_blocking(move || processes::find(&dir)).await;
        matches!(found, Ok(Ok(ProcessState::Running(_))))
    }

    /// True if a job has no folder any more, though it was given one before it could start.
    pub(super) async fn was_removed(&self, job: &Job) -> bool {
        let Some(dir) = job.dir.clone() else { return false };
        let exists = tokio::task::spawn_blocking(move || dir.try_exists());
        matches!(exists.await, Ok(Ok(false)))
    }

    /// Takes the folder of a job that will not run here out of the way, so that a submission which comes to light later
    /// finds nothing to run. False if it was begun.
    pub(super) async fn remove_folder(&self, job: &Job) -> bool {
        let Some(dir) = job.dir.clone() else { return true };
        let aside = dir.with_file_name(format!(".withdrawn-{}", job.number));
        let mut retry = Retry::new("remove the folder of a job", &job.number);
        loop {
            let (dir, aside) = (dir.clone(), aside.clone());
            let put = tokio::task::spawn_blocking(move || remove_folder(&dir, &aside)).await;
            match put.unwrap_or_else(|_| Err("internal error".to_owned())) {
                Ok(is_removed) => return is_removed,
                Err(why) => retry.after(&why).await,
            }
        }
    }
}

/// Asks for the end of a job in its folder. One that is ours gets it now if it has none yet: what is submitted or released
/// meanwhile starts nothing then.
fn ask_end(dir: &Path, is_ours: bool) -> Result<(), String> {
    if is_ours {
        let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        created.map_err(|error| error.to_string())?;
    } else if !dir.exists() {
        return Ok(());
    }
    processes::ask_end(dir).map_err(|error| error.to_string())
}

fn remove_folder(dir: &Path, aside: &Path) -> Result<bool, String> {
    let is_unclaimed = |dir: &Path| match processes::find(dir) {
        Ok(found) => Ok(matches!(found, ProcessState::NeverStarted)),
        Err(error) => Err(error.to_string()),
    };
    if dir.exists() {
        if !is_unclaimed(dir)? {
            return Ok(false);
        }
        std::fs::rename(dir, aside).map_err(|error| error.to_string())?;
    }
    if !aside.exists() {
        return Ok(true);
    }
    if !is_unclaimed(aside)? {
        // In the instant before.
        std::fs::rename(aside, dir).map_err(|error| error.to_string())?;
        return Ok(false);
    }
    if let Err(error) = std::fs::remove_dir_all(aside) {
        tracing::warn!(%error, dir = %aside.display(), "cannot remove the files of a job");
    }
    Ok(true)
}
