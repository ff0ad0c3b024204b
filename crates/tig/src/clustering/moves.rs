//! Local search on a clustering: one task moves, two clusters become one, or two clusters trade tasks, as long as
//! the cost falls.
//!
//! Sweeps of moves are O(e + t). Trades, in the manner of Kernighan and Lin, follow when no move helps: tasks change
//! sides one after the other, the best first even at a cost, and the prefix with the best total gain is kept;
//! O([`CHAIN_MAX`] t) for each pair of clusters.

use super::{Clustering, Weights};

/// The largest number of tasks in a trade.
const CHAIN_MAX: usize = 64;

/// A gain below this is rounding.
const LEAST_GAIN: f64 = 1e-9;

/// The clustering after every move that lowers its cost, with at most `size_max` tasks in a cluster. One that
/// has larger clusters keeps them.
pub fn improve(weights: &Weights, clustering: Clustering, size_max: usize) -> Clustering {
    let neighbours = weights.neighbours();
    let mut labels = clustering.labels();
    // One label more than tasks, so that a free label for a new cluster always exists.
    let mut sizes = vec![0_usize; weights.tasks() + 1];
    labels.iter().for_each(|label| sizes[*label] += 1);
    let mut pull = vec![0.0; weights.tasks() + 1];
    loop {
        let moved = (0..weights.tasks())
            .map(|task| move_task(task, &neighbours[task], &mut labels, &mut sizes, &mut pull, size_max))
            .filter(|moved| *moved)
            .count();
        if moved == 0
            && !join(weights, &mut labels, &mut sizes, size_max)
            && !trade_all(weights, &neighbours, &mut labels, &mut sizes, size_max)
        {
            return Clustering::of_labels(&labels);
        }
    }
}

/// Moves a task to the cluster with the largest weight, or to a new one. True if that lowered the cost.
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

/// Lets every two clusters with an edge between them trade, and every cluster with an empty one. True if that
/// lowered the cost.
fn trade_all(
    weights: &Weights,
    neighbours: &[Vec<(usize, f64)>],
    labels: &mut [usize],
    sizes: &mut [usize],
    size_max: usize,
) -> bool {
    let mut pairs: Vec<[usize; 2]> = Vec::new();
    for edge in weights.edges() {
        let [one, other] = edge.ends.map(|task| labels[task]);
        if one != other {
            pairs.push([one.min(other), one.max(other)]);
        }
    }
    if let Some(empty) = sizes.iter().position(|size| *size == 0) {
        pairs.extend((0..sizes.len()).filter(|label| sizes[*label] > 1).map(|label| [label, empty]));
    }
    pairs.sort_unstable();
    pairs.dedup();
    let traded = pairs.into_iter().filter(|pair| trade(*pair, neighbours, labels, sizes, size_max));
    traded.count() > 0
}

/// A trade between two clusters. True if that lowered the cost.
fn trade(
    [one, other]: [usize; 2],
    neighbours: &[Vec<(usize, f64)>],
    labels: &mut [usize],
    sizes: &mut [usize],
    size_max: usize,
) -> bool {
    let mut open: Vec<usize> =
        (0..labels.len()).filter(|task| labels[*task] == one || labels[*task] == other).collect();
    // The gain of changing sides.
    let gain = |task: usize, labels: &[usize]| -> f64 {
        let own = labels[task];
        let of = |(next, weight): &(usize, f64)| match labels[*next] {
            label if label == own => -weight,
            label if label == one || label == other => *weight,
            _ => 0.0,
        };
        neighbours[task].iter().map(of).sum()
    };
    let mut gains: Vec<f64> = open.iter().map(|task| gain(*task, labels)).collect();
    let mut chain: Vec<usize> = Vec::new();
    let (mut sum, mut most, mut kept) = (0.0, LEAST_GAIN, 0);
    while chain.len() < CHAIN_MAX {
        let mut best: Option<usize> = None;
        for at in 0..open.len() {
            let to = if labels[open[at]] == one { other } else { one };
            if sizes[to] < size_max && best.is_none_or(|best| gains[at] > gains[best]) {
                best = Some(at);
            }
        }
        let Some(best) = best else { break };
        let task = open.remove(best);
        sum += gains.remove(best);
        switch(task, [one, other], labels, sizes);
        chain.push(task);
        if sum > most {
            (most, kept) = (sum, chain.len());
        }
        for (at, next) in open.iter().enumerate() {
            if neighbours[task].iter().any(|(neighbour, _)| neighbour == next) {
                gains[at] = gain(*next, labels);
            }
        }
    }
    for task in chain.drain(kept..).rev() {
        switch(task, [one, other], labels, sizes);
    }
    kept > 0
}

/// Moves a task from one of two clusters to the other.
fn switch(task: usize, [one, other]: [usize; 2], labels: &mut [usize], sizes: &mut [usize]) {
    let (from, to) = if labels[task] == one { (one, other) } else { (other, one) };
    labels[task] = to;
    sizes[from] -= 1;
    sizes[to] += 1;
}
