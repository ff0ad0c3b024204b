//! How many short calls, and openings of files, as one account are under way at once: a user can stop the processes of the own account, and must not so keep
//! all threads of the server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::accounts::{AccountName, AccountRun, LauncherError};

/// How many.
const AT_ONCE: usize = 8;
/// How many more callers wait for one of them to end. Each keeps a thread.
const WAITING_AT_MOST: usize = 8;
/// How long.
const WAITS_AT_MOST: Duration = Duration::from_secs(2);

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
        let busy = || {
            let problem = format!("has {AT_ONCE} calls to answer already");
            LauncherError::Disorder { account: account.name.clone(), problem }
        };
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
        assert!(CallSlot::of(&slow).unwrap_err().may_pass());
        drop(CallSlot::of(&other).unwrap());
        kept.pop();
        kept.push(CallSlot::of(&slow).unwrap());
        drop(kept);
        assert!(!UNDER_WAY.lock().contains_key(&slow.name));
    }
}
