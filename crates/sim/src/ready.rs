//! Which clusters have a job to start, and when: a queue of the clusters' next starts.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pliant_model::{ClusterId, Time};

/// The next start of every cluster. Outdated entries stay in the heap and are dropped when they surface.
pub(crate) struct NextStarts {
    heap: BinaryHeap<Reverse<(Time, ClusterId)>>,
    next: Vec<Time>,
}

impl NextStarts {
    pub(crate) fn new(clusters: usize) -> Self {
        Self { heap: BinaryHeap::new(), next: vec![Time::MAX; clusters] }
    }

    /// The cluster's next start is now `next` (none: nothing planned).
    pub(crate) fn set(&mut self, cluster: ClusterId, next: Option<Time>) {
        let next = next.unwrap_or(Time::MAX);
        if self.next[cluster.index()] != next {
            self.next[cluster.index()] = next;
            if next < Time::MAX {
                self.heap.push(Reverse((next, cluster)));
            }
        }
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

    /// Takes out a cluster that has a start at or before `now`.
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
}
