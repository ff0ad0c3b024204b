//! Tables: columns of a workload or of a result, which other libraries take over without a copy.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, UInt32Array,
    UInt64Array,
};
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

    /// The table for `pickle`: its columns with their types.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<PickledTable<'py>> {
        let kinds = slf.get().0.columns().iter().map(|column| kind(column.data_type()).to_owned()).collect();
        Ok((slf.get_type().getattr("_restored")?, (slf.get().to_pydict(slf.py(), None)?, kinds)))
    }

    /// The table of `pickle`.
    #[staticmethod]
    fn _restored(columns: &Bound<'_, PyDict>, kinds: Vec<String>) -> PyResult<Table> {
        if columns.len() != kinds.len() {
            let (expected, found) = (columns.len(), kinds.len());
            return Err(wrong_input(format!(
                "pickle: expected the types of {expected} columns, found {found}"
            )));
        }
        let mut batch = Vec::new();
        for ((name, values), kind) in columns.iter().zip(&kinds) {
            batch.push((name.extract::<String>()?, array(&values, kind)?));
        }
        Table::new(batch.iter().map(|(name, column)| (name.as_str(), column.clone())).collect())
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

/// What `__reduce__` of a table returns.
type PickledTable<'py> = (Bound<'py, PyAny>, (Bound<'py, PyDict>, Vec<String>));

/// The name of a type of columns in a pickle.
fn kind(of: &DataType) -> &'static str {
    match of {
        DataType::UInt64 => "u64",
        DataType::Int64 => "i64",
        DataType::UInt32 => "u32",
        DataType::Int32 => "i32",
        DataType::Float64 => "f64",
        DataType::Boolean => "bool",
        _ => "word",
    }
}

/// The column of these values.
fn array(values: &Bound<'_, PyAny>, kind: &str) -> PyResult<ArrayRef> {
    Ok(match kind {
        "u64" => Arc::new(UInt64Array::from(values.extract::<Vec<Option<u64>>>()?)),
        "i64" => Arc::new(Int64Array::from(values.extract::<Vec<Option<i64>>>()?)),
        "u32" => Arc::new(UInt32Array::from(values.extract::<Vec<Option<u32>>>()?)),
        "i32" => Arc::new(Int32Array::from(values.extract::<Vec<Option<i32>>>()?)),
        "f64" => Arc::new(Float64Array::from(values.extract::<Vec<Option<f64>>>()?)),
        "bool" => Arc::new(BooleanArray::from(values.extract::<Vec<Option<bool>>>()?)),
        "word" => {
            let all: Vec<Option<String>> = values.extract()?;
            words(all.iter().map(Option::as_deref))
        }
        other => return Err(wrong_input(format!("pickle: expected a type of columns, found {other:?}"))),
    })
}

/// The values of a column.
fn values<'py>(py: Python<'py>, column: &ArrayRef) -> PyResult<Bound<'py, PyList>> {
    match column.data_type() {
        DataType::UInt64 => PyList::new(py, column.as_primitive::<UInt64Type>().iter().collect::<Vec<_>>()),
        DataType::Int64 => PyList::new(py, column.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()),
        DataType::UInt32 => PyList::new(py, column.as_primitive::<UInt32Type>().iter().collect::<Vec<_>>()),
        DataType::Int32 => PyList::new(py, column.as_primitive::<Int32Type>().iter().collect::<Vec<_>>()),
        DataType::Float64 => PyList::new(py, column.as_primitive::<Float64Type>().iter().collect::<Vec<_>>()),
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
