//! The outcome of a call: its results, with the files among them, or why it failed.

use pliant_calls::frame::{self, FrameKind};
use pliant_calls::{ParameterType, Value, decode};
use pliant_control::job::{Exit, JobRecord};
use pliant_control::names::Handle;
use pliant_staging::ResultName;
use pliant_wire as wire;

use super::{CallEnd, CallError, StartedCall, files, large};
use crate::{Client, ClientError};

impl Client {
    /// How a call ended whose job has ended; `outcome` is what came with the end.
    pub(super) async fn end_of(
        &self,
        call: &StartedCall,
        record: JobRecord,
        outcome: Vec<u8>,
    ) -> Result<CallEnd, CallError> {
        let exit = record.exit.unwrap_or(Exit::Lost("its end is not known".to_owned()));
        if exit == Exit::Cancelled {
            return Ok(CallEnd::Cancelled);
        }
        let is_success = exit == Exit::Code(0);
        let needs_files =
            is_success && call.signature.outputs().any(|parameter| parameter.kind == ParameterType::File);
        let has_outcome = !outcome.is_empty();
        let outcome = match has_outcome {
            true => outcome,
            // Of one that was lost there may be nothing.
            false => match self.fetched_outcome(&call.job).await {
                Ok(outcome) => outcome,
                Err(error) if is_success => return Err(error),
                Err(_) => return Ok(CallEnd::Failed { reason: exit.to_string(), exit }),
            },
        };
        let read = large::blocking(outcome.len(), || frame::read(&mut &outcome[..]));
        let read = read.map_err(|error| ClientError::protocol(error).into());
        match (read, is_success) {
            (Ok(Some((header, payload))), true) if header.kind == FrameKind::Result => {
                let results = large::blocking(payload.len(), || decode(&payload));
                let results = results.map_err(ClientError::protocol)?;
                if results.len() != call.signature.parameters().len() {
                    return Err(
                        ClientError::protocol("expected one value for each parameter, found others").into()
                    );
                }
                if needs_files {
                    self.fetch_files(call, &results).await?;
                }
                Ok(CallEnd::Completed(results))
            }
            (Ok(Some((header, payload))), false) if header.kind == FrameKind::Failure => {
                Ok(CallEnd::Failed { exit, reason: String::from_utf8_lossy(&payload).into_owned() })
            }
            (Err(error), true) => Err(error),
            (Ok(_), true) => {
                Err(ClientError::protocol("expected the outcome of a call, found another").into())
            }
            // It has ended after its outcome was written.
            (_, false) => Ok(CallEnd::Failed { reason: exit.to_string(), exit }),
        }
    }

    /// The local copies of files that come back.
    async fn fetch_files(&self, call: &StartedCall, results: &[Option<Value>]) -> Result<(), CallError> {
        let listed = self.results(&call.job).await?.files;
        for (at, value) in results.iter().enumerate() {
            let (Some(Value::File(name)), Some(path)) = (value, call.files.get(&at)) else { continue };
            let wanted =
                |name_of: &ResultName| matches!(name_of, ResultName::File(file) if file.as_str() == name);
            match listed.iter().find(|file| wanted(&file.name)) {
                Some(file) => self.fetch_to(&call.job, file, path).await?,
                // A file that was not changed is no result: the local one has its content.
                None if call.signature.parameters()[at].direction.is_input() => {}
                None => {
                    return Err(ClientError::failed(format!(
                        "the result {name} of job {} is missing",
                        call.job
                    ))
                    .into());
                }
            }
        }
        Ok(())
    }

    /// The outcome of a call that did not come with the end of its job.
    async fn fetched_outcome(&self, job: &Handle) -> Result<Vec<u8>, CallError> {
        let listed = self.results(job).await?.files;
        let is_outcome =
            |name: &ResultName| matches!(name, ResultName::File(file) if file.as_str() == wire::CALL_OUTCOME);
        let Some(file) = listed.iter().find(|file| is_outcome(&file.name)) else {
            return Err(ClientError::failed(format!("the outcome of job {job} is missing")).into());
        };
        let folder = files::folder()?;
        self.fetch(job, file, folder.path()).await?;
        files::read(folder.path().join(pliant_staging::WORK).join(wire::CALL_OUTCOME)).await
    }
}
