//! What a job runs that is no service's program, in its folder: a script, the instances of a pack, the tasks of a part.

use std::path::Path;

use rustix::fs::Mode;

use super::error::StagingError;
use super::folder::Folder;

/// The file with the instances of a pack, in the job's folder.
pub const PACK: &str = "pack.json";
/// The file with the tasks of a part of a launch, there too.
pub const PART: &str = "part.json";
/// Its name in the job's folder: beside the working folder, so that no input takes its place.
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

/// Puts what a pack runs into its job's folder, as a script is put.
///
/// # Errors
///
/// As for [`put_script`].
pub fn put_pack(job_dir: &Path, content: &[u8]) -> Result<(), StagingError> {
    Folder::create(job_dir)?.replace(PACK, content, Mode::RUSR | Mode::WUSR)
}

/// Puts what a part of a launch runs into its job's folder, as a script is put.
///
/// # Errors
///
/// As for [`put_script`].
pub fn put_part(job_dir: &Path, content: &[u8]) -> Result<(), StagingError> {
    Folder::create(job_dir)?.replace(PART, content, Mode::RUSR | Mode::WUSR)
}
