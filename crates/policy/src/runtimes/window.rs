//! The last values of a series, in the order of recording and sorted, for order statistics.
//!
//! Recording a value costs O(window), an order statistic O(1).

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
    /// Adds a value; if more than `most` values remain, removes the oldest and returns it.
    pub(super) fn push(&mut self, value: Value, most: usize) -> Option<Value> {
        let oldest = if self.values.len() >= most { self.values.pop_front() } else { None };
        if let Some(oldest) = oldest {
            // The oldest value is in the sorted list at its partition point.
            self.sorted.remove(self.sorted.partition_point(|other| *other < oldest));
        }
        self.values.push_back(value);
        self.sorted.insert(self.sorted.partition_point(|other| *other < value), value);
        oldest
    }

    /// The values from the smallest to the largest.
    pub(super) fn sorted(&self) -> &[Value] {
        &self.sorted
    }

    /// The values above `value`, from the smallest to the largest.
    pub(super) fn above(&self, value: Value) -> &[Value] {
        &self.sorted[self.sorted.partition_point(|other| *other <= value)..]
    }

    /// The values in the order of recording.
    pub(super) fn values(&self) -> impl Iterator<Item = Value> {
        self.values.iter().copied()
    }

    /// Number of values.
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
    /// Adds a value to a series and keeps its last `most` values.
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

    /// A series, if it has a value.
    pub(super) fn get<Name: Ord + ?Sized>(&self, key: &Name) -> Option<&Window<Value>>
    where
        Key: Borrow<Name>,
    {
        self.of.get(key)
    }

    /// Each series, by key.
    pub(super) fn all(&self) -> impl Iterator<Item = &Window<Value>> {
        self.of.values()
    }

    /// The values of each series in the order of recording.
    pub(super) fn dump(&self) -> impl Iterator<Item = (Key, Vec<Value>)> {
        self.of.iter().map(|(key, window)| (key.clone(), window.values().collect()))
    }

    /// Restores dumped series and keeps the last `most` values of each.
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
