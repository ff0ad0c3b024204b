//! Baselines for Algorithm 1: the brokers of paper 002 without runtimes (section 5.2.1), and the power of two choices
//! (Mitzenmacher, IEEE TPDS 12(10), 2001).

use pliant_model::Span;
use rand::Rng;

use super::{ClusterState, levels};

/// Each instance to a cluster drawn uniformly. O(instances).
pub fn random(clusters: usize, instances: u64, rng: &mut impl Rng) -> Vec<u64> {
    let mut counts = vec![0; clusters];
    for _ in 0..instances {
        counts[rng.random_range(0..clusters)] += 1;
    }
    counts
}

/// One by one to the cluster with the most free processors, and without free processors to the cluster with the fewest waiting
/// jobs; ties to the first. This fills levels of waiting jobs or, below zero, of free processors, so Algorithm 1 does it at
/// once. A job expected to end at once still has its processors: at least one each.
pub(super) fn most_free(clusters: &[&ClusterState], instances: u64) -> Vec<u64> {
    let level = |cluster: &&ClusterState| {
        let bounded = |count: u64| count.min(1 << 40) as i64;
        let offered = cluster.offer.free.iter().filter(|free| free.at <= Span::ZERO);
        let offered = bounded(offered.map(|free| u64::from(free.processors)).sum());
        let unclaimed = bounded(cluster.offer.processors()) - bounded(cluster.jobs);
        match unclaimed.min(offered) {
            free @ 1.. => -free,
            _ => (-unclaimed).max(0),
        }
    };
    let lowest = clusters.iter().map(level).min().unwrap_or(0);
    let levels: Vec<Span> = clusters.iter().map(|cluster| Span(level(cluster) - lowest)).collect();
    levels::fill(&levels, Span(1), instances).instances
}

/// Evenly to the clusters with the fewest failures.
pub(super) fn fewest_failures(clusters: &[&ClusterState], instances: u64) -> Vec<u64> {
    let fewest = clusters.iter().map(|cluster| cluster.failures).min();
    let best: Vec<usize> = (0..clusters.len()).filter(|at| Some(clusters[*at].failures) == fewest).collect();
    let even = levels::fill(&vec![Span::ZERO; best.len()], Span(1), instances);
    let mut counts = vec![0; clusters.len()];
    best.into_iter().zip(even.instances).for_each(|(at, count)| counts[at] = count);
    counts
}

/// Each instance to the less loaded of two random clusters by jobs per processor, including earlier instances; ties to
/// the first drawn. O(instances).
pub(super) fn two_choices(clusters: &[&ClusterState], instances: u64, rng: &mut impl Rng) -> Vec<u64> {
    let processors: Vec<u128> =
        clusters.iter().map(|cluster| u128::from(cluster.offer.processors())).collect();
    let mut counts = vec![0; clusters.len()];
    for _ in 0..instances {
        let [one, other] = [(); 2].map(|()| rng.random_range(0..clusters.len()));
        let jobs = |at: usize| u128::from(clusters[at].jobs) + u128::from(counts[at]) + 1;
        let chosen = if jobs(other) * processors[one] < jobs(one) * processors[other] { other } else { one };
        counts[chosen] += 1;
    }
    counts
}
