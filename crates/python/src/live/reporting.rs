//! Functions of the user's that are called while work runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pliant_client::{FolderError, InstanceState, SweepView};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use tokio::sync::Notify;

use super::errors::of_folder;
use super::sweep::Instance;

/// The least time between two looks for instances that have ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Calls a function of the user's; its exception stops the work.
pub(super) struct Reporter {
    call: Option<Py<PyAny>>,
    failure: Option<PyErr>,
    stop: Arc<Notify>,
}

impl Reporter {
    pub(super) fn new(call: Option<Py<PyAny>>, stop: Arc<Notify>) -> Reporter {
        Reporter { call, failure: None, stop }
    }

    /// The exception of the function.
    pub(super) fn into_failure(self) -> Option<PyErr> {
        self.failure
    }

    pub(super) fn report(&mut self, with: impl for<'py> PyCallArgs<'py>) {
        let Some(call) = self.call.as_ref().filter(|_| self.failure.is_none()) else { return };
        if let Some(Err(failure)) = Python::try_attach(|py| call.call1(py, with).map(drop)) {
            self.fail(failure);
        }
    }

    fn fail(&mut self, failure: PyErr) {
        self.failure.get_or_insert(failure);
        self.stop.notify_one();
    }
}

/// Looks for instances of a sweep that have ended, and reports each once.
pub(super) struct EndWatch {
    dir: PathBuf,
    reporter: Reporter,
    view: Option<SweepView>,
    /// The instances that were not reported.
    left: Vec<u32>,
    looked: Option<Instant>,
}

impl EndWatch {
    pub(super) fn new(ended: Option<Py<PyAny>>, instances: u32, dir: PathBuf, stop: Arc<Notify>) -> EndWatch {
        let left = if ended.is_some() { (0..instances).collect() } else { Vec::new() };
        let reporter = Reporter::new(ended, stop);
        EndWatch { dir, reporter, view: None, left, looked: None }
    }

    /// What ended the watch.
    pub(super) fn into_failure(self) -> Option<PyErr> {
        self.reporter.into_failure()
    }

    /// Looks for ends, not more often than is useful.
    pub(super) fn look_again(&mut self) {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
            self.look();
        }
    }

    /// Looks for ends now.
    pub(super) fn look(&mut self) {
        if self.left.is_empty() || self.reporter.failure.is_some() {
            return;
        }
        match self.ended() {
            Ok(ended) if ended.is_empty() => {}
            Ok(ended) => self.reporter.report((ended,)),
            Err(error) => self.reporter.fail(of_folder(&error)),
        }
        // What is read takes time, too, for a large sweep.
        self.looked = Some(Instant::now());
    }

    /// The instances that have ended since the last call.
    fn ended(&mut self) -> Result<Vec<Instance>, FolderError> {
        let view = match &mut self.view {
            Some(view) => {
                view.refresh()?;
                view
            }
            None => self.view.insert(SweepView::open(&self.dir)?),
        };
        let is_left = |instance: &u32| {
            matches!(view.state(*instance), InstanceState::Submitted | InstanceState::Waiting)
        };
        let (left, ended): (Vec<u32>, Vec<u32>) = self.left.iter().copied().partition(is_left);
        self.left = left;
        let names: Vec<String> = view.parameters().names().map(str::to_owned).collect();
        ended.into_iter().map(|instance| Ok(Instance::of(view.row(instance)?, &names))).collect()
    }
}
