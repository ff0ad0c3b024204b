//! How an execution ended, and what that means to the machine that wanted it.

use std::path::Path;
use std::time::Duration;

use pliant_control::batch;
use pliant_control::job::Exit;
use pliant_control::optional::server as optional;
use pliant_model::{JobId, TimeMs};
use pliant_site::processes::{self, Lost};
use pliant_wire::Outcome;
use pliant_wire::bounds::TEXT_BYTES_MAX;

/// How an execution ended.
#[derive(Clone, PartialEq, Debug)]
pub(in crate::server) enum End {
    /// As its supervisor has recorded.
    Recorded {
        /// The record.
        exit: processes::Exit,
        /// Its machine had asked for its end.
        asked: bool,
        /// It ended before this server was started.
        earlier: bool,
    },
    /// Its machine had asked for its end, and it was not started, or nothing is known of its run.
    Cancelled,
    /// It could not be started, and why.
    NotStarted(String),
    /// Its outcome is unknown, and why.
    Lost(String),
    /// This host was restarted while it ran: nothing of it is left.
    NodeFailed(String),
    /// A pause was over at that time of the clock.
    Elapsed(Duration),
}

impl From<Lost> for End {
    fn from(lost: Lost) -> End {
        match lost {
            Lost::HostRestarted => End::NodeFailed(lost.to_string()),
            Lost::SupervisorDied { .. } | Lost::Unreadable { .. } => End::Lost(lost.to_string()),
        }
    }
}

impl End {
    /// The end of a job or subjob, for its batch system.
    pub(super) fn of_job(self, job: JobId) -> batch::Event {
        let (exit, elapsed_ms) = match self {
            End::NodeFailed(why) => return batch::Event::NodeFailed { job, exit: Exit::Lost(bounded(why)) },
            End::Recorded { exit, .. } => end_of(exit),
            End::Cancelled => (Exit::Cancelled, None),
            End::NotStarted(why) => (Exit::NotStarted(bounded(why)), None),
            End::Lost(why) => (Exit::Lost(bounded(why)), None),
            End::Elapsed(_) => (Exit::Code(0), None),
        };
        batch::Event::Ended { job, exit, elapsed_ms }
    }

    /// How a request ended, and when if that was not just now. One that completed before it noticed that it is to end is
    /// completed.
    pub(super) fn of_request(&self) -> (optional::Exit, Option<TimeMs>) {
        use optional::Exit::{Completed, Failed, Killed};
        match self {
            End::Recorded { exit, asked, earlier } => {
                let at = earlier.then(|| TimeMs(i64::try_from(exit.ended_unix_ms).unwrap_or(i64::MAX)));
                let exit = match exit.outcome {
                    Outcome::ExitCode(0) if !exit.cancelled => Completed,
                    _ if *asked || exit.cancelled => Killed,
                    Outcome::ExitCode(_) | Outcome::Signal(_) | Outcome::NotStarted(_) => Failed,
                };
                (exit, at)
            }
            End::Cancelled => (Killed, None),
            End::NotStarted(_) | End::Lost(_) | End::NodeFailed(_) => (Failed, None),
            End::Elapsed(at) => (Completed, Some(TimeMs(at.as_millis() as i64))),
        }
    }
}

/// What a supervisor complained of, for the owner of the job: without the path of its folder on this host.
pub(in crate::server) fn complaint(line: &str, dir: &Path) -> String {
    let within = format!("{}/", dir.display());
    line.trim_start_matches("error: ").replace(&within, "").replace(&*dir.to_string_lossy(), "its folder")
}

/// How a recorded job ended, as the federation reports it, and how long it ran in milliseconds.
pub(in crate::server) fn end_of(recorded: processes::Exit) -> (Exit, Option<u64>) {
    let exit = match (recorded.over_limit, recorded.outcome) {
        _ if recorded.cancelled => Exit::Cancelled,
        _ if recorded.over_walltime => Exit::OverWalltime,
        (Some(what), _) => Exit::OverLimit(bounded(what)),
        (None, outcome) => exit_of(outcome),
    };
    let has_run = !matches!(exit, Exit::NotStarted(_));
    (exit, has_run.then_some(recorded.elapsed_ms))
}

/// A text that a job may have written in its supervisor's place, as long as messages can have it.
pub(in crate::server) fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(TEXT_BYTES_MAX));
    text
}

/// How a process ended by itself, as the federation reports it.
pub(super) fn exit_of(outcome: Outcome) -> Exit {
    match outcome {
        Outcome::NotStarted(why) => Exit::NotStarted(bounded(why)),
        Outcome::ExitCode(code) => Exit::Code(code),
        Outcome::Signal(signal) => Exit::Signal(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_in_a_record_is_no_longer_than_messages_can_have_it() {
        let why = "ä".repeat(TEXT_BYTES_MAX);
        let Exit::NotStarted(kept) = exit_of(Outcome::NotStarted(why.clone())) else {
            panic!("it did not start")
        };
        assert!(why.starts_with(&kept) && kept.len() <= TEXT_BYTES_MAX && kept.len() > TEXT_BYTES_MAX - 4);
    }
}
