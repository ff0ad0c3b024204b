//! What Slurm's commands mean when they fail.

use crate::batch_system::commands::Call;
use crate::batch_system::error::{BatchSystemError, System, shown};

/// What a command that failed means, by what it printed on its standard error.
pub(super) fn failed(call: &Call, _code: i32, stderr: &str) -> BatchSystemError {
    let Call { command, id, .. } = call;
    let why = complaint(command, stderr);
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| stderr.contains(phrase));
    match id {
        _ if says(SILENCE) => System::Slurm.no_answer(command, why),
        Some(id) if says(UNKNOWN) => System::Slurm.unknown_job(id),
        Some(id) if says(NOT_WAITING) => {
            BatchSystemError::NotWaiting { system: System::Slurm, id: id.to_owned() }
        }
        _ if *command == "sbatch" && is_limit(stderr) => {
            BatchSystemError::Limited { system: System::Slurm, why: shown(&limit(stderr).unwrap_or(why)) }
        }
        _ => match limit(stderr).filter(|_| *command == "sbatch") {
            Some(limit) => System::Slurm.refused(command, format!("{why} ({})", shown(&limit))),
            None => System::Slurm.refused(command, why),
        },
    }
}

/// Whether a submission is refused by a limit on how many jobs there are: the same may be taken later. Any other limit that Slurm enforces
/// at submission is one that the job exceeds by itself, also with `DenyOnLimit`, and it stays so. Versions that do not name the limit leave
/// it open; then the job waits.
fn is_limit(stderr: &str) -> bool {
    match limit(stderr) {
        Some(limit) => limit.contains("Submit"),
        None => POLICY.iter().any(|phrase| stderr.contains(phrase)),
    }
}

/// The name of the limit by which a submission is refused, if Slurm says it: `AssocMaxSubmitJobLimit` in a line of its own.
fn limit(stderr: &str) -> Option<String> {
    let mut words =
        stderr.split_whitespace().map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()));
    let is_limit =
        |word: &&str| (word.starts_with("Assoc") || word.starts_with("QOS")) && word.ends_with("Limit");
    words.find(is_limit).map(str::to_owned)
}

/// What sbatch says when a limit of an account or of a QOS keeps a job from being taken, and when all places for jobs are taken.
const POLICY: &[&str] = &[
    "Job violates accounting/QOS policy",
    "Job violates accounting policy",
    "Unable to create job record, try again",
    "Resource temporarily unavailable, job limit",
];

/// What Slurm's commands say when the controller, or munge, or the database does not answer, or not now.
const SILENCE: &[&str] = &[
    "Unable to contact slurm",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Transport endpoint is not connected",
    "Communication connection failure",
    "Communication shutdown failure",
    "Message send failure",
    "Message receive failure",
    "Connection refused",
    "Connection reset",
    "Connection timed out",
    "No route to host",
    "Resource temporarily unavailable",
    "Slurm temporarily unable to accept job",
    "Slurm controller in standby mode",
    "slurmctld is starting",
    "Protocol authentication error",
    "Unable to connect to database",
    "Munge encode failed",
    "Munge decode failed",
    "Failed to connect to socket",
    "Unable to resolve",
    // The errors of `scontrol hold` and `release` for a controller that is down.
    "Unexpected message received",
];
const UNKNOWN: &[&str] = &["Invalid job id specified", "Invalid job id"];
const NOT_WAITING: &[&str] = &[
    "Job is no longer pending execution",
    "Job has already finished",
    "Job/step already completing or completed",
];

/// The last complaint, without the name of the command before it.
fn complaint(command: &str, stderr: &str) -> String {
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let said = lines.clone().rfind(|line| line.contains("error")).or_else(|| lines.next());
    let mut said = said.unwrap_or("nothing on its standard error");
    for prefix in [command, ":", " ", "error:", " "] {
        said = said.strip_prefix(prefix).unwrap_or(said);
    }
    shown(said)
}
