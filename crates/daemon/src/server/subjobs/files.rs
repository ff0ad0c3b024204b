//! What tasks of launches left at this server, for their owner: as that of jobs, once a task has ended. Who the owner is stands
//! in the subjob's folder, which is there longer than the subjob is in the machine's memory.

use std::io::ErrorKind;
use std::path::PathBuf;

use pliant_control::access::Caller;
use pliant_site::JobFolder;
use pliant_site::processes::{FoundState, TaskEnd, TaskList};
use pliant_wire::{LaunchTask, TaskDownload, proto};
use tonic::{Request, Response, Status};

use crate::server::execution::Host;
use crate::server::files::{self, Wanted};
use crate::server::service::Service;

#[tonic::async_trait]
impl proto::task_files_server::TaskFiles for Service {
    async fn results(
        &self,
        request: Request<proto::LaunchTask>,
    ) -> Result<Response<proto::ResultsReply>, Status> {
        let (caller, _pass) = self.gate.user(&request)?;
        let of = LaunchTask::try_from(request.into_inner())?;
        let Ended { subjob, cut } = self.ended_task(&caller, &of).await?;
        files::left((&self.sealing, &caller.user), subjob, Some(of.task), move |_| cut)
            .await
            .map(Response::new)
    }

    type DownloadStream = files::DownloadStream;

    async fn download(
        &self,
        request: Request<proto::TaskDownload>,
    ) -> Result<Response<Self::DownloadStream>, Status> {
        let (caller, open) = self.open(&request)?;
        let TaskDownload { of, name, offset } = request.into_inner().try_into()?;
        let Ended { subjob, .. } = self.ended_task(&caller, &of).await?;
        let wanted = Wanted { of: of.to_string(), task: Some(of.task), name, offset, follow: false };
        Ok(Response::new(files::download(subjob, wanted, open, || async { Ok(true) })))
    }
}

/// A task that has ended.
struct Ended {
    /// The folder of its subjob.
    subjob: PathBuf,
    /// Of which of its outputs something was dropped.
    cut: [bool; 2],
}

/// What there is of a task.
enum Task {
    /// Nothing that the caller may know of.
    None,
    Runs,
    Ended(Ended),
}

impl Service {
    async fn ended_task(&self, caller: &Caller, of: &LaunchTask) -> Result<Ended, Status> {
        let (host, caller, wanted) = (self.host.clone(), caller.clone(), of.clone());
        let found = tokio::task::spawn_blocking(move || find(&host, &caller, &wanted)).await;
        match found.map_err(|_| Status::internal("a file operation failed"))? {
            Ok(Task::Ended(ended)) => Ok(ended),
            Ok(Task::Runs) => {
                let why = format!("{of} runs; its results are there once it has ended");
                Err(Status::failed_precondition(why))
            }
            Ok(Task::None) => Err(Status::not_found(format!(
                "server {} has nothing of {of}: it never ran here, or its files were removed",
                self.offer.info.name
            ))),
            Err(error) => {
                // Paths of this host are not for users.
                tracing::error!(%error, task = %of, "cannot list the files of a task");
                Err(Status::unavailable("the server cannot read its files at the moment"))
            }
        }
    }
}

/// Looks into the folders of a launch's subjobs.
fn find(host: &Host, caller: &Caller, of: &LaunchTask) -> std::io::Result<Task> {
    for (_, subjob) in host.subjobs().into_iter().filter(|(name, _)| name.is_of(&of.launch)) {
        let folder = JobFolder::at(&subjob).map_err(std::io::Error::other)?;
        if !folder.may_have_begun(&of.task) {
            continue;
        }
        return match TaskList::of(&subjob) {
            Ok(TaskList::Subjob(spec)) if !spec.tasks.iter().any(|task| task.name == of.task) => continue,
            Ok(TaskList::Subjob(spec)) if caller.may_access(&spec.owner) => {
                Ok(ended(subjob, &folder, &of.task))
            }
            Ok(_) => Ok(Task::None),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Task::None),
            Err(error) => Err(error),
        };
    }
    Ok(Task::None)
}

/// Whether a task that has begun has ended: by itself, or with its subjob.
fn ended(subjob: PathBuf, folder: &JobFolder, task: &str) -> Task {
    let ends = folder.task_ends(u64::MAX).ok().and_then(|(_, ends)| ends).unwrap_or_default();
    if let Some(end) = ends.into_iter().find(|end: &TaskEnd| end.task == task) {
        return Task::Ended(Ended { subjob, cut: end.cut });
    }
    match folder.find() {
        Ok(FoundState::Ended(_) | FoundState::Lost(_)) => Task::Ended(Ended { subjob, cut: [false; 2] }),
        Ok(FoundState::Running | FoundState::NeverStarted) | Err(_) => Task::Runs,
    }
}
