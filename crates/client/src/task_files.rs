//! Files of the tasks of launches: uploads inputs once the servers of tasks are known, and downloads results.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pliant_control::coallocation::{LaunchEnd, LaunchRecord, LaunchState, TaskSpec};
use pliant_control::names::{Key, Name};
use pliant_staging::{Checksum, FileSpec};
use pliant_wire::proto::task_files_client::TaskFilesClient;
use pliant_wire::{self as wire, Fetchable, JobResults, LaunchTask, TaskDownload, TaskProgram, proto};
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::files::fetched;
use super::{ANSWER_BYTES_MAX, Client, ClientError, is_unavailable};

/// The local paths of input files, by checksum.
pub type InputPaths = BTreeMap<Checksum, PathBuf>;

/// Sends the input files of tasks to the tasks' servers, each file once to each server. Subjobs are prepared once all files are
/// there.
pub struct InputSender {
    client: Client,
    key: Key,
    /// The files of each task, as they are uploaded.
    files: BTreeMap<String, Vec<FileSpec>>,
    paths: InputPaths,
    /// Servers that have all files.
    sent: BTreeSet<Name>,
    under_way: BTreeSet<Name>,
    uploads: JoinSet<(Name, Result<(), ClientError>)>,
    /// The last failure.
    problem: Option<ClientError>,
}

