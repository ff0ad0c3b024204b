//! What a user submitted, in a file of the folder with the records of the job: the machine forgets it once the job has ended.
//!
//! The file is JSON with a number of its version. It goes when the folder goes. Nothing that runs the job reads it.

use std::path::Path;

use pliant_staging::{FileSpec, StagingError, put_submitted, submitted};
use pliant_wire::{SubmittedJob, SubmittedWork};
use serde::{Deserialize, Serialize};

use super::Program;

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// The file.
#[derive(Serialize, Deserialize)]
struct SubmittedFile {
    version: u32,
    what: SubmittedWork,
    inputs: Vec<FileSpec>,
    pinned: bool,
}

impl Program {
    /// What its user submitted; none of a batch of instances, which is a part of a multi-job.
    pub(in crate::server) fn submitted_job(&self, pinned: bool) -> Option<SubmittedJob> {
        let what = self.submitted.clone()?;
        Some(SubmittedJob { what, inputs: self.inputs.clone(), pinned })
    }
}

/// Keeps what a user submitted in the folder of the job's records.
///
/// # Errors
///
/// The file cannot be written.
pub(in crate::server) fn keep_submitted(dir: &Path, job: SubmittedJob) -> Result<(), StagingError> {
    put_submitted(dir, submitted_text(job).as_bytes())
}

/// The content of the file with what a user submitted.
pub(in crate::server) fn submitted_text(job: SubmittedJob) -> String {
    let SubmittedJob { what, inputs, pinned } = job;
    let file = SubmittedFile { version: VERSION, what, inputs, pinned };
    serde_json::to_string(&file).expect("what is submitted is plain data with text keys")
}

/// What a user submitted, as it was kept; none if it was not, or by another version of the server, or the file is damaged.
///
/// # Errors
///
/// The file cannot be read.
pub(in crate::server) fn kept_submitted(dir: &Path) -> Result<Option<SubmittedJob>, StagingError> {
    let Some(content) = submitted(dir)? else { return Ok(None) };
    match serde_json::from_slice(&content) {
        Ok(SubmittedFile { version: VERSION, what, inputs, pinned }) => {
            Ok(Some(SubmittedJob { what, inputs, pinned }))
        }
        Ok(SubmittedFile { version, .. }) => {
            tracing::warn!(dir = %dir.display(), version, "what was submitted was kept by another version");
            Ok(None)
        }
        Err(error) => {
            // It is not written durably, and a job of the server's own user can change it.
            tracing::warn!(%error, dir = %dir.display(), "what was submitted cannot be read");
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pliant_control::job::Work;
    use pliant_model::{Procs, Span, Speedup};
    use pliant_staging::{Checksum, SUBMITTED};
    use pliant_wire::Script;

    use super::*;

    #[test]
    fn what_was_submitted_is_read_as_it_was_kept() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("jobs/7");
        assert_eq!(kept_submitted(&dir).unwrap(), None);
        let work = Work::new(Procs(2), Span(60), Speedup::Rigid);
        // A text that is not UTF-8.
        let script = Script {
            arguments: vec!["a b".to_owned()],
            environment: BTreeMap::from([("A".to_owned(), "1".to_owned())]),
            ..Script::new("job.sh".to_owned(), b"#!/bin/sh\necho \xe9\n".to_vec().into(), work)
        };
        let arguments = BTreeMap::from([("samples".to_owned(), "10".to_owned())]);
        let service = SubmittedWork::Service { name: "pi".to_owned(), arguments };
        let file = FileSpec { name: "in/a".parse().unwrap(), size: 3, sha256: Checksum::of(b"abc") };
        for what in [SubmittedWork::Script(script), service] {
            let job = SubmittedJob { what, inputs: vec![file.clone()], pinned: true };
            keep_submitted(&dir, job.clone()).unwrap();
            assert_eq!(kept_submitted(&dir).unwrap(), Some(job));
        }
    }

    #[test]
    fn a_damaged_or_later_file_is_none() {
        let scratch = tempfile::tempdir().unwrap();
        for content in [
            "",
            "{",
            "[]",
            r#"{"version":2,"what":{"service":{"name":"pi","arguments":{}}},"inputs":[],"pinned":false}"#,
        ] {
            std::fs::write(scratch.path().join(SUBMITTED), content).unwrap();
            assert_eq!(kept_submitted(scratch.path()).unwrap(), None, "{content}");
        }
    }
}
