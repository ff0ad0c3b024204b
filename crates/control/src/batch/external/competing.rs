//! Partitions that have nodes in common: jobs that wait in one compete for the nodes of another.

use std::collections::BTreeSet;

use pliant_policy::nodes::KindSet;

use crate::listing::{Listing, Node};

/// The partitions whose waiting jobs may have nodes of one of them, directly or through another partition: with itself, by name.
/// O(partitions x nodes) at most.
pub(super) fn competing<'a>(listing: &'a Listing, own: &'a str) -> BTreeSet<&'a str> {
    let waiting = listing.waiting().flat_map(|job| job.partition.split(','));
    let waiting: BTreeSet<&str> = waiting.collect();
    let mut found = BTreeSet::from([own]);
    loop {
        let shared = listing.nodes.iter().filter(|node| is_in(node, &found));
        let more: BTreeSet<&str> =
            shared.flat_map(|node| node.partitions.iter().map(String::as_str)).collect();
        let before = found.len();
        found.extend(more.intersection(&waiting));
        if found.len() == before {
            return found;
        }
    }
}

/// Whether a node is in any of these partitions.
pub(super) fn is_in(node: &Node, partitions: &BTreeSet<&str>) -> bool {
    node.partitions.iter().any(|name| partitions.contains(name.as_str()))
}

/// The partitions of each kind of nodes, where several are planned together.
#[derive(Default)]
pub(super) struct PartitionsOfKinds<'a>(pub(super) Vec<Vec<&'a str>>);

impl PartitionsOfKinds<'_> {
    /// Whether partitions are not told apart.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kinds of nodes on which a job of these partitions, separated by commas, can run.
    pub(super) fn kinds_in(&self, partitions: &str) -> KindSet {
        if self.0.is_empty() {
            return KindSet::ALL;
        }
        let will_do = |of: &&Vec<&str>| partitions.split(',').any(|name| of.contains(&name));
        let kinds = (0..).zip(&self.0).filter(|(_, of)| will_do(of)).map(|(kind, _)| 1_u64 << kind);
        KindSet(kinds.sum())
    }
}
