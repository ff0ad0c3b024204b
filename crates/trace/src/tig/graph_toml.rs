//! Task interaction graphs as TOML.
//!
//! ```toml
//! mcr_mflops = 50          # what a task of RCR 1 needs of a machine
//! bandwidth_mbps = 0.5     # optional: what an edge of RQoC 1 needs of a link
//!
//! [[task]]
//! name = "source"
//! rcr = 1.0
//!
//! [[edge]]
//! between = ["source", "emitter"]
//! rqoc = 3.0
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use pliant_tig::{Edge, GraphError, GraphItem, Task, TaskGraph, TaskId};
use serde::Deserialize;
use toml::{Spanned, Value};

use super::program::{Application, inputs, needed, program};
use super::unknown;
use crate::error::TraceError;
use crate::toml_file::Source;

const SHAPE: &str =
    "an application has mcr_mflops, [[task]] with name and rcr, and [[edge]] with between and rqoc";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mcr_mflops: Spanned<f64>,
    bandwidth_mbps: Option<Spanned<f64>>,
    task: Vec<Spanned<TaskTable>>,
    #[serde(default)]
    edge: Vec<Spanned<EdgeTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskTable {
    pub(super) name: Spanned<String>,
    pub(super) rcr: Spanned<f64>,
    pub(super) service: Option<Spanned<String>>,
    pub(super) script: Option<Spanned<PathBuf>>,
    pub(super) arguments: Option<Spanned<Value>>,
    pub(super) input: Option<Spanned<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EdgeTable {
    pub(super) between: Spanned<[Spanned<String>; 2]>,
    pub(super) rqoc: Spanned<f64>,
}

pub(super) fn parse(source: &Source) -> Result<TaskGraph, TraceError> {
    let file: File = source.parse(SHAPE)?;
    // What they run does not matter for a mapping, unless it is wrong.
    for task in &file.task {
        program(source, task.get_ref())?;
        inputs(source, task.get_ref())?;
    }
    graph(source, &file)
}

/// An application all of whose tasks say what they run.
pub(super) fn parse_application(source: &Source) -> Result<Application, TraceError> {
    let file: File = source.parse(SHAPE)?;
    let programs = file.task.iter().map(|task| needed(source, task.get_ref())).collect::<Result<_, _>>()?;
    let inputs = file.task.iter().map(|task| inputs(source, task.get_ref())).collect::<Result<_, _>>()?;
    Ok(Application { programs, inputs, graph: graph(source, &file)? })
}

fn graph(source: &Source, file: &File) -> Result<TaskGraph, TraceError> {
    let tasks: Vec<Task> = file
        .task
        .iter()
        .map(|task| Task { name: task.get_ref().name.get_ref().clone(), rcr: *task.get_ref().rcr.get_ref() })
        .collect();
    let ids: BTreeMap<&str, TaskId> =
        tasks.iter().enumerate().map(|(at, task)| (task.name.as_str(), TaskId(at as u32))).collect();
    let mut edges = Vec::with_capacity(file.edge.len());
    for edge in &file.edge {
        let EdgeTable { between, rqoc } = edge.get_ref();
        let mut ends = [TaskId(0); 2];
        for (end, name) in ends.iter_mut().zip(between.get_ref()) {
            *end = *ids.get(name.get_ref().as_str()).ok_or_else(|| {
                let message = format!("`between`: {}", unknown(name.get_ref(), "[[task]]"));
                source.error(name.span(), message, "edges join tasks of this file".to_owned())
            })?;
        }
        edges.push(Edge { ends, rqoc: *rqoc.get_ref() });
    }
    let mcr = *file.mcr_mflops.get_ref();
    let bandwidth = file.bandwidth_mbps.as_ref().map(|bandwidth| *bandwidth.get_ref());
    TaskGraph::new(mcr, bandwidth, tasks, edges).map_err(|error| {
        let (key, span) = key_and_span(file, &error);
        source.error(span, format!("{key}{error}"), error.hint().to_owned())
    })
}

/// The key that an error is about, and where its value is.
fn key_and_span(file: &File, error: &GraphError) -> (&'static str, Range<usize>) {
    match (error, error.item()) {
        (GraphError::Mcr(_), _) => ("`mcr_mflops`: ", file.mcr_mflops.span()),
        (GraphError::Bandwidth(_), _) => {
            ("`bandwidth_mbps`: ", file.bandwidth_mbps.as_ref().map_or(0..0, Spanned::span))
        }
        (GraphError::Rcr { .. }, GraphItem::Task(at)) => ("`rcr`: ", file.task[at].get_ref().rcr.span()),
        (GraphError::Disconnected { .. }, GraphItem::Task(at)) => ("", file.task[at].get_ref().name.span()),
        (_, GraphItem::Task(at)) => ("`name`: ", file.task[at].get_ref().name.span()),
        (GraphError::Rqoc { .. }, GraphItem::Edge(at)) => ("`rqoc`: ", file.edge[at].get_ref().rqoc.span()),
        (_, GraphItem::Edge(at)) => ("`between`: ", file.edge[at].get_ref().between.span()),
        (_, GraphItem::Whole) => ("", 0..0),
    }
}

/// A graph as TOML.
pub fn graph_to_toml(graph: &TaskGraph) -> String {
    let mut text = format!("mcr_mflops = {:?}\n", graph.mcr_mflops());
    if let Some(bandwidth) = graph.bandwidth_mbps() {
        text.push_str(&format!("bandwidth_mbps = {bandwidth:?}\n"));
    }
    let quoted = |name: &str| toml::Value::String(name.to_owned()).to_string();
    for Task { name, rcr } in graph.tasks() {
        text.push_str(&format!("\n[[task]]\nname = {}\nrcr = {rcr:?}\n", quoted(name)));
    }
    for Edge { ends, rqoc } in graph.edges() {
        let [one, other] = ends.map(|end| quoted(&graph.task(end).name));
        text.push_str(&format!("\n[[edge]]\nbetween = [{one}, {other}]\nrqoc = {rqoc:?}\n"));
    }
    text
}
