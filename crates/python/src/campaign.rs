//! Campaigns, as `pliant campaign` runs them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use pliant_model::campaign::Results;
use pliant_report::campaigns::campaign_page;
use pliant_report::{measure_exploration, measure_run};
use pliant_sim::campaign::{self, Measured, Options, Progress, Shard, THREADS_MAX};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::arguments::Argument;
use crate::errors::{of_campaign, wrong_input};

/// The time between two checks for Ctrl-C, at which the user's function is called.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// A campaign, as read from its file.
#[pyclass(frozen, module = "pliant", name = "Campaign")]
pub(crate) struct Campaign {
    path: PathBuf,
    inner: campaign::Campaign,
    skipped: Vec<String>,
}

/// The progress of a campaign, and its end before all runs.
#[derive(Default)]
struct Counts {
    total: AtomicUsize,
    done: AtomicUsize,
    is_cancelled: AtomicBool,
}

impl Progress for Counts {
    fn planned(&self, total: usize, kept: usize) {
        self.total.store(total, Ordering::Relaxed);
        self.done.store(kept, Ordering::Relaxed);
    }

    fn finished(&self, _key: &str) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
    }
}

#[pymethods]
impl Campaign {
    /// Reads a campaign file. Logs are searched in its folder, then in `traces`. Optional workloads whose logs are absent are left out.
    #[new]
    #[pyo3(signature = (path, *, traces = None))]
    fn new(py: Python<'_>, path: PathBuf, traces: Option<PathBuf>) -> PyResult<Campaign> {
        let log_dirs = traces.or_else(|| std::env::var_os("PLIANT_TRACES").map(PathBuf::from));
        let log_dirs: Vec<PathBuf> = log_dirs.into_iter().collect();
        py.detach(|| {
            let mut inner = campaign::Campaign::read(&path, log_dirs).map_err(|error| of_campaign(&error))?;
            let skipped = inner.skip_absent().iter().map(|one| one.workload.clone()).collect();
            Ok(Campaign { path, inner, skipped })
        })
    }

    fn __repr__(&self) -> String {
        format!("Campaign({})", self.path.display())
    }

    /// The optional workloads that are left out, since their logs are absent.
    #[getter]
    fn skipped(&self) -> Vec<String> {
        self.skipped.clone()
    }

    /// Runs what is left of the campaign in a folder.
    #[pyo3(signature = (out, *, threads = None, shard = None, progress = None))]
    fn run<'py>(
        slf: &Bound<'py, Self>,
        out: PathBuf,
        threads: Option<Bound<'py, PyAny>>,
        shard: Option<Bound<'py, PyAny>>,
        progress: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pliant.campaigns")?.call_method1("run", (slf, out, threads, shard, progress))
    }

    /// Runs what is left of the campaign in a folder. Returns its facts, its page, and the runs of a campaign of simulations.
    fn _run<'py>(
        &self,
        py: Python<'py>,
        out: PathBuf,
        threads: &Bound<'py, PyAny>,
        shard: &Bound<'py, PyAny>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let threads = Argument { name: "threads", value: threads }.whole(0..=THREADS_MAX)?;
        let shard: Shard = Argument { name: "shard", value: shard }.word()?;
        let counts = Counts::default();
        let (finished, failure) = py.detach(|| {
            let (sender, receiver) = mpsc::channel();
            std::thread::scope(|scope| {
                let (out, counts) = (&out, &counts);
                let run = move || {
                    drop(sender.send(self.inner.run(out, Options { threads, shard }, &measure, counts)))
                };
                scope.spawn(run);
                let mut failure = None;
                loop {
                    match receiver.recv_timeout(REPORT_EVERY) {
                        Ok(finished) => return (Some(finished), failure),
                        Err(RecvTimeoutError::Disconnected) => return (None, failure),
                        Err(RecvTimeoutError::Timeout) if failure.is_none() => {
                            failure = report(progress.as_ref(), counts).err();
                            counts.is_cancelled.store(failure.is_some(), Ordering::Relaxed);
                        }
                        Err(RecvTimeoutError::Timeout) => {}
                    }
                }
            })
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        let finished = finished.ok_or_else(|| wrong_input("the campaign ended without a result"))?;
        let finished = finished.map_err(|error| of_campaign(&error))?;
        report(progress.as_ref(), &counts)?;
        let contents = &finished.contents;
        let facts = PyDict::new(py);
        facts.set_item("name", &contents.name)?;
        facts.set_item("kind", contents.kind.name())?;
        facts.set_item("simulated", finished.ran)?;
        facts.set_item("kept", finished.kept)?;
        facts.set_item("planned", contents.planned)?;
        facts.set_item("damaged", finished.damaged.len())?;
        facts.set_item("page", campaign_page(&contents.results))?;
        facts.set_item("runs", rows(py, &contents.results)?)?;
        Ok(facts)
    }
}

/// Checks for Ctrl-C and calls the user's function.
fn report(progress: Option<&Py<PyAny>>, counts: &Counts) -> PyResult<()> {
    Python::attach(|py| {
        py.check_signals()?;
        let (done, total) = (counts.done.load(Ordering::Relaxed), counts.total.load(Ordering::Relaxed));
        progress.map_or(Ok(()), |progress| progress.call1(py, (done, total)).map(drop))
    })
}

/// The metrics of a run of a campaign, as those of `pliant campaign`.
fn measure(measured: Measured<'_>) -> Result<BTreeMap<String, f64>, String> {
    match measured {
        Measured::Jobs { run, reference, plans } => measure_run(run, reference, plans),
        Measured::Requests(run) => measure_exploration(run),
    }
}

/// The runs of a campaign of simulations, each as a dictionary.
fn rows<'py>(py: Python<'py>, results: &Results) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    let Results::Simulations(results) = results else { return Ok(rows) };
    for run in &results.runs {
        let row = PyDict::new(py);
        row.set_item("workload", &run.workload)?;
        row.set_item("platform", &run.platform)?;
        row.set_item("moldable", &run.moldable)?;
        row.set_item("dedicated_share", run.dedicated_share)?;
        row.set_item("seed", run.seed)?;
        row.set_item("policy", &run.policy)?;
        for (metric, value) in &run.metrics {
            row.set_item(metric, value)?;
        }
        rows.append(row)?;
    }
    Ok(rows)
}
