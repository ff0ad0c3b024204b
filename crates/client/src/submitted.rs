//! What was submitted as a job, and its input files, to submit it again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pliant_control::job::JobRecord;
use pliant_control::names::Handle;
use pliant_staging::{Checksum, FileName, FileSpec, ResultName, WORK};
use pliant_wire::{self as wire, Fetchable, JobResults, SubmittedJob};
use tonic::Code;

use super::{Client, ClientError};

/// The state of an input file of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputState {
    /// The job has not ended; its files cannot be read yet.
    Pending,
    /// It is there as it was submitted, and can be downloaded.
    Kept,
    /// The job has changed it.
    Changed,
    /// It was removed, by the job or with the folder of the job.
    Removed,
    /// The server does not list it, and its list of files is incomplete: it may be there.
    Unknown,
}

/// An input file of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmittedInput {
    /// The file, as it was submitted.
    pub file: FileSpec,
    /// Its state.
    pub state: InputState,
}

impl Client {
    /// What was submitted as a job.
    ///
    /// # Errors
    ///
    /// If the job is a batch of a multi-job, or its server does not keep it or does not answer.
    pub async fn submitted(&self, handle: &Handle) -> Result<SubmittedJob, ClientError> {
        loop {
            let mut server = self.server_of(handle).await?;
            let status = match server.submitted(self.request(wire::job_request(handle))).await {
                Ok(reply) => {
                    return SubmittedJob::try_from(reply.into_inner()).map_err(ClientError::protocol);
                }
                Err(status) => status,
            };
            let (is_moved, error) = (wire::moved_to(&status).is_some(), self.server_failed(handle, &status));
            match status.code() {
                _ if is_moved => {}
                Code::Unimplemented => {
                    let problem = format!(
                        "the server of job {handle} has an earlier version, which does not keep what was submitted"
                    );
                    return Err(ClientError::missing(problem));
                }
                _ => return Err(error),
            }
        }
    }

    /// The input files of a job with the state of each, which the results of the job say once it has ended.
    pub async fn submitted_inputs(
        &self,
        record: &JobRecord,
        inputs: &[FileSpec],
    ) -> Result<Vec<SubmittedInput>, ClientError> {
        let results = match record.state.is_final() {
            true if !inputs.is_empty() => Some(self.results(&record.handle).await?),
            _ => None,
        };
        Ok(states(inputs, results.as_ref()))
    }

    /// Fetches the input files of a job that has ended into a folder, each with its checksum verified, and returns their paths.
    ///
    /// # Errors
    ///
    /// If a file is not there as it was submitted, or cannot be fetched.
    pub async fn fetch_inputs(
        &self,
        record: &JobRecord,
        inputs: &[FileSpec],
        folder: &Path,
    ) -> Result<Vec<(FileSpec, PathBuf)>, ClientError> {
        let handle = &record.handle;
        let found = self.submitted_inputs(record, inputs).await?;
        if let Some(SubmittedInput { file, state }) =
            found.iter().find(|input| input.state != InputState::Kept)
        {
            return Err(unusable(handle, file, *state));
        }
        let mut fetched = Vec::new();
        for SubmittedInput { file, .. } in found {
            let FileSpec { name, size, sha256 } = &file;
            let wanted = Fetchable { name: ResultName::File(name.clone()), size: *size, sha256: *sha256 };
            self.fetch(handle, &wanted, folder).await?;
            let path = folder.join(WORK).join(name.as_str());
            fetched.push((file, path));
        }
        Ok(fetched)
    }
}

/// The states of input files by the results of the job, which are none if it has not ended.
fn states(inputs: &[FileSpec], results: Option<&JobResults>) -> Vec<SubmittedInput> {
    let kept: BTreeSet<&FileName> = results.iter().flat_map(|results| &results.inputs).collect();
    let left: BTreeMap<&FileName, Checksum> = results
        .iter()
        .flat_map(|results| &results.files)
        .filter_map(|file| match &file.name {
            ResultName::File(name) => Some((name, file.sha256)),
            ResultName::Stdout | ResultName::Stderr => None,
        })
        .collect();
    let state = |file: &FileSpec| match left.get(&file.name) {
        _ if results.is_none() => InputState::Pending,
        _ if kept.contains(&file.name) => InputState::Kept,
        // It was written anew with the same bytes.
        Some(sha256) if *sha256 == file.sha256 => InputState::Kept,
        Some(_) => InputState::Changed,
        None if results.is_some_and(|results| results.left_out_count > 0) => InputState::Unknown,
        None => InputState::Removed,
    };
    inputs.iter().map(|file| SubmittedInput { file: file.clone(), state: state(file) }).collect()
}

fn unusable(handle: &Handle, file: &FileSpec, state: InputState) -> ClientError {
    let name = file.name.as_str();
    let (why, hint) = match state {
        InputState::Pending => ("the job has not ended", "wait until it has ended, or cancel it"),
        InputState::Changed => ("the job has changed it", "give the file yourself, with --in"),
        InputState::Unknown => {
            ("the server lists only a part of the job's files", "give the file yourself, with --in")
        }
        InputState::Removed | InputState::Kept => ("it was removed", "give the file yourself, with --in"),
    };
    ClientError::usage(format!(
        "input file {name} of job {handle}: expected it as it was submitted, but {why}"
    ))
    .with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> FileSpec {
        FileSpec {
            name: name.parse().unwrap(),
            size: text.len() as u64,
            sha256: Checksum::of(text.as_bytes()),
        }
    }

    #[test]
    fn an_input_is_kept_changed_removed_or_unknown() {
        let inputs = ["kept", "same", "changed", "in/removed"].map(|name| file(name, name));
        let left = |name: &str, text: &str| {
            let FileSpec { name, size, sha256 } = file(name, text);
            Fetchable { name: ResultName::File(name), size, sha256 }
        };
        let results = JobResults {
            files: vec![left("same", "same"), left("changed", "other"), left("new", "new")],
            inputs: vec!["kept".parse().unwrap()],
            ..JobResults::default()
        };
        let found = |results: Option<&JobResults>| {
            states(&inputs, results).into_iter().map(|input| input.state).collect::<Vec<_>>()
        };
        use InputState::{Changed, Kept, Pending, Removed, Unknown};
        assert_eq!(found(Some(&results)), [Kept, Kept, Changed, Removed]);
        let cut = JobResults { left_out_count: 1, ..results.clone() };
        assert_eq!(found(Some(&cut)), [Kept, Kept, Changed, Unknown]);
        let none = JobResults::default();
        assert_eq!(found(Some(&none)), [Removed; 4]);
        assert_eq!(found(None), [Pending; 4]);
    }
}
