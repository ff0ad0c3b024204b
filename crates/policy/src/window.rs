//! The last so many values of a series, in the order in which they were told and sorted: what the histories of
//! runtimes and of used limits take their order statistics from.
//!
//! Telling one costs O(window), an order statistic O(1).

use std::collections::VecDeque;

/// The last values of a series.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Window<Value> {
    told: VecDeque<Value>,
    sorted: Vec<Value>,
}

impl<Value> Default for Window<Value> {
    fn default() -> Self {
        Window { told: VecDeque::new(), sorted: Vec::new() }
    }
}

impl<Value: Ord + Copy> Window<Value> {
    /// The next value; of more than `most` the oldest is forgotten, and returned.
    pub(crate) fn push(&mut self, value: Value, most: usize) -> Option<Value> {
        let oldest = if self.told.len() >= most { self.told.pop_front() } else { None };
        if let Some(oldest) = oldest {
            // Below the first one that is not smaller there is none, and it is there.
            self.sorted.remove(self.sorted.partition_point(|other| *other < oldest));
        }
        self.told.push_back(value);
        self.sorted.insert(self.sorted.partition_point(|other| *other < value), value);
        oldest
    }

    /// From the smallest to the largest.
    pub(crate) fn sorted(&self) -> &[Value] {
        &self.sorted
    }

    /// In the order in which they were told.
    pub(crate) fn told(&self) -> impl Iterator<Item = Value> {
        self.told.iter().copied()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.told.len()
    }
}
