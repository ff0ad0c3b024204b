//! A bounded map of what was used last.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::mem::take;

/// A map with at most so many entries. When half of them are new since the last time, those that were not used meanwhile are
/// forgotten.
pub(super) struct RecentMap<K, V> {
    half: usize,
    young: BTreeMap<K, V>,
    old: BTreeMap<K, V>,
}

impl<K: Ord, V: Clone> RecentMap<K, V> {
    /// An empty map with at most so many entries, an even number.
    pub(super) fn new(entries_max: usize) -> RecentMap<K, V> {
        RecentMap { half: entries_max / 2, young: BTreeMap::new(), old: BTreeMap::new() }
    }

    /// The value of a key, which counts as used.
    pub(super) fn get<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.insert(key, value.clone());
        Some(value)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.half && !self.young.contains_key(&key) {
            self.old = take(&mut self.young);
        }
        self.young.insert(key, value);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_bounded_and_keeps_what_is_used() {
        let mut map = RecentMap::new(8);
        for number in 0..1_000 {
            map.insert(number, number);
            assert_eq!(map.get(&number), Some(number));
            assert_eq!(map.get(&0), Some(0), "it is used after each of the others");
            assert!(map.len() <= 8, "{}", map.len());
        }
        assert_eq!(map.get(&999), Some(999));
        assert_eq!(map.get(&900), None, "more than 8 others came after it");
        map.insert(999, 1);
        assert_eq!(map.get(&999), Some(1));
    }
}
