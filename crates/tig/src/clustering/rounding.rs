//! Region growing: the paper's way from the relaxation to a clustering (Demaine and Immorlica 2003, after Garg,
//! Vazirani and Yannakakis 1996), corrected.
//!
//! A ball grows around a task until the positive weight that it cuts is small against its volume; it becomes a
//! cluster. A literal reading tests this when the radius *reaches* a distance, the left end of an interval in
//! which the cut stays the same and the volume grows; with a relaxation of zeros and ones it then jumps from
//! distance 0 to 1 and swallows everything. Here the test is made at the right end, where the
//! existence proof holds, and among the radii below `1 / GROWTH` the ball with the least ratio wins.
//! O(t (e log t + t log t)).

use super::relaxation::PositiveGraph;
use super::{Clustering, Relaxation, Weights};

/// The constant of the guarantee, above 2: no ball is wider than its inverse.
const GROWTH: f64 = 2.5;

/// The clustering that region growing makes of a relaxation of these weights.
pub fn round(weights: &Weights, relaxation: &Relaxation) -> Clustering {
    let graph = PositiveGraph::of(weights);
    let mut labels: Vec<Option<usize>> = vec![None; weights.tasks()];
    let lengths = &relaxation.values;
    let cut_volume: f64 = weights
        .edges()
        .iter()
        .zip(lengths)
        .filter(|(edge, _)| edge.value > 0.0)
        .map(|(edge, length)| edge.value * length)
        .sum();
    let seed_volume = cut_volume / weights.tasks().max(1) as f64;
    for center in 0..weights.tasks() {
        if labels[center].is_some() {
            continue;
        }
        let (distances, _) = graph.distances(center, lengths, 1.0);
        let radius = best_radius(weights, lengths, &labels, &distances, seed_volume);
        for (label, distance) in labels.iter_mut().zip(&distances) {
            if label.is_none() && *distance <= radius {
                *label = Some(center);
            }
        }
    }
    let labels: Vec<usize> = labels.into_iter().flatten().collect();
    Clustering::of_labels(&labels)
}

/// The radius, below `1 / GROWTH`, of the ball with the least cut for its volume; ties to the wider ball,
/// which costs nothing more.
fn best_radius(
    weights: &Weights,
    lengths: &[f64],
    labels: &[Option<usize>],
    distances: &[f64],
    seed_volume: f64,
) -> f64 {
    let limit = 1.0 / GROWTH;
    let mut radii: Vec<f64> = distances
        .iter()
        .zip(labels)
        .filter(|(distance, label)| label.is_none() && **distance < limit)
        .map(|(distance, _)| *distance)
        .collect();
    radii.sort_by(f64::total_cmp);
    radii.dedup();
    let (mut best, mut least) = (0.0, f64::INFINITY);
    for (at, radius) in radii.iter().enumerate() {
        let right = radii.get(at + 1).copied().unwrap_or(limit);
        let (cut, volume) = ball(weights, lengths, labels, distances, *radius, right);
        let ratio = if cut == 0.0 { 0.0 } else { cut / (seed_volume + volume) };
        if ratio <= least {
            (best, least) = (*radius, ratio);
        }
    }
    best
}

/// What the ball of the tasks within `radius` cuts, and its volume when it has grown to `right`.
fn ball(
    weights: &Weights,
    lengths: &[f64],
    labels: &[Option<usize>],
    distances: &[f64],
    radius: f64,
    right: f64,
) -> (f64, f64) {
    let (mut cut, mut volume) = (0.0, 0.0);
    for (edge, length) in weights.edges().iter().zip(lengths).filter(|(edge, _)| edge.value > 0.0) {
        let [one, other] = edge.ends;
        if labels[one].is_some() || labels[other].is_some() {
            continue;
        }
        match (distances[one] <= radius, distances[other] <= radius) {
            (true, true) => volume += edge.value * length,
            (false, false) => {}
            (inside, _) => {
                let near = if inside { distances[one] } else { distances[other] };
                cut += edge.value;
                volume += edge.value * (right - near);
            }
        }
    }
    (cut, volume)
}
