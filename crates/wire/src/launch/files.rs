//! Results of the tasks of launches.

use pliant_control::coallocation::LaunchId;
use pliant_staging::ResultName;

use super::super::field::*;
use super::super::proto;
use super::super::table::message;
use super::A_LAUNCH;

message! {
    /// A task of a launch.
    #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
    proto::LaunchTask <=> pub struct LaunchTask {
        /// The launch.
        launch: LaunchId = required(A_LAUNCH),
        /// The task's name.
        task: String = TASK_NAME,
    }

    /// The download of a file of a task.
    #[derive(Clone, PartialEq, Eq, Debug)]
    proto::TaskDownload <=> pub struct TaskDownload {
        /// The task.
        of: LaunchTask = required("a task of a launch"),
        /// The file.
        result <=> name: ResultName = RESULT_NAME,
        /// Where to begin, in bytes.
        offset: u64,
    }
}

impl std::fmt::Display for LaunchTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "task `{}` of {}", self.task, self.launch)
    }
}
