//! A lock of each user, for what a user may do only once at a time, so that many calls of one user do not hold up those of others.
//!
//! A user's further calls wait outside of what they wait for, in the order in which they came, and those of other users pass
//! them. How many may wait is bounded by the open requests of a user (`open_requests` of `[limits]`).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pliant_control::names::User;
use tokio::sync::{Mutex as Lock, OwnedMutexGuard};

/// The locks of the users who have theirs or wait for it. Clones share them.
#[derive(Clone, Default)]
pub(super) struct UserLocks(Arc<Mutex<BTreeMap<User, Weak<Lock<()>>>>>);

impl UserLocks {
    /// Waits for the lock of a user, and holds it until the guard is dropped.
    pub(super) async fn take(&self, user: &User) -> OwnedMutexGuard<()> {
        self.of(user).lock_owned().await
    }

    pub(super) fn of(&self, user: &User) -> Arc<Lock<()>> {
        let mut locks = self.0.lock();
        locks.retain(|_, lock| lock.strong_count() > 0);
        locks.get(user).and_then(Weak::upgrade).unwrap_or_else(|| {
            let lock = Arc::default();
            locks.insert(user.clone(), Arc::downgrade(&lock));
            lock
        })
    }

    /// How many users are remembered.
    #[cfg(test)]
    pub(super) fn users(&self) -> usize {
        self.0.lock().len()
    }
}
