//! Applications and platforms that cannot be mapped are refused, with the item that is wrong.
#![allow(clippy::unwrap_used, reason = "a failed call fails the test that made it")]

mod support;

use pliant_tig::generate::{Connected, connected};
use pliant_tig::{
    Edge, GraphError, GraphItem, Grid, GridBuilder, GridError, GridItem, Level, Machine, NodeId, Task,
    TaskGraph, TaskId,
};
use support::{builder, names, rng};

/// Tasks `a` (RCR 1), `b` (2) and `c` (3), with these edges.
fn application(edges: &[(u32, u32, f64)]) -> Result<TaskGraph, GraphError> {
    let task = |(at, name): (usize, &str)| Task { name: name.to_owned(), rcr: at as f64 + 1.0 };
    let tasks = ["a", "b", "c"].into_iter().enumerate().map(task).collect();
    let edge =
        |(one, other, rqoc): &(u32, u32, f64)| Edge { ends: [TaskId(*one), TaskId(*other)], rqoc: *rqoc };
    TaskGraph::new(10.0, Some(0.5), tasks, edges.iter().map(edge).collect())
}

#[test]
fn an_application_keeps_what_it_was_given() {
    let graph = application(&[(0, 1, 4.0), (2, 1, 6.0)]).unwrap();
    assert_eq!((graph.mcr_mflops(), graph.bandwidth_mbps(), graph.traffic()), (10.0, Some(0.5), 10.0));
    assert_eq!(graph.mcr(TaskId(2)), 30.0, "eq. 1");
    assert_eq!(graph.neighbours(TaskId(1)), [(TaskId(0), 4.0), (TaskId(2), 6.0)]);
    assert_eq!(graph.neighbours(TaskId(2)), [(TaskId(1), 6.0)]);
    assert_eq!(graph.with_mcr(20.0).unwrap().mcr(TaskId(1)), 40.0);
    assert_eq!(graph.with_mcr(0.0), Err(GraphError::Mcr(0.0)));
}

#[test]
fn edges_join_two_tasks_once_and_all_tasks_are_connected() {
    let item = |edges: &[(u32, u32, f64)]| application(edges).map(|_| ()).map_err(|error| error.item());
    assert_eq!(item(&[(0, 1, 1.0), (1, 2, 1.0)]), Ok(()));
    for wrong in [(1, 3, 1.0), (1, 1, 1.0), (1, 0, 1.0), (1, 2, 0.0), (1, 2, -1.0), (1, 2, f64::INFINITY)] {
        assert_eq!(item(&[(0, 1, 1.0), wrong, (0, 2, 1.0)]), Err(GraphItem::Edge(1)), "{wrong:?}");
    }
    assert_eq!(item(&[(0, 1, 1.0)]), Err(GraphItem::Task(2)));
    assert_eq!(item(&[(1, 2, 1.0)]), Err(GraphItem::Task(1)));
}

#[test]
fn tasks_have_a_name_of_their_own_and_a_demand() {
    let item = |tasks: &[(&str, f64)], mcr, bandwidth| {
        let task = |(name, rcr): &(&str, f64)| Task { name: (*name).to_owned(), rcr: *rcr };
        let edges =
            (1..tasks.len() as u32).map(|at| Edge { ends: [TaskId(0), TaskId(at)], rqoc: 1.0 }).collect();
        let graph = TaskGraph::new(mcr, bandwidth, tasks.iter().map(task).collect(), edges);
        graph.map(|_| ()).map_err(|error| error.item())
    };
    assert_eq!(item(&[("a", 1.0), ("b", 0.1)], 1.0, None), Ok(()));
    for wrong in [("a", 1.0), ("b,c", 1.0), ("b", 0.0), ("b", f64::NAN)] {
        assert_eq!(item(&[("a", 1.0), wrong], 1.0, None), Err(GraphItem::Task(1)), "{wrong:?}");
    }
    assert_eq!(item(&[], 1.0, None), Err(GraphItem::Whole));
    assert_eq!(item(&[("a", 1.0)], 0.0, None), Err(GraphItem::Whole));
    assert_eq!(item(&[("a", 1.0)], 1.0, Some(0.0)), Err(GraphItem::Whole));
}

fn machine(name: &str, power_mflops: f64, load: f64) -> Machine {
    Machine { name: name.to_owned(), power_mflops, load }
}

/// One WAN with one MAN of two LANs, `l0` and `l1`, of one machine each; `change` makes it wrong.
fn platform(change: impl FnOnce(&mut GridBuilder)) -> Result<Grid, GridError> {
    let mut builder = builder(&[&[&[5.0], &[6.0]]]);
    change(&mut builder);
    builder.build("l0")
}

const MAN: NodeId = NodeId(2);
const L0: NodeId = NodeId(3);
const L1: NodeId = NodeId(4);

#[test]
fn a_platform_keeps_what_it_was_given() {
    // The machines of the first LAN come first, in whatever order they were added.
    let grid = platform(|builder| builder.machine(L0, machine("late", 7.0, 0.5))).unwrap();
    let found: Vec<&str> = grid.machines().iter().map(|machine| &*machine.name).collect();
    assert_eq!(found, ["m0", "late", "m1"]);
    let below = |node| grid.machines_below(node).map(|machine| machine.0).collect::<Vec<_>>();
    assert_eq!([Grid::ROOT, MAN, L0, L1].map(below), [vec![0, 1, 2], vec![0, 1, 2], vec![0, 1], vec![2]]);
    let lans: Vec<NodeId> = grid.lans().collect();
    assert_eq!(names(&grid, &lans), ["l0", "l1"]);
    assert_eq!((grid.user_lan(), grid.with_user_lan("l1").unwrap().user_lan()), (L0, L1));
    let unknown = GridError::UserLan { found: "n0".to_owned(), lans: vec!["l0".to_owned(), "l1".to_owned()] };
    assert_eq!(grid.with_user_lan("n0"), Err(unknown));
    assert_eq!(Level::ALL.map(Level::hops), [0, 1, 2, 3]);
    assert_eq!(Level::ALL.map(Level::name), ["lan", "man", "wan", "root"]);
}

