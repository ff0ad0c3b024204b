//! Tables: columns of a workload or of a result, which other libraries take over without a copy.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyDict, PyList};

use crate::arrow_stream;
use crate::errors::wrong_input;

/// A table of named columns. It offers the Arrow PyCapsule interface.
#[pyclass(frozen, module = "pliant", name = "Table")]
pub(crate) struct Table(pub(crate) RecordBatch);

impl Table {
    /// A table of these columns, which are of one length.
    pub(crate) fn new(columns: Vec<(&str, ArrayRef)>) -> PyResult<Table> {
        let columns = columns.into_iter().map(|(name, column)| {
            let is_nullable = column.null_count() > 0;
            (name, column, is_nullable)
        });
        RecordBatch::try_from_iter_with_nullable(columns).map(Table).map_err(wrong_input)
    }
}

#[pymethods]
impl Table {
    /// The table as an Arrow stream (the Arrow PyCapsule interface).
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer that asks for another schema casts the columns itself, as the interface permits.
        let _ = requested_schema;
        arrow_stream::export(py, &self.0)
    }

    /// The schema of the table (the Arrow PyCapsule interface).
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        arrow_stream::export_schema(py, &self.0.schema())
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The columns as lists, by their names; of the first rows only, if `rows` says how many.
    #[pyo3(signature = (rows = None))]
    fn to_pydict<'py>(&self, py: Python<'py>, rows: Option<usize>) -> PyResult<Bound<'py, PyDict>> {
        let rows = rows.unwrap_or(usize::MAX).min(self.0.num_rows());
        let columns = PyDict::new(py);
        for (field, column) in self.0.schema().fields().iter().zip(self.0.columns()) {
            columns.set_item(field.name(), values(py, &column.slice(0, rows))?)?;
        }
        Ok(columns)
    }

    /// A `pandas.DataFrame`.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "to_pandas")
    }

    /// A `polars.DataFrame`.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "to_polars")
    }

    /// A `pyarrow.Table`.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "to_pyarrow")
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "table_html")
    }

    fn __repr__(&self) -> String {
        format!("Table({} rows: {})", self.0.num_rows(), self.column_names().join(", "))
    }
}

/// What a function of `python/pliant/frames.py` makes of an object.
pub(crate) fn in_python<'py>(object: &Bound<'py, PyAny>, function: &str) -> PyResult<Bound<'py, PyAny>> {
    object.py().import("pliant.frames")?.call_method1(function, (object,))
}

/// The values of a column.
fn values<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    match column.data_type() {
        DataType::UInt64 => PyList::new(py, column.as_primitive::<UInt64Type>().iter().collect::<Vec<_>>()),
        DataType::Int64 => PyList::new(py, column.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()),
        DataType::UInt32 => PyList::new(py, column.as_primitive::<UInt32Type>().iter().collect::<Vec<_>>()),
        DataType::Int32 => PyList::new(py, column.as_primitive::<Int32Type>().iter().collect::<Vec<_>>()),
        DataType::Boolean => PyList::new(py, column.as_boolean().iter().collect::<Vec<_>>()),
        DataType::Dictionary(..) => {
            let column = column.as_dictionary::<Int32Type>();
            let words = column.values().as_string::<i32>();
            let word = |key: Option<i32>| key.map(|key| words.value(key as usize).to_owned());
            PyList::new(py, column.keys().iter().map(word).collect::<Vec<_>>())
        }
        other => Err(wrong_input(format!("a column of the type {other}"))),
    }
}

/// A column of words, each of which is one of a few.
pub(crate) fn words<'a>(words: impl IntoIterator<Item = Option<&'a str>>) -> ArrayRef {
    let column: arrow_array::DictionaryArray<Int32Type> = words.into_iter().collect();
    Arc::new(column)
}

/// A table that is made once, without the interpreter.
pub(crate) fn once<'py>(
    py: Python<'py>,
    cell: &PyOnceLock<Py<Table>>,
    make: impl FnOnce() -> PyResult<Table> + Send,
) -> PyResult<Bound<'py, Table>> {
    let made = cell.get_or_try_init(py, || Py::new(py, py.detach(make)?))?;
    Ok(made.bind(py).clone())
}
