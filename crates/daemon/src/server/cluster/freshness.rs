//! How old a snapshot of the queue may be: a question that is answered from it has it made anew first, if that is cheap.
//!
//! Between two listings the server does not know what others submit. So a question, a submission and a job that is handed over
//! are answered from a listing that is at most [`AGE`] old: if there is none, one is asked for, which serves all who ask
//! meanwhile. No question waits longer than [`TIMEOUT`] for it, which is less than any agent's timeout, nor at all where
//! listings take longer than [`CHEAP`] or the batch system is silent: then the answer is as old as the last one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pliant_control::server::Server;
use pliant_model::Procs;
use tokio::sync::{Notify, watch};

use crate::host::Mailbox;

/// How old a listing may be. Two listings are as far apart at least, so that one may be made at once when it is older.
pub(super) const AGE: Duration = Duration::from_secs(1);
/// How long a listing may have taken the last time if questions are to wait for the next.
const CHEAP: Duration = Duration::from_millis(250);
/// How long a question waits.
const TIMEOUT: Duration = Duration::from_millis(500);

/// The outcome of the last listing.
#[derive(Clone, Default, Debug)]
pub(in crate::server) struct LastListing {
    /// When the last one that succeeded was asked for.
    pub(super) asked: Option<Instant>,
    /// How long it took.
    pub(super) took: Duration,
    /// Why there is none since.
    pub(super) silent: Option<String>,
    /// The processors that it showed.
    pub(in crate::server) procs: Procs,
}

impl LastListing {
    fn is_younger_than(&self, age: Duration, at: Instant) -> bool {
        self.asked.is_some_and(|asked| asked + age > at)
    }

    fn is_worth_waiting(&self) -> bool {
        self.asked.is_some() && self.silent.is_none() && self.took <= CHEAP
    }
}

/// The listings of a batch system, for those who need a new one.
#[derive(Clone)]
pub(in crate::server) struct FreshListings {
    pub(super) last: watch::Receiver<LastListing>,
    pub(super) wanted: Arc<Notify>,
    pub(super) mailbox: Mailbox<Server>,
}

impl FreshListings {
    /// Has the jobs listed anew if the last listing is old, and waits for that if it is worth it.
    pub(in crate::server) async fn refresh(&self) {
        let refreshed = async {
            if self.renewed().await {
                // What it said is sent before this is asked. A server that stops says so elsewhere.
                let _ = self.mailbox.ask(|_, _| ()).await;
            }
        };
        let _ = tokio::time::timeout(TIMEOUT, refreshed).await;
    }

    /// True if there is a new listing that was waited for.
    async fn renewed(&self) -> bool {
        let begin = Instant::now();
        let is_worth_waiting = {
            let last = self.last.borrow();
            if last.is_younger_than(AGE, begin) {
                return false;
            }
            last.is_worth_waiting()
        };
        self.wanted.notify_one();
        if !is_worth_waiting {
            return false;
        }
        let mut last = self.last.clone();
        let is_there = |last: &LastListing| last.is_younger_than(AGE, begin) || last.silent.is_some();
        let listed = tokio::time::timeout(TIMEOUT, last.wait_for(is_there)).await;
        matches!(listed, Ok(Ok(last)) if last.silent.is_none())
    }

    /// What the batch system is waited for with, if it is.
    pub(in crate::server) fn missing(&self) -> Option<String> {
        let last = self.last.borrow();
        match (&last.silent, last.asked) {
            (Some(why), _) => Some(why.clone()),
            (None, None) => Some("it has not answered yet".to_owned()),
            (None, Some(_)) => None,
        }
    }

    /// Tells each time that the number of processors has changed.
    pub(in crate::server) async fn sizes(&self, mut notify: impl FnMut()) {
        let (mut last, mut known) = (self.last.clone(), Procs(0));
        while let Ok(changed) = last.wait_for(|last| last.procs != known).await {
            known = changed.procs;
            drop(changed);
            notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::mailbox;

    fn listed(seconds_ago: u64, took: Duration, silent: Option<&str>) -> LastListing {
        let asked = Instant::now().checked_sub(Duration::from_secs(seconds_ago));
        LastListing { asked, took, silent: silent.map(str::to_owned), procs: Procs(4) }
    }

    /// Whether a question causes a new listing, and is answered from it.
    async fn check(before: LastListing, is_wanted: bool, is_waited_for: bool) {
        let what = format!("{before:?}");
        let (sender, last) = watch::channel(before);
        let wanted = Arc::new(Notify::new());
        let fresh = FreshListings { last, wanted: wanted.clone(), mailbox: mailbox().0 };
        let lister = async {
            wanted.notified().await;
            sender.send_replace(listed(0, Duration::ZERO, None));
            // Who does not wait has gone by now, and this is the end of it.
            std::future::pending::<()>().await;
        };
        let renewed = tokio::select! {
            biased;
            renewed = fresh.renewed() => renewed,
            () = lister => unreachable!("it goes on for ever"),
        };
        assert_eq!(renewed, is_waited_for, "{what}");
        // The permit of a wish that was not taken is still there.
        let is_left = futures_now(wanted.notified()).await;
        assert_eq!(renewed || is_left, is_wanted, "{what}");
    }

    /// Whether that is there without waiting.
    async fn futures_now(future: impl Future<Output = ()>) -> bool {
        tokio::select! {
            biased;
            () = future => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn an_old_listing_is_renewed_and_waited_for_where_that_is_cheap() {
        let quick = Duration::from_millis(20);
        check(listed(0, quick, None), false, false).await;
        check(listed(60, quick, None), true, true).await;
        check(listed(60, Duration::from_secs(1), None), true, false).await;
        check(listed(60, quick, Some("slurm does not answer")), true, false).await;
        check(LastListing::default(), true, false).await;
    }

    #[tokio::test]
    async fn no_question_waits_for_ever() {
        let (_sender, last) = watch::channel(listed(60, Duration::ZERO, None));
        let fresh = FreshListings { last, wanted: Arc::default(), mailbox: mailbox().0 };
        assert!(!fresh.renewed().await);
    }

    #[tokio::test]
    async fn awaited_changes_are_notified() {
        let check = |last: LastListing, expected: Option<&str>| {
            let (_sender, last) = watch::channel(last);
            let fresh = FreshListings { last, wanted: Arc::default(), mailbox: mailbox().0 };
            assert_eq!(fresh.missing().as_deref(), expected);
        };
        check(LastListing::default(), Some("it has not answered yet"));
        check(listed(0, Duration::ZERO, None), None);
        check(listed(9, Duration::ZERO, Some("slurm does not answer")), Some("slurm does not answer"));
    }
}
