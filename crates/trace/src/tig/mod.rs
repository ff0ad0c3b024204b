//! Task interaction graphs and grids of paper 003 in and out, as TOML and as DOT (`docs/reference/files/mapping.md`).
//!
//! Both forms hold the same: what is written in one reads back equal from the other. TOML is for writing by
//! hand, DOT for pictures and for tools that have graphs already.

mod dot;
mod graph_dot;
mod graph_toml;
mod grid_dot;
mod grid_toml;
mod joining_tasks_toml;
mod program;
#[cfg(test)]
mod tests;

use std::path::Path;

use pliant_tig::{Grid, TaskGraph};

pub use graph_dot::graph_to_dot;
pub use graph_toml::graph_to_toml;
pub use grid_dot::grid_to_dot;
pub use grid_toml::grid_to_toml;
pub use joining_tasks_toml::JoiningTask;
pub use program::{Application, Program};

use crate::error::{Problem, TraceError};
use crate::toml_file::Source;

/// A form of graphs and grids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TigFormat {
    /// TOML.
    Toml,
    /// The DOT language of Graphviz.
    Dot,
}

impl TigFormat {
    /// The form of a file, by its name.
    pub fn of(path: &Path) -> Result<TigFormat, TraceError> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Ok(TigFormat::Toml),
            Some("dot" | "gv") => Ok(TigFormat::Dot),
            _ => {
                let message = "expected a file NAME.toml, NAME.dot or NAME.gv".to_owned();
                let hint = "docs/reference/files/mapping.md describes the files".to_owned();
                Err(TraceError::new(path, Problem::Content { message, hint }))
            }
        }
    }
}

/// Reads a task interaction graph.
pub fn read_graph(path: &Path) -> Result<TaskGraph, TraceError> {
    let form = TigFormat::of(path)?;
    understand_graph(&Source::read(path)?, form)
}

/// Reads an application that can be launched: each of its tasks says what it runs, which only TOML can.
pub fn read_application(path: &Path) -> Result<Application, TraceError> {
    if TigFormat::of(path)? == TigFormat::Dot {
        let message = "expected a file NAME.toml, which says what tasks run, found DOT".to_owned();
        let hint =
            "`pliant map` reads DOT; docs/reference/files/launch.md describes what is launched".to_owned();
        return Err(TraceError::new(path, Problem::Content { message, hint }));
    }
    graph_toml::parse_application(&Source::read(path)?)
}

/// Understands a text as an application that can be launched; `path` is for errors, and scripts are beside it.
pub fn parse_application(text: &str, path: &Path) -> Result<Application, TraceError> {
    graph_toml::parse_application(&Source::of(path, text))
}

/// Reads tasks that join an application that runs.
pub fn read_joining_tasks(path: &Path) -> Result<Vec<JoiningTask>, TraceError> {
    joining_tasks_toml::parse(&Source::read(path)?)
}

/// Understands a text as a task interaction graph; `path` is for errors.
pub fn parse_graph(text: &str, form: TigFormat, path: &Path) -> Result<TaskGraph, TraceError> {
    understand_graph(&Source::of(path, text), form)
}

fn understand_graph(source: &Source, form: TigFormat) -> Result<TaskGraph, TraceError> {
    match form {
        TigFormat::Toml => graph_toml::parse(source),
        TigFormat::Dot => graph_dot::parse(source),
    }
}

/// Reads a grid.
pub fn read_grid(path: &Path) -> Result<Grid, TraceError> {
    let form = TigFormat::of(path)?;
    understand_grid(&Source::read(path)?, form)
}

/// Understands a text as a grid; `path` is for errors.
pub fn parse_grid(text: &str, form: TigFormat, path: &Path) -> Result<Grid, TraceError> {
    understand_grid(&Source::of(path, text), form)
}

fn understand_grid(source: &Source, form: TigFormat) -> Result<Grid, TraceError> {
    match form {
        TigFormat::Toml => grid_toml::parse(source),
        TigFormat::Dot => grid_dot::parse(source),
    }
}

/// The key that an error about a graph's edges or tasks belongs to, and its hint.
fn unknown(name: &str, what: &str) -> String {
    format!("expected the name of a {what}, found `{name}`")
}
