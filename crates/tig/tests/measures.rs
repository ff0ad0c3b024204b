//! The measures of a mapping and the loads of links, on a platform whose numbers can be checked by hand.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use pliant_tig::clustering::Clustering;
use pliant_tig::refine::refine;
use pliant_tig::{
    Availability, ClusterPlacement, Edge, Grid, LinkId, MachineId, Mapping, Metrics, NodeId, Placement,
    Stage, Task, TaskGraph, TaskId, overload_percent,
};
use support::{builder, grid};

/// MAN `n0` of LANs 3 and 4, MAN `n1` of LAN 6; machines 0 and 1 on LAN 3, 2 on LAN 4, 3 on LAN 6.
const MANS: &[&[&[f64]]] = &[&[&[5.0, 5.0], &[5.0]], &[&[5.0]]];
const LAN_3: NodeId = NodeId(3);
const LAN_4: NodeId = NodeId(4);
const LAN_6: NodeId = NodeId(6);

/// A path of four tasks with edges of RQoC 1, 2 and 5, each of RQoC 1 needing 10 Mb/s.
fn application(bandwidth_mbps: Option<f64>) -> TaskGraph {
    let tasks = (0..4).map(|at| Task { name: format!("t{at}"), rcr: 1.0 }).collect();
    let edges = [(0, 1.0), (1, 2.0), (2, 5.0)];
    let edges = edges.map(|(at, rqoc)| Edge { ends: [TaskId(at), TaskId(at + 1)], rqoc });
    TaskGraph::new(1.0, bandwidth_mbps, tasks, edges.to_vec()).unwrap()
}

/// Task `n` on the n-th of these machines, with affinity 1 + n.
fn mapping(machines: [u32; 4], lans: &[NodeId]) -> Mapping {
    let placement = |(at, machine): (usize, u32)| Placement {
        machine: MachineId(machine),
        affinity: 1.0 + at as f64,
        stage: Stage::Selected,
    };
    Mapping {
        placements: machines.into_iter().enumerate().map(placement).collect(),
        clusters: lans.iter().map(|lan| ClusterPlacement { lan: *lan, suitability: 1.0 }).collect(),
    }
}

#[test]
fn tasks_and_clusters_are_counted_by_their_distance() {
    let (grid, graph) = (grid(MANS), application(None));
    let clustering = Clustering::of_labels(&[0, 0, 1, 1]);
    // Task 1 is one hop from LAN 3, and task 3 two hops from LAN 4.
    let found = Metrics::of(&graph, &grid, &clustering, &mapping([0, 2, 2, 3], &[LAN_3, LAN_4]));
    let expected = Metrics {
        affinity_mean: 2.5,
        affinity_min: 1.0,
        lan_hit_ratio: 0.5,
        distances: [0.5, 0.25, 0.25, 0.0],
        distance_mean: 0.75,
        // Edges of RQoC 1 and 5 leave a LAN; the one of RQoC 2 leaves a cluster.
        inter_lan_percent: 75.0,
        cut_percent: 25.0,
        reach: [0.5, 0.5, 0.0, 0.0],
        lans_used: 3,
        overload_percent: None,
    };
    assert_eq!(found, expected);
}

#[test]
fn a_cluster_without_a_selected_lan_is_at_home_where_most_of_its_tasks_are() {
    let (grid, graph) = (grid(MANS), application(None));
    let reach = |labels: &[usize], machines| {
        let found = Metrics::of(&graph, &grid, &Clustering::of_labels(labels), &mapping(machines, &[]));
        (found.lan_hit_ratio, found.reach)
    };
    assert_eq!(reach(&[0, 0, 0, 0], [2, 3, 3, 3]), (0.75, [0.0, 0.0, 1.0, 0.0]));
    assert_eq!(
        reach(&[0, 0, 1, 1], [3, 2, 0, 1]),
        (0.75, [0.5, 0.5, 0.0, 0.0]),
        "a tie goes to the first LAN"
    );
}

#[test]
fn links_are_those_between_the_children_of_the_lowest_common_network() {
    let mut grid = grid(MANS);
    assert_eq!(
        [(LAN_3, LAN_3), (LAN_3, LAN_4), (LAN_4, LAN_6)].map(|(one, other)| grid.hops(one, other)),
        [0, 1, 2]
    );
    assert_eq!(grid.common(LAN_3, NodeId(5)), NodeId(1));
    let link = |grid: &Grid, one, other| grid.link(one, other);
    assert_eq!(link(&grid, LAN_3, LAN_6), link(&grid, LAN_6, LAN_4), "both use the one between the MANs");
    assert_ne!(link(&grid, LAN_3, LAN_3), link(&grid, LAN_4, LAN_4));
    let capacity = |grid: &Grid, one, other| grid.capacity(grid.link(one, other));
    assert_eq!([capacity(&grid, LAN_3, LAN_4), capacity(&grid, LAN_3, LAN_6)], [100.0, 10.0]);
    assert_eq!(capacity(&grid, LAN_3, LAN_3), f64::INFINITY);
    let between_mans = grid.link(LAN_3, LAN_6);
    grid.occupy(between_mans, 3.0);
    grid.occupy(between_mans, 1.0);
    assert_eq!([capacity(&grid, LAN_4, LAN_6), grid.bandwidth(NodeId(2), NodeId(5))], [6.0, 10.0]);
    grid.occupy(between_mans, 100.0);
    assert_eq!(capacity(&grid, LAN_4, LAN_6), 0.0, "never less than nothing");
}

