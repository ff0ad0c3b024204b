//! The best clustering of a few tasks, by enumeration of all partitions with a bound.
//!
//! Tasks are assigned in order, each to a cluster that is there or to a new one; a branch ends where what is missed
//! already costs as much as the best clustering so far. At most the Bell number of partitions: 4,140 for eight tasks.

use super::{Clustering, Weights};

/// The clustering of the least cost with at most `size_max` tasks in a cluster; of several, the first one found.
pub(super) fn exact(weights: &Weights, size_max: usize) -> Clustering {
    let mut earlier: Vec<Vec<(usize, f64)>> = vec![Vec::new(); weights.tasks()];
    for edge in weights.edges() {
        let [one, other] = edge.ends;
        earlier[one.max(other)].push((one.min(other), edge.value));
    }
    let mut search = Search {
        earlier,
        size_max,
        labels: Vec::new(),
        sizes: Vec::new(),
        best: (f64::INFINITY, (0..weights.tasks()).collect()),
    };
    search.assign(0.0);
    Clustering::of_labels(&search.best.1)
}

struct Search {
    /// For each task those before it that it communicates with, and the weight.
    earlier: Vec<Vec<(usize, f64)>>,
    size_max: usize,
    labels: Vec<usize>,
    sizes: Vec<usize>,
    best: (f64, Vec<usize>),
}

impl Search {
    /// Assigns the next task and all after it, when `cost` is missed already.
    fn assign(&mut self, cost: f64) {
        if cost >= self.best.0 {
            return;
        }
        let task = self.labels.len();
        if task == self.earlier.len() {
            self.best = (cost, self.labels.clone());
            return;
        }
        for label in 0..=self.sizes.len() {
            if label == self.sizes.len() {
                self.sizes.push(0);
            }
            if self.sizes[label] < self.size_max {
                let missed = self.earlier[task]
                    .iter()
                    .filter(|(other, weight)| (self.labels[*other] == label) == (*weight < 0.0));
                let missed: f64 = missed.map(|(_, weight)| weight.abs()).sum();
                self.sizes[label] += 1;
                self.labels.push(label);
                self.assign(cost + missed);
                self.labels.pop();
                self.sizes[label] -= 1;
            }
            if self.sizes.last() == Some(&0) {
                self.sizes.pop();
            }
        }
    }
}
