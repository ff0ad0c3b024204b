//! Turns of users: what each user may do only once at a time, so that many calls of one user do not hold up those of others.
//!
//! A user's further calls wait outside of what they wait for, in the order in which they came, and those of other users pass
//! them. How many may wait is bounded by the open requests of a user (`open_requests` of `[limits]`).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pliant_control::names::User;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// The turn of each user who has it or waits for it. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<BTreeMap<User, Weak<Turn<()>>>>>);

impl Turns {
    /// Waits for the turn of a user, which lasts until the guard is dropped.
    pub(super) async fn take(&self, user: &User) -> OwnedMutexGuard<()> {
        self.of(user).lock_owned().await
    }

    pub(super) fn of(&self, user: &User) -> Arc<Turn<()>> {
        let mut turns = self.0.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        turns.get(user).and_then(Weak::upgrade).unwrap_or_else(|| {
            let turn = Arc::default();
            turns.insert(user.clone(), Arc::downgrade(&turn));
            turn
        })
    }

    /// How many users are remembered.
    #[cfg(test)]
    pub(super) fn users(&self) -> usize {
        self.0.lock().len()
    }
}
