//! What policies in Python see: columns of whole numbers, each a `memoryview` that numpy and others take without a copy.
//!
//! A column is made when a policy first asks for it.

use std::fmt::Write as _;
use std::sync::Arc;

use pliant_model::{ClusterId, Estimate, Owner, Procs, Request, Time};
use pliant_policy::batch::Submission;
use pliant_policy::custom::JobOptions;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyMemoryView};

use super::Context;

/// A column that is made once.
type Column = PyOnceLock<Py<PyAny>>;

/// The values as a `memoryview` of 64-bit integers that cannot be written.
fn column<'py>(
    py: Python<'py>,
    cell: &Column,
    values: impl ExactSizeIterator<Item = i64>,
) -> PyResult<Bound<'py, PyAny>> {
    let made = cell.get_or_try_init(py, || {
        let bytes = PyBytes::new_with(py, values.len() * 8, |bytes| {
            bytes
                .chunks_exact_mut(8)
                .zip(values)
                .for_each(|(to, value)| to.copy_from_slice(&value.to_ne_bytes()));
            Ok(())
        })?;
        let view = PyMemoryView::from(&bytes)?;
        Ok::<_, PyErr>(view.call_method1("cast", ("q",))?.unbind())
    })?;
    Ok(made.bind(py).clone())
}

/// How many values of a column the text of a view shows.
const SHOWN: usize = 8;

/// A view as a text: its kind, what it is of, and the first values of its columns.
fn shown(kind: &str, of: &str, columns: &[(&str, Vec<i64>)]) -> String {
    let mut text = format!("{kind}({of}");
    for (name, values) in columns {
        let first: Vec<String> = values.iter().take(SHOWN).map(i64::to_string).collect();
        let more = if values.len() > SHOWN { ", ..." } else { "" };
        let _ = write!(text, ", {name}=[{}{more}]", first.join(", "));
    }
    text + ")"
}

/// The number of a user; -1 if it is unknown.
fn user(owner: Owner) -> i64 {
    if owner == Owner::UNKNOWN { -1 } else { i64::try_from(owner.0).unwrap_or(-1) }
}

/// A job that waits or arrives.
#[pyclass(frozen, module = "pliant", name = "WaitingJob", get_all)]
pub(crate) struct WaitingJob {
    /// Its number in the workload.
    job: i64,
    /// When it was submitted.
    submit: i64,
    /// The processors that it asks for.
    procs: u32,
    /// The walltime that it asks for.
    walltime: i64,
    /// The number of its user; -1 if it is unknown.
    user: i64,
    /// The cluster where it waits, or that its user chose; none if its user chose none.
    cluster: Option<String>,
}

#[pymethods]
impl WaitingJob {
    fn __repr__(&self) -> String {
        let WaitingJob { job, submit, procs, walltime, .. } = self;
        format!("WaitingJob({job}: submit={submit}, procs={procs}, walltime={walltime})")
    }
}

impl WaitingJob {
    pub(super) fn queued(job: &Submission, cluster: ClusterId, context: &Context) -> WaitingJob {
        WaitingJob {
            job: context.number(job.job),
            submit: job.submit.0,
            procs: job.procs.0,
            walltime: job.walltime.0,
            user: user(job.owner),
            cluster: Some(context.cluster(cluster).to_owned()),
        }
    }

    pub(super) fn arriving(request: &Request, context: &Context) -> WaitingJob {
        let origin = request.origin.and_then(|origin| context.clusters.get(origin.index()));
        WaitingJob {
            job: context.number(request.id),
            submit: request.submit.0,
            procs: request.procs.0,
            walltime: request.walltime.0,
            user: user(request.owner),
            cluster: origin.cloned(),
        }
    }
}

/// The waiting jobs of a cluster.
#[pyclass(frozen, module = "pliant", name = "Queue")]
pub(crate) struct Queue {
    now: Time,
    cluster: (ClusterId, Procs),
    jobs: Vec<Submission>,
    releases: Vec<(i64, u32)>,
    context: Arc<Context>,
    columns: [Column; 6],
}

