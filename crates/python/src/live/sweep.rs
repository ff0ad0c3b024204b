//! Sweeps and explorations in a folder: run to their end, or resumed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use parking_lot::Mutex;
use pliant_client::{
    Client, ExplorationFolder, ExplorationStatus, ExplorationUpdate, Explorer, InstanceRecord, SweepFolder,
    SweepResults, SweepStatus, Sweeper,
};
use pliant_request::explore::ExploreOptions;
use pliant_request::sweep::SweepOptions;
use pliant_request::{words, work_folders};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::slice::PySliceIndices;
use pyo3::types::{PySlice, PySliceMethods};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::client::object;
use super::errors::{of_folder, of_request, of_results, of_work};
use super::reporting::{EndWatch, Reporter};
use super::task::{Task, internal, runtime};
use crate::errors::wrong_input;
use crate::pickle::{Pickled, pickled, restored};

/// How long a sweep that is resumed waits for a server that takes instances.
const RESUME_TIMEOUT: Duration = Duration::from_secs(60);

/// The options of a sweep, with the one without which they would need a service.
#[derive(Args)]
struct SweepLine {
    #[command(flatten)]
    sweep: SweepOptions,
    #[arg(long, hide = true)]
    resume: Option<PathBuf>,
}

/// The outcome of a sweep.
#[pyclass(frozen, module = "pliant", name = "SweepResult")]
pub(crate) struct SweepResult {
    counts: SweepCounts,
    rows: Mutex<SweepResults>,
}

/// The outcomes of the instances of a sweep, and its folder.
#[derive(Clone, Serialize, Deserialize)]
struct SweepCounts {
    dir: PathBuf,
    names: Vec<String>,
    instances: u32,
    completed: u32,
    failed: u32,
    cancelled: u32,
    retried: u32,
    jobs: u32,
    interrupted: bool,
}

/// One run of a sweep.
#[pyclass(frozen, get_all, eq, module = "pliant", name = "Instance")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Instance {
    number: u32,
    values: Vec<(String, String)>,
    state: String,
    code: Option<i32>,
    how: String,
    tries: u8,
    server: Option<String>,
    job: Option<String>,
    elapsed: Option<f64>,
    output: String,
    error: String,
}

/// The instances of a sweep, one after the other.
#[pyclass(module = "pliant._pliant", name = "Instances")]
pub(crate) struct Instances {
    of: Py<SweepResult>,
    next: u32,
}

/// The outcome of an exploration.
#[pyclass(frozen, get_all, eq, module = "pliant", name = "ExplorationResult")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExplorationResult {
    mandatory: u32,
    optional: u32,
    failed: u32,
    late: Option<f64>,
    settled: bool,
    interrupted: bool,
    dir: PathBuf,
}

/// Functions of the user, or of the package, that a sweep calls.
pub(super) struct SweepCalls {
    /// Called with the numbers of instances that have ended and of all.
    pub(super) progress: Option<Py<PyAny>>,
    /// Called with the instances that have ended since its last call. Such a sweep belongs to its caller: it is not listed among the
    /// user's sweeps, has no tables, and is cancelled if it is stopped.
    pub(super) ended: Option<Py<PyAny>>,
}

/// Runs the sweep of these words in a folder, or resumes the one in it: without words, whatever it is.
pub(super) fn sweep(
    client: Client,
    py: Python<'_>,
    words: Option<Vec<String>>,
    out: PathBuf,
    calls: SweepCalls,
) -> PyResult<Task> {
    let spec = words.map(|words| {
        let line: SweepLine = words::parsed("pliant sweep", words)?;
        line.sweep.spec(&mut |_| {})
    });
    let spec = py.detach(|| spec.transpose()).map_err(|error| of_request(&error))?;
    let run = move |stop: Arc<Notify>| async move {
        let folder = if spec.is_some() { SweepFolder::open(&out) } else { SweepFolder::existing(&out) };
        let folder = folder.map_err(|error| of_folder(&error))?;
        let sweeper = match &spec {
            Some(spec) => Sweeper::new(&client, spec, folder),
            None => Sweeper::resume(&client, folder, RESUME_TIMEOUT),
        };
        let sweeper = sweeper.map_err(|error| of_folder(&error))?;
        if calls.ended.is_none() {
            // It runs all the same without `pliant web`.
            let _ = work_folders::register(&out);
        }
        swept(client, (sweeper, out), stop, calls).await
    };
    Task::start_stoppable(|stop| on_a_thread(run, stop), object)
}

