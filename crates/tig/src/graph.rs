//! The application: a task interaction graph (paper 003, section 3.1).
//!
//! Nodes are tasks with a relative computational requirement (RCR), edges are pairs of tasks that communicate
//! with a relative quality of communication (RQoC). One number makes the first absolute, as in eq. 1:
//! the minimal computational requirement (MCR) of a task of RCR 1. Another may do the same for the second,
//! which is the authors' future work.

use std::collections::{BTreeMap, BTreeSet};

use pliant_model::{NameError, check_name};

/// A task: its position in the graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId(pub u32);

impl TaskId {
    /// Position in the graph.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A task.
#[derive(Clone, PartialEq, Debug)]
pub struct Task {
    /// Its name, unique in the graph.
    pub name: String,
    /// Relative computational requirement, above 0.
    pub rcr: f64,
}

/// Two tasks that communicate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Edge {
    /// The tasks.
    pub ends: [TaskId; 2],
    /// Relative quality of communication, above 0.
    pub rqoc: f64,
}

/// A checked application: connected, weights above 0, no loops, no edge twice.
#[derive(Clone, PartialEq, Debug)]
pub struct TaskGraph {
    mcr_mflops: f64,
    bandwidth_mbps: Option<f64>,
    tasks: Vec<Task>,
    edges: Vec<Edge>,
    neighbours: Vec<Vec<(TaskId, f64)>>,
}

impl TaskGraph {
    /// Checks an application. `mcr_mflops` is the demand of a task of RCR 1 on a machine, `bandwidth_mbps` that of an edge of
    /// RQoC 1 on a link, if known.
    pub fn new(
        mcr_mflops: f64,
        bandwidth_mbps: Option<f64>,
        tasks: Vec<Task>,
        edges: Vec<Edge>,
    ) -> Result<TaskGraph, GraphError> {
        if !is_positive(mcr_mflops) {
            return Err(GraphError::Mcr(mcr_mflops));
        }
        if let Some(found) = bandwidth_mbps.filter(|bandwidth| !is_positive(*bandwidth)) {
            return Err(GraphError::Bandwidth(found));
        }
        check_tasks(&tasks)?;
        check_edges(&tasks, &edges)?;
        let mut neighbours = vec![Vec::new(); tasks.len()];
        for Edge { ends: [one, other], rqoc } in &edges {
            neighbours[one.index()].push((*other, *rqoc));
            neighbours[other.index()].push((*one, *rqoc));
        }
        let graph = TaskGraph { mcr_mflops, bandwidth_mbps, tasks, edges, neighbours };
        graph.check_connected()?;
        Ok(graph)
    }

    /// The same application with another MCR.
    pub fn with_mcr(&self, mcr_mflops: f64) -> Result<TaskGraph, GraphError> {
        if !is_positive(mcr_mflops) {
            return Err(GraphError::Mcr(mcr_mflops));
        }
        Ok(TaskGraph { mcr_mflops, ..self.clone() })
    }

    /// The demand of a task of RCR 1 on a machine, in MFlop/s.
    pub fn mcr_mflops(&self) -> f64 {
        self.mcr_mflops
    }

    /// The demand of an edge of RQoC 1 on a link, in Mb/s.
    pub fn bandwidth_mbps(&self) -> Option<f64> {
        self.bandwidth_mbps
    }

    /// The tasks, in order.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The edges, in the order in which they were given.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The ids of the tasks.
    pub fn task_ids(&self) -> impl ExactSizeIterator<Item = TaskId> + use<> {
        (0..self.tasks.len() as u32).map(TaskId)
    }

    /// A task.
    pub fn task(&self, task: TaskId) -> &Task {
        &self.tasks[task.index()]
    }

    /// The tasks with which a task communicates, with the RQoC.
    pub fn neighbours(&self, task: TaskId) -> &[(TaskId, f64)] {
        &self.neighbours[task.index()]
    }

    /// Eq. 1: the demand of a task on its machine, in MFlop/s.
    pub fn mcr(&self, task: TaskId) -> f64 {
        self.mcr_mflops * self.task(task).rcr
    }

    /// All traffic: the sum of RQoC over the edges.
    pub fn traffic(&self) -> f64 {
        self.edges.iter().map(|edge| edge.rqoc).sum()
    }

    /// The traffic over the edges for which `counts` is true, in % of all traffic; 0 without traffic.
    pub(crate) fn traffic_percent(&self, counts: impl Fn(TaskId, TaskId) -> bool) -> f64 {
        let counted = self.edges.iter().filter(|edge| counts(edge.ends[0], edge.ends[1]));
        let counted: f64 = counted.map(|edge| edge.rqoc).sum();
        let all = self.traffic();
        // An empty sum is -0.
        if all > 0.0 { 100.0 * counted / all + 0.0 } else { 0.0 }
    }

    fn check_connected(&self) -> Result<(), GraphError> {
        let mut reached = vec![false; self.tasks.len()];
        let mut stack = vec![TaskId(0)];
        reached[0] = true;
        while let Some(task) = stack.pop() {
            for (next, _) in self.neighbours(task) {
                if !std::mem::replace(&mut reached[next.index()], true) {
                    stack.push(*next);
                }
            }
        }
        match reached.iter().position(|reached| !reached) {
            None => Ok(()),
            Some(apart) => {
                let name = |at: usize| self.tasks[at].name.clone();
                Err(GraphError::Disconnected { at: apart, apart: name(apart), from: name(0) })
            }
        }
    }
}