#[test]
fn siblings_are_ordered_by_bandwidth_then_position() {
    let mut builder = builder(&[&[&[1.0], &[1.0], &[1.0], &[1.0]]]);
    let lans: Vec<NodeId> = (3..7).map(NodeId).collect();
    builder.link(lans[0], lans[3], 500.0);
    builder.bandwidth(Grid::ROOT, 1.0);
    let grid = builder.build("l0").unwrap();
    assert_eq!(grid.siblings(lans[0]), [lans[3], lans[1], lans[2]]);
    assert_eq!(grid.siblings(lans[1]), [lans[0], lans[2], lans[3]]);
    assert_eq!(grid.siblings(Grid::ROOT), []);
}

#[test]
fn traffic_beyond_the_capacity_of_links_is_overload() {
    let grid = grid(MANS);
    let percent = |bandwidth, machines| {
        overload_percent(&application(bandwidth), &grid, &mapping(machines, &[])).unwrap()
    };
    assert_eq!(overload_percent(&application(None), &grid, &mapping([0; 4], &[])), None);
    // 50 Mb/s between MANs of 10, of 80 Mb/s in all.
    assert_eq!(percent(Some(10.0), [0, 0, 0, 3]), 50.0);
    assert_eq!(percent(Some(10.0), [0, 0, 1, 1]), 0.0, "a LAN has no limit here");
    assert_eq!(percent(Some(2.0), [0, 0, 0, 3]), 0.0, "10 Mb/s fit exactly");
    // Edges of RQoC 1 and 5 share the link between the LANs: 180 Mb/s of 240, and it carries 100.
    assert!((percent(Some(30.0), [0, 2, 2, 0]) - 100.0 * 80.0 / 240.0).abs() < 1e-9);
}

#[test]
fn what_was_taken_is_given_back_exactly() {
    let grid = grid(MANS);
    let (machine, link): (MachineId, LinkId) = (MachineId(1), grid.link(LAN_3, LAN_4));
    let mut left = Availability::of(&grid);
    left.take_link(link, 60.0);
    let (before, mark) = (left.clone(), left.mark());
    left.take_power(machine, 0.1);
    left.take_power(machine, 4.9);
    left.take_link(link, 40.0);
    assert_eq!((left.power(machine), left.carried(link)), (0.0, 100.0), "rounding leaves nothing");
    assert!(left.has_bandwidth(&grid, link, 0.0) && !left.has_bandwidth(&grid, link, 1e-3));
    left.roll_back(mark);
    assert_eq!((left.power(machine), left.carried(link)), (5.0, 60.0));
    assert_eq!(left, before);
    assert!(left.has_bandwidth(&grid, link, 40.0) && !left.has_bandwidth(&grid, link, 41.0));
}

/// A link that carries too much already forbids only what adds to it.
#[test]
fn the_search_improves_beside_a_link_that_is_overloaded() {
    let grid = grid(&[&[&[3.0], &[1.0, 1.0], &[1.0, 1.0]]]);
    // Task 0 fills the first LAN and talks to task 1 on the second one, more than their link carries. Task 2 is with task 1,
    // and talks more to task 3 on the third one, where a machine is free.
    let tasks = [3.0, 1.0, 1.0, 1.0].into_iter().enumerate();
    let tasks = tasks.map(|(at, rcr)| Task { name: format!("t{at}"), rcr }).collect();
    let edges = [(0, 1, 10.0), (1, 2, 1.0), (2, 3, 2.0)];
    let edges = edges.map(|(one, other, rqoc)| Edge { ends: [TaskId(one), TaskId(other)], rqoc });
    let graph = TaskGraph::new(1.0, Some(20.0), tasks, edges.to_vec()).unwrap();
    let (mut mapping, mut free) = (mapping([0, 1, 2, 3], &[]), Availability::of(&grid));
    for task in graph.task_ids() {
        free.take_power(mapping.placements[task.index()].machine, graph.mcr(task));
    }
    refine(&graph, &grid, &mut mapping, &mut free, true);
    let machines: Vec<u32> = mapping.placements.iter().map(|placement| placement.machine.0).collect();
    assert_eq!(machines, [0, 1, 4, 3]);
    assert_eq!([2, 4].map(|machine| free.power(MachineId(machine))), [1.0, 0.0]);
}