/// Runs the exploration of these words in a folder, or resumes the one in it.
pub(super) fn explore(
    client: Client,
    py: Python<'_>,
    words: Vec<String>,
    out: PathBuf,
    progress: Option<Py<PyAny>>,
) -> PyResult<Task> {
    let options = py.detach(|| {
        let options: ExploreOptions = words::parsed("pliant explore", words)?;
        options.spec(&mut |_| {})
    });
    let spec = options.map_err(|error| of_request(&error))?;
    let run = move |stop: Arc<Notify>| async move {
        let folder = ExplorationFolder::open(&out).map_err(|error| of_folder(&error))?;
        let explorer = Explorer::new(&client, &spec, Some(folder)).map_err(|error| of_work(&error))?;
        let _ = work_folders::register(&out);
        let most = explorer.plan().most;
        let mut reporter = Reporter::new(progress, stop.clone());
        let report = |update: ExplorationUpdate<'_>| {
            if let ExplorationUpdate::Progress(ExplorationStatus { progress, .. }) = update {
                reporter.report((progress.mandatory + progress.optional, most));
            }
        };
        let status = explorer.run(stop.notified(), report).await.map_err(|error| of_work(&error))?;
        reporter.into_failure().map_or(Ok(()), Err)?;
        let ExplorationStatus { progress, late, settled, interrupted, .. } = status;
        Ok(ExplorationResult {
            mandatory: progress.mandatory,
            optional: progress.optional,
            failed: progress.failed,
            late: late.map(|late| late.0 as f64 / 1e3),
            settled,
            interrupted,
            dir: out,
        })
    };
    Task::start_stoppable(|stop| on_a_thread(run, stop), object)
}

/// Runs a call that reads and writes files on a thread of its own.
async fn on_a_thread<T, F>(
    run: impl FnOnce(Arc<Notify>) -> F + Send + 'static,
    stop: Arc<Notify>,
) -> PyResult<T>
where
    T: Send + 'static,
    F: Future<Output = PyResult<T>>,
{
    let runtime = runtime()?.handle().clone();
    tokio::task::spawn_blocking(move || runtime.block_on(run(stop))).await.map_err(|_| internal())?
}

/// Runs a sweep until it is over or stopped, and writes its tables.
async fn swept(
    client: Client,
    (mut sweeper, dir): (Sweeper, PathBuf),
    stop: Arc<Notify>,
    calls: SweepCalls,
) -> PyResult<SweepResult> {
    let is_owned = calls.ended.is_some();
    let mut reporter = Reporter::new(calls.progress, stop.clone());
    let mut watch = EndWatch::new(calls.ended, sweeper.plan().instances, dir, stop.clone());
    let report = |status: &SweepStatus| {
        let ended = status.progress.done + status.progress.failed + status.progress.cancelled;
        reporter.report((ended, status.instances));
        watch.look_again();
    };
    let mut ran = sweeper.run(stop.notified(), report).await;
    if ran.is_err() && !sweeper.has_begun() {
        return Err(ran
            .err()
            .map_or_else(|| wrong_input("the sweep has not begun"), |error| of_work(&error)));
    }
    let mut folder = sweeper.into_folder();
    if is_owned && ran.as_ref().is_ok_and(|status| status.interrupted) {
        let mut again =
            Sweeper::resume(&client, folder, RESUME_TIMEOUT).map_err(|error| of_folder(&error))?;
        again.cancel().map_err(|error| of_folder(&error))?;
        ran = again.run(std::future::pending(), |_| ()).await;
        folder = again.into_folder();
    }
    watch.look();
    let mut rows = SweepResults::of(folder).map_err(|error| of_folder(&error))?;
    let written = if is_owned { Ok(()) } else { work_folders::write_results(&mut rows, 0).map(drop) };
    // Why the sweep ended early matters more than a table.
    let status = ran.map_err(|error| of_work(&error))?;
    reporter.into_failure().or(watch.into_failure()).map_or(Ok(()), Err)?;
    written.map_err(|error| of_results(&error))?;
    let counts = SweepCounts {
        dir: rows.dir().to_owned(),
        names: rows.names(),
        instances: status.instances,
        completed: status.progress.done,
        failed: status.progress.failed,
        cancelled: status.progress.cancelled,
        retried: status.progress.retried,
        jobs: status.progress.batches,
        interrupted: status.interrupted,
    };
    Ok(SweepResult { counts, rows: Mutex::new(rows.released()) })
}

impl SweepResult {
    /// The instance of that number; a negative one counts from the end.
    fn instance(&self, py: Python<'_>, number: isize) -> PyResult<Instance> {
        let all = self.counts.instances;
        let at = if number < 0 { number + all as isize } else { number };
        let found = u32::try_from(at).ok().filter(|number| *number < all);
        let number = found.ok_or_else(|| {
            PyIndexError::new_err(format!("expected an instance below {all}, found {number}"))
        })?;
        let row = py.detach(|| self.rows.lock().row(number)).map_err(|error| of_folder(&error))?;
        Ok(Instance::of(row, &self.counts.names))
    }
}

