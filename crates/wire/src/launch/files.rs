//! What tasks of launches left, as clients ask for it.

use pliant_control::coallocation::LaunchId;
use pliant_staging::ResultName;

use super::super::field::*;
use super::super::proto;
use super::super::table::message;
use super::A_LAUNCH;

/// A task of a launch.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LaunchTask {
    /// The launch.
    pub launch: LaunchId,
    /// The task's name.
    pub task: String,
}

/// Which file of a task a client fetches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskDownload {
    /// The task.
    pub of: LaunchTask,
    /// The file.
    pub name: ResultName,
    /// Where to begin, in bytes.
    pub offset: u64,
}

impl std::fmt::Display for LaunchTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "task `{}` of {}", self.task, self.launch)
    }
}

message! {
    proto::LaunchTask <=> LaunchTask {
        launch: required(A_LAUNCH),
        task: TASK_NAME,
    }

    proto::TaskDownload <=> TaskDownload {
        of: required("a task of a launch"),
        result <=> name: RESULT_NAME,
        offset,
    }
}