pub(crate) fn is_positive(number: f64) -> bool {
    number.is_finite() && number > 0.0
}

fn check_tasks(tasks: &[Task]) -> Result<(), GraphError> {
    if tasks.is_empty() {
        return Err(GraphError::NoTask);
    }
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (at, task) in tasks.iter().enumerate() {
        check_name(&task.name).map_err(|source| GraphError::Name { at, source })?;
        if !names.insert(&task.name) {
            return Err(GraphError::SameName { at, name: task.name.clone() });
        }
        if !is_positive(task.rcr) {
            return Err(GraphError::Rcr { at, task: task.name.clone(), found: task.rcr });
        }
    }
    Ok(())
}

fn check_edges(tasks: &[Task], edges: &[Edge]) -> Result<(), GraphError> {
    let mut seen: BTreeMap<[TaskId; 2], usize> = BTreeMap::new();
    for (at, edge) in edges.iter().enumerate() {
        let Edge { ends: [one, other], rqoc } = *edge;
        if let Some(end) = [one, other].into_iter().find(|end| end.index() >= tasks.len()) {
            return Err(GraphError::NoSuchTask { at, found: end.0, tasks: tasks.len() });
        }
        let name = |task: TaskId| tasks[task.index()].name.clone();
        if one == other {
            return Err(GraphError::Loop { at, task: name(one) });
        }
        if seen.insert([one.min(other), one.max(other)], at).is_some() {
            return Err(GraphError::SameEdge { at, ends: [name(one), name(other)] });
        }
        if !is_positive(rqoc) {
            return Err(GraphError::Rqoc { at, ends: [name(one), name(other)], found: rqoc });
        }
    }
    Ok(())
}

/// An invalid application. `at` is the position of the task or edge.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each says what its fields are")]
pub enum GraphError {
    /// It has no task.
    #[error("expected a task, found none")]
    NoTask,
    /// Its MCR is not above 0.
    #[error("expected an MCR above 0, found {0}")]
    Mcr(f64),
    /// Its bandwidth is not above 0.
    #[error("expected a bandwidth above 0, found {0}")]
    Bandwidth(f64),
    /// A task has an invalid name.
    #[error("{source}")]
    Name { at: usize, source: NameError },
    /// Two tasks have one name.
    #[error("expected unique names of tasks, found `{name}` twice")]
    SameName { at: usize, name: String },
    /// A task's RCR is not above 0.
    #[error("task `{task}`: expected an RCR above 0, found {found}")]
    Rcr { at: usize, task: String, found: f64 },
    /// An edge ends at a task that does not exist.
    #[error("expected an edge between two of {tasks} tasks, found an end {found}")]
    NoSuchTask { at: usize, found: u32, tasks: usize },
    /// An edge joins a task to itself.
    #[error("expected an edge between two tasks, found `{task}` twice")]
    Loop { at: usize, task: String },
    /// Two edges join the same tasks.
    #[error("expected one edge between `{}` and `{}`, found two", ends[0], ends[1])]
    SameEdge { at: usize, ends: [String; 2] },
    /// An edge's RQoC is not above 0.
    #[error("edge between `{}` and `{}`: expected an RQoC above 0, found {found}", ends[0], ends[1])]
    Rqoc { at: usize, ends: [String; 2], found: f64 },
    /// The graph is not connected.
    #[error("expected a connected graph, found no path from `{from}` to `{apart}`")]
    Disconnected { at: usize, apart: String, from: String },
}

/// The item of a graph that an error refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GraphItem {
    /// The graph as a whole.
    Whole,
    /// The task at this position.
    Task(usize),
    /// The edge at this position.
    Edge(usize),
}

impl GraphError {
    /// The item that the error refers to.
    pub fn item(&self) -> GraphItem {
        match self {
            Self::NoTask | Self::Mcr(_) | Self::Bandwidth(_) => GraphItem::Whole,
            Self::Name { at, .. }
            | Self::SameName { at, .. }
            | Self::Rcr { at, .. }
            | Self::Disconnected { at, .. } => GraphItem::Task(*at),
            Self::NoSuchTask { at, .. }
            | Self::Loop { at, .. }
            | Self::SameEdge { at, .. }
            | Self::Rqoc { at, .. } => GraphItem::Edge(*at),
        }
    }

    /// What to do about the error.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoTask => "an application has at least one task",
            Self::Mcr(_) => "the MCR is the demand of a task of RCR 1, in MFlop/s",
            Self::Bandwidth(_) => "the bandwidth is the demand of an edge of RQoC 1, in Mb/s",
            Self::Name { .. } | Self::SameName { .. } => "mappings identify tasks by their names",
            Self::Rcr { .. } => "the task with the smallest demand has RCR 1",
            Self::NoSuchTask { .. } => "both ends of an edge are tasks of the graph",
            Self::Loop { .. } => "traffic of a task with itself needs no link; remove the edge",
            Self::SameEdge { .. } => "use one edge with the sum of their RQoC",
            Self::Rqoc { .. } => "the edge with the least traffic has RQoC 1; remove edges without traffic",
            Self::Disconnected { .. } => "join them by an edge, or map two applications",
        }
    }
}
