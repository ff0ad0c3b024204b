//! Graphs and grids for tests, written short.
#![allow(dead_code, reason = "each test program uses its part")]

use pliant_tig::generate::{BandwidthRanges, Connected, Machines, Tiers, connected, tiers};
use pliant_tig::{Edge, Grid, GridBuilder, Machine, MachineId, NodeId, Task, TaskGraph, TaskId};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A graph of tasks of these RCR, edges as (one, other, RQoC), MCR 1.
pub(crate) fn graph(rcr: &[f64], edges: &[(u32, u32, f64)]) -> TaskGraph {
    let tasks = rcr.iter().enumerate().map(|(at, rcr)| Task { name: format!("t{at}"), rcr: *rcr });
    let edges =
        edges.iter().map(|(one, other, rqoc)| Edge { ends: [TaskId(*one), TaskId(*other)], rqoc: *rqoc });
    TaskGraph::new(1.0, None, tasks.collect(), edges.collect()).unwrap()
}

/// A path of tasks of these RCR with edges of RQoC 1.
pub(crate) fn path(rcr: &[f64]) -> TaskGraph {
    let edges: Vec<(u32, u32, f64)> = (1..rcr.len() as u32).map(|at| (at - 1, at, 1.0)).collect();
    graph(rcr, &edges)
}

/// A grid of MANs of LANs of machines of these powers, all in one WAN; LANs are `l0`, `l1`, ... and the user is on
/// the first. Bandwidths are 100 between LANs and 10 between MANs.
pub(crate) fn grid(mans: &[&[&[f64]]]) -> Grid {
    let mut builder = builder(mans);
    builder.bandwidth(Grid::ROOT, 1.0);
    builder.build("l0").unwrap()
}

/// The same, unfinished. Node ids: 0 root, 1 WAN, then each MAN followed by its LANs.
pub(crate) fn builder(mans: &[&[&[f64]]]) -> GridBuilder {
    let mut builder = GridBuilder::new("root");
    let wan = builder.node(Grid::ROOT, "w0").unwrap();
    builder.bandwidth(wan, 10.0);
    let (mut lans, mut machines) = (0, 0);
    for (at, man_lans) in mans.iter().enumerate() {
        let man = builder.node(wan, &format!("n{at}")).unwrap();
        builder.bandwidth(man, 100.0);
        for powers in *man_lans {
            let lan = builder.node(man, &format!("l{lans}")).unwrap();
            lans += 1;
            for power_mflops in *powers {
                let name = format!("m{machines}");
                builder.machine(lan, Machine { name, power_mflops: *power_mflops, load: 0.0 });
                machines += 1;
            }
        }
    }
    builder
}

pub(crate) fn names(grid: &Grid, nodes: &[NodeId]) -> Vec<String> {
    nodes.iter().map(|node| grid.node(*node).name.clone()).collect()
}

pub(crate) fn machine_name(grid: &Grid, machine: MachineId) -> &str {
    &grid.machine(machine).name
}

pub(crate) fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// A random application of that many tasks.
pub(crate) fn random_graph(tasks: usize, mcr_mflops: f64, seed: u64) -> TaskGraph {
    let bandwidth_mbps = Some(0.5);
    let what = Connected { tasks, edges_per_task: 3.0, weights: [1.0, 10.0], mcr_mflops, bandwidth_mbps };
    connected(&what, &mut rng(seed)).unwrap()
}

/// A random platform of that many machines.
pub(crate) fn random_grid(machines: usize, lan_hosts: usize, seed: u64) -> Grid {
    let mut rng = rng(seed);
    let shape = Tiers {
        wans: machines.div_ceil(lan_hosts).div_ceil(16),
        mans_per_wan: 4,
        lans_per_man: 4,
        wan_routers: 5,
        man_routers: 4,
        lan_hosts,
        wan_redundancy: 2,
        man_redundancy: rng.random_range(1..3),
        lan_redundancy: 1,
        man_wan_redundancy: 2,
        lan_man_redundancy: 1,
    };
    let bandwidths =
        BandwidthRanges { lan: [1e3, 1e4], man: [100.0, 1e3], wan: [10.0, 100.0], root: [1.0, 10.0] };
    let machines = Machines { count: machines, power_mflops: [600.0, 1300.0], load: [0.0, 0.6] };
    tiers(&shape, &bandwidths, &machines, &mut rng).unwrap()
}
