//! What daemons answer, as objects of Python.

use pliant_control::agent::DiscoveryResult;
use pliant_control::client::refusals;
use pliant_control::estimation_vector::EstimationVector;
use pliant_control::job::{self, JobRecord, JobState};
use pliant_wire::JobResults;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

use crate::errors::wrong_input;
use crate::pickle::{Pickled, pickled, restored};

/// The words of [`Exit::how`].
const ENDINGS: [&str; 7] =
    ["code", "signal", "over-walltime", "over-limit", "cancelled", "not-started", "lost"];

/// A job, as it was when it was asked for.
#[pyclass(frozen, get_all, eq, module = "pliant", name = "Job")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(super) id: String,
    key: String,
    name: String,
    owner: String,
    server: String,
    pub(super) state: String,
    procs: u32,
    gpus: Option<u32>,
    walltime: i64,
    submitted: i64,
    started: Option<i64>,
    ended: Option<i64>,
    exit: Option<Exit>,
    expected: Estimate,
    moves: usize,
    requeues: u32,
}

/// How a job ended.
#[pyclass(frozen, get_all, eq, module = "pliant", name = "Exit")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Exit {
    how: String,
    code: Option<i32>,
    signal: Option<i32>,
    why: Option<String>,
    pub(super) text: String,
}

/// The size, start and completion that a server expects.
#[pyclass(frozen, get_all, eq, module = "pliant", name = "Estimate")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Estimate {
    procs: u32,
    walltime: i64,
    start: i64,
    completion: i64,
}

/// The estimates of all servers.
#[pyclass(frozen, get_all, eq, module = "pliant", name = "Estimates")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Estimates {
    offers: Vec<Offer>,
    refusals: Vec<Refusal>,
    down: Vec<String>,
    servers: u32,
    answered: u32,
}

/// The estimate of one server.
#[pyclass(frozen, get_all, eq, module = "pliant", name = "Offer")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Offer {
    server: String,
    estimate: Estimate,
    free_procs: u32,
    queue_length: u32,
    partition: Option<String>,
}

/// Why a server does not take a job.
#[pyclass(frozen, get_all, eq, module = "pliant", name = "Refusal")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    server: Option<String>,
    cause: String,
    why: String,
}

/// The results of a job that were fetched.
#[pyclass(frozen, get_all, eq, module = "pliant", name = "Results")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    files: Vec<ResultFile>,
    left_out: Vec<(String, String)>,
    left_out_count: u64,
    stdout_cut: bool,
    stderr_cut: bool,
}

/// A file of a job.
#[pyclass(frozen, get_all, eq, module = "pliant", name = "ResultFile")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ResultFile {
    name: String,
    bytes: u64,
}

impl From<&JobRecord> for Job {
    fn from(record: &JobRecord) -> Job {
        Job {
            id: record.handle.to_string(),
            key: record.key.to_string(),
            name: record.name.clone(),
            owner: record.owner.to_string(),
            server: record.server().to_string(),
            state: record.state.word().to_owned(),
            procs: record.procs.0,
            gpus: record.gpus,
            walltime: record.walltime.0,
            submitted: record.submitted.0,
            started: record.started.map(|time| time.0),
            ended: record.ended.map(|time| time.0),
            exit: record.exit.as_ref().map(Exit::from),
            expected: record.expected.into(),
            moves: record.hops.len(),
            requeues: record.requeues,
        }
    }
}

impl From<&job::Exit> for Exit {
    fn from(exit: &job::Exit) -> Exit {
        let of = |how: &str| Exit {
            how: how.to_owned(),
            code: None,
            signal: None,
            why: None,
            text: exit.to_string(),
        };
        match exit {
            job::Exit::Code(code) => Exit { code: Some(*code), ..of("code") },
            job::Exit::Signal(signal) => Exit { signal: Some(*signal), ..of("signal") },
            job::Exit::OverWalltime => of("over-walltime"),
            job::Exit::OverLimit(why) => Exit { why: Some(why.clone()), ..of("over-limit") },
            job::Exit::Cancelled => of("cancelled"),
            job::Exit::NotStarted(why) => Exit { why: Some(why.clone()), ..of("not-started") },
            job::Exit::Lost(why) => Exit { why: Some(why.clone()), ..of("lost") },
        }
    }
}

impl From<pliant_model::Estimate> for Estimate {
    fn from(estimate: pliant_model::Estimate) -> Estimate {
        Estimate {
            procs: estimate.procs.0,
            walltime: estimate.walltime.0,
            start: estimate.start.0,
            completion: estimate.completion().0,
        }
    }
}

impl From<&EstimationVector> for Offer {
    fn from(vector: &EstimationVector) -> Offer {
        Offer {
            server: vector.server.to_string(),
            estimate: vector.estimate.into(),
            free_procs: vector.free.0,
            queue_length: vector.queue_length,
            partition: vector.partition.clone(),
        }
    }
}

