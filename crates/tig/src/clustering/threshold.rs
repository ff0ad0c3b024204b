//! The threshold for clusters of a given size: paper 003 (section 5.1) has 1-3, 4-6 and 7-9 tasks per cluster by changing "the
//! correlation function".

use super::{Clustering, Weights, cluster};
use crate::TaskGraph;

/// Halvings of the interval of thresholds: enough for one edge's weight.
const HALVINGS: usize = 40;

/// The threshold at which the mean size of the clusters that [`cluster`] finds is nearest to the middle of
/// `[least, most]`, and that clustering. Mean sizes jump where an edge changes sides, so it may be outside.
pub fn of_mean_size(graph: &TaskGraph, [least, most]: [f64; 2], size_max: usize) -> (f64, Clustering) {
    let wanted = (least + most) / 2.0;
    search(graph, size_max, |clustering| clustering.mean_size() - wanted)
}

/// The threshold at which the number of clusters is nearest to `count`, and that clustering.
pub fn of_count(graph: &TaskGraph, count: usize, size_max: usize) -> (f64, Clustering) {
    search(graph, size_max, |clustering| count as f64 - clustering.count() as f64)
}

/// Bisects on the threshold for `excess` to be 0; larger thresholds give larger clusters, mostly.
fn search(graph: &TaskGraph, size_max: usize, excess: impl Fn(&Clustering) -> f64) -> (f64, Clustering) {
    let at = |delta: f64| cluster(&Weights::of(graph, delta), size_max);
    let (mut low, mut high) = (0.0, 1.0);
    let mut best = (0.5, at(0.5));
    for _ in 0..HALVINGS {
        let delta = (low + high) / 2.0;
        let clustering = at(delta);
        let distance = excess(&clustering);
        if distance < 0.0 {
            low = delta;
        } else {
            high = delta;
        }
        if distance.abs() < excess(&best.1).abs() {
            best = (delta, clustering);
        }
        if distance == 0.0 {
            break;
        }
    }
    best
}
