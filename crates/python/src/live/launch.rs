//! Launches of applications of communicating tasks: run to their end, or handed to their agent.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use pliant_client::{Client, FetchedLaunch, has_run};
use pliant_control::coallocation::{LaunchEnd, LaunchRecord, LaunchState, TaskRecord};
use pliant_request::launch::LaunchOptions;
use pliant_request::words;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::client::object;
use super::errors::{of_call, of_launch, of_request};
use super::record::{Exit, Results};
use super::reporting::Reporter;
use super::task::Task;
use crate::errors::wrong_input;
use crate::pickle::{Pickled, pickled, restored};

/// How long to wait until the agent has accepted the launch, as the command does.
const ANSWER: Duration = Duration::from_secs(60);

/// The states of launches.
const STATES: [LaunchState; 5] = [
    LaunchState::Mapping,
    LaunchState::Reserving,
    LaunchState::Running,
    LaunchState::Ending,
    LaunchState::Over,
];

/// The options of a launch, of which the file is read here.
#[derive(Args)]
struct LaunchLine {
    #[command(flatten)]
    launch: LaunchOptions,
}

/// A launch, as it was when it was asked for.
#[pyclass(frozen, eq, module = "pliant", name = "Launch")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Launch {
    #[pyo3(get)]
    id: String,
    #[pyo3(get)]
    key: String,
    #[pyo3(get)]
    agent: String,
    #[pyo3(get)]
    name: String,
    #[pyo3(get)]
    owner: String,
    #[pyo3(get)]
    state: String,
    #[pyo3(get)]
    outcome: Option<String>,
    #[pyo3(get)]
    why: Option<String>,
    #[pyo3(get)]
    submitted: i64,
    #[pyo3(get)]
    tasks: Vec<LaunchTask>,
    #[pyo3(get)]
    unacknowledged: Vec<String>,
    results: Vec<(String, Results)>,
}

/// A task of a launch.
#[pyclass(frozen, get_all, eq, module = "pliant", name = "LaunchTask")]
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct LaunchTask {
    name: String,
    server: Option<String>,
    machine: Option<String>,
    affinity: Option<f64>,
    address: Option<String>,
    exit: Option<Exit>,
    not_spawned: Option<String>,
}

