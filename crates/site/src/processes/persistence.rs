//! What a supervisor tries again until it works, and for how long.

use std::error::Error;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use super::folder::FolderError;

/// A full disk does not stay full: how often is tried again what failed for want of something.
const AGAIN_PERIOD: Duration = Duration::from_secs(1);
/// How long what runs as an account may keep a job from its start, if the walltime of the job is shorter. The user can end those
/// processes again and again, or use up the quota of the account, and the job has its processors meanwhile.
pub const ACCOUNT_TIMEOUT_MIN: Duration =
    if cfg!(test) { Duration::from_secs(2) } else { Duration::from_secs(600) };

/// What can fail for want of something that comes back.
pub(super) trait MayPass {
    fn may_pass(&self) -> bool;
}

impl MayPass for FolderError {
    fn may_pass(&self) -> bool {
        FolderError::may_pass(self)
    }
}

/// Tries until it works, or fails for a reason that stays, or there is no need any more. Complains once.
pub(super) fn persistently<T, E: Error + MayPass>(
    is_needed: impl Fn() -> bool,
    mut act: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut complained = false;
    loop {
        match act() {
            Err(error) if error.may_pass() && is_needed() => {
                if !complained {
                    complain(&error);
                    complained = true;
                }
                thread::sleep(AGAIN_PERIOD);
            }
            result => return result,
        }
    }
}

/// Into the log, if there is one.
pub(super) fn complain(error: &dyn Error) {
    let _ = writeln!(io::stderr(), "error: {error}");
}