impl InputSender {
    /// A sender of the input files of these tasks.
    ///
    /// # Errors
    /// The path of a file is missing.
    pub fn new<'a>(
        client: &Client,
        key: Key,
        tasks: impl IntoIterator<Item = &'a TaskSpec>,
        paths: &InputPaths,
    ) -> Result<InputSender, ClientError> {
        let mut files = BTreeMap::new();
        for task in tasks {
            let inputs = task.payload.read::<TaskProgram>().map_err(ClientError::failed)?.inputs;
            if let Some(lost) = inputs.iter().find(|file| !paths.contains_key(&file.sha256)) {
                let name = lost.name.as_str();
                return Err(ClientError::usage(format!(
                    "task `{}`: expected a local path of the input file {name}, found none",
                    task.name
                )));
            }
            if !inputs.is_empty() {
                files.insert(task.name.clone(), inputs.iter().map(TaskProgram::uploaded).collect());
            }
        }
        Ok(InputSender {
            client: client.clone(),
            key,
            files,
            paths: paths.clone(),
            sent: BTreeSet::new(),
            under_way: BTreeSet::new(),
            uploads: JoinSet::new(),
            problem: None,
        })
    }

    /// Starts the uploads that the record of the launch shows to be needed. An error if an upload fails for good.
    pub fn go_on(&mut self, record: &LaunchRecord) -> Result<(), ClientError> {
        while let Some(ended) = self.uploads.try_join_next() {
            let (server, uploaded) = ended.map_err(ClientError::failed)?;
            self.under_way.remove(&server);
            match uploaded {
                Ok(()) => drop(self.sent.insert(server)),
                Err(error) if error.may_pass() => {
                    tracing::debug!(%server, %error, "input files were not sent: tried again");
                    self.client.forget_server(&server);
                    self.problem = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        if is_late(record) {
            self.uploads.abort_all();
            return Ok(());
        }
        for (server, files) in self.wanted(record) {
            if self.sent.contains(&server) || !self.under_way.insert(server.clone()) {
                continue;
            }
            let (client, key, paths) = (self.client.clone(), self.key, self.paths.clone());
            self.uploads.spawn(async move {
                let sent = send(&client, &server, key, &files, &paths).await;
                (server, sent)
            });
        }
        Ok(())
    }

    /// True if no more files have to be sent, by the record of the launch.
    pub fn is_done(&self, record: &LaunchRecord) -> bool {
        let known = || {
            let placed = |name: &String| {
                let task = record.tasks.iter().find(|task| task.name == *name);
                task.is_some_and(|task| task.allocation.is_some() || task.not_spawned.is_some())
            };
            self.files.keys().all(placed)
        };
        let all_sent = || self.wanted(record).keys().all(|server| self.sent.contains(server));
        self.files.is_empty() || is_late(record) || (known() && all_sent())
    }

    /// The record of a launch that is over, or an error if a failed upload may be why its subjobs were not prepared.
    pub(super) fn explained(&self, record: LaunchRecord) -> Result<LaunchRecord, ClientError> {
        match (&record.end, &self.problem) {
            (Some(end @ LaunchEnd::NotReserved(_)), Some(problem)) if !self.files.is_empty() => {
                Err(ClientError::failed(format!(
                    "{}: {end}; its input files were not sent: {problem}",
                    record.id
                )))
            }
            _ => Ok(record),
        }
    }

    /// The files of each server, as far as tasks are placed.
    fn wanted(&self, record: &LaunchRecord) -> BTreeMap<Name, Vec<FileSpec>> {
        let mut wanted: BTreeMap<Name, BTreeMap<Checksum, FileSpec>> = BTreeMap::new();
        for task in &record.tasks {
            if let (Some((server, _)), Some(files)) = (&task.allocation, self.files.get(&task.name)) {
                let there = wanted.entry(server.clone()).or_default();
                there.extend(files.iter().map(|file| (file.sha256, file.clone())));
            }
        }
        wanted.into_iter().map(|(server, files)| (server, files.into_values().collect())).collect()
    }
}

/// True if no task of the launch waits for files any more.
fn is_late(record: &LaunchRecord) -> bool {
    matches!(record.state, LaunchState::Ending | LaunchState::Over)
}

async fn send(
    client: &Client,
    server: &Name,
    key: Key,
    files: &[FileSpec],
    paths: &InputPaths,
) -> Result<(), ClientError> {
    for file in files {
        let path = paths.get(&file.sha256).expect("a sender knows where its files are");
        client.upload_to(server, key, file, path).await?;
    }
    Ok(())
}

impl Client {
    /// The results of a task that has ended. Waits until its server has listed them.
    ///
    /// # Errors
    /// The server is down, or does not have the task.
    pub async fn task_results(&self, server: &Name, of: &LaunchTask) -> Result<JobResults, ClientError> {
        loop {
            let mut files = self.task_files(server).await?;
            match files.results(self.request(proto::LaunchTask::from(of))).await {
                Ok(reply) => return JobResults::try_from(reply.into_inner()).map_err(ClientError::protocol),
                Err(status) if status.metadata().contains_key(wire::RESULTS_PENDING) => {
                    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                }
                Err(status) => return Err(self.task_files_failed(server, &status)),
            }
        }
    }

    /// Fetches a result into a folder from where an earlier attempt broke off, and verifies its checksum.
    ///
    /// # Errors
    /// As for [`Client::task_results`], or the folder cannot be written to.
    pub async fn fetch_of_task(
        &self,
        server: &Name,
        of: &LaunchTask,
        file: &Fetchable,
        folder: &Path,
    ) -> Result<(), ClientError> {
        let begin = |offset| async move {
            let wanted = TaskDownload { of: of.clone(), name: file.name.clone(), offset };
            // A stream has no deadline: a file may be large.
            let mut request = Request::new(proto::TaskDownload::from(&wanted));
            self.request.add_to_call(request.metadata_mut());
            let reply = self.task_files(server).await?.download(request).await;
            Ok(reply.map_err(|status| self.task_files_failed(server, &status))?.into_inner())
        };
        fetched(file, folder, begin, |status| self.task_files_failed(server, &status)).await
    }

    async fn task_files(&self, server: &Name) -> Result<TaskFilesClient<Channel>, ClientError> {
        let channel = self.channel_named(server).await?;
        Ok(TaskFilesClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX))
    }

    fn task_files_failed(&self, server: &Name, status: &Status) -> ClientError {
        if is_unavailable(status) {
            // It may come up at another address.
            self.forget_server(server);
        }
        ClientError::call(format!("server {server}"), status)
    }
}
