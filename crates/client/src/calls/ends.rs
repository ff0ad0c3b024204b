//! Which calls have ended, while many are waited for.
//!
//! The agent is asked again and again which jobs of the user have changed. One of the waiting tasks asks for all of them: the one that holds
//! [`CallEnds::poller`]. So the end of a call is noticed as soon if ten thousand others are under way.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pliant_control::names::Handle;
use pliant_wire::{ChangePosition, ChangesQuery};
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until};

use crate::Client;

/// How often the agent is asked.
const POLL: Duration = Duration::from_millis(100);
/// How often an agent of an earlier version lets each call be looked at.
const POLL_EACH: Duration = Duration::from_secs(2);
/// After how long an awaited call is looked at in any case: the server may have lost its connection to the agent.
const CHECK: Duration = Duration::from_secs(60);
/// For how long a position is used: afterwards the changes since may be many.
const POSITION_VALID: Duration = Duration::from_secs(5);

/// What a task that waits for a call is notified of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Notice {
    /// Nothing yet.
    None,
    /// The call may have ended.
    Check,
    /// The call has ended.
    Ended,
}

/// The calls that are waited for.
#[derive(Default)]
pub(super) struct CallEnds {
    awaited: Mutex<HashMap<Handle, watch::Sender<Notice>>>,
    poller: tokio::sync::Mutex<Poller>,
}

/// Up to where the changes of jobs are known, and when the agent is asked again.
#[derive(Default)]
struct Poller {
    position: Option<(ChangePosition, Instant)>,
    due: Option<Instant>,
}

impl CallEnds {
    /// Registers a call that is waited for. What ends from now on is noticed; whether it has ended before is for the caller to find out.
    pub(super) fn register(&self, job: &Handle) -> AwaitedCall<'_> {
        let mut awaited = self.awaited.lock();
        let sender = awaited.entry(job.clone()).or_insert_with(|| watch::Sender::new(Notice::None));
        AwaitedCall { ends: self, job: job.clone(), notices: sender.subscribe() }
    }

    /// Notifies the tasks that wait for a job that it has ended.
    fn ended(&self, job: &Handle) {
        if let Some(sender) = self.awaited.lock().get(job) {
            sender.send_replace(Notice::Ended);
        }
    }

    /// Notifies every waiting task that its call may have ended.
    fn check_each(&self) {
        for sender in self.awaited.lock().values() {
            sender.send_if_modified(|notice| {
                let may_change = *notice != Notice::Ended;
                if may_change {
                    *notice = Notice::Check;
                }
                may_change
            });
        }
    }
}

/// A call that is waited for.
pub(super) struct AwaitedCall<'a> {
    ends: &'a CallEnds,
    job: Handle,
    notices: watch::Receiver<Notice>,
}

impl AwaitedCall<'_> {
    /// Waits for a notice: true if the call has ended, false if it may have.
    async fn notice(&mut self) -> bool {
        // Without marking it as seen: a notice that has come since the last one is seen below.
        if *self.notices.borrow() == Notice::Ended {
            return true;
        }
        // The sender is kept as long as this exists.
        let _ = self.notices.changed().await;
        *self.notices.borrow_and_update() == Notice::Ended
    }
}

impl Drop for AwaitedCall<'_> {
    fn drop(&mut self) {
        let mut awaited = self.ends.awaited.lock();
        // Others may wait for the same call.
        if awaited.get(&self.job).is_some_and(|sender| sender.receiver_count() <= 1) {
            awaited.remove(&self.job);
        }
    }
}

impl Client {
    /// Waits until an awaited call has ended: true, or may have ended: false. Meanwhile it may ask for all tasks that wait.
    pub(super) async fn until_noticed(&self, call: &mut AwaitedCall<'_>) -> bool {
        let ends = call.ends;
        let poll = async {
            let mut poller = ends.poller.lock().await;
            loop {
                if let Some(due) = poller.due {
                    sleep_until(due.into()).await;
                }
                let pause = self.poll_ends(ends, &mut poller).await;
                poller.due = Some(Instant::now() + pause);
            }
        };
        tokio::select! {
            biased;
            has_ended = call.notice() => has_ended,
            () = sleep(CHECK) => false,
            never = poll => never,
        }
    }

    /// Asks the agent once, notifies tasks that wait, and returns after how long it is asked again.
    async fn poll_ends(&self, ends: &CallEnds, poller: &mut Poller) -> Duration {
        let valid = poller.position.filter(|(_, at)| at.elapsed() < POSITION_VALID);
        let after = valid.map(|(position, _)| position);
        let page = match self.changes(&ChangesQuery { all: false, after }).await {
            Ok(Some(page)) => page,
            Ok(None) => {
                ends.check_each();
                return POLL_EACH;
            }
            // The agent starts again, or another one answers next.
            Err(_) => return POLL,
        };
        for job in page.jobs.iter().filter(|job| job.state.is_final()) {
            ends.ended(&job.handle);
        }
        poller.position = Some((page.position, Instant::now()));
        if after.is_none() || page.forgotten {
            // What has ended before that position is not among the changes.
            ends.check_each();
        }
        if page.more { Duration::ZERO } else { POLL }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_task_that_waits_is_notified() {
        let ends = CallEnds::default();
        let (job, other) = ("lyon.1".parse().unwrap(), "lyon.2".parse().unwrap());
        let (mut first, mut second, mut third) =
            (ends.register(&job), ends.register(&job), ends.register(&other));
        ends.check_each();
        for call in [&mut first, &mut second, &mut third] {
            assert!(!call.notice().await, "it may have ended");
        }
        ends.ended(&job);
        ends.check_each();
        ends.ended(&"lyon.3".parse().unwrap());
        assert!(first.notice().await && second.notice().await && !third.notice().await);
        assert!(ends.register(&job).notice().await, "it has ended before, and others still wait");
        drop(first);
        assert!(second.notice().await, "it stays so");
        drop((second, third));
        assert!(ends.awaited.lock().is_empty());
    }
}
