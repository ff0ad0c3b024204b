//! The results of the tasks of a launch, each in a folder of its name.

use std::path::Path;

use pliant_control::coallocation::{LaunchEnd, LaunchRecord, LaunchState};
use pliant_control::names::Name;
use pliant_wire::{JobResults, LaunchTask};

use super::{Client, ClientError};

/// The fetched results of a launch.
#[derive(Default)]
pub struct FetchedLaunch {
    /// The tasks whose results are there, with their servers.
    pub tasks: Vec<(LaunchTask, Name, JobResults)>,
    /// Of each task without results, because it never started.
    pub not_started: Vec<ClientError>,
    /// Why other results are missing.
    pub errors: Vec<ClientError>,
}

/// A step of fetching the results of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FetchStep {
    /// The results of a task are so many bytes.
    Begin(u64),
    /// So many more bytes are there.
    Bytes(u64),
    /// The results of the task are there, or could not be fetched.
    End,
}

/// True if a launch is over and its tasks ran.
pub fn has_run(record: &LaunchRecord) -> bool {
    let ran = |end: &LaunchEnd| {
        !matches!(end, LaunchEnd::Mapped | LaunchEnd::NotMapped(_) | LaunchEnd::NotReserved(_))
    };
    record.state == LaunchState::Over && record.end.as_ref().is_some_and(ran)
}

impl Client {
    /// Fetches the results of all tasks of a launch that is over. A server that is down does not hold up the others.
    pub async fn fetch_launch(
        &self,
        record: &LaunchRecord,
        folder: &Path,
        mut report: impl FnMut(FetchStep),
    ) -> FetchedLaunch {
        let mut fetched = FetchedLaunch::default();
        let mut silent: Vec<&Name> = Vec::new();
        for task in record.tasks.iter().filter(|task| task.not_spawned.is_none()) {
            let Some((server, _)) = task.allocation.as_ref().filter(|(server, _)| !silent.contains(&server))
            else {
                continue;
            };
            let of = LaunchTask { launch: record.id.clone(), task: task.name.clone() };
            match self.fetch_task(server, &of, &folder.join(&task.name), &mut report).await {
                Ok(results) => fetched.tasks.push((of, server.clone(), results)),
                Err(error) if error.is_missing() => fetched.not_started.push(error),
                Err(error) => {
                    if error.may_pass() {
                        silent.push(server);
                    }
                    fetched.errors.push(error);
                }
            }
        }
        fetched
    }

    async fn fetch_task(
        &self,
        server: &Name,
        of: &LaunchTask,
        folder: &Path,
        report: &mut impl FnMut(FetchStep),
    ) -> Result<JobResults, ClientError> {
        let results = self.task_results(server, of).await?;
        report(FetchStep::Begin(results.files.iter().map(|file| file.size).sum()));
        for file in &results.files {
            if let Err(error) = self.fetch_of_task(server, of, file, folder).await {
                report(FetchStep::End);
                return Err(error);
            }
            report(FetchStep::Bytes(file.size));
        }
        report(FetchStep::End);
        Ok(results)
    }
}
