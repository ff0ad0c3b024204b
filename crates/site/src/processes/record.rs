//! What a supervisor leaves in its job's folder: that the job was started, and how it ended.

use std::path::PathBuf;

use pliant_wire::Outcome;
use serde::{Deserialize, Serialize};

/// `started.json`. Its existence says that the job may have been started; the content is for finding what is left of
/// a job whose supervisor died.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Started {
    /// Process id of the supervisor, which is also the id of its session.
    pub(super) supervisor: i32,
    /// Process id of the job's first process, which is also the id of its process group. Filled in right after the
    /// job was started.
    pub(super) group: Option<i32>,
    /// The folder of its cgroup, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cgroup: Option<PathBuf>,
    /// When the first process came to be, in clock ticks since the host was started, if the job runs as an account of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) leader_ticks: Option<u64>,
    /// The boot of this host in which that was: process ids mean nothing in another.
    pub(super) boot_id: String,
    /// Milliseconds since the Unix epoch.
    pub(super) started_unix_ms: u64,
}

/// `exit.json`: how a job ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Exit {
    /// How its first process ended.
    pub outcome: Outcome,
    /// Whether it was ended for exceeding its walltime. Not set for a job that was cancelled before.
    pub over_walltime: bool,
    /// Which limit it exceeded, for its owner, if it was ended for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_limit: Option<String>,
    /// Whether it was ended on request. Not set for a job that was over its walltime before.
    pub cancelled: bool,
    /// The processes of the job that could not be ended, each with its users, for operators: they run as other users than the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// When the supervisor was about to start it, in milliseconds since the Unix epoch.
    pub started_unix_ms: u64,
    /// When its first process was gone, in milliseconds since the Unix epoch.
    pub ended_unix_ms: u64,
    /// Time between the two by a clock that is never set, in milliseconds.
    pub elapsed_ms: u64,
    /// CPU time used by all of its processes, in seconds.
    pub cpu_s: f64,
    /// Resident memory of its largest process at its peak, in KiB. Never below the few MiB of the supervisor, from
    /// which the job was forked. `None` for a job that was not started.
    pub max_rss_kb: Option<u64>,
    /// Whether something it wrote to standard output was dropped: beyond the limit, or for want of disk space.
    pub stdout_cut: bool,
    /// The same of standard error.
    pub stderr_cut: bool,
}

impl Exit {
    /// Whether the job ran to its own end and reported success.
    pub fn is_success(&self) -> bool {
        self.outcome == Outcome::ExitCode(0)
            && !self.over_walltime
            && self.over_limit.is_none()
            && !self.cancelled
    }
}
