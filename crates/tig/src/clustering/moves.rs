//! Local search on a clustering: one task moves, or two clusters become one, as long as the cost falls.
//!
//! A sweep is O(e + t); there are few, and each but the last lowers the cost.

use super::{Clustering, Weights};

/// A gain below this is rounding.
const LEAST_GAIN: f64 = 1e-9;

/// The clustering after every move that lowers its cost, with at most `size_max` tasks in a cluster. One that
/// has larger clusters keeps them.
pub fn improve(weights: &Weights, clustering: Clustering, size_max: usize) -> Clustering {
    let neighbours = weights.neighbours();
    let mut labels = clustering.labels();
    // One label more than clusters is always free for a task that wants to be alone.
    let mut sizes = vec![0_usize; weights.tasks() + 1];
    labels.iter().for_each(|label| sizes[*label] += 1);
    let mut pull = vec![0.0; weights.tasks() + 1];
    loop {
        let moved = (0..weights.tasks())
            .map(|task| move_task(task, &neighbours[task], &mut labels, &mut sizes, &mut pull, size_max))
            .filter(|moved| *moved)
            .count();
        if moved == 0 && !join(weights, &mut labels, &mut sizes, size_max) {
            return Clustering::of_labels(&labels);
        }
    }
}

/// Moves a task to the cluster that it wants most, or out of all. True if that lowered the cost.
fn move_task(
    task: usize,
    neighbours: &[(usize, f64)],
    labels: &mut [usize],
    sizes: &mut [usize],
    pull: &mut [f64],
    size_max: usize,
) -> bool {
    neighbours.iter().for_each(|(other, weight)| pull[labels[*other]] += weight);
    let own = labels[task];
    let alone = sizes.iter().position(|size| *size == 0).unwrap_or(own);
    let (mut best, mut most) = (own, pull[own] + LEAST_GAIN);
    let candidates = neighbours.iter().map(|(other, _)| labels[*other]).chain([alone]);
    for label in candidates.filter(|label| *label != own && sizes[*label] < size_max) {
        // Ties go to the first cluster, so that the result does not depend on the order of the edges.
        if pull[label] > most || (pull[label] == most && label < best && best != own) {
            (best, most) = (label, pull[label]);
        }
    }
    neighbours.iter().for_each(|(other, _)| pull[labels[*other]] = 0.0);
    if best == own {
        return false;
    }
    labels[task] = best;
    sizes[own] -= 1;
    sizes[best] += 1;
    true
}

/// Joins the two clusters with the largest positive weight between them, if there are any.
fn join(weights: &Weights, labels: &mut [usize], sizes: &mut [usize], size_max: usize) -> bool {
    let mut between: std::collections::BTreeMap<[usize; 2], f64> = std::collections::BTreeMap::new();
    for edge in weights.edges() {
        let [one, other] = edge.ends.map(|task| labels[task]);
        if one != other {
            *between.entry([one.min(other), one.max(other)]).or_default() += edge.value;
        }
    }
    let fits = |[one, other]: [usize; 2]| sizes[one] + sizes[other] <= size_max;
    let mut best: Option<([usize; 2], f64)> = None;
    for (ends, weight) in between {
        if weight > best.map_or(LEAST_GAIN, |(_, most)| most) && fits(ends) {
            best = Some((ends, weight));
        }
    }
    let Some(([kept, gone], _)) = best else { return false };
    labels.iter_mut().filter(|label| **label == gone).for_each(|label| *label = kept);
    sizes[kept] += std::mem::take(&mut sizes[gone]);
    true
}
