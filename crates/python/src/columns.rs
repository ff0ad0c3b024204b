//! The columns of a table of jobs: numbers, times of any unit, and words.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use pliant_model::{Job, LoggedMemory, Procs, Span, Time};
use pyo3::prelude::*;

use crate::errors::{wrong_input, wrong_input_with_hint};

/// The latest submission and the longest walltime, s.
pub(crate) const LONGEST_S: i64 = Time::MAX.0 / 4;

/// The columns of a batch of jobs.
pub(crate) struct Columns<'a> {
    submit: Column,
    procs: Column,
    runtime: Column,
    walltime: Option<Column>,
    job: Option<Column>,
    user: Option<Column>,
    group: Option<Column>,
    executable: Option<Column>,
    cluster: Option<Words<'a>>,
    /// The row of the table that the batch begins with.
    first: usize,
}

/// A column of numbers.
struct Column {
    name: &'static str,
    values: ArrayRef,
    /// How many of its units are a second; 1 if it has no times.
    units_per_s: i64,
}

/// What the numbers of a column are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Seconds, or instants of a clock.
    Instant,
    /// Seconds, or lengths of time.
    Length,
    Count,
}

impl<'a> Columns<'a> {
    /// The columns of a batch that begins with this row of the table.
    pub(crate) fn of(batch: &'a RecordBatch, first: usize) -> PyResult<Columns<'a>> {
        // A column of nulls alone has a type of its own.
        let present =
            |name: &str| batch.column_by_name(name).filter(|values| *values.data_type() != DataType::Null);
        let column =
            |name: &'static str, kind: Kind| present(name).map(|values| Column::of(name, kind, values));
        let needed = |name: &'static str, kind: Kind| {
            column(name, kind).ok_or_else(|| {
                let found: Vec<String> =
                    batch.schema().fields().iter().map(|field| field.name().clone()).collect();
                let problem = format!("expected the column {name}, found {}", found.join(", "));
                let hint = "submit, procs and runtime are needed; times are in seconds";
                wrong_input_with_hint(&problem, Some(hint))
            })
        };
        Ok(Columns {
            submit: needed("submit", Kind::Instant)?,
            procs: needed("procs", Kind::Count)?,
            runtime: needed("runtime", Kind::Length)?,
            walltime: column("walltime", Kind::Length),
            job: column("job", Kind::Count),
            user: column("user", Kind::Count),
            group: column("group", Kind::Count),
            executable: column("executable", Kind::Count),
            cluster: present("cluster").map(Words::of),
            first,
        })
    }

    /// The job of a row. Without a walltime it is the runtime; a null of an optional column is as if there were no such column.
    pub(crate) fn job(&self, row: usize) -> PyResult<Job> {
        self.read(row).map_err(|problem| wrong_input(format!("row {}: {problem}", self.first + row)))
    }

    /// The cluster of a row; none for a null.
    pub(crate) fn cluster(&self, row: usize) -> PyResult<Option<&'a str>> {
        let Some(words) = &self.cluster else { return Ok(None) };
        words.word(row).map_err(|found| {
            let problem =
                format!("row {}: cluster: expected the name of a cluster, found {found}", self.first + row);
            wrong_input_with_hint(&problem, Some("convert the column to texts"))
        })
    }

    /// The job of a row, or what is wrong with it.
    fn read(&self, row: usize) -> Result<Job, String> {
        let runtime = self.runtime.within(row, 1..=LONGEST_S)?;
        let optional = |column: &Option<Column>, bounds, absent: i64| {
            let given = column.as_ref().filter(|column| !column.values.is_null(row));
            given.map_or(Ok(absent), |column| column.within(row, bounds))
        };
        let walltime = optional(&self.walltime, 1..=LONGEST_S, runtime)?;
        let known = |column| optional(column, -1..=i32::MAX.into(), -1).map(|number| number as i32);
        if runtime > walltime {
            return Err(format!(
                "expected a runtime of at most the walltime, found {runtime} and {walltime}"
            ));
        }
        Ok(Job {
            log_id: optional(&self.job, 0..=i64::MAX, (self.first + row) as i64 + 1)? as u64,
            submit: Time(self.submit.within(row, -LONGEST_S..=LONGEST_S)?),
            procs: Procs(self.procs.within(row, 1..=u32::MAX.into())? as u32),
            walltime: Span(walltime),
            runtime: Span(runtime),
            user: known(&self.user)?,
            group: known(&self.group)?,
            executable: known(&self.executable)?,
            origin: None,
            memory: LoggedMemory::default(),
            resources: None,
        })
    }
}

