//! The linear relaxation of correlation clustering, by cycle separation: a lower bound on every clustering.
//!
//! Demaine and Immorlica's program (paper 003's [12]) has a distance for every pair of tasks and a triangle
//! inequality for every three. The same optimum has a variable `y` for every edge (the distance where the
//! weight is positive, one less the distance where it is negative) and one row for every negative edge and
//! every path of positive edges around it: `y_edge + sum of y on the path >= 1`. The rows are found
//! when they are needed, by shortest paths: O(e log t) for each negative edge and round.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use microlp::{ComparisonOp, OptimizationDirection, Problem, Solution, Variable};

use super::Weights;

/// A row that is violated by less than this is satisfied.
const TOLERANCE: f64 = 1e-7;

/// Rounds of separation after which the program is given up. Of 2,400 graphs of paper 003's campaign (40 seeds) the hardest takes 28.
const ROUNDS_MAX: usize = 500;

/// The optimum of the linear program.
#[derive(Clone, PartialEq, Debug)]
pub struct Relaxation {
    /// Its value: no clustering costs less.
    pub bound: f64,
    /// `y` of each edge, in the order of the weights, within 0 and 1.
    pub values: Vec<f64>,
    /// Rows that were needed.
    pub rows: usize,
    /// Rounds of separation.
    pub rounds: usize,
}

/// A linear program that the solver did not solve.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected the optimum of the clustering's linear program: {problem}")]
pub struct RelaxationError {
    /// What the solver says.
    pub problem: String,
}

/// Solves the relaxation.
pub fn relax(weights: &Weights) -> Result<Relaxation, RelaxationError> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    // No row asks for more than 1, so no value above 1 is of use.
    let variables: Vec<Variable> =
        weights.edges().iter().map(|edge| problem.add_var(edge.value.abs(), (0.0, 1.0))).collect();
    let graph = PositiveGraph::of(weights);
    let mut solution = problem.solve().map_err(relaxation_error)?;
    let mut rows = 0;
    for round in 0..ROUNDS_MAX {
        let values: Vec<f64> =
            variables.iter().map(|variable| solution.var_value(*variable).clamp(0.0, 1.0)).collect();
        let violated = separate(weights, &graph, &values);
        if violated.is_empty() {
            let costs = weights.edges().iter().zip(&values).map(|(edge, y)| edge.value.abs() * y);
            // An empty sum is -0.
            let bound = costs.sum::<f64>() + 0.0;
            return Ok(Relaxation { bound, values, rows, rounds: round });
        }
        rows += violated.len();
        solution = add_rows(solution, &variables, violated)?;
    }
    Err(RelaxationError { problem: format!("no end after {ROUNDS_MAX} rounds and {rows} rows") })
}

fn relaxation_error(error: microlp::Error) -> RelaxationError {
    RelaxationError { problem: error.to_string() }
}

fn add_rows(
    mut solution: Solution,
    variables: &[Variable],
    rows: Vec<Vec<usize>>,
) -> Result<Solution, RelaxationError> {
    for row in rows {
        let terms: Vec<(Variable, f64)> = row.iter().map(|edge| (variables[*edge], 1.0)).collect();
        solution = solution.add_constraint(&terms[..], ComparisonOp::Ge, 1.0).map_err(relaxation_error)?;
    }
    Ok(solution)
}

/// For each negative edge the row of its shortest path, if that is violated: positions of edges.
fn separate(weights: &Weights, graph: &PositiveGraph, values: &[f64]) -> Vec<Vec<usize>> {
    let mut rows: Vec<Vec<usize>> = Vec::new();
    for (at, edge) in weights.edges().iter().enumerate().filter(|(_, edge)| edge.value < 0.0) {
        let room = 1.0 - values[at] - TOLERANCE;
        if room > 0.0
            && let Some(path) = graph.shortest_path(edge.ends, values, room)
        {
            rows.push(path.into_iter().chain([at]).collect());
        }
    }
    rows
}

/// The positive edges.
pub(super) struct PositiveGraph {
    /// By task: the other end and the position of the edge.
    neighbours: Vec<Vec<(usize, usize)>>,
}

/// A task that has been reached.
struct ReachedTask {
    distance: f64,
    task: usize,
}

impl Ord for ReachedTask {
    fn cmp(&self, other: &ReachedTask) -> Ordering {
        // A heap gives the greatest: the nearest.
        other.distance.total_cmp(&self.distance).then_with(|| other.task.cmp(&self.task))
    }
}

impl PartialOrd for ReachedTask {
    fn partial_cmp(&self, other: &ReachedTask) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ReachedTask {
    fn eq(&self, other: &ReachedTask) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ReachedTask {}

impl PositiveGraph {
    pub(super) fn of(weights: &Weights) -> PositiveGraph {
        let mut neighbours = vec![Vec::new(); weights.tasks()];
        for (at, edge) in weights.edges().iter().enumerate().filter(|(_, edge)| edge.value > 0.0) {
            let [one, other] = edge.ends;
            neighbours[one].push((other, at));
            neighbours[other].push((one, at));
        }
        PositiveGraph { neighbours }
    }

    /// Distances from a task over positive edges of these lengths, up to `most`, and the edge before each.
    pub(super) fn distances(&self, from: usize, lengths: &[f64], most: f64) -> (Vec<f64>, Vec<usize>) {
        let mut distances = vec![f64::INFINITY; self.neighbours.len()];
        let mut before = vec![usize::MAX; self.neighbours.len()];
        let mut heap = BinaryHeap::from([ReachedTask { distance: 0.0, task: from }]);
        distances[from] = 0.0;
        while let Some(ReachedTask { distance, task }) = heap.pop() {
            if distance > distances[task] {
                continue;
            }
            for (next, edge) in &self.neighbours[task] {
                let further = distance + lengths[*edge];
                if further < distances[*next] && further <= most {
                    (distances[*next], before[*next]) = (further, *edge);
                    heap.push(ReachedTask { distance: further, task: *next });
                }
            }
        }
        (distances, before)
    }

    /// The edges of the shortest path between two tasks, if it is shorter than `room`.
    fn shortest_path(&self, [from, to]: [usize; 2], lengths: &[f64], room: f64) -> Option<Vec<usize>> {
        let (distances, before) = self.distances(from, lengths, room);
        if distances[to] >= room {
            return None;
        }
        let (mut path, mut at) = (Vec::new(), to);
        while at != from {
            let edge = before[at];
            path.push(edge);
            at = self.neighbours[at].iter().find(|(_, through)| *through == edge)?.0;
        }
        Some(path)
    }
}
