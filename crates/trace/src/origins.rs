//! The clusters of a platform named by logs.

use std::collections::BTreeMap;

use pliant_model::{ClusterId, Platform};

/// The clusters of a platform by name and by number, indexed for large logs and platforms.
pub(crate) struct Origins {
    by_name: BTreeMap<String, ClusterId>,
    clusters: u32,
}

impl Origins {
    pub(crate) fn new(platform: &Platform) -> Origins {
        let mut by_name = BTreeMap::new();
        for id in platform.ids() {
            by_name.entry(platform.cluster(id).name.to_ascii_lowercase()).or_insert(id);
        }
        Origins { by_name, clusters: platform.clusters().len() as u32 }
    }

    /// The cluster that every job belongs to, if there is but one.
    pub(crate) fn only(&self) -> Option<ClusterId> {
        (self.clusters == 1).then_some(ClusterId(0))
    }

    /// The cluster of a partition's name, whatever the case of its letters.
    pub(crate) fn named(&self, name: &str) -> Option<ClusterId> {
        self.by_name.get(&name.to_ascii_lowercase()).copied()
    }

    /// The cluster of a partition without a name: 1 is the first.
    pub(crate) fn numbered(&self, partition: i32) -> Option<ClusterId> {
        let index = u32::try_from(partition).ok()?.checked_sub(1)?;
        (index < self.clusters).then_some(ClusterId(index))
    }
}