impl Column {
    fn of(name: &'static str, kind: Kind, values: &ArrayRef) -> Column {
        let unit = match values.data_type() {
            DataType::Timestamp(unit, _) if kind == Kind::Instant => Some(unit),
            DataType::Duration(unit) if kind != Kind::Count => Some(unit),
            _ => None,
        };
        // Times are numbers of 64 bits.
        let numbers = |values: &ArrayRef| {
            let data = values.to_data().into_builder().data_type(DataType::Int64).build().ok()?;
            Some(Arc::new(Int64Array::from(data)) as ArrayRef)
        };
        match unit.and_then(|unit| Some((numbers(values)?, per_s(*unit)))) {
            Some((values, units_per_s)) => Column { name, values, units_per_s },
            None => Column { name, values: Arc::clone(values), units_per_s: 1 },
        }
    }

    /// The whole number of a row, within those bounds.
    fn within(&self, row: usize, bounds: std::ops::RangeInclusive<i64>) -> Result<i64, String> {
        let found = self.number(row);
        found.filter(|number| bounds.contains(number)).ok_or_else(|| {
            let (least, most) = bounds.into_inner();
            let (name, shown) = (self.name, self.shown(row));
            format!("{name}: expected a whole number from {least} to {most}, found {shown}")
        })
    }

    /// The whole number of a row; none for a null, a fraction, or another type.
    fn number(&self, row: usize) -> Option<i64> {
        let values = &self.values;
        if values.is_null(row) {
            return None;
        }
        let number = match values.data_type() {
            DataType::Float64 => {
                let number = values.as_primitive::<Float64Type>().value(row);
                (number.fract() == 0.0 && number.abs() < 2_f64.powi(53)).then_some(number as i64)?
            }
            _ => integer(values, row)?,
        };
        match self.units_per_s {
            1 => Some(number),
            units => (number % units == 0).then_some(number / units),
        }
    }

    fn shown(&self, row: usize) -> String {
        let values = &self.values;
        match values.data_type() {
            _ if values.is_null(row) => "none".to_owned(),
            _ if self.units_per_s > 1 => {
                let number = values.as_primitive::<Int64Type>().value(row);
                format!("{} s", number as f64 / self.units_per_s as f64)
            }
            DataType::Float64 => values.as_primitive::<Float64Type>().value(row).to_string(),
            other => self
                .number(row)
                .map_or_else(|| format!("a value of the type {other}"), |number| number.to_string()),
        }
    }
}

/// The number of a row of a column of integers; none for one above those of `i64`, and for another type.
fn integer(values: &dyn Array, row: usize) -> Option<i64> {
    Some(match values.data_type() {
        DataType::Int64 => values.as_primitive::<Int64Type>().value(row),
        DataType::Int32 => values.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int16 => values.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int8 => values.as_primitive::<Int8Type>().value(row).into(),
        DataType::UInt64 => values.as_primitive::<UInt64Type>().value(row).try_into().ok()?,
        DataType::UInt32 => values.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt16 => values.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt8 => values.as_primitive::<UInt8Type>().value(row).into(),
        _ => return None,
    })
}

/// How many of these units are a second.
fn per_s(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// A column of texts.
struct Words<'a> {
    values: &'a ArrayRef,
    /// Of a dictionary, the position of the text of each row, and the texts.
    dictionary: Option<(&'a dyn Array, &'a ArrayRef)>,
}

impl<'a> Words<'a> {
    fn of(values: &'a ArrayRef) -> Words<'a> {
        let is_dictionary = matches!(values.data_type(), DataType::Dictionary(..));
        let dictionary = is_dictionary.then(|| {
            let dictionary = values.as_any_dictionary();
            (dictionary.keys(), dictionary.values())
        });
        Words { values, dictionary }
    }

    /// The text of a row; none for a null. The error is what was found instead.
    fn word(&self, row: usize) -> Result<Option<&'a str>, String> {
        if self.values.is_null(row) {
            return Ok(None);
        }
        let Some((keys, texts)) = self.dictionary else { return text(self.values, row) };
        // Keys from other libraries are not checked.
        let key = integer(keys, row);
        match key.and_then(|key| usize::try_from(key).ok()).filter(|key| *key < texts.len()) {
            Some(key) => text(texts, key),
            None => {
                let key = key.map_or_else(|| "beyond 2^63".to_owned(), |key| key.to_string());
                Err(format!("the key {key} of a dictionary with {} values", texts.len()))
            }
        }
    }
}

/// The text at a position of a column without a dictionary; none for a null.
fn text(column: &ArrayRef, row: usize) -> Result<Option<&str>, String> {
    if column.is_null(row) {
        return Ok(None);
    }
    Ok(Some(match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row),
        DataType::Utf8View => column.as_string_view().value(row),
        // The values of a dictionary may be nulls alone.
        DataType::Null => return Ok(None),
        other => return Err(format!("a value of the type {other}")),
    }))
}
