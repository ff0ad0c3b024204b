//! Errors as exceptions of the package (`python/pliant/errors.py`).

use std::fmt::Display;

use pliant_config::ConfigError;
use pliant_report::FileError;
use pliant_sim::SimError;
use pliant_sim::campaign::CampaignError;
use pliant_trace::TraceError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An exception of that class, with a hint if there is one.
pub(crate) fn exception(class: &str, problem: &str, hint: Option<&str>) -> PyErr {
    exception_with(class, (problem, hint), |_| Ok(()))
}

/// The same with the facts that `add` adds as keyword arguments of the class.
pub(crate) fn exception_with(
    class: &str,
    (problem, hint): (&str, Option<&str>),
    add: impl FnOnce(&Bound<'_, PyDict>) -> PyResult<()>,
) -> PyErr {
    Python::attach(|py| {
        let made = || {
            let facts = PyDict::new(py);
            add(&facts)?;
            py.import("pliant.errors")?.getattr(class)?.call((problem, hint), Some(&facts))
        };
        made().map_or_else(|error| error, PyErr::from_value)
    })
}

/// Something that the caller gave is wrong.
pub(crate) fn wrong_input(problem: impl Display) -> PyErr {
    exception("InputError", &problem.to_string(), None)
}

/// The same with what to do about it.
pub(crate) fn wrong_input_with_hint(problem: &str, hint: Option<&str>) -> PyErr {
    exception("InputError", problem, hint)
}

/// A log or a workload file cannot be read, or is wrong.
pub(crate) fn of_trace(error: &TraceError) -> PyErr {
    let class = if error.is_io() { "FileError" } else { "InputError" };
    exception(class, &error.to_string(), error.hint().as_deref())
}

/// A configuration file cannot be read, or is wrong.
pub(crate) fn of_config(error: &ConfigError) -> PyErr {
    let class = if matches!(error, ConfigError::Io { .. }) { "FileError" } else { "InputError" };
    exception(class, &error.to_string(), error.hint())
}

/// A campaign cannot be read or run.
pub(crate) fn of_campaign(error: &CampaignError) -> PyErr {
    let class = if error.is_input() { "InputError" } else { "FileError" };
    exception(class, &error.to_string(), error.hint().as_deref())
}

/// A policy of the user has returned what is no decision.
pub(crate) fn wrong_decision(problem: impl Display, hint: Option<&str>) -> PyErr {
    exception("PolicyError", &problem.to_string(), hint)
}

/// A simulation is impossible, or a policy of the user has decided what is.
pub(crate) fn of_sim(error: &SimError) -> PyErr {
    let class = if matches!(error, SimError::Custom { .. }) { "PolicyError" } else { "InputError" };
    exception(class, &error.to_string(), None)
}

/// A file cannot be written.
pub(crate) fn of_io(path: &std::path::Path, error: &std::io::Error) -> PyErr {
    exception("FileError", &format!("{}: {error}", path.display()), None)
}

/// A result cannot be written or read.
pub(crate) fn of_file(error: &FileError) -> PyErr {
    exception("FileError", &error.to_string(), None)
}