/// Launches what these words say, and follows it until it is over; with `detach` until its agent and servers can go on alone. The results
/// of tasks are fetched into `out`. `progress` is called with the launch whenever its state has changed; its exception ends the launch.
pub(super) fn launch(
    client: Client,
    py: Python<'_>,
    words: Vec<String>,
    detach: bool,
    out: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Task> {
    let read = py.detach(|| {
        let line: LaunchLine = words::parsed("pliant launch", words)?;
        let file = line.launch.application.clone().unwrap_or_default();
        line.launch.request(&file)
    });
    let (request, inputs) = read.map_err(|error| of_request(&error))?;
    let run = move |stop: Arc<Notify>| async move {
        let mut watch = StateWatch { reporter: Reporter::new(progress, stop.clone()), state: None };
        // A launch that is to end is followed to its end.
        let is_stopped = AtomicBool::new(false);
        let stopped = async {
            stop.notified().await;
            is_stopped.store(true, Ordering::Relaxed);
        };
        let show = |record: &LaunchRecord| {
            watch.report(record);
            match detach && !is_stopped.load(Ordering::Relaxed) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let followed = client.launch(&request, &inputs, ANSWER, stopped, show).await;
        watch.reporter.into_failure().map_or(Ok(()), Err)?;
        let record = followed.map_err(|error| of_launch(&error, request.key))?;
        let mut fetched = FetchedLaunch::default();
        if let Some(out) = out.filter(|_| has_run(&record)) {
            fetched = client.fetch_launch(&record, &out, |_| ()).await;
        }
        match fetched.errors.first() {
            Some(error) => Err(of_call(error)),
            None => Ok(Launch::of(&record, &fetched)),
        }
    };
    Task::start_stoppable(run, object)
}

/// Calls a function of the user's with each state of a launch.
struct StateWatch {
    reporter: Reporter,
    state: Option<LaunchState>,
}

impl StateWatch {
    fn report(&mut self, record: &LaunchRecord) {
        if self.state.replace(record.state) != Some(record.state) {
            self.reporter.report((Launch::of(record, &FetchedLaunch::default()),));
        }
    }
}

impl Launch {
    fn of(record: &LaunchRecord, fetched: &FetchedLaunch) -> Launch {
        let LaunchRecord { id, owner, name, submitted, state, end, tasks, unacknowledged, .. } = record;
        Launch {
            id: id.to_string(),
            key: id.key.to_string(),
            agent: id.agent.to_string(),
            name: name.clone(),
            owner: owner.to_string(),
            state: state.word().to_owned(),
            outcome: end.as_ref().map(|end| end.word().to_owned()),
            why: end.as_ref().map(ToString::to_string),
            submitted: submitted.0,
            tasks: tasks.iter().map(LaunchTask::from).collect(),
            unacknowledged: unacknowledged.iter().map(ToString::to_string).collect(),
            results: fetched
                .tasks
                .iter()
                .map(|(of, _, results)| (of.task.clone(), Results::from(results)))
                .collect(),
        }
    }
}

impl From<&TaskRecord> for LaunchTask {
    fn from(record: &TaskRecord) -> LaunchTask {
        let TaskRecord { name, allocation, affinity, address, exit, not_spawned } = record;
        LaunchTask {
            name: name.clone(),
            server: allocation.as_ref().map(|(server, _)| server.to_string()),
            machine: allocation.as_ref().map(|(_, machine)| machine.clone()),
            affinity: *affinity,
            address: address.clone(),
            exit: exit.as_ref().map(Exit::from),
            not_spawned: not_spawned.clone(),
        }
    }
}

#[pymethods]
impl Launch {
    /// The launch for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf, slf.get())
    }

    /// The launch of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Self> {
        let launch: Launch = restored(text)?;
        match STATES.map(LaunchState::word).contains(&launch.state.as_str()) {
            true => Ok(launch),
            false => {
                Err(wrong_input(format!("pickle: expected the state of a launch, found {:?}", launch.state)))
            }
        }
    }

    /// The results of tasks that were fetched, by the names of tasks.
    #[getter]
    fn results<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let results = PyDict::new(py);
        for (task, of_task) in &self.results {
            results.set_item(task, of_task.clone())?;
        }
        Ok(results)
    }

    /// True if it is over: no task runs any more.
    #[getter]
    fn is_final(&self) -> bool {
        self.state == LaunchState::Over.word()
    }

    /// True if every task ended with exit code 0, or was mapped in a dry run.
    #[getter]
    fn is_completed(&self) -> bool {
        let ends = [LaunchEnd::Completed.word(), LaunchEnd::Mapped.word()];
        self.outcome.as_deref().is_some_and(|outcome| ends.contains(&outcome))
    }

    fn __repr__(&self) -> String {
        let shown = self.why.as_deref().unwrap_or(&self.state);
        format!("Launch({}: {}, {shown}, {} tasks)", self.id, self.name, self.tasks.len())
    }
}

#[pymethods]
impl LaunchTask {
    /// The task for `pickle`.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py>> {
        pickled(slf, slf.get())
    }

    /// The task of `pickle`.
    #[staticmethod]
    fn _restored(text: &str) -> PyResult<Self> {
        let task: LaunchTask = restored(text)?;
        task.exit.clone().map(Exit::checked).transpose()?;
        Ok(task)
    }

    fn __repr__(&self) -> String {
        let how = self.exit.as_ref().map_or_else(String::new, |exit| format!(", {}", exit.text));
        format!("LaunchTask({} on {}{how})", self.name, self.machine.as_deref().unwrap_or("-"))
    }
}
