//! Tasks that join an application that runs, as TOML: tasks and edges as in an application's file, where edges may go to tasks
//! that run.
//!
//! ```toml
//! [[task]]
//! name = "extra"
//! rcr = 1.0
//! script = "worker.sh"
//!
//! [[edge]]
//! between = ["source", "extra"]     # `source` runs
//! rqoc = 2.0
//! ```

use serde::Deserialize;
use toml::Spanned;

use super::graph_toml::{EdgeTable, TaskTable};
use super::program::{Program, inputs, needed};
use super::unknown;
use crate::error::TraceError;
use crate::toml_file::Source;

const SHAPE: &str =
    "tasks that join a launch are [[task]] with name and rcr, and [[edge]] with between and rqoc";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    task: Vec<Spanned<TaskTable>>,
    #[serde(default)]
    edge: Vec<Spanned<EdgeTable>>,
}

/// A task that joins an application that runs.
#[derive(Clone, PartialEq, Debug)]
pub struct JoiningTask {
    /// Its name.
    pub name: String,
    /// Relative computational requirement.
    pub rcr: f64,
    /// What it runs.
    pub program: Program,
    /// What it finds where it runs, as it is written: a file relative to this one, or `NAME=FILE`.
    pub inputs: Vec<String>,
    /// The tasks that it communicates with, with the RQoC: those that run, and of those that join those before it.
    pub neighbours: Vec<(String, f64)>,
}

pub(super) fn parse(source: &Source) -> Result<Vec<JoiningTask>, TraceError> {
    let file: File = source.parse(SHAPE)?;
    let task = |task: &Spanned<TaskTable>| {
        let task = task.get_ref();
        Ok(JoiningTask {
            name: task.name.get_ref().clone(),
            rcr: *task.rcr.get_ref(),
            program: needed(source, task)?,
            inputs: inputs(source, task)?,
            neighbours: Vec::new(),
        })
    };
    let mut tasks = file.task.iter().map(task).collect::<Result<Vec<JoiningTask>, TraceError>>()?;
    for edge in &file.edge {
        let EdgeTable { between, rqoc } = edge.get_ref();
        let [one, other] = between.get_ref();
        let at = |name: &Spanned<String>| tasks.iter().position(|task| task.name == *name.get_ref());
        let (own, with) = match (at(one), at(other)) {
            (Some(first), Some(second)) if first < second => (second, one),
            (Some(own), _) => (own, other),
            (None, Some(own)) => (own, one),
            (None, None) => {
                let message = format!("`between`: {}", unknown(one.get_ref(), "[[task]]"));
                let hint = "at least one end of an edge is a task of this file".to_owned();
                return Err(source.error(between.span(), message, hint));
            }
        };
        tasks[own].neighbours.push((with.get_ref().clone(), *rqoc.get_ref()));
    }
    Ok(tasks)
}
