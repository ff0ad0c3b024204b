//! The result of a simulation.

use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, UInt32Array, UInt64Array};
use pliant_model::{ClusterId, JobOutcome, MoveRecord, Procs, RefusalCause};
use pliant_report::html::{
    DrawnBar, DrawnBin, NamedRun, RunPart, drawn_bars, drawn_bins, render_part, render_runs,
};
use pliant_report::{FileFormat, RefusedRow, Summary, refused_rows, write_formats};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::errors::{of_file, of_io, wrong_input};
use crate::json::object_of;
use crate::pickle::{Pickled, pickled, restored};
use crate::platform::checked;
use crate::table::{Table, in_python, once, words};

/// The result of a simulation.
#[pyclass(frozen, module = "pliant", name = "Run")]
pub(crate) struct Run {
    pub(crate) name: String,
    pub(crate) run: pliant_model::Run,
    pub(crate) summary: Summary,
    /// Its tables, made when they are first asked for.
    jobs: PyOnceLock<Py<Table>>,
    moves: PyOnceLock<Py<Table>>,
    refused: PyOnceLock<Py<Table>>,
}

#[pymethods]
impl Run {
    /// The workload that was simulated.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The jobs that ran, in the order of the workload: the columns of jobs.csv.
    #[getter]
    fn jobs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Table>> {
        once(py, &self.jobs, || self.table_of_jobs())
    }

    /// The moves of waiting jobs between clusters, in order: the columns of moves.csv.
    #[getter]
    fn moves<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Table>> {
        once(py, &self.moves, || self.table_of_moves())
    }

    /// The jobs that no cluster could take, each with the reason: the columns of refused.csv.
    #[getter]
    fn refused<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Table>> {
        once(py, &self.refused, || self.table_of_refused())
    }

    /// The metrics: the keys of summary.json.
    #[getter]
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // A new one for each caller, who may change it.
        object_of(py, &self.summary)
    }

    /// Writes the files of `pliant simulate --out` into a folder.
    #[pyo3(signature = (folder, *, files = None, report = false))]
    fn write(
        &self,
        py: Python<'_>,
        folder: PathBuf,
        files: Option<Vec<String>>,
        report: bool,
    ) -> PyResult<()> {
        let format = |name: &String| {
            FileFormat::from_name(name).ok_or_else(|| {
                let names: Vec<&str> = FileFormat::ALL.iter().map(|format| format.name()).collect();
                wrong_input(format!("files: expected some of {}, found {name:?}", names.join(", ")))
            })
        };
        let formats = match &files {
            None => FileFormat::ALL.to_vec(),
            Some(files) => files.iter().map(format).collect::<PyResult<Vec<FileFormat>>>()?,
        };
        py.detach(|| write_formats(&folder, &self.run, &self.summary, &formats))
            .map_err(|error| of_file(&error))?;
        if report {
            let page = self.report_html(py)?;
            let path = folder.join("report.html");
            std::fs::write(&path, page).map_err(|error| of_io(&path, &error))?;
        }
        Ok(())
    }

    /// The page of `pliant report`: one HTML file that needs nothing else.
    fn report_html(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| render_runs(&self.name, "", &[self.named()])).map_err(wrong_input)
    }

    /// The schedule alone, as it is on the page.
    fn _gantt_html(&self, py: Python<'_>) -> String {
        py.detach(|| render_part(&self.named(), RunPart::Schedule))
    }

    /// The utilization and the queue lengths alone, as they are on the page.
    fn _utilization_html(&self, py: Python<'_>) -> String {
        py.detach(|| render_part(&self.named(), RunPart::Utilization))
    }

    /// The rectangles of the Gantt chart.
    fn _bars(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| self.table_of_bars())
    }

    /// Utilization and queue length over bins of time.
    fn _bins(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| self.table_of_bins())
    }

    /// The names and the numbers of processors of the clusters.
    fn _clusters(&self) -> Vec<(String, u32)> {
        let clusters = self.run.platform.clusters().iter();
        clusters.map(|cluster| (cluster.name.clone(), cluster.procs.0)).collect()
    }

    /// The whole page as a figure, which a notebook shows.
    fn report<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "report")
    }

    /// The Gantt chart, which a notebook shows.
    fn gantt<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "gantt")
    }

    /// Utilization and queue length over time, which a notebook shows.
    fn utilization<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "utilization")
    }

    /// The run for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        let this = slf.get();
        pickled(slf, &(&this.name, &this.run, &this.summary))
    }

    /// The run of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Run> {
        let (name, run, summary): (String, pliant_model::Run, Summary) = restored(text)?;
        let platform = checked(run.platform.clone())?;
        let refused = run.refused.iter().filter_map(|(_, cause)| match cause {
            RefusalCause::LargerThanCluster { cluster, .. } => Some(*cluster),
            _ => None,
        });
        let moved = run.moves.iter().flat_map(|one| [one.from, one.to]);
        let mut used = run.jobs.iter().map(|job| job.cluster).chain(moved).chain(refused);
        if let Some(cluster) = used.find(|cluster| cluster.index() >= platform.clusters().len()) {
            let clusters = platform.clusters().len();
            return Err(wrong_input(format!(
                "pickle: expected jobs on {clusters} clusters, found one on cluster {cluster}"
            )));
        }
        if let Some(job) = run.jobs.iter().find(|job| job.start > job.end || job.submit > job.start) {
            let JobOutcome { log_id, submit, start, end, .. } = job;
            return Err(wrong_input(format!(
                "pickle: job {log_id}: expected a submission, a start and an end in this order, found {submit}, {start} and {end}"
            )));
        }
        Ok(Run::new(name, run, summary))
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        in_python(slf, "run_html")
    }

    fn __repr__(&self) -> String {
        let Summary { jobs, mean_wait_s, utilization, .. } = &self.summary;
        let percent = utilization * 100.0;
        format!("Run({}: {jobs} jobs, mean wait {mean_wait_s:.0} s, utilization {percent:.1} %)", self.name)
    }
}

