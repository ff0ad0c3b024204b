//! Changes as they go to the pages: numbered, and kept for a while for streams that were interrupted.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::types::{ClustersView, HealthView, JobView};

/// How many changes are kept.
const KEPT: usize = 2048;
/// With more changes of jobs at a time, pages read their lists again instead.
const AT_ONCE_MAX: usize = 256;

/// What has changed.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Change {
    /// A job is new or has changed.
    Job(Box<JobView>),
    /// A job is not known any more.
    Removed(String),
    /// The clusters have changed.
    Clusters(ClustersView),
    /// The agent answers again or does not answer any more, or a warning has come or gone.
    Health(HealthView),
    /// So much has changed that everything is to be read again.
    Refresh,
}

/// All changes, for streams.
pub(crate) struct Changes {
    kept: Mutex<KeptChanges>,
    sender: broadcast::Sender<(u64, Change)>,
}

struct KeptChanges {
    /// The number of the last change.
    last: u64,
    changes: VecDeque<(u64, Change)>,
}

/// The changes from some point on.
pub(crate) struct Subscription {
    /// The number of the last change before it.
    pub(crate) last: u64,
    /// What was missed since then.
    pub(crate) missed: Vec<(u64, Change)>,
    /// What comes.
    pub(crate) coming: broadcast::Receiver<(u64, Change)>,
}

impl Default for Changes {
    /// Numbers begin at the time, in microseconds: what a page has seen of an earlier follower, or of another process, has a lower number.
    fn default() -> Changes {
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Changes::after(u64::try_from(elapsed.as_micros()).unwrap_or_default())
    }
}

impl Changes {
    /// No changes; the first one comes after that number.
    fn after(last: u64) -> Changes {
        let kept = KeptChanges { last, changes: VecDeque::new() };
        Changes { kept: Mutex::new(kept), sender: broadcast::Sender::new(KEPT) }
    }

    /// Sends changes to all streams; one for everything if they are very many.
    pub(crate) fn send(&self, changes: impl IntoIterator<Item = Change>) {
        let mut changes: Vec<Change> = changes.into_iter().collect();
        if changes.len() > AT_ONCE_MAX {
            changes = vec![Change::Refresh];
        }
        let mut kept = self.kept.lock();
        for change in changes {
            kept.last += 1;
            let numbered = (kept.last, change);
            if kept.changes.len() == KEPT {
                kept.changes.pop_front();
            }
            kept.changes.push_back(numbered.clone());
            // Nothing follows at the moment.
            let _ = self.sender.send(numbered);
        }
    }

    /// True if a stream follows.
    pub(crate) fn is_followed(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// The changes after that one, or from now on. If too much was missed, that is one [`Change::Refresh`].
    pub(crate) fn subscribe(&self, after: Option<u64>) -> Subscription {
        let kept = self.kept.lock();
        let coming = self.sender.subscribe();
        let last = kept.last;
        let missed = match after {
            None => Vec::new(),
            Some(after) if after == last => Vec::new(),
            Some(after) => {
                let first = kept.changes.front().map_or(last + 1, |(number, _)| *number);
                match after < last && first <= after + 1 {
                    true => kept.changes.iter().filter(|(number, _)| *number > after).cloned().collect(),
                    false => vec![(last, Change::Refresh)],
                }
            }
        };
        Subscription { last, missed, coming }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removed(number: usize) -> Change {
        Change::Removed(format!("lyon.{number}"))
    }

    #[test]
    fn an_interrupted_stream_gets_what_it_missed() {
        let changes = Changes::after(0);
        changes.send((1..=5).map(removed));
        let missed = |after| changes.subscribe(after).missed;
        assert_eq!(missed(None), []);
        assert_eq!(missed(Some(5)), []);
        assert_eq!(missed(Some(3)), [(4, removed(4)), (5, removed(5))]);
        assert_eq!(missed(Some(0)).len(), 5);
        // Numbers of another process.
        assert_eq!(missed(Some(6)), [(5, Change::Refresh)]);
    }

    #[test]
    fn a_stream_of_an_earlier_follower_reads_everything_again() {
        let earlier = Changes::default();
        earlier.send((1..=9).map(removed));
        let seen = earlier.subscribe(None).last;
        // It has sent less than the earlier one.
        std::thread::sleep(std::time::Duration::from_millis(1));
        let changes = Changes::default();
        for sent in 0..3 {
            let missed = changes.subscribe(Some(seen)).missed;
            assert_eq!(missed.len(), 1, "after {sent} changes");
            assert_eq!(missed[0].1, Change::Refresh, "after {sent} changes");
            changes.send([removed(sent)]);
        }
    }

    #[test]
    fn a_stream_that_missed_too_much_reads_everything_again() {
        let changes = Changes::after(0);
        (0..KEPT + 2).for_each(|number| changes.send([removed(number)]));
        let last = (KEPT + 2) as u64;
        assert_eq!(changes.subscribe(Some(1)).missed, [(last, Change::Refresh)]);
        assert_eq!(changes.subscribe(Some(2)).missed.len(), KEPT);
    }

    #[tokio::test]
    async fn very_many_changes_are_one() {
        let changes = Changes::after(0);
        assert!(!changes.is_followed());
        let mut follows = changes.subscribe(None);
        assert!(changes.is_followed());
        changes.send((0..=AT_ONCE_MAX).map(removed));
        assert_eq!(follows.coming.recv().await.unwrap(), (1, Change::Refresh));
        assert!(follows.coming.is_empty());
    }
}
