//! What the tasks of an application run: the keys of a `[[task]]` that launching needs and mapping does not.
//!
//! ```toml
//! [[task]]
//! name = "source"
//! rcr = 1.0
//! service = "render"                # of the federation
//! arguments = { scene = "city" }
//!
//! [[task]]
//! name = "sink"
//! rcr = 2.0
//! script = "sink.sh"                # or a script of the user's own, relative to this file
//! arguments = ["--quick"]
//! input = ["scene.pov"]             # files that it finds where it runs, relative to this file
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use pliant_tig::TaskGraph;
use toml::{Spanned, Value};

use super::graph_toml::TaskTable;
use crate::error::TraceError;
use crate::toml_file::Source;

const HINT: &str = "a task runs `service = \"NAME\"` with `arguments = { KEY = VALUE }`, or `script = \"FILE\"` with \
                    `arguments = [\"WORD\"]`";

/// An application with what its tasks run.
#[derive(Clone, PartialEq, Debug)]
pub struct Application {
    /// Its tasks and the edges between them.
    pub graph: TaskGraph,
    /// What each task runs.
    pub programs: Vec<Program>,
    /// What each task finds where it runs, as it is written: a file relative to the application's, or `NAME=FILE`.
    pub inputs: Vec<Vec<String>>,
}

/// What a task runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Program {
    /// A service of the federation.
    Service {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: BTreeMap<String, String>,
    },
    /// A script of the user's own.
    Script {
        /// Where it is.
        path: PathBuf,
        /// What it is started with.
        arguments: Vec<String>,
    },
}

/// What a task runs, if it says so.
pub(super) fn program(source: &Source, task: &TaskTable) -> Result<Option<Program>, TraceError> {
    let arguments = task.arguments.as_ref();
    match (&task.service, &task.script) {
        (Some(name), None) => {
            let arguments = arguments.map(|given| named(source, given)).transpose()?.unwrap_or_default();
            Ok(Some(Program::Service { name: name.get_ref().clone(), arguments }))
        }
        (None, Some(path)) => {
            let arguments = arguments.map(|given| words(source, given)).transpose()?.unwrap_or_default();
            Ok(Some(Program::Script { path: source.resolve(path.get_ref()), arguments }))
        }
        (Some(_), Some(script)) => {
            Err(wrong(source, script.span(), "`script`: expected none together with `service`, found one"))
        }
        (None, None) => match arguments {
            Some(given) => {
                let message = "`arguments`: expected `service` or `script` with them, found neither";
                Err(wrong(source, given.span(), message))
            }
            None => Ok(None),
        },
    }
}

/// What a task runs that is to be launched.
pub(super) fn needed(source: &Source, task: &TaskTable) -> Result<Program, TraceError> {
    let missing = || {
        let message =
            format!("task `{}`: expected `service` or `script`, found neither", task.name.get_ref());
        wrong(source, task.name.span(), &message)
    };
    program(source, task)?.ok_or_else(missing)
}

/// What a task finds where it runs, as it is written.
pub(super) fn inputs(source: &Source, task: &TaskTable) -> Result<Vec<String>, TraceError> {
    let Some(given) = &task.input else { return Ok(Vec::new()) };
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let list = given.get_ref().as_array().and_then(|list| list.iter().map(text).collect());
    list.ok_or_else(|| {
        let message = "`input`: expected a list of files, found another value".to_owned();
        let hint = "input files are `input = [\"FILE\", \"NAME=FILE\"]`, relative to this file".to_owned();
        source.error(given.span(), message, hint)
    })
}

fn named(source: &Source, given: &Spanned<Value>) -> Result<BTreeMap<String, String>, TraceError> {
    let Value::Table(table) = given.get_ref() else {
        return Err(wrong(
            source,
            given.span(),
            "`arguments`: expected a table of a service's, found another value",
        ));
    };
    let text = |(key, value): (&String, &Value)| {
        let text = plain(value).ok_or_else(|| {
            let message =
                format!("`arguments`: expected a text, a number or a truth value of `{key}`, found more");
            wrong(source, given.span(), &message)
        });
        Ok((key.clone(), text?))
    };
    table.iter().map(text).collect()
}

fn words(source: &Source, given: &Spanned<Value>) -> Result<Vec<String>, TraceError> {
    let list = given.get_ref().as_array().and_then(|list| list.iter().map(plain).collect());
    let expected = "`arguments`: expected a list of a script's words, found another value";
    list.ok_or_else(|| wrong(source, given.span(), expected))
}

/// A value of one word.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Some(value.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

fn wrong(source: &Source, at: Range<usize>, message: &str) -> TraceError {
    source.error(at, message.to_owned(), HINT.to_owned())
}
