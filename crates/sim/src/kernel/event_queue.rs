//! The event queue of a simulation.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Events ordered by time, then by class, then by the order in which they were scheduled (invariant 3).
#[derive(Clone, Debug)]
pub(crate) struct EventQueue<T, C, E> {
    now: T,
    events: BinaryHeap<Reverse<Scheduled<T, C, E>>>,
    /// The number of scheduled events.
    scheduled: u64,
}

#[derive(Clone, Debug)]
struct Scheduled<T, C, E> {
    at: T,
    class: C,
    sequence: u64,
    event: E,
}

impl<T: Copy + Ord, C: Copy + Ord, E> EventQueue<T, C, E> {
    /// An empty queue at the time `now`.
    pub(crate) fn new(now: T) -> EventQueue<T, C, E> {
        EventQueue { now, events: BinaryHeap::new(), scheduled: 0 }
    }

    /// The time of the event that was taken last.
    pub(crate) fn now(&self) -> T {
        self.now
    }

    /// Schedules an event, now if `at` is in the past.
    pub(crate) fn schedule(&mut self, at: T, class: C, event: E) {
        let (at, sequence) = (at.max(self.now), self.scheduled);
        self.scheduled += 1;
        self.events.push(Reverse(Scheduled { at, class, sequence, event }));
    }

    /// Moves the time forward, at most to the next event.
    pub(crate) fn advance(&mut self, to: T) {
        debug_assert!(self.next_time().is_none_or(|next| to <= next), "an event would be left behind");
        self.now = self.now.max(to);
    }

    /// The time of the next event.
    pub(crate) fn next_time(&self) -> Option<T> {
        self.events.peek().map(|Reverse(next)| next.at)
    }

    /// Takes the next event and moves the time to it.
    pub(crate) fn pop(&mut self) -> Option<(C, E)> {
        let Reverse(next) = self.events.pop()?;
        self.now = next.at;
        Some((next.class, next.event))
    }

    /// Takes the next event if it happens at `now` or before.
    pub(crate) fn pop_due(&mut self, now: T) -> Option<(C, E)> {
        if self.next_time()? <= now { self.pop() } else { None }
    }
}

impl<T: Ord, C: Ord, E> Ord for Scheduled<T, C, E> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = self.at.cmp(&other.at).then_with(|| self.class.cmp(&other.class));
        by_time.then(self.sequence.cmp(&other.sequence))
    }
}

impl<T: Ord, C: Ord, E> PartialOrd for Scheduled<T, C, E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord, C: Ord, E> PartialEq for Scheduled<T, C, E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T: Ord, C: Ord, E> Eq for Scheduled<T, C, E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_class_then_sequence() {
        let mut queue = EventQueue::new(0);
        for (at, class, event) in [(5, 1, "c"), (5, 0, "a"), (3, 9, "first"), (5, 0, "b")] {
            queue.schedule(at, class, event);
        }
        assert_eq!((queue.pop(), queue.now()), (Some((9, "first")), 3));
        queue.schedule(1, 0, "late");
        assert_eq!(queue.next_time(), Some(3));
        assert_eq!(queue.pop_due(2), None);
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        assert_eq!(rest, ["late", "a", "b", "c"]);
        assert_eq!(queue.now(), 5);
    }
}
