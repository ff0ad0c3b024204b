//! How many short calls as one account are under way at once: a user can stop the processes of the own account, and must not so keep
//! all threads of the server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::accounts::{AccountName, AccountRun, LauncherError};

/// How many.
const AT_ONCE: usize = 8;
/// How long a caller waits for one of them to end.
const WAITS_AT_MOST: Duration = Duration::from_secs(2);

static UNDER_WAY: Mutex<BTreeMap<AccountName, usize>> = Mutex::new(BTreeMap::new());
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
        let mut under_way = UNDER_WAY.lock();
        loop {
            let count = under_way.entry(account.name.clone()).or_default();
            if *count < AT_ONCE {
                *count += 1;
                return Ok(CallSlot(account.name.clone()));
            }
            if ENDED.wait_until(&mut under_way, until).timed_out() {
                let problem = format!("has {AT_ONCE} calls to answer already");
                return Err(LauncherError::Disorder { account: account.name.clone(), problem });
            }
        }
    }
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        let mut under_way = UNDER_WAY.lock();
        match under_way.get_mut(&self.0) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = under_way.remove(&self.0),
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
