//! Jobs must not run as root by mistake.

use crate::config::ServerFile;
use crate::host::DaemonError;

/// Refuses to run as root. If jobs would run as root with the server, that may be `allowed`; if they run as accounts, the launcher
/// refuses root as its caller, and nothing could be run.
///
/// # Errors
///
/// If this process is root's and that is not allowed.
pub fn refuse_root(file: &ServerFile, allowed: bool) -> Result<(), DaemonError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    match file.accounts().has_accounts() {
        true => Err(DaemonError::RootWithAccounts),
        false if allowed => Ok(()),
        false => Err(DaemonError::Root),
    }
}
