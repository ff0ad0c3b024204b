//! Eq. 5: the weight of two communicating tasks.
//!
//! `log(RQoC / (RQoC_max - RQoC))` is the logit of the share `RQoC / RQoC_max`: above 0 if the edge has more than
//! half of the largest traffic. It is infinite on the largest edge, so the share is clamped; and the
//! paper's "similarity threshold" (section 5.4), which it does not define, is a constant added to every weight.

use crate::TaskGraph;

/// Shares are at least this and at most one less this: weights are within 6.9 of each other's zero.
const CLAMP: f64 = 1e-3;

/// The weight of an edge.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Weight {
    /// Positions of the two tasks.
    pub ends: [usize; 2],
    /// Above 0 if the tasks should share a cluster, below 0 if not.
    pub value: f64,
}

/// The weights of a graph, in the order of its edges. Pairs without an edge have weight 0.
#[derive(Clone, PartialEq, Debug)]
pub struct Weights {
    tasks: usize,
    edges: Vec<Weight>,
}

impl Weights {
    /// Eq. 5 for every edge, with the threshold `delta` between 0 and 1 (exclusive, clamped): one half is the
    /// paper's equation, more gives larger clusters.
    pub fn of(graph: &TaskGraph, delta: f64) -> Weights {
        let most = graph.edges().iter().map(|edge| edge.rqoc).fold(0.0, f64::max);
        let shift = logit(delta);
        let weight = |edge: &crate::Edge| Weight {
            ends: edge.ends.map(|task| task.index()),
            value: logit(edge.rqoc / most) + shift,
        };
        Weights { tasks: graph.tasks().len(), edges: graph.edges().iter().map(weight).collect() }
    }

    /// Weights given directly. Edges must end at one of `tasks`.
    pub fn given(tasks: usize, edges: Vec<Weight>) -> Weights {
        let within = |weight: &Weight| weight.ends.iter().all(|end| *end < tasks);
        let edges = edges.into_iter().filter(|weight| within(weight) && weight.value.is_finite()).collect();
        Weights { tasks, edges }
    }

    /// Number of tasks.
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// The weights.
    pub fn edges(&self) -> &[Weight] {
        &self.edges
    }

    /// The neighbours of each task with the weights.
    pub(super) fn neighbours(&self) -> Vec<Vec<(usize, f64)>> {
        let mut neighbours = vec![Vec::new(); self.tasks];
        for Weight { ends: [one, other], value } in &self.edges {
            neighbours[*one].push((*other, *value));
            neighbours[*other].push((*one, *value));
        }
        neighbours
    }
}

/// The logit of a clamped share.
fn logit(share: f64) -> f64 {
    let share = share.clamp(CLAMP, 1.0 - CLAMP);
    (share / (1.0 - share)).ln()
}
