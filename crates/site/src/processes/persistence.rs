//! What a supervisor tries again until it works, and for how long.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::folder::{Folder, FolderError};

/// A full disk does not stay full: how often is tried again what failed for want of something.
const AGAIN_PERIOD: Duration = Duration::from_secs(1);
/// How long what runs as an account may keep a job from its start, if the walltime of the job is shorter. The user can end those
/// processes again and again, or use up the quota of the account, and the job has its processors meanwhile.
pub const ACCOUNT_TIMEOUT_MIN: Duration =
    if cfg!(test) { Duration::from_secs(2) } else { Duration::from_secs(600) };

/// Since when what runs as the account of a job has failed to start it. The records of the job say so: its server, before and after a
/// restart, and its supervisor go by one clock.
#[derive(Default, Debug)]
pub struct AccountFailures {
    /// Where it cannot be recorded, it counts in this process.
    first_unix_ms: Option<u64>,
}

impl AccountFailures {
    /// Takes note of a failure. True if the first one was so long ago.
    pub fn last_too_long(&mut self, records: &Path, at_most: Duration) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let first = recorded_first(records, self.first_unix_ms, now_ms).unwrap_or_else(|error| {
            complain(&error);
            // Not later than now, if the clock was set back.
            self.first_unix_ms.unwrap_or(now_ms).min(now_ms)
        });
        self.first_unix_ms = Some(first);
        Duration::from_millis(now_ms - first) >= at_most
    }

    /// Takes note that it does not fail any more.
    pub(super) fn over(&mut self, records: &Path) {
        self.first_unix_ms = None;
        if let Err(error) = Folder::at(records).and_then(|folder| folder.forget_account_failure()) {
            complain(&error);
        }
    }
}

/// The time of the first failure, which is recorded unless it is already.
fn recorded_first(records: &Path, known: Option<u64>, now: u64) -> Result<u64, FolderError> {
    let folder = Folder::at(records)?;
    let recorded = folder.first_account_failure()?;
    let first = recorded.or(known).unwrap_or(now).min(now);
    if recorded != Some(first) {
        folder.write_first_account_failure(first)?;
    }
    Ok(first)
}

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
