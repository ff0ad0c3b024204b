//! Groups of clusters of similar speed, so that a request asks a few groups instead of every cluster.
//!
//! A group keeps the smallest [`StartBounds`] of its clusters per class of sizes and walltimes: nothing of that class
//! starts earlier on any of them. With the group's fastest speed this bounds the
//! completion of a request on all of its clusters at once, and groups that cannot matter are passed over.
//! The table is lowered at once when a cluster's bounds may have fallen, and raised entry by entry when a
//! search has just looked at all clusters of the group.

use pliant_model::{ClusterId, Procs, Speed, Time};

use super::ClusterState;
use crate::profile::{LeastBounds, StartBounds};
use crate::tuning::ClassTimes;

/// Clusters per group.
const GROUP: usize = 16;

/// Some clusters, neighbours in speed.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) members: Vec<ClusterId>,
    /// The first of them in the order of their numbers, which breaks ties of completion.
    pub(super) first: ClusterId,
    fastest: Speed,
    largest: Procs,
    floor: StartBounds,
    /// Members whose bounds may have fallen below the floor.
    fallen: Vec<ClusterId>,
}

/// All clusters, in groups.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    pub(super) all: Vec<Group>,
    group_of: Vec<usize>,
}

impl Groups {
    pub(super) fn new(clusters: &[ClusterState]) -> Groups {
        let mut order: Vec<ClusterId> = (0..clusters.len() as u32).map(ClusterId).collect();
        let speed = |id: ClusterId| clusters[id.index()].speed.get();
        order.sort_by(|a, b| speed(*b).total_cmp(&speed(*a)).then(a.cmp(b)));
        let mut group_of = vec![0; clusters.len()];
        let all: Vec<Group> = order
            .chunks(GROUP)
            .enumerate()
            .map(|(index, members)| {
                for member in members {
                    group_of[member.index()] = index;
                }
                let largest = members.iter().map(|id| clusters[id.index()].procs).max().unwrap_or_default();
                Group {
                    members: members.to_vec(),
                    first: members.iter().copied().min().unwrap_or(ClusterId(0)),
                    fastest: clusters[members[0].index()].speed,
                    largest,
                    floor: StartBounds::new(largest),
                    fallen: Vec::new(),
                }
            })
            .collect();
        Groups { all, group_of }
    }

    /// True if there are several groups. The bounds of a single one exclude nothing that those of its clusters do not.
    pub(super) fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// Something happened on a cluster: its bounds may have fallen.
    pub(super) fn touch(&mut self, cluster: ClusterId) {
        let fallen = &mut self.all[self.group_of[cluster.index()]].fallen;
        if fallen.last() != Some(&cluster) && !fallen.contains(&cluster) {
            fallen.push(cluster);
        }
    }
}

impl Group {
    /// A completion time that no cluster of the group can beat.
    pub(super) fn completion_bound(
        &mut self,
        clusters: &[ClusterState],
        now: Time,
        times: &ClassTimes,
    ) -> Time {
        for member in self.fallen.drain(..) {
            match clusters[member.index()].scheduler.start_bounds() {
                Some(bounds) => self.floor.lower_to(bounds),
                None => self.floor = StartBounds::new(self.largest),
            }
        }
        times.completion_bound(Some(&self.floor), now, self.fastest, self.largest)
    }

    /// Raises the entries that the request looks at to the least of the members' bounds.
    pub(super) fn refresh(&mut self, clusters: &[ClusterState], times: &ClassTimes) {
        let mut least = LeastBounds::of(times.classes(self.fastest, self.largest));
        for member in &self.members {
            // Without bounds of all members nothing more is known of the group.
            let Some(bounds) = clusters[member.index()].scheduler.start_bounds() else { return };
            least.lower_to(bounds);
        }
        self.floor.raise_to(&least);
    }
}
