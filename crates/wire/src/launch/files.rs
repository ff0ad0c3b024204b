//! What tasks of launches left, as clients ask for it.

use pliant_control::coallocation::LaunchId;
use pliant_staging::ResultName;

use super::super::proto;
use super::super::{Malformed, read};
use super::{A_LAUNCH, task_name};

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

impl From<&LaunchTask> for proto::LaunchTask {
    fn from(of: &LaunchTask) -> proto::LaunchTask {
        proto::LaunchTask { launch: Some((&of.launch).into()), task: of.task.clone() }
    }
}

impl TryFrom<proto::LaunchTask> for LaunchTask {
    type Error = Malformed;
    fn try_from(message: proto::LaunchTask) -> Result<LaunchTask, Malformed> {
        let launch = read::required("launch", A_LAUNCH, message.launch)?;
        Ok(LaunchTask { launch, task: task_name("task", message.task)? })
    }
}

impl From<&TaskDownload> for proto::TaskDownload {
    fn from(download: &TaskDownload) -> proto::TaskDownload {
        proto::TaskDownload {
            of: Some((&download.of).into()),
            result: download.name.to_string(),
            offset: download.offset,
        }
    }
}

impl TryFrom<proto::TaskDownload> for TaskDownload {
    type Error = Malformed;
    fn try_from(message: proto::TaskDownload) -> Result<TaskDownload, Malformed> {
        Ok(TaskDownload {
            of: read::required("of", "a task of a launch", message.of)?,
            name: read::result_name("result", &message.result)?,
            offset: message.offset,
        })
    }
}
