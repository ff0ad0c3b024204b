//! The Arrow PyCapsule interface: tables to and from other Python libraries without copies.
//!
//! A capsule holds a C structure whose owner frees it. Those that Pliant makes are freed by their capsule unless a consumer has taken
//! them, which it marks in the structure.

#![allow(unsafe_code)]

use std::ffi::CStr;

use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::Schema;
use arrow_schema::ffi::FFI_ArrowSchema;
use pyo3::exceptions::{PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::wrong_input;

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// A stream of one batch.
pub(crate) fn export<'py>(py: Python<'py>, batch: &RecordBatch) -> PyResult<Bound<'py, PyCapsule>> {
    let reader = RecordBatchIterator::new([Ok(batch.clone())], batch.schema());
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), STREAM)
}

/// The schema alone.
pub(crate) fn export_schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(wrong_input)?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// A stream that was taken over, and the class of the object that offered it.
pub(crate) struct Stream {
    stream: FFI_ArrowArrayStream,
    class: String,
}

impl Stream {
    /// Reads its batches. The interpreter is not needed: a producer that does takes it itself.
    pub(crate) fn batches(self) -> PyResult<Vec<RecordBatch>> {
        // One column alone is no table: a `Series` of pandas or polars, or a chunked array of pyarrow.
        let reader = RecordBatchStreamReader::try_new(self.stream).map_err(|error| {
            wrong_input(format!("expected a table with columns, found a {}: {error}", self.class))
        })?;
        reader.map(|batch| batch.map_err(wrong_input)).collect()
    }
}

/// A table that its library cannot export, such as one with a column of values of several types.
fn not_exported(object: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = object.py();
    let is_of_values = error.is_instance_of::<PyValueError>(py)
        || error.is_instance_of::<PyTypeError>(py)
        || error.is_instance_of::<PyNotImplementedError>(py);
    if !is_of_values {
        return error;
    }
    let class = object.get_type();
    let wrong = wrong_input(format!(
        "expected a table that has the Arrow form, found a {class} that has none: {error}"
    ));
    wrong.set_cause(py, Some(error));
    wrong
}

/// Takes over the stream of an object that offers one: a data frame or a table of another library.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<Stream> {
    let Ok(method) = object.getattr("__arrow_c_stream__") else {
        let found = object.get_type().name()?;
        let problem = format!(
            "expected a Workload, as of pliant.read_workload(path), or a table with the method __arrow_c_stream__, such as \
             polars.DataFrame(columns) or one of pandas, pyarrow or DuckDB; found {found}{}",
            if object.hasattr("collect")? { ", whose method collect() may give one" } else { "" }
        );
        return Err(PyTypeError::new_err(problem));
    };
    // The argument is optional by the interface, and polars 1.3 needs it.
    let capsule = method.call1((object.py().None(),)).map_err(|error| not_exported(object, error))?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: a capsule of this name holds a valid `ArrowArrayStream` (the Arrow PyCapsule interface). `from_raw` takes its content and
    // leaves a released structure behind, which the capsule's destructor does not free again. The capsule lives until then.
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    Ok(Stream { stream, class: object.get_type().name()?.to_string() })
}
