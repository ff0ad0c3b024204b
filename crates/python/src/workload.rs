//! Workloads: read from logs, generated, or made of a table.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::DataType;
use pliant_model::{Job, LoggedMemory, Procs, Span, Time};
use pliant_sim::campaign::{Generator, Recipe, month};
use pliant_trace::{LoadOptions, RepairOptions, RepairPolicy, RepairReport};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::arrow_stream;
use crate::errors::{of_trace, wrong_input, wrong_input_with_hint};
use crate::platform::Platform;
use crate::table::{Table, words};

/// Jobs to be simulated, in the order of their submissions.
#[pyclass(frozen, module = "pliant", name = "Workload")]
pub(crate) struct Workload {
    pub(crate) inner: pliant_trace::Workload,
    /// The name of its file, if it was read.
    pub(crate) file: Option<String>,
    /// The clusters of its own platform, whose names the origins of jobs are.
    origins: Vec<String>,
}

#[pymethods]
impl Workload {
    /// The jobs as a table.
    #[getter]
    fn jobs(&self) -> PyResult<Table> {
        let jobs = &self.inner.jobs;
        let origin = |job: &Job| job.origin.and_then(|origin| self.origins.get(origin.index()));
        let named = |(job, partition): (&'_ Job, &i32)| {
            let partition = self.inner.partition_names.get(partition).map(String::as_str);
            origin(job).map(|name| name.as_str().to_owned()).or_else(|| partition.map(str::to_owned))
        };
        let origins: Vec<Option<String>> = jobs.iter().zip(&self.inner.partitions).map(named).collect();
        Table::new(vec![
            ("job", Arc::new(UInt64Array::from_iter_values(jobs.iter().map(|job| job.log_id))) as ArrayRef),
            ("submit", seconds(jobs.iter().map(|job| job.submit.0))),
            ("procs", Arc::new(UInt32Array::from_iter_values(jobs.iter().map(|job| job.procs.0)))),
            ("walltime", seconds(jobs.iter().map(|job| job.walltime.0))),
            ("runtime", seconds(jobs.iter().map(|job| job.runtime.0))),
            ("user", numbers(jobs.iter().map(|job| job.user))),
            ("group", numbers(jobs.iter().map(|job| job.group))),
            ("executable", numbers(jobs.iter().map(|job| job.executable))),
            ("cluster", words(origins.iter().map(|name| Some(name.as_deref().unwrap_or(""))))),
        ])
    }

    /// How many jobs were dropped or repaired, by the reasons of docs/reference/files/repairs.md.
    #[getter]
    fn repairs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let repairs = PyDict::new(py);
        for (word, count) in self.inner.report.by_word() {
            repairs.set_item(word, count)?;
        }
        Ok(repairs)
    }

    /// What it was read or generated from.
    #[getter]
    fn name(&self) -> &str {
        &self.inner.name
    }

    /// The processors of the machine that the log is of, if it says.
    #[getter]
    fn max_procs(&self) -> Option<i64> {
        self.inner.max_procs
    }

    /// Writes the workload to a file: .swf, .swf.gz, .gwf or .gwf.gz.
    fn write(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.inner.write(&path)).map_err(|error| of_trace(&error))
    }

    fn __len__(&self) -> usize {
        self.inner.jobs.len()
    }

    fn __repr__(&self) -> String {
        format!("Workload({}: {} jobs)", self.inner.name, self.inner.jobs.len())
    }
}

fn seconds(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn numbers(values: impl Iterator<Item = i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

/// Reads a workload in any format.
#[pyfunction]
#[pyo3(signature = (path, *, repair = "clean", strict = false, log_dirs = Vec::new()))]
pub(crate) fn read_workload(
    py: Python<'_>,
    path: PathBuf,
    repair: &str,
    strict: bool,
    log_dirs: Vec<PathBuf>,
) -> PyResult<Workload> {
    let policy: RepairPolicy = repair.parse().map_err(wrong_input)?;
    let options = LoadOptions { repair: RepairOptions { policy, strict }, log_dirs };
    let inner = py.detach(|| pliant_trace::load(&path, &options)).map_err(|error| of_trace(&error))?;
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(Workload { inner, file, origins: Vec::new() })
}

/// Generates a workload for a platform.
#[pyfunction]
#[pyo3(signature = (kind, platform, *, seed = 1, month = None, jobs = None, days = None, load = None, walltime_max = None))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn generate(
    py: Python<'_>,
    kind: &str,
    platform: Option<&Bound<'_, Platform>>,
    seed: u64,
    month: Option<&str>,
    jobs: Option<u32>,
    days: Option<f64>,
    load: Option<f64>,
    walltime_max: Option<i64>,
) -> PyResult<Workload> {
    let generator: Generator = kind.parse().map_err(wrong_input)?;
    let month = month.map(self::month).transpose().map_err(wrong_input)?;
    let recipe = Recipe { generator, month, jobs, days, load, walltime_max_s: walltime_max };
    recipe
        .check()
        .map_err(|error| wrong_input(error.to_string().replace("walltime_max_s", "walltime_max")))?;
    let usual = match (platform, generator.platform()) {
        (Some(_), _) => None,
        (None, Some(name)) => Some(Platform::built_in(name)?),
        (None, None) => Some(Platform::single(GENERATED_PROCS)?),
    };
    let platform = match &usual {
        Some(usual) => &usual.inner,
        None => &platform.map(Bound::get).expect("a platform").inner,
    };
    let inner = py.detach(|| recipe.generate(platform, seed));
    let origins = platform.clusters().iter().map(|cluster| cluster.name.clone()).collect();
    Ok(Workload { inner, file: None, origins })
}

/// The processors of the machine that jobs are generated for, if no platform is given (paper 001).
const GENERATED_PROCS: u32 = 128;

/// A workload of a table with the columns submit, procs and runtime; of walltime, job, user, group, executable and cluster
/// those that it has.
#[pyfunction]
pub(crate) fn workload_of_table(table: &Bound<'_, PyAny>) -> PyResult<Workload> {
    let batches = arrow_stream::import(table)?;
    let mut jobs = Vec::new();
    let mut origins: Vec<String> = Vec::new();
    let mut partitions = Vec::new();
    for batch in &batches {
        let columns = Columns::of(batch)?;
        for row in 0..batch.num_rows() {
            let number = jobs.len() as u64 + 1;
            jobs.push(columns.job(row, number)?);
            partitions.push(columns.partition(row, &mut origins));
        }
    }
    if jobs.is_empty() {
        return Err(wrong_input("expected a table with jobs, found no row in it"));
    }
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|row| jobs[*row].submit);
    let first = jobs[order[0]].submit;
    let sorted = order.iter().map(|row| {
        let job = jobs[*row].clone();
        Job { submit: Time((job.submit - first).0), ..job }
    });
    let read = jobs.len() as u64;
    let inner = pliant_trace::Workload {
        name: "table".to_owned(),
        jobs: sorted.collect(),
        partitions: order.iter().map(|row| partitions[*row]).collect(),
        partition_names: (1..).zip(origins).collect(),
        max_procs: None,
        unix_start: None,
        report: RepairReport { read, kept: read, ..RepairReport::default() },
    };
    Ok(Workload { inner, file: None, origins: Vec::new() })
}