impl Queue {
    pub(super) fn new(
        now: Time,
        cluster: (ClusterId, Procs),
        jobs: Vec<Submission>,
        releases: Vec<(i64, u32)>,
        context: &Arc<Context>,
    ) -> Queue {
        Queue {
            now,
            cluster,
            jobs,
            releases,
            context: Arc::clone(context),
            columns: [const { Column::new() }; 6],
        }
    }
}

#[pymethods]
impl Queue {
    fn __len__(&self) -> usize {
        self.jobs.len()
    }

    fn __repr__(&self) -> String {
        let values = |of: &dyn Fn(&Submission) -> i64| self.jobs.iter().take(SHOWN + 1).map(of).collect();
        let columns = [
            ("job", values(&|job| self.context.number(job.job))),
            ("procs", values(&|job| job.procs.0.into())),
            ("walltime", values(&|job| job.walltime.0)),
        ];
        shown("Queue", &format!("{}: {} jobs", self.cluster(), self.jobs.len()), &columns)
    }

    /// The numbers of the jobs in the workload.
    #[getter]
    fn job<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns[0], self.jobs.iter().map(|job| self.context.number(job.job)))
    }

    /// When they were submitted.
    #[getter]
    fn submit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns[1], self.jobs.iter().map(|job| job.submit.0))
    }

    /// The processors that they ask for.
    #[getter]
    fn procs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns[2], self.jobs.iter().map(|job| job.procs.0.into()))
    }

    /// The walltimes that they ask for, at the speed of the cluster.
    #[getter]
    fn walltime<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns[3], self.jobs.iter().map(|job| job.walltime.0))
    }

    /// How long they have waited.
    #[getter]
    fn wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns[4], self.jobs.iter().map(|job| (self.now - job.submit).0))
    }

    /// The numbers of their users; -1 where it is unknown.
    #[getter]
    fn user<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns[5], self.jobs.iter().map(|job| user(job.owner)))
    }

    /// The name of the cluster.
    #[getter]
    fn cluster(&self) -> &str {
        self.context.cluster(self.cluster.0)
    }

    /// The processors of the cluster.
    #[getter]
    fn capacity(&self) -> u32 {
        self.cluster.1.0
    }

    /// When running jobs are expected to end, as pairs of a time and a number of processors.
    #[getter]
    fn releases(&self) -> Vec<(i64, u32)> {
        self.releases.clone()
    }
}

/// The columns of estimates.
struct Estimates {
    estimates: Vec<Estimate>,
    columns: [Column; 4],
}

impl Estimates {
    fn new(estimates: Vec<Estimate>) -> Estimates {
        Estimates { estimates, columns: [const { Column::new() }; 4] }
    }

    fn get<'py>(
        &self,
        py: Python<'py>,
        position: usize,
        value: fn(&Estimate) -> i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns[position], self.estimates.iter().map(value))
    }
}

/// A class with the columns of estimates.
macro_rules! with_estimates {
    ($name:ident, { $($more:tt)* }) => {
        #[pymethods]
        impl $name {
            fn __len__(&self) -> usize {
                self.of.estimates.len()
            }

            fn __repr__(&self) -> String {
                let all = &self.of.estimates;
                let values = |of: fn(&Estimate) -> i64| all.iter().take(SHOWN + 1).map(of).collect();
                let columns = [
                    ("procs", values(|one| one.procs.0.into())),
                    ("walltime", values(|one| one.walltime.0)),
                    ("start", values(|one| one.start.0)),
                ];
                shown(stringify!($name), &all.len().to_string(), &columns)
            }

            /// Processors.
            #[getter]
            fn procs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                self.of.get(py, 0, |one| one.procs.0.into())
            }

            /// The walltimes.
            #[getter]
            fn walltime<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                self.of.get(py, 1, |one| one.walltime.0)
            }

            /// The estimated starts.
            #[getter]
            fn start<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                self.of.get(py, 2, |one| one.start.0)
            }

            /// The estimated completions, by the walltimes.
            #[getter]
            fn completion<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                self.of.get(py, 3, |one| one.completion().0)
            }

            $($more)*
        }
    };
}