impl Run {
    /// A finished run with its metrics.
    pub(crate) fn new(name: String, run: pliant_model::Run, summary: Summary) -> Run {
        let (jobs, moves, refused) = (PyOnceLock::new(), PyOnceLock::new(), PyOnceLock::new());
        Run { name, run, summary, jobs, moves, refused }
    }

    fn table_of_jobs(&self) -> PyResult<Table> {
        let jobs = &self.run.jobs;
        let seconds = |of: fn(&JobOutcome) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(jobs.iter().map(of)))
        };
        let numbers = |of: fn(&JobOutcome) -> u32| -> ArrayRef {
            Arc::new(UInt32Array::from_iter_values(jobs.iter().map(of)))
        };
        let managed: Vec<bool> = jobs.iter().map(|job| job.managed).collect();
        Table::new(vec![
            ("job", Arc::new(UInt64Array::from_iter_values(jobs.iter().map(|job| job.log_id))) as ArrayRef),
            ("cluster", words(jobs.iter().map(|job| Some(self.cluster(job.cluster))))),
            ("submit", seconds(|job| job.submit.0)),
            ("start", seconds(|job| job.start.0)),
            ("end", seconds(|job| job.end.0)),
            ("procs", numbers(|job| job.procs.0)),
            ("walltime", seconds(|job| job.walltime.0)),
            ("moves", numbers(|job| job.moves)),
            ("managed", Arc::new(BooleanArray::from(managed))),
            ("reason", words(jobs.iter().map(|job| Some(job.reason.word())))),
        ])
    }

    fn table_of_moves(&self) -> PyResult<Table> {
        let moves = &self.run.moves;
        let seconds = |of: fn(&MoveRecord) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(moves.iter().map(of)))
        };
        Table::new(vec![
            ("time", seconds(|one| one.at.0)),
            ("job", Arc::new(UInt64Array::from_iter_values(moves.iter().map(|one| one.log_id)))),
            ("from", words(moves.iter().map(|one| Some(self.cluster(one.from))))),
            ("to", words(moves.iter().map(|one| Some(self.cluster(one.to))))),
            ("ect_before", seconds(|one| one.before.0)),
            ("ect_after", seconds(|one| one.after.0)),
            ("procs", Arc::new(UInt32Array::from_iter_values(moves.iter().map(|one| one.procs.0)))),
        ])
    }

    fn table_of_refused(&self) -> PyResult<Table> {
        let refused: Vec<RefusedRow<'_>> = refused_rows(&self.run).collect();
        let sizes = |of: fn((Procs, Procs)) -> Procs| -> ArrayRef {
            Arc::new(refused.iter().map(|row| row.sizes.map(|sizes| of(sizes).0)).collect::<UInt32Array>())
        };
        Table::new(vec![
            ("job", Arc::new(UInt64Array::from_iter_values(refused.iter().map(|row| row.job))) as ArrayRef),
            ("cause", words(refused.iter().map(|row| Some(row.cause)))),
            ("cluster", words(refused.iter().map(|row| row.cluster))),
            ("requested", sizes(|(requested, _)| requested)),
            ("available", sizes(|(_, available)| available)),
        ])
    }

    fn table_of_bars(&self) -> PyResult<Table> {
        let bars = drawn_bars(&self.run);
        let job = |bar: &DrawnBar| &self.run.jobs[bar.job];
        let seconds = |of: fn(&JobOutcome) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(bars.iter().map(|bar| of(job(bar)))))
        };
        let numbers = |of: fn(&DrawnBar) -> u32| -> ArrayRef {
            Arc::new(UInt32Array::from_iter_values(bars.iter().map(of)))
        };
        Table::new(vec![
            (
                "job",
                Arc::new(UInt64Array::from_iter_values(bars.iter().map(|bar| job(bar).log_id))) as ArrayRef,
            ),
            ("cluster", words(bars.iter().map(|bar| Some(self.cluster(job(bar).cluster))))),
            ("start", seconds(|job| job.start.0)),
            ("end", seconds(|job| job.end.0)),
            ("first", numbers(|bar| bar.first)),
            ("procs", numbers(|bar| bar.procs)),
        ])
    }

    fn table_of_bins(&self) -> PyResult<Table> {
        let bins = drawn_bins(&self.run);
        let seconds = |of: fn(&DrawnBin) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(bins.iter().map(of)))
        };
        let numbers = |of: fn(&DrawnBin) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(bins.iter().map(of)))
        };
        Table::new(vec![
            ("cluster", words(bins.iter().map(|bin| Some(self.cluster(bin.cluster))))),
            ("begin", seconds(|bin| bin.begin_s)),
            ("end", seconds(|bin| bin.end_s)),
            ("utilization", numbers(|bin| bin.utilization)),
            ("queue", numbers(|bin| bin.queue)),
        ])
    }

    fn named(&self) -> NamedRun<'_> {
        NamedRun { name: &self.name, run: &self.run, summary: &self.summary }
    }

    fn cluster(&self, id: ClusterId) -> &str {
        &self.run.platform.cluster(id).name
    }
}