/// The columns of a batch of jobs.
struct Columns<'a> {
    submit: Column<'a>,
    procs: Column<'a>,
    runtime: Column<'a>,
    walltime: Option<Column<'a>>,
    job: Option<Column<'a>>,
    user: Option<Column<'a>>,
    group: Option<Column<'a>>,
    executable: Option<Column<'a>>,
    cluster: Option<&'a ArrayRef>,
}

/// A column of numbers.
struct Column<'a> {
    name: &'static str,
    values: &'a ArrayRef,
}

impl<'a> Columns<'a> {
    fn of(batch: &'a RecordBatch) -> PyResult<Columns<'a>> {
        let column = |name: &'static str| batch.column_by_name(name).map(|values| Column { name, values });
        let needed = |name: &'static str| {
            column(name).ok_or_else(|| {
                let found: Vec<String> =
                    batch.schema().fields().iter().map(|field| field.name().clone()).collect();
                let problem = format!("expected the column {name}, found {}", found.join(", "));
                let hint = "submit, procs and runtime are needed; times are in seconds";
                wrong_input_with_hint(&problem, Some(hint))
            })
        };
        Ok(Columns {
            submit: needed("submit")?,
            procs: needed("procs")?,
            runtime: needed("runtime")?,
            walltime: column("walltime"),
            job: column("job"),
            user: column("user"),
            group: column("group"),
            executable: column("executable"),
            cluster: batch.column_by_name("cluster"),
        })
    }

    /// The job of a row. Without a walltime it is the runtime.
    fn job(&self, row: usize, number: u64) -> PyResult<Job> {
        const LONGEST_S: i64 = Time::MAX.0 / 4;
        let runtime = self.runtime.within(row, 1..=LONGEST_S)?;
        let walltime =
            self.walltime.as_ref().map_or(Ok(runtime), |column| column.within(row, 1..=LONGEST_S))?;
        let known = |column: &Option<Column<'_>>| {
            let number =
                |column: &Column<'_>| column.within(row, -1..=i32::MAX.into()).map(|number| number as i32);
            column.as_ref().map_or(Ok(-1), number)
        };
        if runtime > walltime {
            return Err(wrong_input(format!(
                "row {row}: expected a runtime of at most the walltime, found {runtime} and {walltime}"
            )));
        }
        Ok(Job {
            log_id: self.job.as_ref().map_or(Ok(number as i64), |column| column.within(row, 0..=i64::MAX))?
                as u64,
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

    /// The number of the cluster of a row, from 1 on; -1 if the table names none.
    fn partition(&self, row: usize, names: &mut Vec<String>) -> i32 {
        let Some(name) = self.cluster.and_then(|column| word(column, row)).filter(|name| !name.is_empty())
        else {
            return -1;
        };
        let position = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        position as i32 + 1
    }
}

impl Column<'_> {
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
        let values = self.values;
        if values.is_null(row) {
            return None;
        }
        Some(match values.data_type() {
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
        })
    }

    fn shown(&self, row: usize) -> String {
        let values = self.values;
        match values.data_type() {
            _ if values.is_null(row) => "none".to_owned(),
            DataType::Float64 => values.as_primitive::<Float64Type>().value(row).to_string(),
            other => self
                .number(row)
                .map_or_else(|| format!("a value of the type {other}"), |number| number.to_string()),
        }
    }
}

/// The text of a row; none for a null or another type.
fn word(column: &ArrayRef, row: usize) -> Option<String> {
    if column.is_null(row) {
        return None;
    }
    Some(match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).to_owned(),
        DataType::Utf8View => column.as_string_view().value(row).to_owned(),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            return word(dictionary.values(), dictionary.normalized_keys()[row]);
        }
        _ => return None,
    })
}
