//! Objects of the package for `pickle`: a text in JSON, and the method of the class that reads it.

use pyo3::PyClass;
use pyo3::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::errors::wrong_input;

/// What `__reduce__` returns: the method that makes the object again, and its argument.
pub(crate) type Pickled<'py> = (Bound<'py, PyAny>, (String,));

/// A class whose method `_restored` reads this state.
pub(crate) fn pickled<'py, T: PyClass>(
    object: &Bound<'py, T>,
    state: &impl Serialize,
) -> PyResult<Pickled<'py>> {
    let text = serde_json::to_string(state).map_err(wrong_input)?;
    Ok((object.as_any().get_type().getattr("_restored")?, (text,)))
}

/// The state of a text.
pub(crate) fn restored<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(wrong_input)
}
