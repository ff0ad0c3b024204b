//! Calls that run on one runtime of the module, while the interpreter runs other threads.

use std::process;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError};
use pyo3::prelude::*;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::errors::exception;

/// The threads of the runtime: they wait for the network.
const THREADS: usize = 2;
/// How often a call that waits lets signals through, and so Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);

/// What a call gives, made where the interpreter is attached.
type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// The runtime, with the process that started it.
static RUNTIME: OnceLock<(u32, Runtime)> = OnceLock::new();

/// The runtime of the module.
///
/// # Errors
///
/// After a fork: its threads are those of the parent.
pub(super) fn runtime() -> PyResult<&'static Runtime> {
    let started = RUNTIME.get_or_init(|| {
        let runtime =
            Builder::new_multi_thread().worker_threads(THREADS).thread_name("pliant").enable_all().build();
        (process::id(), runtime.expect("the system starts threads"))
    });
    if started.0 != process::id() {
        return Err(PyRuntimeError::new_err(
            "pliant: expected the process that made the first client, found a fork of it: use the start method spawn of multiprocessing",
        ));
    }
    Ok(&started.1)
}

/// A call in progress.
#[pyclass(frozen, module = "pliant._pliant", name = "Task")]
pub(crate) struct Task {
    shared: Arc<Shared>,
    stop: Stop,
}

/// How a call is ended early.
enum Stop {
    /// It is dropped where it waits.
    Abort(tokio::task::AbortHandle),
    /// It ends by itself, with what must be done before.
    Notify(Arc<Notify>),
}

struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    is_ended: bool,
    /// None before the end, and after it was taken.
    answer: Option<Answer>,
    /// Called once it has ended.
    callbacks: Vec<Py<PyAny>>,
}

impl Task {
    /// Starts a call that may be dropped at any time. `shown` makes a Python object of what it gives.
    pub(super) fn start<T: Send + 'static>(
        call: impl Future<Output = PyResult<T>> + Send + 'static,
        shown: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Task> {
        let shared = Shared::new();
        let running = runtime()?.spawn(shared.run(call, shown));
        Ok(Task { shared, stop: Stop::Abort(running.abort_handle()) })
    }

    /// Starts a call that ends soon after it was notified.
    pub(super) fn start_stoppable<T: Send + 'static, F>(
        call: impl FnOnce(Arc<Notify>) -> F,
        shown: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> PyResult<Task>
    where
        F: Future<Output = PyResult<T>> + Send + 'static,
    {
        let (shared, stop) = (Shared::new(), Arc::new(Notify::new()));
        runtime()?.spawn(shared.run(call(stop.clone()), shown));
        Ok(Task { shared, stop: Stop::Notify(stop) })
    }
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared { state: Mutex::default(), ended: Condvar::new() })
    }

    /// Runs a call to its end. The guard is there before the call is polled first: a call may be dropped earlier than that.
    fn run<T: Send + 'static>(
        self: &Arc<Self>,
        call: impl Future<Output = PyResult<T>> + Send + 'static,
        shown: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let guard = DropGuard(self.clone());
        async move {
            let ended = call.await;
            guard.0.end(Box::new(move |py| shown(py, ended?)));
        }
    }

    /// Keeps the answer if there is none, and notifies those that wait for it.
    fn end(&self, answer: Answer) {
        let callbacks = {
            let mut state = self.state.lock();
            if state.is_ended {
                return;
            }
            (state.is_ended, state.answer) = (true, Some(answer));
            std::mem::take(&mut state.callbacks)
        };
        self.ended.notify_all();
        if callbacks.is_empty() {
            return;
        }
        // At the end of the interpreter nothing waits any more.
        Python::try_attach(|py| callbacks.into_iter().for_each(|callback| called(py, &callback)));
    }
}

/// Ends a call that is dropped where it waits, or that panics.
struct DropGuard(Arc<Shared>);

impl Drop for DropGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end(Box::new(|_| Err(internal())));
        } else {
            self.0.end(Box::new(|_| Err(PyRuntimeError::new_err("the call was cancelled"))));
        }
    }
}

/// A call that panicked: the panic has printed where.
pub(super) fn internal() -> PyErr {
    let hint = "it is a bug of Pliant: please report it with the message on standard error";
    exception("InternalError", "expected an answer of the call, found that it panicked", Some(hint))
}

/// Calls a function of the package's; its error has no other way out.
fn called(py: Python<'_>, callback: &Py<PyAny>) {
    if let Err(error) = callback.call0(py) {
        error.write_unraisable(py, None);
    }
}

#[pymethods]
impl Task {
    /// Waits for the end, at most so many seconds, and gives the answer once. Ctrl-C ends the call.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Py<PyAny>> {
        let until = timeout.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 1e9)));
        loop {
            let left = until.map_or(SIGNALS, |until| until.saturating_duration_since(Instant::now()));
            let is_ended = py.detach(|| {
                let mut state = self.shared.state.lock();
                if !state.is_ended {
                    self.shared.ended.wait_for(&mut state, left.min(SIGNALS));
                }
                state.is_ended
            });
            if is_ended {
                let answer = self.shared.state.lock().answer.take();
                let taken = || PyRuntimeError::new_err("expected a call whose answer was not taken");
                return answer.ok_or_else(taken)?(py);
            }
            py.check_signals().inspect_err(|_| self.cancel())?;
            if until.is_some_and(|until| Instant::now() >= until) {
                return Err(PyTimeoutError::new_err("the call has not ended"));
            }
        }
    }

    /// True once it has ended.
    fn done(&self) -> bool {
        self.shared.state.lock().is_ended
    }

    /// Ends the call.
    fn cancel(&self) {
        match &self.stop {
            Stop::Abort(running) => running.abort(),
            // Kept if nothing waits for it yet.
            Stop::Notify(stop) => stop.notify_one(),
        }
    }

    /// Calls a function without arguments once it has ended: at once, or from a thread of the runtime.
    fn add_done_callback(&self, py: Python<'_>, callback: Py<PyAny>) {
        let mut state = self.shared.state.lock();
        if state.is_ended {
            drop(state);
            called(py, &callback);
        } else {
            state.callbacks.push(callback);
        }
    }
}

/// A call that panics, for the test that a panic becomes an exception.
pub(crate) fn panicking() -> PyResult<Task> {
    Task::start(async { panic!("asked for") }, |_, ended: Py<PyAny>| Ok(ended))
}
