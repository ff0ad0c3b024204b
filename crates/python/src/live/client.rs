//! A client of a federation.

use std::path::PathBuf;

use pliant_control::job::JobState;
use pliant_control::names::{Handle, Name, User};
use pliant_control::shared_folder::SharedFileSystems;
use pliant_request::submission_note::SubmissionNote;
use pliant_request::submit::{SubmitOptions, drawn};
use pliant_request::{client_file, sending, words};
use pliant_staging::ResultName;
use pliant_wire::{Download, JobsQuery, bounds};
use pyo3::PyClass;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::{did_not_run, of_call, of_request, of_submission, refused};
use super::launch;
use super::pending::Pending;
use super::record::{Estimates, Job, Results};
use super::sweep::{self, SweepCalls};
use super::task::{Task, internal, runtime};
use crate::errors::wrong_input;

/// A user's way into the federation.
#[pyclass(frozen, module = "pliant._pliant", name = "Connection")]
pub(crate) struct Connection {
    pub(super) client: pliant_client::Client,
    /// The same for submissions: those that are under way together go in one message.
    gathering: pliant_client::Client,
    shared: SharedFileSystems,
}

/// A text as an ID, a name or a word.
fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(of: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error: T::Err| wrong_input(format!("{of}: {error}")))
}

fn handles(jobs: &[String]) -> PyResult<Vec<Handle>> {
    jobs.iter().map(|job| parsed("job", job)).collect()
}

/// An object of Python.
pub(super) fn object<T: Into<PyClassInitializer<T>> + PyClass>(
    py: Python<'_>,
    value: T,
) -> PyResult<Py<PyAny>> {
    Ok(Py::new(py, value)?.into_any())
}

impl Connection {
    /// The order that words describe.
    fn order(&self, words: Vec<String>) -> PyResult<(pliant_client::SubmitOrder, bool)> {
        let options: SubmitOptions =
            words::parsed("pliant submit", words).map_err(|error| of_request(&error))?;
        let request = options.request(&mut |_| {}).map_err(|error| of_request(&error))?;
        if request.options.array.is_some() {
            return Err(wrong_input(
                "array: expected a script without an array, found one: Client.sweep runs many instances",
            ));
        }
        let order = request.order(Some(options.key.unwrap_or_else(drawn)), &self.shared);
        Ok((order.map_err(|error| of_request(&error))?, options.key.is_some()))
    }
}

#[pymethods]
impl Connection {
    /// Reads the client's file; connects with the first call.
    #[new]
    #[pyo3(signature = (config = None))]
    fn new(py: Python<'_>, config: Option<PathBuf>) -> PyResult<Connection> {
        py.detach(|| {
            let file = client_file::open(config.as_deref()).map_err(|error| of_request(&error))?;
            // Connections are tasks of the runtime.
            let _entered = runtime()?.enter();
            let client = pliant_client::Client::new(&file).map_err(|error| of_call(&error))?;
            let gathering = client.gathering();
            Ok(Connection { client, gathering, shared: file.shared })
        })
    }

    /// The user in the certificate.
    #[getter]
    fn user(&self) -> String {
        self.client.user()
    }

    /// Submits what the options of `pliant submit` say.
    fn submit(&self, py: Python<'_>, words: Vec<String>) -> PyResult<Task> {
        let (mut order, has_key) = py.detach(|| self.order(words))?;
        let client = self.gathering.clone();
        let call = |stop: std::sync::Arc<tokio::sync::Notify>| async move {
            let opened = tokio::task::spawn_blocking(move || {
                let mut note = has_key.then(|| SubmissionNote::open(&order, || {})).transpose()?;
                order.sent_to = note.as_mut().map(SubmissionNote::server).transpose()?.flatten();
                Ok::<_, pliant_request::RequestError>((order, note))
            });
            let opened = opened.await.map_err(|_| internal())?;
            let (order, mut note) = opened.map_err(|error| of_request(&error))?;
            let submitted = sending::submit(&client, &order, note.as_mut(), stop.notified(), |_| {}).await;
            submitted.map_err(|error| of_submission(&error, order.key))
        };
        Task::start_stoppable(call, |py, record| object(py, Job::from(&*record)))
    }

    /// The estimates of all servers for what the options of `pliant submit` say.
    fn estimate(&self, py: Python<'_>, words: Vec<String>) -> PyResult<Task> {
        let (order, _) = py.detach(|| self.order(words))?;
        let client = self.client.clone();
        let call = async move {
            let found = client.estimates(&order).await.map_err(|error| of_call(&error))?;
            match found.vectors.is_empty() {
                true => Err(refused(&pliant_client::without_estimate(&order, &found))),
                false => Ok(found),
            }
        };
        Task::start(call, |py, found| object(py, Estimates::from(&found)))
    }

