//! Jobs must not run as root by mistake.

use crate::config::ServerFile;
use crate::host::DaemonError;

/// Refuses to run as root, since the jobs would, unless that is `allowed`.
///
/// # Errors
///
/// If this process is root's and that is not allowed.
pub fn refuse_root(_file: &ServerFile, allowed: bool) -> Result<(), DaemonError> {
    if allowed || !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(DaemonError::Root)
}
