//! How many short calls, and openings of files, as one account are under way at once, and how many files are read: a user can stop the
//! processes of the own account, and must not so keep all threads of the server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::accounts::{AccountName, AccountRun, LauncherError};

/// How many.
const AT_ONCE: usize = 8;
/// How many more callers wait for one of them to end. Each keeps a thread.
const WAITING_AT_MOST: usize = 8;
/// How long.
const WAITS_AT_MOST: Duration = Duration::from_secs(2);
/// How many files of an account are read at once. Each has a process.
pub(super) const READ_AT_ONCE: usize = 8;
/// How long another one waits for one of them to be closed. It keeps no thread.
const READ_WITHIN: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(20) };

/// The calls of an account.
#[derive(Default)]
struct Calls {
    under_way: usize,
    waiting: usize,
}

static UNDER_WAY: Mutex<BTreeMap<AccountName, Calls>> = Mutex::new(BTreeMap::new());
static ENDED: Condvar = Condvar::new();

/// One of the calls that may be under way. Dropped, the next one may be.
#[derive(Debug)]
pub(super) struct CallSlot(AccountName);

impl CallSlot {
    /// Waits for a slot.
    ///
    /// # Errors
    /// There is none for too long. Passes.
    pub(super) fn of(account: &AccountRun) -> Result<CallSlot, LauncherError> {
        let until = Instant::now() + WAITS_AT_MOST;
        let busy = || LauncherError::Busy { account: account.name.clone(), calls: AT_ONCE };
        let mut all = UNDER_WAY.lock();
        let calls = all.entry(account.name.clone()).or_default();
        if calls.under_way < AT_ONCE {
            calls.under_way += 1;
            return Ok(CallSlot(account.name.clone()));
        }
        if calls.waiting >= WAITING_AT_MOST {
            return Err(busy());
        }
        calls.waiting += 1;
        loop {
            let timed_out = ENDED.wait_until(&mut all, until).timed_out();
            let calls = all.entry(account.name.clone()).or_default();
            let is_free = calls.under_way < AT_ONCE;
            if is_free || timed_out {
                calls.waiting = calls.waiting.saturating_sub(1);
            }
            if is_free {
                calls.under_way += 1;
                return Ok(CallSlot(account.name.clone()));
            }
            if timed_out {
                return Err(busy());
            }
        }
    }
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        let mut all = UNDER_WAY.lock();
        if let Some(calls) = all.get_mut(&self.0) {
            calls.under_way = calls.under_way.saturating_sub(1);
            if calls.under_way == 0 && calls.waiting == 0 {
                all.remove(&self.0);
            }
        }
        ENDED.notify_all();
    }
}

/// The files that are read, by account.
static READING: Mutex<BTreeMap<AccountName, Arc<Semaphore>>> = Mutex::new(BTreeMap::new());

/// A file that may be read. Dropped, another one may be.
#[derive(Debug)]
pub(super) struct ReadingSlot {
    _permit: OwnedSemaphorePermit,
}

impl ReadingSlot {
    /// Waits for a slot; none if there is none for too long.
    pub(super) async fn of(account: &AccountRun) -> Option<ReadingSlot> {
        let slots = {
            let mut all = READING.lock();
            // Accounts of which no file is read or waits are forgotten.
            all.retain(|_, slots| Arc::strong_count(slots) > 1);
            all.entry(account.name.clone()).or_insert_with(|| Arc::new(Semaphore::new(READ_AT_ONCE))).clone()
        };
        let permit = timeout(READ_WITHIN, slots.acquire_owned()).await.ok()?;
        Some(ReadingSlot { _permit: permit.ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str) -> AccountRun {
        AccountRun {
            name: name.parse().unwrap(),
            folder: "/spool/job".into(),
            launcher: "/launcher".into(),
            pliant: "/pliant".into(),
            processes_max: None,
            has_records: true,
            guard: None,
        }
    }

    #[test]
    fn an_account_that_answers_nothing_keeps_others_from_nothing() {
        let (slow, other) = (account("slots-slow"), account("slots-other"));
        let mut kept: Vec<CallSlot> = (0..AT_ONCE).map(|_| CallSlot::of(&slow).unwrap()).collect();
        let busy = CallSlot::of(&slow).unwrap_err();
        assert!(busy.may_pass() && !busy.is_of_account(), "what waits for the others has not failed");
        drop(CallSlot::of(&other).unwrap());
        kept.pop();
        kept.push(CallSlot::of(&slow).unwrap());
        drop(kept);
        assert!(!UNDER_WAY.lock().contains_key(&slow.name));
    }

    #[tokio::test]
    async fn files_of_an_account_are_read_a_few_at_a_time() {
        let (slow, other) = (account("reading-slow"), account("reading-other"));
        let mut kept = Vec::new();
        for _ in 0..READ_AT_ONCE {
            kept.push(ReadingSlot::of(&slow).await.unwrap());
        }
        assert!(ReadingSlot::of(&slow).await.is_none());
        assert!(ReadingSlot::of(&other).await.is_some());
        let (next, ()) = tokio::join!(ReadingSlot::of(&slow), async { drop(kept.pop()) });
        assert!(next.is_some(), "who waits gets what is given back");
        drop((next, kept));
        drop(ReadingSlot::of(&other).await);
        assert!(!READING.lock().contains_key(&slow.name));
    }
}