    /// The jobs in these states, the newest first.
    fn queue(
        &self,
        states: Vec<String>,
        all: bool,
        user: Option<String>,
        server: Option<String>,
        most: usize,
    ) -> PyResult<Task> {
        let state = |word: &String| {
            let expected = || {
                let words: Vec<&str> = JobState::ALL.iter().map(|state| state.word()).collect();
                wrong_input(format!("state: expected one of {}, found {word:?}", words.join(", ")))
            };
            JobState::from_word(&word.to_uppercase()).ok_or_else(expected)
        };
        let query = JobsQuery {
            owner: user.map(|user| parsed::<User>("user", &user)).transpose()?,
            all,
            server: server.map(|server| parsed::<Name>("server", &server)).transpose()?,
            states: states.iter().map(state).collect::<PyResult<_>>()?,
            limit: bounds::JOBS_MAX as u32,
            before: None,
        };
        let client = self.client.clone();
        let call = async move { client.newest_jobs(query, most).await.map_err(|error| of_call(&error)) };
        Task::start(call, |py, page| {
            let jobs: Vec<Job> = page.jobs.iter().map(Job::from).collect();
            Ok(jobs.into_pyobject(py)?.into_any().unbind())
        })
    }

    /// A job as it is now.
    fn job(&self, job: &str) -> PyResult<Task> {
        let (client, handle) = (self.client.clone(), parsed::<Handle>("job", job)?);
        let call = async move { client.job(&handle).await.map_err(|error| of_call(&error)) };
        Task::start(call, |py, record| object(py, Job::from(&record)))
    }

    /// Withdraws a waiting job, or ends a running one.
    fn cancel(&self, job: &str) -> PyResult<Task> {
        let (client, handle) = (self.client.clone(), parsed::<Handle>("job", job)?);
        let call = async move { client.cancel(&handle).await.map_err(|error| of_call(&error)) };
        Task::start(call, |py, record| object(py, Job::from(&record)))
    }

    /// Waits for jobs: each comes as it ends.
    fn pending(&self, jobs: Vec<String>) -> PyResult<Pending> {
        Pending::start(self.client.clone(), handles(&jobs)?)
    }

    /// What a job has written so far on its standard output, or error.
    fn output(&self, job: &str, stderr: bool) -> PyResult<Task> {
        let (client, handle) = (self.client.clone(), parsed::<Handle>("job", job)?);
        let name = if stderr { ResultName::Stderr } else { ResultName::Stdout };
        let wanted = Download { handle: handle.clone(), name, offset: 0, follow: false, run: None };
        let call = async move {
            let mut bytes = Vec::new();
            let piece = |piece: &[u8]| {
                bytes.extend_from_slice(piece);
                Ok(())
            };
            match client.output(&wanted, piece).await {
                Ok(_) => Ok(bytes),
                Err(error) => Err(match client.job(&handle).await {
                    Ok(record) if record.started.is_none() => did_not_run(Job::from(&record)),
                    _ => of_call(&error),
                }),
            }
        };
        Task::start(call, |py, bytes| Ok(PyBytes::new(py, &bytes).into_any().unbind()))
    }

    /// Fetches the results of a job into a folder.
    fn fetch(&self, job: &str, folder: PathBuf) -> PyResult<Task> {
        let (client, handle) = (self.client.clone(), parsed::<Handle>("job", job)?);
        let call = async move {
            let record = client.job(&handle).await.map_err(|error| of_call(&error))?;
            if record.started.is_none() {
                return Err(did_not_run(Job::from(&record)));
            }
            let results = client.results(&handle).await.map_err(|error| of_call(&error))?;
            for file in &results.files {
                client.fetch(&handle, file, &folder).await.map_err(|error| of_call(&error))?;
            }
            Ok(results)
        };
        Task::start(call, |py, results| object(py, Results::from(&results)))
    }

    /// Runs the sweep of these words in a folder, or without words resumes the one in it. A sweep with `ended` belongs to its caller, which
    /// gets the instances as they end.
    #[pyo3(signature = (words, out, progress, ended = None))]
    fn sweep(
        &self,
        py: Python<'_>,
        words: Option<Vec<String>>,
        out: PathBuf,
        progress: Option<Py<PyAny>>,
        ended: Option<Py<PyAny>>,
    ) -> PyResult<Task> {
        sweep::sweep(self.client.clone(), py, words, out, SweepCalls { progress, ended })
    }

    /// Runs the exploration of these words in a folder, or resumes the one in it.
    fn explore(
        &self,
        py: Python<'_>,
        words: Vec<String>,
        out: PathBuf,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Task> {
        sweep::explore(self.client.clone(), py, words, out, progress)
    }

    /// Launches what these words say, and follows it to its end, or until its agent can go on alone.
    fn launch(
        &self,
        py: Python<'_>,
        words: Vec<String>,
        detach: bool,
        out: Option<PathBuf>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Task> {
        launch::launch(self.client.clone(), py, words, detach, out, progress)
    }
}
