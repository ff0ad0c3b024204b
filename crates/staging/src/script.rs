//! What a job runs that is no service's program, in its folder: a script, or a list of tasks; and what the user submitted.

use std::path::Path;

use rustix::fs::Mode;

use super::error::StagingError;
use super::folder::Folder;

/// The file with the instances of a batch or the tasks of a subjob, in the job's folder.
pub const TASKS: &str = "tasks.json";
/// The file that says what the user submitted, in the job's folder.
pub const SUBMITTED: &str = "submitted.json";
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

/// Puts what the user submitted into the folder of a job, which is made if it is not there. It may be missing after a power failure: nothing
/// that a job needs is in it, and a start does not wait for the disk once more.
///
/// # Errors
///
/// As for [`put_script`].
pub fn put_submitted(job_dir: &Path, content: &[u8]) -> Result<(), StagingError> {
    Folder::create(job_dir)?.replace_unsynced(SUBMITTED, content, Mode::RUSR | Mode::WUSR)
}

/// What the user submitted, as [`put_submitted`] put it; none if it is not in the folder, or there is no such folder.
///
/// # Errors
///
/// If it cannot be read.
pub fn submitted(job_dir: &Path) -> Result<Option<Vec<u8>>, StagingError> {
    match Folder::open(job_dir) {
        Err(StagingError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        opened => opened?.read(SUBMITTED),
    }
}
