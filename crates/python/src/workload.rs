//! Workloads: read from logs, generated, or made of a table.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use pliant_model::{Job, Time};
use pliant_sim::campaign::{Generator, Recipe, month};
use pliant_trace::{LoadOptions, RepairOptions, RepairPolicy, RepairReport};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::arguments::Argument;
use crate::arrow_stream;
use crate::column_names;
use crate::columns::{Columns, LONGEST_S};
use crate::errors::{of_trace, wrong_input, wrong_input_with_hint};
use crate::pickle::{Pickled, pickled, restored};
use crate::platform::Platform;
use crate::table::{Table, in_python, once, words};

/// Jobs to be simulated, in the order of their submissions.
#[pyclass(frozen, module = "pliant", name = "Workload")]
pub(crate) struct Workload {
    pub(crate) inner: pliant_trace::Workload,
    /// The name of its file, if it was read.
    pub(crate) file: Option<String>,
    /// The clusters of its own platform, whose names the origins of jobs are.
    origins: Vec<String>,
    /// The table of its jobs, made when it is first asked for.
    table: PyOnceLock<Py<Table>>,
}

#[pymethods]
impl Workload {
    /// The jobs as a table.
    #[getter]
    fn jobs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Table>> {
        once(py, &self.table, || self.table_of_jobs())
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

    /// A workload of a table with the columns submit, procs and runtime; of walltime, job, user, group, executable and cluster those that
    /// it has. Other columns are ignored.
    #[staticmethod]
    fn of_table(py: Python<'_>, table: &Bound<'_, PyAny>) -> PyResult<Workload> {
        let stream = arrow_stream::import(table)?;
        py.detach(|| of_batches(&stream.batches()?))
    }

    /// The workload for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        let this = slf.get();
        pickled(slf, &(&this.inner, &this.file, &this.origins))
    }

    /// The workload of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Workload> {
        let (inner, file, origins): (pliant_trace::Workload, _, _) = restored(text)?;
        check(&inner)?;
        Ok(Workload::new(inner, file, origins))
    }

    fn __len__(&self) -> usize {
        self.inner.jobs.len()
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "workload_html")
    }

    fn __repr__(&self) -> String {
        format!("Workload({}: {} jobs)", self.inner.name, self.inner.jobs.len())
    }
}

impl Workload {
    fn new(inner: pliant_trace::Workload, file: Option<String>, origins: Vec<String>) -> Workload {
        Workload { inner, file, origins, table: PyOnceLock::new() }
    }

    /// The jobs as a table.
    fn table_of_jobs(&self) -> PyResult<Table> {
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
    Ok(Workload::new(inner, file, Vec::new()))
}

/// Generates a workload for a platform.
#[pyfunction]
#[pyo3(signature = (kind, platform, given))]
pub(crate) fn generate(
    py: Python<'_>,
    kind: &str,
    platform: Option<&Bound<'_, Platform>>,
    given: &Bound<'_, PyDict>,
) -> PyResult<Workload> {
    let (mut seed, mut month, mut jobs, mut days, mut load, mut walltime_max) =
        (1, None, None, None, None, None);
    for (name, value) in given {
        if value.is_none() {
            continue;
        }
        let name: String = name.extract()?;
        let argument = Argument { name: &name, value: &value };
        match name.as_str() {
            "seed" => seed = argument.whole(0..=u64::MAX)?,
            "month" => month = Some(argument.text()?),
            "jobs" => jobs = Some(argument.whole(1..=u32::MAX)?),
            "days" => days = Some(argument.number()?),
            "load" => load = Some(argument.number()?),
            "walltime_max" => walltime_max = Some(argument.seconds(1..=i64::MAX)?),
            _ => return Err(wrong_input(format!("expected an option of a generator, found {name:?}"))),
        }
    }
    let generator: Generator = kind.parse().map_err(wrong_input)?;
    let month = month.as_deref().map(self::month).transpose().map_err(wrong_input)?;
    let recipe = Recipe { generator, month, jobs, days, load, walltime_max_s: walltime_max };
    recipe
        .check()
        .map_err(|error| wrong_input(error.to_string().replace("walltime_max_s", "walltime_max")))?;
    let usual = match (platform, generator.platform()) {
        (Some(_), _) => None,
        (None, Some(name)) => Some(Platform::built_in(name)?),
        (None, None) => Some(Platform::of_procs(GENERATED_PROCS)?),
    };
    let platform = match &usual {
        Some(usual) => &usual.inner,
        None => &platform.map(Bound::get).expect("a platform").inner,
    };
    let inner = py.detach(|| recipe.generate(platform, seed));
    let origins = platform.clusters().iter().map(|cluster| cluster.name.clone()).collect();
    Ok(Workload::new(inner, None, origins))
}

/// The processors of the machine that jobs are generated for, if no platform is given (paper 001).
const GENERATED_PROCS: u32 = 128;

/// The workload of a table in batches of rows.
fn of_batches(batches: &[RecordBatch]) -> PyResult<Workload> {
    let mut jobs = Vec::new();
    let mut origins = Origins::default();
    let mut partitions = Vec::new();
    // All batches of a stream have the same columns.
    batches.first().map_or(Ok(()), |batch| column_names::check(&batch.schema()))?;
    for batch in batches {
        let columns = Columns::of(batch, jobs.len())?;
        for row in 0..batch.num_rows() {
            jobs.push(columns.job(row)?);
            partitions.push(origins.number(columns.cluster(row)?));
        }
    }
    if jobs.is_empty() {
        return Err(wrong_input("expected a table with jobs, found no row in it"));
    }
    check_numbers(&jobs)?;
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
        partition_names: origins.numbers.into_iter().map(|(name, number)| (number, name)).collect(),
        max_procs: None,
        unix_start: None,
        report: RepairReport { read, kept: read, ..RepairReport::default() },
    };
    Ok(Workload::new(inner, None, Vec::new()))
}

