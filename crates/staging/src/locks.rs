//! One after the other: what is done with the uploads of one submission.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use pliant_control::names::{Key, User};
use tokio::sync::{Mutex as Turnstile, OwnedMutexGuard};

type Known = BTreeMap<(User, Key), Weak<Turnstile<()>>>;

/// The submissions that are being decided about.
#[derive(Clone, Default, Debug)]
pub(super) struct UploadLocks(Arc<Mutex<Known>>);

/// The right to decide about the uploads of one submission, until it is dropped.
#[derive(Debug)]
pub struct UploadLock(#[expect(dead_code, reason = "it is held as long as it is there")] OwnedMutexGuard<()>);

impl UploadLocks {
    /// Waits until those that came before are done.
    pub(super) async fn wait(&self, user: &User, key: Key) -> UploadLock {
        let turnstile = self.of((user.clone(), key));
        UploadLock(turnstile.lock_owned().await)
    }

    fn of(&self, submission: (User, Key)) -> Arc<Turnstile<()>> {
        let mut known = self.0.lock();
        // As many stay as there are callers.
        known.retain(|_, turnstile| turnstile.strong_count() > 0);
        if let Some(turnstile) = known.get(&submission).and_then(Weak::upgrade) {
            return turnstile;
        }
        let turnstile = Arc::default();
        known.insert(submission, Arc::downgrade(&turnstile));
        turnstile
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn a_turn_is_waited_for_by_those_of_the_same_submission_alone() {
        let turns = UploadLocks::default();
        let (alice, bob): (User, User) = ("alice".parse().unwrap(), "bob".parse().unwrap());
        let mut context = Context::from_waker(Waker::noop());
        let mut ready = |user, key| pin!(turns.wait(user, Key([key; 16]))).poll(&mut context);
        let Poll::Ready(first) = ready(&alice, 1) else { panic!("none is before it") };
        assert!(ready(&alice, 1).is_pending());
        assert!(ready(&alice, 2).is_ready() && ready(&bob, 1).is_ready());
        drop(first);
        assert!(ready(&alice, 1).is_ready());
        assert!(turns.0.lock().len() <= 1, "none is remembered for ever");
    }
}
