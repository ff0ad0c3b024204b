//! The measures of a mapping in paper 003, section 5.2, and its load on links.

use std::collections::BTreeMap;

use crate::clustering::{ClusterId, Clustering};
use crate::{Grid, LinkId, Mapping, NodeId, TaskGraph, TaskId};

/// The measures of one mapping.
#[derive(Clone, PartialEq, Debug)]
pub struct Metrics {
    /// Mean over the tasks of the affinity (eq. 10) at their placement.
    pub affinity_mean: f64,
    /// The least of them.
    pub affinity_min: f64,
    /// Share of the tasks that are on the LAN of their cluster. Where the algorithm selected none, it is the LAN
    /// that has most tasks of the cluster.
    pub lan_hit_ratio: f64,
    /// Shares of the tasks by how far they are from the LAN of their cluster: there, in its MAN, in its WAN, beyond.
    pub distances: [f64; 4],
    /// Intra-cluster distance: the mean of these distances, 0 to 3.
    pub distance_mean: f64,
    /// Traffic between LANs, in % of all traffic.
    pub inter_lan_percent: f64,
    /// Traffic between clusters, in % of all traffic.
    pub cut_percent: f64,
    /// Share of the clusters that are on the user's LAN, in its MAN, in its WAN, beyond.
    pub reach: [f64; 4],
    /// LANs with a task.
    pub lans_used: usize,
    /// Traffic between LANs beyond the capacity of links, in % of all traffic; none if the application states no bandwidth.
    pub overload_percent: Option<f64>,
}

impl Metrics {
    /// Measures a mapping of `graph`, cut as `clustering`, on `grid`.
    pub fn of(graph: &TaskGraph, grid: &Grid, clustering: &Clustering, mapping: &Mapping) -> Metrics {
        let lan = |task: TaskId| grid.lan_of(mapping.placements[task.index()].machine);
        let tasks = graph.tasks().len() as f64;
        let homes = homes(grid, clustering, mapping);
        let mut distances = [0.0; 4];
        for task in graph.task_ids() {
            distances[grid.hops(homes[clustering.of(task).index()], lan(task))] += 1.0 / tasks;
        }
        let mut reach = [0.0; 4];
        for home in &homes {
            reach[grid.hops(grid.user_lan(), *home)] += 1.0 / homes.len() as f64;
        }
        let mut used: Vec<NodeId> = graph.task_ids().map(lan).collect();
        used.sort_unstable();
        used.dedup();
        let affinities = mapping.placements.iter().map(|placement| placement.affinity);
        Metrics {
            affinity_mean: affinities.clone().sum::<f64>() / tasks,
            affinity_min: affinities.fold(f64::INFINITY, f64::min),
            lan_hit_ratio: distances[0],
            distances,
            distance_mean: (1..4).map(|hops| hops as f64 * distances[hops]).sum(),
            inter_lan_percent: graph.traffic_percent(|one, other| lan(one) != lan(other)),
            cut_percent: clustering.cut_percent(graph),
            reach,
            lans_used: used.len(),
            overload_percent: overload_percent(graph, grid, mapping),
        }
    }
}

/// The LAN of each cluster: the selected one, else the one with most of its tasks, ties to the first.
fn homes(grid: &Grid, clustering: &Clustering, mapping: &Mapping) -> Vec<NodeId> {
    if !mapping.clusters.is_empty() {
        return mapping.clusters.iter().map(|cluster| cluster.lan).collect();
    }
    let plurality = |cluster: ClusterId| {
        let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
        for task in clustering.tasks(cluster) {
            *counts.entry(grid.lan_of(mapping.placements[task.index()].machine)).or_default() += 1;
        }
        let most = counts.values().copied().max().unwrap_or(0);
        let found = counts.into_iter().find(|(_, count)| *count == most);
        found.map_or(grid.user_lan(), |(lan, _)| lan)
    };
    clustering.ids().map(plurality).collect()
}

/// The load of an application on links; traffic within a machine uses none.
pub(crate) fn loads(graph: &TaskGraph, grid: &Grid, mapping: &Mapping) -> BTreeMap<LinkId, f64> {
    let mut loads: BTreeMap<LinkId, f64> = BTreeMap::new();
    let machine = |task: TaskId| mapping.placements[task.index()].machine;
    for edge in graph.edges() {
        let [one, other] = edge.ends.map(machine);
        if one != other {
            *loads.entry(grid.link(grid.lan_of(one), grid.lan_of(other))).or_default() += edge.rqoc;
        }
    }
    loads
}

/// Traffic of a mapping beyond the capacity of links, in % of all traffic; none if the application states no bandwidth.
pub fn overload_percent(graph: &TaskGraph, grid: &Grid, mapping: &Mapping) -> Option<f64> {
    let bandwidth = graph.bandwidth_mbps()?;
    let excess: f64 = loads(graph, grid, mapping)
        .into_iter()
        .map(|(link, rqoc)| (rqoc * bandwidth - grid.capacity(link)).max(0.0))
        // Sums that fit exactly may be rounded up.
        .filter(|excess| *excess > 1e-6)
        .sum();
    let all = graph.traffic() * bandwidth;
    // An empty sum is -0.
    Some(if all > 0.0 { 100.0 * excess / all + 0.0 } else { 0.0 })
}
