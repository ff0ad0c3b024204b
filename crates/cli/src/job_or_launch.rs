//! The argument of verbs that take jobs and launches.

use std::str::FromStr;

use pliant_control::coallocation::LaunchId;
use pliant_control::names::Handle;

/// A job or a launch.
#[derive(Clone)]
pub(crate) enum JobOrLaunch {
    /// `SERVER.NUMBER`.
    Job(Handle),
    /// `AGENT/KEY`.
    Launch(LaunchId),
}

impl FromStr for JobOrLaunch {
    type Err = String;
    fn from_str(text: &str) -> Result<JobOrLaunch, String> {
        match text.contains('/') {
            true => text.parse().map(JobOrLaunch::Launch).map_err(|error| format!("{error}")),
            false => text.parse().map(JobOrLaunch::Job).map_err(|error| format!("{error}")),
        }
    }
}
