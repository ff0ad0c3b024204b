//! A queue of the clusters' next starts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pliant_model::{ClusterId, Time};

/// The number of outdated entries that are always allowed.
const SPARE: usize = 64;

/// The next start of every cluster. Outdated entries stay in the heap until they reach its top or outnumber the others, so
/// the heap grows with the clusters, not with the run.
pub(crate) struct NextStarts {
    heap: BinaryHeap<Reverse<(Time, ClusterId)>>,
    next: Vec<Time>,
}

impl NextStarts {
    pub(crate) fn new(clusters: usize) -> Self {
        Self { heap: BinaryHeap::new(), next: vec![Time::MAX; clusters] }
    }

    /// Sets the cluster's next start; none if nothing is planned.
    pub(crate) fn set(&mut self, cluster: ClusterId, next: Option<Time>) {
        let next = next.unwrap_or(Time::MAX);
        if self.next[cluster.index()] != next {
            self.next[cluster.index()] = next;
            if next < Time::MAX {
                self.heap.push(Reverse((next, cluster)));
                if self.heap.len() > 2 * self.next.len() + SPARE {
                    self.drop_outdated();
                }
            }
        }
    }

    /// Rebuilds the heap with one entry per cluster; the cost is covered by the changes since the last rebuild.
    fn drop_outdated(&mut self) {
        self.heap.clear();
        let planned = self.next.iter().enumerate().filter(|(_, next)| **next < Time::MAX);
        self.heap.extend(planned.map(|(index, next)| Reverse((*next, ClusterId(index as u32)))));
    }

    /// The earliest next start.
    pub(crate) fn first(&mut self) -> Time {
        while let Some(Reverse((time, cluster))) = self.heap.peek().copied() {
            if self.next[cluster.index()] == time {
                return time;
            }
            self.heap.pop();
        }
        Time::MAX
    }

    /// Removes and returns a cluster with a start at or before `now`.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<ClusterId> {
        if self.first() > now {
            return None;
        }
        let Reverse((_, cluster)) = self.heap.pop()?;
        self.next[cluster.index()] = Time::MAX;
        Some(cluster)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outdated_entries_are_dropped() {
        let (a, b) = (ClusterId(0), ClusterId(1));
        let mut starts = NextStarts::new(2);
        starts.set(a, Some(Time(10)));
        starts.set(b, Some(Time(7)));
        starts.set(b, Some(Time(20)));
        starts.set(a, Some(Time(9)));
        assert_eq!(starts.first(), Time(9));
        assert_eq!(starts.pop_due(Time(9)), Some(a));
        assert_eq!(starts.pop_due(Time(9)), None);
        starts.set(b, None);
        assert_eq!(starts.first(), Time::MAX);
    }

    #[test]
    fn the_queue_does_not_grow_with_the_changes() {
        let mut starts = NextStarts::new(3);
        for change in 0..10_000 {
            starts.set(ClusterId(change % 3), Some(Time(1_000_000 - i64::from(change / 6 % 2 + change % 3))));
        }
        assert!(starts.heap.len() <= 2 * 3 + SPARE, "{} entries", starts.heap.len());
        let due: Vec<_> = std::iter::from_fn(|| starts.pop_due(Time(1_000_000))).collect();
        assert_eq!(due, [ClusterId(2), ClusterId(1), ClusterId(0)], "each once, the earliest first");
    }
}
