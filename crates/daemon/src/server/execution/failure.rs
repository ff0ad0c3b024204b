//! Why something cannot be done for a job.

use std::io;

use pliant_site::FilesError;
use pliant_site::processes::{SpawnError, SpecError};
use pliant_staging::{StagingError, may_pass};

/// A failure on the way to a job's start.
#[derive(Debug)]
pub(in crate::server) struct Failure {
    /// The reason for the log.
    pub(in crate::server) reason: String,
    /// The reason for the owner of the job: without the paths of files on this host.
    pub(in crate::server) public: String,
    /// The same may work later.
    pub(in crate::server) may_pass: bool,
    /// What runs as the account of the job fails, which its user can cause.
    pub(in crate::server) is_of_account: bool,
}

impl Failure {
    /// One that does not pass.
    pub(in crate::server) fn lasting(reason: impl Into<String>) -> Failure {
        let reason = reason.into();
        Failure::new(reason.clone(), reason, false)
    }

    /// One of files, with what it keeps from being done.
    pub(in crate::server) fn of_files(action: &str, error: &io::Error) -> Failure {
        let reason = format!("{action}: {error}");
        Failure::new(reason.clone(), reason, may_pass(error))
    }

    fn new(reason: String, public: String, may_pass: bool) -> Failure {
        Failure { reason, public, may_pass, is_of_account: false }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Failure {
        Failure::new(error.to_string(), error.public_message(), error.may_pass())
    }
}

impl From<SpawnError> for Failure {
    fn from(error: SpawnError) -> Failure {
        Failure::new(error.to_string(), error.public_message(), error.may_pass())
    }
}

impl From<FilesError> for Failure {
    fn from(error: FilesError) -> Failure {
        let named = |error: &str| format!("its files cannot be put in place: {error}");
        Failure {
            reason: named(&error.to_string()),
            public: named(&error.public_message()),
            may_pass: error.may_pass(),
            is_of_account: error.is_of_account(),
        }
    }
}

impl From<StagingError> for Failure {
    fn from(error: StagingError) -> Failure {
        FilesError::from(error).into()
    }
}

/// What was journaled of it when it was accepted makes no sense.
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Failure {
        Failure::lasting(format!("what was journaled of it cannot be read: {error}"))
    }
}
