//! Errors of calls as exceptions of the package (`python/pliant/errors.py`).

use pliant_client::{ClientError, FolderError, WorkError};
use pliant_control::names::Key;
use pliant_report::FileError;
use pliant_request::RequestError;
use pliant_request::sending::{SubmissionError, sent_before};
use pliant_request::work_folders::ResultsError;
use pyo3::prelude::*;

use super::record::Job;
use crate::errors::{exception, exception_with};

/// What the caller gave is wrong, or a file of it cannot be read.
pub(super) fn of_request(error: &RequestError) -> PyErr {
    let class = if error.is_input() { "InputError" } else { "FileError" };
    exception(class, error.message(), error.hint_text())
}

/// A call failed.
pub(super) fn of_call(error: &ClientError) -> PyErr {
    let class = match error {
        error if error.is_denied() => "DeniedError",
        error if error.is_missing() => "NotFoundError",
        error if error.may_pass() => "UnavailableError",
        error if error.is_input() => "InputError",
        _ => "PliantError",
    };
    exception(class, &error.to_string(), error.hint())
}

/// A submission gave no job.
pub(super) fn of_submission(error: &SubmissionError, key: Key) -> PyErr {
    match error {
        SubmissionError::Refused { error, .. } if !error.causes().is_empty() => refused(error),
        SubmissionError::Refused { error, .. } | SubmissionError::NothingSent(Some(error)) => of_call(error),
        SubmissionError::NothingSent(None) => {
            exception("PliantError", "interrupted; nothing was submitted", None)
        }
        SubmissionError::SentBefore { server, error } => {
            let wrong = sent_before(server, error);
            let class = if error.may_pass() { "UnavailableError" } else { "InputError" };
            exception(class, wrong.message(), wrong.hint_text())
        }
        SubmissionError::Key(error) => of_request(error),
        SubmissionError::Unknown { server, error } => {
            let interrupted = || "interrupted; a server may have accepted the job".to_owned();
            let problem = error.as_ref().map_or_else(interrupted, ToString::to_string);
            let hint = format!(
                "submit the same with key={:?}, which gives the same job, never a second one",
                key.to_string()
            );
            exception_with("SubmissionUnknownError", (&problem, Some(&hint)), |facts| {
                facts.set_item("key", key.to_string())?;
                facts.set_item("server", server.to_string())
            })
        }
    }
}

/// A launch has no outcome.
pub(super) fn of_launch(error: &ClientError, key: Key) -> PyErr {
    if !error.may_pass() {
        return of_call(error);
    }
    let hint = format!(
        "launch the same with key={:?}, which gives the same launch, never a second one",
        key.to_string()
    );
    exception_with("LaunchUnknownError", (&error.to_string(), Some(&hint)), |facts| {
        facts.set_item("key", key.to_string())
    })
}

/// No server takes it.
pub(super) fn refused(error: &ClientError) -> PyErr {
    let words: Vec<&str> = error.causes().iter().map(|cause| cause.word()).collect();
    exception_with("RefusedError", (&error.to_string(), error.hint()), |facts| {
        facts.set_item("causes", words)
    })
}

/// A job has no output, because it did not run.
pub(super) fn did_not_run(job: Job) -> PyErr {
    let problem = match job.is_final() {
        true => format!("{} is {}: it did not run, so it has no output", job.id, job.state),
        false => format!("{} is {}: it has not started, so it has no output yet", job.id, job.state),
    };
    exception_with("NotRunError", (&problem, None), |facts| facts.set_item("job", Py::new(facts.py(), job)?))
}

/// A sweep or an exploration could not go on.
pub(super) fn of_work(error: &WorkError) -> PyErr {
    match error {
        WorkError::Client(error) => of_call(error),
        WorkError::Folder(error) => of_folder(error),
        WorkError::NoServer(servers) if servers.is_empty() => {
            exception("UnavailableError", &error.to_string(), None)
        }
        WorkError::NoServer(_) | WorkError::Refused { .. } => {
            exception("RefusedError", &error.to_string(), None)
        }
        WorkError::NotOurs { .. } => {
            exception("DeniedError", &error.to_string(), Some("resume it as the user who began it"))
        }
    }
}

/// The folder of a sweep or an exploration cannot be used.
pub(super) fn of_folder(error: &FolderError) -> PyErr {
    let (class, hint) = match error {
        FolderError::Io { .. } => ("FileError", None),
        FolderError::InUse { .. } => {
            ("InputError", Some("end the process that works on it, or choose another folder"))
        }
        FolderError::Empty { .. } => ("InputError", None),
        FolderError::Mismatch { .. } | FolderError::Unreadable { .. } => {
            ("InputError", Some("choose another folder with out"))
        }
    };
    exception(class, &error.to_string(), hint)
}

/// The tables of a sweep cannot be written.
pub(super) fn of_results(error: &ResultsError) -> PyErr {
    match error {
        ResultsError::Folder(error) => of_folder(error),
        ResultsError::File(error) => of_table(error),
    }
}

fn of_table(error: &FileError) -> PyErr {
    exception("FileError", &error.to_string(), error.hint())
}
