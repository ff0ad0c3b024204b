//! The last so many values of a series, in the order in which they were values and sorted: what the histories of
//! runtimes and of used limits take their order statistics from.
//!
//! Telling one costs O(window), an order statistic O(1).

use std::borrow::Borrow;
use std::collections::{BTreeMap, VecDeque};

/// The last values of a series.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Window<Value> {
    values: VecDeque<Value>,
    sorted: Vec<Value>,
}

impl<Value> Default for Window<Value> {
    fn default() -> Self {
        Window { values: VecDeque::new(), sorted: Vec::new() }
    }
}

impl<Value: Ord + Copy> Window<Value> {
    /// The next value; of more than `most` the oldest is forgotten, and returned.
    pub(super) fn push(&mut self, value: Value, most: usize) -> Option<Value> {
        let oldest = if self.values.len() >= most { self.values.pop_front() } else { None };
        if let Some(oldest) = oldest {
            // Below the first one that is not smaller there is none, and it is there.
            self.sorted.remove(self.sorted.partition_point(|other| *other < oldest));
        }
        self.values.push_back(value);
        self.sorted.insert(self.sorted.partition_point(|other| *other < value), value);
        oldest
    }

    /// From the smallest to the largest.
    pub(super) fn sorted(&self) -> &[Value] {
        &self.sorted
    }

    /// Those above a value, from the smallest to the largest.
    pub(super) fn above(&self, value: Value) -> &[Value] {
        &self.sorted[self.sorted.partition_point(|other| *other <= value)..]
    }

    /// In the order in which they were values.
    pub(super) fn values(&self) -> impl Iterator<Item = Value> {
        self.values.iter().copied()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}

/// The last values of several series.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Windows<Key, Value> {
    of: BTreeMap<Key, Window<Value>>,
}

impl<Key, Value> Default for Windows<Key, Value> {
    fn default() -> Self {
        Windows { of: BTreeMap::new() }
    }
}

impl<Key: Ord + Clone, Value: Ord + Copy> Windows<Key, Value> {
    /// The next value of a series; of more than `most` the oldest is forgotten.
    pub(super) fn push<Name>(&mut self, key: &Name, value: Value, most: usize)
    where
        Key: Borrow<Name>,
        Name: Ord + ToOwned<Owned = Key> + ?Sized,
    {
        if !self.of.contains_key(key) {
            self.of.insert(key.to_owned(), Window::default());
        }
        if let Some(window) = self.of.get_mut(key) {
            window.push(value, most);
        }
    }

    /// One series, if it has a value.
    pub(super) fn get<Name: Ord + ?Sized>(&self, key: &Name) -> Option<&Window<Value>>
    where
        Key: Borrow<Name>,
    {
        self.of.get(key)
    }

    /// The values of each series in the order in which they were values, by series.
    pub(super) fn dump(&self) -> impl Iterator<Item = (Key, Vec<Value>)> {
        self.of.iter().map(|(key, window)| (key.clone(), window.values().collect()))
    }

    /// Series that go on like the dumped ones. Of more than `most` values the last count.
    pub(super) fn restore<'a>(
        dump: impl Iterator<Item = (&'a Key, &'a [Value])>,
        most: usize,
    ) -> Windows<Key, Value>
    where
        Key: 'a,
        Value: 'a,
    {
        let mut windows = Windows::default();
        for (key, values) in dump {
            let window: &mut Window<Value> = windows.of.entry(key.clone()).or_default();
            values.iter().for_each(|value| _ = window.push(*value, most));
        }
        windows
    }
}
