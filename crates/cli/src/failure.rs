//! The failure of a verb: a message, an optional hint and the exit code. All typed errors end here.

use std::fmt::Display;
use std::path::Path;

use pliant_client::{FolderError, WorkError};
use pliant_control::reason::Cause;
use pliant_report::FileError;
use pliant_request::RequestError;
use pliant_request::work_folders::ResultsError;
use pliant_sim::campaign::CampaignError;

/// A failed verb.
#[derive(Debug)]
pub(crate) struct Failure {
    /// 1 if the system failed, 2 if the input or the usage was wrong; others as docs/reference/exit-codes.md says.
    pub(crate) code: u8,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// The input is wrong: exit code 2.
    pub(crate) fn input(message: impl Display) -> Failure {
        Failure { code: 2, message: message.to_string(), hint: None }
    }

    /// The system failed: exit code 1.
    pub(crate) fn system(message: impl Display) -> Failure {
        Failure { code: 1, message: message.to_string(), hint: None }
    }

    /// A file could not be read or written.
    pub(crate) fn io(path: &Path, action: &str, source: &std::io::Error) -> Failure {
        Failure::system(format!("{}: cannot {action}: {source}", path.display()))
    }

    /// Adds a hint.
    pub(crate) fn hint(mut self, hint: impl Display) -> Failure {
        self.hint = Some(hint.to_string());
        self
    }

    /// Sets the exit code.
    pub(crate) fn code(self, code: u8) -> Failure {
        Failure { code, ..self }
    }

    /// The message.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// The hint.
    pub(crate) fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Prints the failure as a warning.
    pub(crate) fn warn(&self) {
        stderr_line!("warning: {}", self.message);
    }

    /// Prints the failure.
    pub(crate) fn print(&self) {
        stderr_line!("error: {}", self.message);
        if let Some(hint) = &self.hint {
            stderr_line!("  hint: {hint}");
        }
    }
}

impl From<CampaignError> for Failure {
    fn from(error: CampaignError) -> Failure {
        let failure = if error.is_input() { Failure::input(&error) } else { Failure::system(&error) };
        Failure { hint: error.hint(), ..failure }
    }
}

impl From<RequestError> for Failure {
    fn from(error: RequestError) -> Failure {
        let failure = if error.is_input() { Failure::input(&error) } else { Failure::system(&error) };
        Failure { hint: error.hint_text().map(str::to_owned), ..failure }
    }
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Failure {
        match error {
            FolderError::Io { .. } => Failure::system(error),
            FolderError::InUse { .. } => Failure::input(error)
                .hint("end the command that works on it with Ctrl-C, or choose another folder"),
            FolderError::Mismatch { .. } => Failure::input(error).hint("choose another folder with --out"),
            FolderError::Unreadable { .. } => Failure::input(error).hint(
                "the file was changed or damaged: restore a copy of it, or choose another folder with --out",
            ),
            FolderError::Empty { .. } => Failure::input(error).hint("--out begins a new one"),
        }
    }
}

impl From<ResultsError> for Failure {
    fn from(error: ResultsError) -> Failure {
        match error {
            ResultsError::Folder(error) => error.into(),
            ResultsError::File(error) => error.into(),
        }
    }
}

impl From<WorkError> for Failure {
    fn from(error: WorkError) -> Failure {
        let services = "`pliant servers --services` lists the services and what they take";
        match error {
            WorkError::Client(error) => error.into(),
            WorkError::Folder(error) => error.into(),
            WorkError::NoServer(ref servers) => {
                let may_pass = servers.iter().any(|server| server.reason.cause.may_pass());
                let is_late = servers.iter().any(|server| server.reason.cause == Cause::Deadline);
                match may_pass || servers.is_empty() {
                    true => Failure::system(error).hint("try again in a moment"),
                    false if is_late => {
                        Failure::input(error).hint("give a later --deadline, or a shorter --time")
                    }
                    false => Failure::input(error).hint(services),
                }
            }
            WorkError::Refused { .. } => Failure::input(error).hint(services),
            WorkError::NotOurs { .. } => Failure::input(error).hint("resume it as the user who began it"),
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Failure {
        let hint = error.hint();
        let failure = if error.is_of_content() { Failure::input(error) } else { Failure::system(error) };
        Failure { hint: hint.map(str::to_owned), ..failure }
    }
}
