//! Connected random graphs, for paper 003's task interaction graphs (Cabri-graphs).

use rand::Rng;

use super::ParameterError;
use crate::{Edge, Task, TaskGraph, TaskId};

/// What is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Connected {
    /// How many tasks, at least 1.
    pub tasks: usize,
    /// Edges are drawn between `tasks - 1` and this many per task (the paper does not say; 3).
    pub edges_per_task: f64,
    /// RCR and RQoC are drawn uniformly between these (the paper: 1 and 10).
    pub weights: [f64; 2],
    /// What a task of RCR 1 needs, in MFlop/s.
    pub mcr_mflops: f64,
    /// What an edge of RQoC 1 needs, in Mb/s.
    pub bandwidth_mbps: Option<f64>,
}

/// Draws a graph: a tree in which every task but the first has a neighbour among those before it, in random
/// order, then further edges between pairs that have none. The least RCR and RQoC are not made 1, as the
/// paper's text would have it, but left as drawn (sections 3.1 and 5.1). O(edges) on average while the graph is sparse.
pub fn connected(what: &Connected, rng: &mut impl Rng) -> Result<TaskGraph, ParameterError> {
    let Connected { tasks, edges_per_task, weights: [least, most], .. } = *what;
    if tasks == 0 {
        return Err(ParameterError { what: "tasks", expected: "1 or more", found: tasks.to_string() });
    }
    if !(least > 0.0 && least <= most && most.is_finite()) {
        let found = format!("{least} to {most}");
        return Err(ParameterError { what: "weights", expected: "a range of numbers above 0", found });
    }
    let mut order: Vec<u32> = (0..tasks as u32).collect();
    for at in (1..tasks).rev() {
        order.swap(at, rng.random_range(0..=at));
    }
    let pairs = tasks * (tasks - 1) / 2;
    let edges_max = ((edges_per_task * tasks as f64) as usize).clamp(tasks - 1, pairs.max(tasks - 1));
    let count = rng.random_range(tasks - 1..=edges_max);
    let mut joined: std::collections::BTreeSet<[u32; 2]> = std::collections::BTreeSet::new();
    for at in 1..tasks {
        joined.insert(ordered(order[at], order[rng.random_range(0..at)]));
    }
    while joined.len() < count {
        let [one, other] = [0; 2].map(|_| rng.random_range(0..tasks as u32));
        if one != other {
            joined.insert(ordered(one, other));
        }
    }
    let mut weight = || rng.random_range(least..=most);
    let tasks = (0..tasks).map(|at| Task { name: format!("t{at}"), rcr: weight() }).collect();
    let edges = joined.into_iter().map(|ends| Edge { ends: ends.map(TaskId), rqoc: weight() }).collect();
    TaskGraph::new(what.mcr_mflops, what.bandwidth_mbps, tasks, edges).map_err(|error| ParameterError {
        what: "graph",
        expected: "an application that can be mapped",
        found: error.to_string(),
    })
}

fn ordered(one: u32, other: u32) -> [u32; 2] {
    [one.min(other), one.max(other)]
}
