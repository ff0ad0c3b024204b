//! Files of subordinate users (subuid(5)) in a job's folder, such as a container without root leaves: they belong neither to the account
//! nor to the server.

use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use pliant_staging::StagingError;

use super::call::{Call, line};
use super::emptying;
use crate::processes::PROGRAM_PATH;

/// Deletes everything in a folder as [`emptying::empty`] does. What this user may not delete, a process deletes that is the root of a user
/// namespace of all subordinate users. That needs `unshare` of util-linux 2.38 and newuidmap(1).
///
/// # Errors
/// As for [`emptying::empty`].
pub(super) fn empty(path: &Path, outputs_max: Option<u64>) -> Result<(), StagingError> {
    let denied = match emptying::empty(path, outputs_max) {
        Err(StagingError::Io { path, source }) if source.kind() == ErrorKind::PermissionDenied => {
            StagingError::Io { path, source }
        }
        done => return done,
    };
    match empty_as_root(path, outputs_max) {
        Ok(true) => emptying::empty(path, outputs_max),
        // This host has none, or the user has none.
        Ok(false) | Err(_) => Err(denied),
    }
}

/// True if the process has ended well.
fn empty_as_root(path: &Path, outputs_max: Option<u64>) -> io::Result<bool> {
    let mut process = Command::new("unshare")
        .args(["--map-root-user", "--map-auto", "--"])
        .arg(std::env::current_exe()?)
        .arg("job-folder")
        .arg(path)
        .env("PATH", PROGRAM_PATH)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let sent = match process.stdin.take() {
        Some(mut input) => input.write_all(&line(&Call::EmptyAsRoot { most: outputs_max })),
        None => Ok(()),
    };
    let ended = process.wait()?;
    sent.map(|()| ended.success())
}
