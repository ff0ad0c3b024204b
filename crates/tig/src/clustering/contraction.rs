//! Greedy additive edge contraction (Keuper et al. 2015), then [`improve`].
//!
//! Every task begins alone; the two clusters with the largest positive weight between them become one, and their
//! weights to others are added up, until no weight is positive. O(e log e) with the smaller side moved.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

use super::{Clustering, Weights, improve};

/// A good clustering, with at most `size_max` tasks in a cluster.
pub fn greedy(weights: &Weights, size_max: usize) -> Clustering {
    let contracted = contract(weights, size_max.max(1));
    improve(weights, contracted, size_max.max(1))
}

/// A pair of clusters that may be joined. Stale once the weight between them has changed.
struct ClusterPair {
    weight: f64,
    ends: [usize; 2],
}

impl Ord for ClusterPair {
    fn cmp(&self, other: &ClusterPair) -> Ordering {
        // The largest weight first; ties to the first tasks.
        self.weight.total_cmp(&other.weight).then_with(|| other.ends.cmp(&self.ends))
    }
}

impl PartialOrd for ClusterPair {
    fn partial_cmp(&self, other: &ClusterPair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ClusterPair {
    fn eq(&self, other: &ClusterPair) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ClusterPair {}

fn contract(weights: &Weights, size_max: usize) -> Clustering {
    let mut between: Vec<BTreeMap<usize, f64>> = vec![BTreeMap::new(); weights.tasks()];
    for edge in weights.edges() {
        let [one, other] = edge.ends;
        *between[one].entry(other).or_default() += edge.value;
        *between[other].entry(one).or_default() += edge.value;
    }
    let mut heap: BinaryHeap<ClusterPair> = BinaryHeap::new();
    for (one, others) in between.iter().enumerate() {
        let joins = others.range(one + 1..).filter(|(_, weight)| **weight > 0.0);
        heap.extend(joins.map(|(other, weight)| ClusterPair { weight: *weight, ends: [one, *other] }));
    }
    let mut labels: Vec<usize> = (0..weights.tasks()).collect();
    let mut members: Vec<Vec<usize>> = (0..weights.tasks()).map(|task| vec![task]).collect();
    while let Some(ClusterPair { weight, ends: [one, other] }) = heap.pop() {
        let current = between[one].get(&other) == Some(&weight);
        if !current || members[one].len() + members[other].len() > size_max {
            continue;
        }
        let (kept, gone) =
            if between[one].len() >= between[other].len() { (one, other) } else { (other, one) };
        for (third, weight) in std::mem::take(&mut between[gone]) {
            between[third].remove(&gone);
            if third == kept {
                continue;
            }
            let sum = between[kept].entry(third).or_default();
            *sum += weight;
            let sum = *sum;
            between[third].insert(kept, sum);
            if sum > 0.0 {
                heap.push(ClusterPair { weight: sum, ends: [kept.min(third), kept.max(third)] });
            }
        }
        let moved = std::mem::take(&mut members[gone]);
        moved.iter().for_each(|task| labels[*task] = kept);
        members[kept].extend(moved);
    }
    Clustering::of_labels(&labels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Edge, Task, TaskGraph, TaskId};

    /// Tasks 0 and 1 belong together. Task 2 belongs to task 1 but not to task 0: the sum decides, as in the cost.
    #[test]
    fn a_cluster_weighs_the_sum_of_what_its_tasks_do() {
        let clusters = |against: f64| {
            let task = |at: usize| Task { name: format!("t{at}"), rcr: 1.0 };
            let edges = [(0, 1, 10.0), (1, 2, 9.0), (0, 2, against)];
            let edges = edges.map(|(one, other, rqoc)| Edge { ends: [TaskId(one), TaskId(other)], rqoc });
            let graph = TaskGraph::new(1.0, None, (0..3).map(task).collect(), edges.to_vec());
            contract(&Weights::of(&graph.expect("it is connected"), 0.5), usize::MAX).count()
        };
        // By eq. 5 ln 9, which is 2.20, against ln (0.2 / 0.8), which is -1.39, and ln (0.05 / 0.95), which is -2.94.
        assert_eq!([clusters(2.0), clusters(0.5)], [1, 2]);
    }
}
