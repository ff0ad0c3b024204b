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
    pub(crate) cluster: Option<Words<'a>>,
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
    pub(crate) fn of(batch: &'a RecordBatch) -> PyResult<Columns<'a>> {
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
        })
    }

    /// The job of a row. Without a walltime it is the runtime; a null of an optional column is as if there were no such column.
    pub(crate) fn job(&self, row: usize, number: u64) -> PyResult<Job> {
        let runtime = self.runtime.within(row, 1..=LONGEST_S)?;
        let optional = |column: &Option<Column>, bounds, absent: i64| {
            let given = column.as_ref().filter(|column| !column.values.is_null(row));
            given.map_or(Ok(absent), |column| column.within(row, bounds))
        };
        let walltime = optional(&self.walltime, 1..=LONGEST_S, runtime)?;
        let known = |column| optional(column, -1..=i32::MAX.into(), -1).map(|number| number as i32);
        if runtime > walltime {
            return Err(wrong_input(format!(
                "row {row}: expected a runtime of at most the walltime, found {runtime} and {walltime}"
            )));
        }
        Ok(Job {
            log_id: optional(&self.job, 0..=i64::MAX, number as i64)? as u64,
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
    fn within(&self, row: usize, bounds: std::ops::RangeInclusive<i64>) -> PyResult<i64> {
        let found = self.number(row);
        found.filter(|number| bounds.contains(number)).ok_or_else(|| {
            let (least, most) = bounds.into_inner();
            let shown = self.shown(row);
            wrong_input(format!(
                "row {row}: {}: expected a whole number from {least} to {most}, found {shown}",
                self.name
            ))
        })
    }

    /// The whole number of a row; none for a null, a fraction, or another type.
    fn number(&self, row: usize) -> Option<i64> {
        let values = &self.values;
        if values.is_null(row) {
            return None;
        }
        let number = match values.data_type() {
            DataType::Int64 => values.as_primitive::<Int64Type>().value(row),
            DataType::Int32 => values.as_primitive::<Int32Type>().value(row).into(),
            DataType::Int16 => values.as_primitive::<Int16Type>().value(row).into(),
            DataType::Int8 => values.as_primitive::<Int8Type>().value(row).into(),
            DataType::UInt64 => values.as_primitive::<UInt64Type>().value(row).try_into().ok()?,
            DataType::UInt32 => values.as_primitive::<UInt32Type>().value(row).into(),
            DataType::UInt16 => values.as_primitive::<UInt16Type>().value(row).into(),
            DataType::UInt8 => values.as_primitive::<UInt8Type>().value(row).into(),
            DataType::Float64 => {
                let number = values.as_primitive::<Float64Type>().value(row);
                (number.fract() == 0.0 && number.abs() < 2_f64.powi(53)).then_some(number as i64)?
            }
            _ => return None,
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
pub(crate) struct Words<'a> {
    values: &'a ArrayRef,
    /// Of a dictionary, the position of the text of each row, and the texts.
    dictionary: Option<(Vec<usize>, &'a ArrayRef)>,
}

impl<'a> Words<'a> {
    fn of(values: &'a ArrayRef) -> Words<'a> {
        let is_dictionary = matches!(values.data_type(), DataType::Dictionary(..));
        let dictionary = is_dictionary.then(|| {
            let dictionary = values.as_any_dictionary();
            (dictionary.normalized_keys(), dictionary.values())
        });
        Words { values, dictionary: dictionary.filter(|(_, texts)| !texts.is_empty()) }
    }

    /// The text of a row; none for a null or another type.
    pub(crate) fn word(&self, row: usize) -> Option<&'a str> {
        if self.values.is_null(row) {
            return None;
        }
        match &self.dictionary {
            Some((keys, texts)) => text(texts, keys[row]),
            None => text(self.values, row),
        }
    }
}

/// The text at a position of a column without a dictionary; none for a null or another type.
fn text(column: &ArrayRef, row: usize) -> Option<&str> {
    if column.is_null(row) {
        return None;
    }
    Some(match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row),
        DataType::Utf8View => column.as_string_view().value(row),
        _ => return None,
    })
}
