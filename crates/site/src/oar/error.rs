//! What OAR's commands mean when they fail.

use crate::batch_system::commands::Call;
use crate::batch_system::error::{BatchSystemError, System, shown};

/// What a command that failed means, by its exit code and what it printed on its standard error.
pub(super) fn failed(call: &Call, code: i32, stderr: &str) -> BatchSystemError {
    let (command, why) = (call.command, complaint(stderr));
    // Of oarsub 9 says that the job is in the database, but OAR's server was not notified; of the others 2.
    let unheard = (command == "oarsub" && code == 9) || (command != "oarsub" && code == 2);
    let said = stderr.to_lowercase();
    match unheard || SILENCE.iter().any(|phrase| stderr.contains(phrase)) {
        true => System::Oar.no_answer(command, why),
        false if command == "oarsub" && LIMITS.iter().any(|phrase| said.contains(phrase)) => {
            BatchSystemError::Limited { system: System::Oar, why }
        }
        false => System::Oar.refused(command, why),
    }
}

/// What admission rules of sites say, in small letters, when a user has as many jobs as the user may have. OAR's own quotas refuse nothing:
/// a job over its quota waits.
const LIMITS: &[&str] =
    &["too many jobs", "quota", "maximum number of jobs", "max number of jobs", "limit of jobs"];

/// What OAR's commands say when its server or its database does not answer.
const SILENCE: &[&str] = &[
    "DB connection error",
    "Cannot connect to database",
    "could not connect",
    "connection to server",
    "server closed the connection",
    "the database system is",
    "Cannot connect to executor",
    "Connection refused",
    "too many clients",
    "deadlock detected",
];

/// The last complaint: before it stand the remarks of admission rules, behind it the summary of oarsub.
fn complaint(stderr: &str) -> String {
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.rfind(|line| !line.contains("please verify your request syntax"));
    shown(said.unwrap_or("nothing on its standard error"))
}
