//! The order in which jobs are submitted to a batch system: those of an account one after the other, so that the first to come is the
//! first in the queue. Accounts do not wait for each other: what keeps the jobs of one from being submitted is often its user's doing.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use pliant_site::accounts::AccountName;
use tokio::runtime::Handle;
use tokio::sync::oneshot::{self, error::TryRecvError};

/// The ends of the last slots of each account; the server's own user has none.
#[derive(Clone, Default)]
pub(super) struct SubmissionSlots(Arc<Mutex<BTreeMap<Option<AccountName>, oneshot::Receiver<()>>>>);

/// A job's slot to be submitted. Dropped, it is over.
pub(super) struct SubmissionSlot {
    before: Option<oneshot::Receiver<()>>,
    done: Option<oneshot::Sender<()>>,
}

impl SubmissionSlots {
    /// The slot behind the others of an account.
    pub(super) fn next(&self, account: Option<&AccountName>) -> SubmissionSlot {
        let (done, next) = oneshot::channel();
        let mut last = self.0.lock();
        last.retain(|_, end| matches!(end.try_recv(), Err(TryRecvError::Empty)));
        SubmissionSlot { before: last.insert(account.cloned(), next), done: Some(done) }
    }
}

impl SubmissionSlot {
    /// Waits until it has come.
    pub(super) async fn wait(mut self) -> SubmissionSlot {
        if let Some(before) = &mut self.before {
            // It notifies by being dropped.
            let _ = before.await;
        }
        self.before = None;
        self
    }
}

/// One that was given up before it came is over when it comes: those behind it still wait for those before it.
impl Drop for SubmissionSlot {
    fn drop(&mut self) {
        if let (Some(before), Some(done), Ok(runtime)) =
            (self.before.take(), self.done.take(), Handle::try_current())
        {
            runtime.spawn(async move {
                let _ = before.await;
                drop(done);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn comes(slot: SubmissionSlot) -> Option<SubmissionSlot> {
        tokio::time::timeout(Duration::from_millis(20), slot.wait()).await.ok()
    }

    #[tokio::test]
    async fn only_jobs_of_one_account_wait_for_each_other() {
        let [alice, bob] = ["alice", "bob"].map(|name| name.parse::<AccountName>().unwrap());
        let slots = SubmissionSlots::default();
        let first = comes(slots.next(Some(&alice))).await.expect("nothing is before it");
        let second = slots.next(Some(&alice));
        assert!(comes(slots.next(Some(&bob))).await.is_some());
        assert!(comes(slots.next(None)).await.is_some());
        assert!(comes(slots.next(Some(&alice))).await.is_none(), "two are before it, and it is given up");
        assert!(
            comes(slots.next(Some(&alice))).await.is_none(),
            "the one that was given up has not come either"
        );
        drop(first);
        drop(comes(second).await.expect("nothing is before it any more"));
        assert!(comes(slots.next(Some(&alice))).await.is_some(), "all before it are over");
    }
}
