//! Task interaction graphs as DOT.
//!
//! ```dot
//! graph app {
//!   mcr_mflops = 50; bandwidth_mbps = 0.5;
//!   source [rcr = 1]; emitter [rcr = 2];
//!   source -- emitter [rqoc = 3];
//! }
//! ```

use std::collections::BTreeMap;

use pliant_tig::{Edge, GraphItem, Task, TaskGraph, TaskId};

use super::dot::{self, quoted};
use super::unknown;
use crate::error::TraceError;
use crate::toml_file::Source;

pub(super) fn parse(source: &Source) -> Result<TaskGraph, TraceError> {
    let dot = dot::parse(source)?;
    let mcr = dot::needed(source, &dot.attributes, "mcr_mflops", &(0..0))?;
    let bandwidth = dot::number(source, &dot.attributes, "bandwidth_mbps")?;
    let mut tasks = Vec::with_capacity(dot.nodes.len());
    let mut ids: BTreeMap<&str, TaskId> = BTreeMap::new();
    for node in &dot.nodes {
        ids.insert(&node.name, TaskId(tasks.len() as u32));
        let rcr = dot::needed(source, &node.attributes, "rcr", &node.span)?;
        tasks.push(Task { name: node.name.clone(), rcr });
    }
    let mut edges = Vec::with_capacity(dot.edges.len());
    for edge in &dot.edges {
        let mut ends = [TaskId(0); 2];
        for (end, name) in ends.iter_mut().zip(&edge.ends) {
            *end = *ids.get(name.as_str()).ok_or_else(|| {
                let hint = "every task has a statement of its own, NAME [rcr = 1]".to_owned();
                source.error(edge.span.clone(), unknown(name, "task"), hint)
            })?;
        }
        edges.push(Edge { ends, rqoc: dot::needed(source, &edge.attributes, "rqoc", &edge.span)? });
    }
    TaskGraph::new(mcr, bandwidth, tasks, edges).map_err(|error| {
        let span = match error.item() {
            GraphItem::Whole => 0..0,
            GraphItem::Task(at) => dot.nodes[at].span.clone(),
            GraphItem::Edge(at) => dot.edges[at].span.clone(),
        };
        source.error(span, error.to_string(), error.hint().to_owned())
    })
}

/// A graph as DOT, which Graphviz draws with its numbers.
pub fn graph_to_dot(graph: &TaskGraph) -> String {
    let mut text = format!("graph app {{\n  mcr_mflops = {:?};\n", graph.mcr_mflops());
    if let Some(bandwidth) = graph.bandwidth_mbps() {
        text.push_str(&format!("  bandwidth_mbps = {bandwidth:?};\n"));
    }
    for Task { name, rcr } in graph.tasks() {
        let name = quoted(name);
        text.push_str(&format!("  {name} [rcr = {rcr:?}, xlabel = {rcr:?}];\n"));
    }
    for Edge { ends, rqoc } in graph.edges() {
        let [one, other] = ends.map(|end| quoted(&graph.task(end).name));
        text.push_str(&format!("  {one} -- {other} [rqoc = {rqoc:?}, label = {rqoc:?}];\n"));
    }
    text.push_str("}\n");
    text
}