/// The offers of clusters for an arriving job.
#[pyclass(frozen, module = "pliant", name = "Offers")]
pub(crate) struct Offers {
    of: Estimates,
    clusters: Vec<String>,
}

impl Offers {
    pub(super) fn new(offers: &[(ClusterId, Estimate)], context: &Context) -> Offers {
        let estimates = offers.iter().map(|(_, estimate)| *estimate).collect();
        let clusters = offers.iter().map(|(cluster, _)| context.cluster(*cluster).to_owned()).collect();
        Offers { of: Estimates::new(estimates), clusters }
    }
}

with_estimates!(Offers, {
    /// The names of the clusters.
    #[getter]
    fn cluster(&self) -> Vec<String> {
        self.clusters.clone()
    }
});

/// The sizes that a moldable job can have on a cluster.
#[pyclass(frozen, module = "pliant", name = "Sizes")]
pub(crate) struct Sizes {
    of: Estimates,
}

impl Sizes {
    pub(super) fn new(sizes: &[Estimate]) -> Sizes {
        Sizes { of: Estimates::new(sizes.to_vec()) }
    }
}

with_estimates!(Sizes, {});

/// The waiting jobs that a reallocation cycle may consider next.
#[pyclass(frozen, module = "pliant", name = "Candidates")]
pub(crate) struct Candidates {
    jobs: Vec<JobOptions>,
    numbers: Vec<i64>,
    clusters: Vec<String>,
    /// The best other cluster of each job, if one takes it.
    best: Vec<Option<String>>,
    columns: [Column; 6],
}

impl Candidates {
    pub(super) fn new(jobs: &[JobOptions], context: &Context) -> Candidates {
        let numbers = jobs.iter().map(|one| context.number(one.job)).collect();
        let clusters = jobs.iter().map(|one| context.cluster(one.home).to_owned()).collect();
        let best = |one: &JobOptions| one.best.map(|(cluster, _)| context.cluster(cluster).to_owned());
        let (best, columns) = (jobs.iter().map(best).collect(), [const { Column::new() }; 6]);
        Candidates { jobs: jobs.to_vec(), numbers, clusters, best, columns }
    }
}

#[pymethods]
impl Candidates {
    fn __len__(&self) -> usize {
        self.jobs.len()
    }

    fn __repr__(&self) -> String {
        let values = |of: fn(&JobOptions) -> i64| self.jobs.iter().take(SHOWN + 1).map(of).collect();
        let columns = [
            ("job", self.numbers.iter().take(SHOWN + 1).copied().collect()),
            ("procs", values(|one| one.procs.0.into())),
            ("current", values(|one| one.current.0)),
        ];
        shown("Candidates", &format!("{} jobs", self.jobs.len()), &columns)
    }

    /// The numbers of the jobs in the workload.
    #[getter]
    fn job<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns[0], self.numbers.iter().copied())
    }

    /// The processors that they ask for.
    #[getter]
    fn procs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns[1], self.jobs.iter().map(|one| one.procs.0.into()))
    }

    /// Their expected completions where they wait.
    #[getter]
    fn current<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns[2], self.jobs.iter().map(|one| one.current.0))
    }

    /// Their expected completions on the best other cluster.
    #[getter]
    fn best<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let best = |one: &JobOptions| one.best.map_or(Time::MAX, |(_, best)| best.completion()).0;
        column(py, &self.columns[3], self.jobs.iter().map(best))
    }

    /// Their earliest expected completions of all.
    #[getter]
    fn first<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns[4], self.jobs.iter().map(|one| one.first.0))
    }

    /// The second-earliest.
    #[getter]
    fn second<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        column(py, &self.columns[5], self.jobs.iter().map(|one| one.second.0))
    }

    /// The names of the clusters where they wait.
    #[getter]
    fn cluster(&self) -> Vec<String> {
        self.clusters.clone()
    }

    /// The names of the clusters of `best`; none where there is no such cluster.
    #[getter]
    fn best_cluster(&self) -> Vec<Option<String>> {
        self.best.clone()
    }
}