impl From<&DiscoveryResult> for Estimates {
    fn from(found: &DiscoveryResult) -> Estimates {
        let refusal = |(server, reason): (Option<_>, pliant_control::reason::Reason)| Refusal {
            server: server.map(|server: pliant_control::names::Name| server.to_string()),
            cause: reason.cause.word().to_owned(),
            why: reason.why,
        };
        Estimates {
            offers: found.vectors.iter().map(Offer::from).collect(),
            refusals: refusals(found).into_iter().map(refusal).collect(),
            down: found.down.iter().map(ToString::to_string).collect(),
            servers: found.servers.max(found.answered),
            answered: found.answered,
        }
    }
}

impl From<&JobResults> for Results {
    fn from(results: &JobResults) -> Results {
        let file =
            |file: &pliant_wire::Fetchable| ResultFile { name: file.name.to_string(), bytes: file.size };
        Results {
            files: results.files.iter().map(file).collect(),
            left_out: results.left_out.iter().map(|left| (left.name.clone(), left.why.clone())).collect(),
            left_out_count: results.left_out_count,
            stdout_cut: results.stdout_cut,
            stderr_cut: results.stderr_cut,
        }
    }
}

impl Exit {
    /// Refuses words that no daemon says.
    pub(super) fn checked(self) -> PyResult<Exit> {
        match ENDINGS.contains(&self.how.as_str()) {
            true => Ok(self),
            false => Err(wrong_input(format!(
                "pickle: exit: expected one of {}, found {:?}",
                ENDINGS.join(", "),
                self.how
            ))),
        }
    }
}

#[pymethods]
impl Job {
    /// The record for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf, slf.get())
    }

    /// The record of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Self> {
        let job: Job = restored(text)?;
        if JobState::from_word(&job.state).is_none() {
            return Err(wrong_input(format!("pickle: expected the state of a job, found {:?}", job.state)));
        }
        job.exit.clone().map(Exit::checked).transpose()?;
        Ok(job)
    }

    /// True if it has ended.
    #[getter]
    pub(super) fn is_final(&self) -> bool {
        self.ended.is_some() || matches!(self.state.as_str(), "COMPLETED" | "FAILED" | "CANCELED")
    }

    /// True if it has ended with exit code 0.
    #[getter]
    fn is_completed(&self) -> bool {
        self.state == "COMPLETED"
    }

    fn __repr__(&self) -> String {
        let exit = self.exit.as_ref().filter(|_| !self.is_completed());
        let how = exit.map_or_else(String::new, |exit| format!(", {}", exit.text));
        format!("Job({}: {}, {}{how})", self.id, self.name, self.state)
    }
}

#[pymethods]
impl Exit {
    /// The exit for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf, slf.get())
    }

    /// The exit of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Self> {
        restored::<Exit>(text)?.checked()
    }

    fn __repr__(&self) -> String {
        format!("Exit({})", self.text)
    }

    fn __str__(&self) -> &str {
        &self.text
    }
}

#[pymethods]
impl Estimate {
    /// The estimate for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf, slf.get())
    }

    /// The estimate of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Self> {
        restored(text)
    }

    fn __repr__(&self) -> String {
        let Estimate { procs, walltime, start, completion } = self;
        format!("Estimate(procs={procs}, walltime={walltime}, start={start}, completion={completion})")
    }
}

#[pymethods]
impl Estimates {
    /// The estimates for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf, slf.get())
    }

    /// The estimates of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Self> {
        restored(text)
    }

    /// The offer that completes first; none if no server takes it.
    #[getter]
    fn best(&self) -> Option<Offer> {
        self.offers.first().cloned()
    }

    fn __repr__(&self) -> String {
        let best = self.offers.first().map_or("none", |best| best.server.as_str());
        format!("Estimates(best: {best}, {} of {} servers answered)", self.answered, self.servers)
    }
}

#[pymethods]
impl Offer {
    /// The offer for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf, slf.get())
    }

    /// The offer of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Self> {
        restored(text)
    }

    fn __repr__(&self) -> String {
        format!("Offer({}: {})", self.server, self.estimate.__repr__())
    }
}

#[pymethods]
impl Refusal {
    /// The refusal for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf, slf.get())
    }

    /// The refusal of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Self> {
        restored(text)
    }

    fn __repr__(&self) -> String {
        format!("Refusal({}: {})", self.server.as_deref().unwrap_or("-"), self.why)
    }
}

#[pymethods]
impl Results {
    /// The results for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf, slf.get())
    }

    /// The results of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Self> {
        restored(text)
    }

    fn __repr__(&self) -> String {
        format!("Results({} files)", self.files.len())
    }
}

#[pymethods]
impl ResultFile {
    /// The file for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf, slf.get())
    }

    /// The file of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Self> {
        restored(text)
    }

    fn __repr__(&self) -> String {
        format!("ResultFile({}, {} bytes)", self.name, self.bytes)
    }
}