#[pymethods]
impl SweepResult {
    /// The outcome for `pickle`, without its instances: these are read from its folder.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf, &slf.get().counts)
    }

    /// The outcome of `pickle`, with the instances in its folder.
    #[staticmethod]
    fn _restored(py: Python<'_>, text: &str) -> PyResult<Self> {
        let counts: SweepCounts = restored(text)?;
        let rows = py.detach(|| SweepResults::read_only(&counts.dir)).map_err(|error| of_folder(&error))?;
        if (rows.len(), rows.names()) != (counts.instances, counts.names.clone()) {
            let (expected, dir) = (counts.instances, counts.dir.display());
            return Err(wrong_input(format!(
                "pickle: {dir}: expected a sweep of {expected} instances, found another one"
            )));
        }
        Ok(SweepResult { counts, rows: Mutex::new(rows) })
    }

    /// The folder with its tables and its progress.
    #[getter]
    fn dir(&self) -> PathBuf {
        self.counts.dir.clone()
    }

    /// Instances that ended well.
    #[getter]
    fn completed(&self) -> u32 {
        self.counts.completed
    }

    /// Instances that failed in their last run.
    #[getter]
    fn failed(&self) -> u32 {
        self.counts.failed
    }

    /// Instances that were cancelled.
    #[getter]
    fn cancelled(&self) -> u32 {
        self.counts.cancelled
    }

    /// Runs that were repeated.
    #[getter]
    fn retried(&self) -> u32 {
        self.counts.retried
    }

    /// The jobs that it was submitted in.
    #[getter]
    fn jobs(&self) -> u32 {
        self.counts.jobs
    }

    /// True if it was stopped before its end: submitted jobs continue, and the same call resumes it.
    #[getter]
    fn interrupted(&self) -> bool {
        self.counts.interrupted
    }

    fn __len__(&self) -> usize {
        self.counts.instances as usize
    }

    /// An instance, or for a slice a list of instances.
    fn __getitem__<'py>(&self, py: Python<'py>, number: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let Ok(slice) = number.cast::<PySlice>() else {
            return Ok(self.instance(py, number.extract()?)?.into_pyobject(py)?.into_any());
        };
        let PySliceIndices { start, step, slicelength, .. } =
            slice.indices(self.counts.instances as isize)?;
        let numbers = (0..slicelength as isize).map(|index| start + index * step);
        let instances: Vec<Instance> =
            numbers.map(|number| self.instance(py, number)).collect::<PyResult<_>>()?;
        Ok(instances.into_pyobject(py)?.into_any())
    }

    fn __iter__(slf: Py<Self>) -> Instances {
        Instances { of: slf, next: 0 }
    }

    fn __repr__(&self) -> String {
        let SweepCounts { completed, instances, failed, .. } = &self.counts;
        format!("SweepResult({completed} of {instances} completed, {failed} failed)")
    }
}

impl Instance {
    pub(super) fn of(row: InstanceRecord, names: &[String]) -> Instance {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Instance {
            number: row.instance,
            values: names.iter().cloned().zip(row.values).collect(),
            state: row.state.word().to_owned(),
            code: row.code,
            how: row.how,
            tries: row.tries,
            server: row.server.map(|server| server.to_string()),
            job: row.job.map(|job| job.to_string()),
            elapsed: row.elapsed_ms.map(|ms| ms as f64 / 1e3),
            output: text(row.output.as_bytes()),
            error: text(row.error.as_bytes()),
        }
    }
}

#[pymethods]
impl Instances {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Instance>> {
        let of = self.of.get();
        if self.next >= of.counts.instances {
            return Ok(None);
        }
        self.next += 1;
        of.instance(py, self.next as isize - 1).map(Some)
    }
}

#[pymethods]
impl Instance {
    /// The instance for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf, slf.get())
    }

    /// The instance of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Self> {
        restored(text)
    }

    fn __repr__(&self) -> String {
        let values: Vec<String> = self.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("Instance({}: {}, {})", self.number, values.join(" "), self.state)
    }
}

#[pymethods]
impl ExplorationResult {
    /// The outcome for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf, slf.get())
    }

    /// The outcome of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Self> {
        restored(text)
    }

    fn __repr__(&self) -> String {
        let ExplorationResult { mandatory, optional, failed, .. } = self;
        format!("ExplorationResult({mandatory} mandatory, {optional} optional, {failed} failed)")
    }
}