/// Refuses a number that two jobs have. The jobs are in the order of their rows.
fn check_numbers(jobs: &[Job]) -> PyResult<()> {
    if jobs.is_sorted_by(|job, next| job.log_id < next.log_id) {
        return Ok(());
    }
    let mut rows: Vec<usize> = (0..jobs.len()).collect();
    rows.sort_by_key(|row| jobs[*row].log_id);
    let same = rows.windows(2).filter(|pair| jobs[pair[0]].log_id == jobs[pair[1]].log_id);
    let Some(&[before, row]) = same.min_by_key(|pair| pair[1]) else { return Ok(()) };
    let number = jobs[row].log_id;
    let problem = format!(
        "row {row}: job: expected a number that no other row has, found {number}, which row {before} has"
    );
    let hint = "without the column job, or with null in it, the number of a job is the position of its row, from 1 on";
    Err(wrong_input_with_hint(&problem, Some(hint)))
}

/// Checks a workload of `pickle` as a table is checked.
fn check(workload: &pliant_trace::Workload) -> PyResult<()> {
    let jobs = &workload.jobs;
    if jobs.len() != workload.partitions.len() {
        let (jobs, partitions) = (jobs.len(), workload.partitions.len());
        return Err(wrong_input(format!(
            "pickle: expected {jobs} partitions, one for each job, found {partitions}"
        )));
    }
    let wrong = |at: usize, problem: String| Err(wrong_input(format!("pickle: row {at}: {problem}")));
    let mut last = Time(-LONGEST_S);
    for (at, job) in jobs.iter().enumerate() {
        let Job { log_id, submit, procs, walltime, runtime, .. } = job;
        if *submit < last || submit.0 > LONGEST_S {
            return wrong(at, format!("expected a submission from {last} to {LONGEST_S}, found {submit}"));
        }
        if procs.0 == 0 || i64::try_from(*log_id).is_err() {
            return wrong(
                at,
                format!(
                    "expected a job number below 2^63 and at least 1 processor, found {log_id} and {procs}"
                ),
            );
        }
        if runtime.0 < 1 || runtime > walltime || walltime.0 > LONGEST_S {
            return wrong(
                at,
                format!("expected 1 <= runtime <= walltime <= {LONGEST_S}, found {runtime} and {walltime}"),
            );
        }
        last = *submit;
    }
    Ok(())
}

/// The numbers of clusters, from 1 on, by their names.
#[derive(Default)]
struct Origins {
    numbers: BTreeMap<String, i32>,
}

impl Origins {
    /// The number of a cluster; -1 if there is no name.
    fn number(&mut self, name: Option<&str>) -> i32 {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return -1 };
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.numbers.len() as i32 + 1;
        self.numbers.insert(name.to_owned(), number);
        number
    }
}
