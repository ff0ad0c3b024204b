//! The server's side of what is deleted of a job that runs as an account.

use std::io;
use std::time::Duration;

use super::FilesError;
use super::call::Call;
use super::client::{ANSWERS_WITHIN, ANYWHERE, Answer, arguments, asked, begun_in, done};
use crate::accounts::{AccountRun, LauncherError};

/// How long it may take to empty a folder.
const EMPTIED_WITHIN: Duration = Duration::from_secs(600);

/// Has the account empty its folder, and removes that, if it is there.
pub(super) fn remove(account: &AccountRun) -> Result<(), FilesError> {
    if !account.has_folder()? {
        return Ok(());
    }
    emptied(account, &Call::Empty, EMPTIED_WITHIN)?;
    match std::fs::remove_dir(&account.folder) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(LauncherError::Io { action: "remove the emptied folder", source }.into())
        }
        _ => Ok(()),
    }
}

/// Has the account delete everything in the job's folder but the standard outputs, as far as each has at most so many bytes.
pub(super) fn keep_outputs(account: &AccountRun, most: u64) -> Result<(), FilesError> {
    emptied(account, &Call::KeepOutputs { most }, ANSWERS_WITHIN)
}

/// Has the account delete files. Those of its subordinate users, such as a container without root leaves, it may not delete itself.
fn emptied(account: &AccountRun, call: &Call, within: Duration) -> Result<(), FilesError> {
    let by_account = || {
        let launched = begun_in(ANYWHERE, account, call, Some(within))?;
        done(Answer::of(launched)?.finish(account)?, account)
    };
    let error = match by_account() {
        Err(error @ FilesError::OfAccount(_)) => error,
        done => return done,
    };
    let program = account.pliant(arguments(&account.folder));
    let as_root = account.launcher().run_with_subordinates(program, ANYWHERE.as_ref());
    let launched = as_root.map_err(FilesError::from).and_then(|launched| asked(launched, call, Some(within)));
    match launched.and_then(|launched| Answer::of(launched)?.finish(account)) {
        Ok(_) => by_account(),
        // This account has no subordinate users, or they are not allowed to have namespaces.
        Err(_) => Err(error),
    }
}