#[test]
fn networks_have_names_content_and_bandwidths() {
    let item = |change: &dyn Fn(&mut GridBuilder)| platform(change).map(|_| ()).map_err(|error| error.item());
    assert_eq!(item(&|_| ()), Ok(()));
    assert_eq!(item(&|builder| drop(builder.node(MAN, "l2"))), Err(GridItem::Node(5)), "no machine");
    assert_eq!(item(&|builder| drop(builder.node(Grid::ROOT, "w1"))), Err(GridItem::Node(5)), "no network");
    assert_eq!(item(&|builder| drop(builder.node(MAN, "m0"))), Err(GridItem::Machine(0)), "one name twice");
    assert_eq!(item(&|builder| drop(builder.node(MAN, "a;b"))), Err(GridItem::Node(5)));
    assert_eq!(item(&|builder| builder.bandwidth(MAN, 0.0)), Err(GridItem::Node(2)));
    let below_lan = platform(|_| ()).and_then(|_| builder(&[&[&[5.0]]]).node(L0, "x").map(|_| ()));
    assert_eq!(below_lan.unwrap_err().item(), GridItem::Whole);
    let mut bare = GridBuilder::new("root");
    let wan = bare.node(Grid::ROOT, "w0").unwrap();
    let man = bare.node(wan, "n0").unwrap();
    for name in ["l0", "l1"] {
        let lan = bare.node(man, name).unwrap();
        bare.machine(lan, machine(&format!("on {name}"), 5.0, 0.0));
    }
    let ends = ["l0", "l1"].map(str::to_owned);
    assert_eq!(bare.build("l0"), Err(GridError::NoBandwidth { at: 3, ends }));
    bare.link(L1, L0, 20.0);
    let grid = bare.build("l0").unwrap();
    assert_eq!([grid.bandwidth(L0, L1), grid.bandwidth(L1, L0)], [20.0; 2]);
}

#[test]
fn machines_are_on_lans_and_have_a_power_and_a_load() {
    let item = |lan, power, load| {
        let built = platform(|builder| builder.machine(lan, machine("m2", power, load)));
        built.map(|_| ()).map_err(|error| error.item())
    };
    assert_eq!(item(L1, 5.0, 0.0), Ok(()));
    assert_eq!(item(L1, 5.0, 1.0), Ok(()));
    for (lan, power, load) in [
        (MAN, 5.0, 0.0),
        (L1, 0.0, 0.0),
        (L1, -1.0, 0.0),
        (L1, 5.0, -0.1),
        (L1, 5.0, 1.1),
        (L1, 5.0, f64::NAN),
    ] {
        assert_eq!(item(lan, power, load), Err(GridItem::Machine(2)), "{lan:?} {power} {load}");
    }
}

#[test]
fn links_join_siblings() {
    let item = |one, other, mbps| {
        let built = platform(|builder| builder.link(one, other, mbps));
        built.map(|_| ()).map_err(|error| error.item())
    };
    assert_eq!(item(L0, L1, 30.0), Ok(()));
    for (one, other, mbps) in
        [(L0, L1, 0.0), (L0, L0, 1.0), (L0, MAN, 1.0), (Grid::ROOT, L0, 1.0), (L0, L1, f64::INFINITY)]
    {
        assert_eq!(item(one, other, mbps), Err(GridItem::Link(0)), "{one:?} {other:?} {mbps}");
    }
}

#[test]
fn drawn_applications_have_the_size_that_was_asked_for() {
    let what = |tasks, edges_per_task, weights| Connected {
        tasks,
        edges_per_task,
        weights,
        mcr_mflops: 2.0,
        bandwidth_mbps: None,
    };
    for seed in 0..50 {
        let graph = connected(&what(20, 3.0, [1.0, 10.0]), &mut rng(seed)).unwrap();
        assert!(graph.tasks().len() == 20 && (19..=60).contains(&graph.edges().len()));
        let weights =
            graph.tasks().iter().map(|task| task.rcr).chain(graph.edges().iter().map(|edge| edge.rqoc));
        assert!(weights.into_iter().all(|weight| (1.0..=10.0).contains(&weight)));
        // A tree, and all pairs: no more edges fit.
        assert_eq!(connected(&what(20, 0.1, [1.0, 1.0]), &mut rng(seed)).unwrap().edges().len(), 19);
        let full = connected(&what(4, 100.0, [1.0, 1.0]), &mut rng(seed)).unwrap();
        assert!((3..=6).contains(&full.edges().len()));
    }
    let largest =
        (0..50).map(|seed| connected(&what(4, 100.0, [1.0, 1.0]), &mut rng(seed)).unwrap().edges().len());
    assert_eq!(largest.max(), Some(6));
    for (tasks, weights) in [(0, [1.0, 2.0]), (3, [0.0, 2.0]), (3, [3.0, 2.0]), (3, [1.0, f64::INFINITY])] {
        assert!(connected(&what(tasks, 3.0, weights), &mut rng(1)).is_err(), "{tasks} {weights:?}");
    }
}
