//! Task interaction graphs and grids of paper 003 in and out, as TOML and as DOT (`docs/mapping.md`).
//!
//! Both forms hold the same: what is written in one reads back equal from the other. TOML is for writing by
//! hand, DOT for pictures and for tools that have graphs already.

mod dot;
mod graph_dot;
mod graph_toml;
mod grid_dot;
mod grid_toml;
mod joining_toml;
mod program;
#[cfg(test)]
mod tests;

use std::path::Path;

use pliant_tig::{Grid, TaskGraph};

pub use graph_dot::graph_to_dot;
pub use graph_toml::graph_to_toml;
pub use grid_dot::grid_to_dot;
pub use grid_toml::grid_to_toml;
pub use joining_toml::Joining;
pub use program::{Application, Program};

use crate::error::{Problem, TraceError};
use crate::toml_file::Source;

/// A form of graphs and grids.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// TOML.
    Toml,
    /// The DOT language of Graphviz.
    Dot,
}

impl Form {
    /// The form of a file, by its name.
    pub fn of(path: &Path) -> Result<Form, TraceError> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => Ok(Form::Toml),
            Some("dot" | "gv") => Ok(Form::Dot),
            _ => {
                let message = "expected a file NAME.toml, NAME.dot or NAME.gv".to_owned();
                let hint = "docs/mapping.md describes the files".to_owned();
                Err(TraceError::new(path, Problem::Content { message, hint }))
            }
        }
    }
}

/// Reads a task interaction graph.
pub fn read_graph(path: &Path) -> Result<TaskGraph, TraceError> {
    let form = Form::of(path)?;
    understand_graph(&Source::read(path)?, form)
}

/// Reads an application that can be launched: each of its tasks says what it runs, which only TOML can.
pub fn read_application(path: &Path) -> Result<Application, TraceError> {
    if Form::of(path)? == Form::Dot {
        let message = "expected a file NAME.toml, which says what tasks run, found DOT".to_owned();
        let hint = "`pliant map` reads DOT; docs/launch.md describes what is launched".to_owned();
        return Err(TraceError::new(path, Problem::Content { message, hint }));
    }
    graph_toml::parse_application(&Source::read(path)?)
}

/// Understands a text as an application that can be launched; `path` is for errors, and scripts are beside it.
pub fn parse_application(text: &str, path: &Path) -> Result<Application, TraceError> {
    graph_toml::parse_application(&Source::of(path, text))
}

/// Reads tasks that join an application that runs.
pub fn read_joining(path: &Path) -> Result<Vec<Joining>, TraceError> {
    joining_toml::parse(&Source::read(path)?)
}

/// Understands a text as a task interaction graph; `path` is for errors.
pub fn parse_graph(text: &str, form: Form, path: &Path) -> Result<TaskGraph, TraceError> {
    understand_graph(&Source::of(path, text), form)
}

fn understand_graph(source: &Source, form: Form) -> Result<TaskGraph, TraceError> {
    match form {
        Form::Toml => graph_toml::parse(source),
        Form::Dot => graph_dot::parse(source),
    }
}

/// Reads a grid.
pub fn read_grid(path: &Path) -> Result<Grid, TraceError> {
    let form = Form::of(path)?;
    understand_grid(&Source::read(path)?, form)
}

/// Understands a text as a grid; `path` is for errors.
pub fn parse_grid(text: &str, form: Form, path: &Path) -> Result<Grid, TraceError> {
    understand_grid(&Source::of(path, text), form)
}

fn understand_grid(source: &Source, form: Form) -> Result<Grid, TraceError> {
    match form {
        Form::Toml => grid_toml::parse(source),
        Form::Dot => grid_dot::parse(source),
    }
}

/// The key that an error about a graph's edges or tasks belongs to, and its hint.
fn unknown(name: &str, what: &str) -> String {
    format!("expected the name of a {what}, found `{name}`")
}
