//! What the connections to several masters side by side have in common. With one parent it is that of the parent.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use pliant_control::names::Name;

/// What the parents have said.
pub(super) struct AllParents {
    /// Up to which status update each has kept those that it has to have.
    kept: Mutex<Vec<u64>>,
    /// The highest job number that each knows of a server, until all have said so.
    numbers: Mutex<BTreeMap<Name, BTreeMap<usize, u32>>>,
    /// The parents that have shown that the journal is no older copy.
    confirmed: Mutex<BTreeSet<usize>>,
}

impl AllParents {
    /// So many parents, which have said nothing.
    pub(super) fn new(parents: usize) -> AllParents {
        AllParents {
            kept: Mutex::new(vec![0; parents]),
            numbers: Mutex::default(),
            confirmed: Mutex::default(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.kept.lock().len()
    }

    /// A parent has kept what it has to have up to a status update. Returns up to where all parents have, if that is more than before:
    /// the journal need not keep these any more.
    pub(super) fn kept(&self, parent: usize, sequence: u64) -> Option<u64> {
        let mut kept = self.kept.lock();
        let least = |kept: &[u64]| kept.iter().copied().min().unwrap_or_default();
        let before = least(&kept);
        kept[parent] = sequence.max(kept[parent]);
        Some(least(&kept)).filter(|after| *after > before)
    }

    /// A parent says up to which number it knows the jobs of a server. Returns the highest one once all have said so: each knows the jobs of
    /// its own users.
    pub(super) fn numbered(&self, parent: usize, server: &Name, highest: u32) -> Option<u32> {
        let (count, mut numbers) = (self.count(), self.numbers.lock());
        let of_server = numbers.entry(server.clone()).or_default();
        of_server.insert(parent, highest);
        if of_server.len() < count {
            return None;
        }
        numbers.remove(server).and_then(|all| all.into_values().max())
    }

    /// A parent has shown that the journal is no older copy. True once all have.
    pub(super) fn confirmed(&self, parent: usize) -> bool {
        let mut confirmed = self.confirmed.lock();
        confirmed.insert(parent);
        confirmed.len() == self.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_parent_speaks_for_all() {
        let all = AllParents::new(1);
        assert_eq!([3, 3, 2, 5].map(|sequence| all.kept(0, sequence)), [Some(3), None, None, Some(5)]);
        assert_eq!(all.numbered(0, &"lyon".parse().unwrap(), 0), Some(0));
        assert!(all.confirmed(0));
    }

    #[test]
    fn what_several_parents_say_counts_once_all_have_said_it() {
        let all = AllParents::new(2);
        assert_eq!((all.kept(0, 7), all.kept(1, 5), all.kept(0, 9)), (None, Some(5), None));
        assert_eq!((all.kept(1, 8), all.kept(1, 20)), (Some(8), Some(9)));
        let (lyon, nice): (Name, Name) = ("lyon".parse().unwrap(), "nice".parse().unwrap());
        assert_eq!((all.numbered(0, &lyon, 12), all.numbered(0, &nice, 1)), (None, None));
        assert_eq!((all.numbered(0, &lyon, 14), all.numbered(1, &lyon, 3)), (None, Some(14)));
        assert_eq!(all.numbered(1, &lyon, 3), None, "a new question");
        assert_eq!((all.confirmed(1), all.confirmed(1), all.confirmed(0)), (false, false, true));
    }
}
