//! What a job runs that is no service's program, in its folder: a script, or a list of tasks.

use std::path::Path;

use rustix::fs::Mode;

use super::error::StagingError;
use super::folder::Folder;

/// The file with the instances of a batch or the tasks of a subjob, in the job's folder.
pub const TASKS: &str = "tasks.json";
/// The name of a script in the job's folder: beside the working folder, so that no input takes its place.
pub const SCRIPT: &str = "script";

/// Puts a job's script into its folder, which is made if it is not there: whole, durable and executable by its
/// owner, or not at all. May be called again.
///
/// # Errors
///
/// [`StagingError::DiskFull`], or what else the disk refuses.
pub fn put_script(job_dir: &Path, content: &[u8]) -> Result<(), StagingError> {
    Folder::create(job_dir)?.replace(SCRIPT, content, Mode::RWXU)
}

/// Puts the list of tasks that a job runs into its folder, as a script is put.
///
/// # Errors
///
/// As for [`put_script`].
pub fn put_tasks(job_dir: &Path, content: &[u8]) -> Result<(), StagingError> {
    Folder::create(job_dir)?.replace(TASKS, content, Mode::RUSR | Mode::WUSR)
}
