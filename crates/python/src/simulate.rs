//! One simulation.

use std::time::{Duration, Instant};

use pliant_model::Time;
use pliant_report::summarize;
use pliant_sim::{Observer, Policies, RunOptions, SimError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::wrong_input;
use crate::options::{run_options, wrong_option};
use crate::platform::Platform;
use crate::run::Run;
use crate::workload::Workload;

/// The time between two looks for Ctrl-C and calls of the user's function.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Simulates a workload on a platform. `progress` is called with the numbers of jobs that have ended and of all jobs.
#[pyfunction]
#[pyo3(signature = (workload, platform, options, progress = None))]
pub(crate) fn simulate(
    py: Python<'_>,
    workload: &Bound<'_, Workload>,
    platform: &Bound<'_, Platform>,
    options: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Run> {
    let options = run_options(options)?;
    let (workload, platform) = (workload.get(), platform.get());
    let policies = options.policies(platform.is_one_cluster).map_err(|error| wrong_option(&error))?;
    let mut observer = Reporter { progress, last: Instant::now(), failure: None };
    let run = py.detach(|| on(workload, platform, (&options, &policies), &mut observer));
    if let Some(failure) = observer.failure {
        return Err(failure);
    }
    let run = run.map_err(wrong_input)?;
    let mut summary = summarize(&run);
    summary.run = options.describe(&policies, &workload.inner.report, workload.file.as_deref(), None);
    let name = workload.file.clone().unwrap_or_else(|| workload.inner.name.clone());
    Ok(Run { name, run, summary })
}

fn on(
    workload: &Workload,
    platform: &Platform,
    (options, policies): (&RunOptions, &Policies),
    observer: &mut Reporter,
) -> Result<pliant_model::Run, String> {
    let platform = options.local.made_to(&platform.inner).map_err(|unknown| unknown.to_string())?;
    // Origins are positions in a platform, so they are resolved in this one.
    let mut resolved = workload.inner.clone();
    resolved.resolve_origins(&platform);
    let mut drawn = options.jobs();
    let jobs = resolved.jobs.into_iter().map(|job| drawn.take(job));
    let run = pliant_sim::simulate(&platform, jobs, policies, observer);
    run.map_err(|error: SimError| error.to_string())
}

/// Looks for Ctrl-C, and calls a function of the user's.
struct Reporter {
    progress: Option<Py<PyAny>>,
    last: Instant,
    /// What ends the simulation.
    failure: Option<PyErr>,
}

impl Observer for Reporter {
    fn progress(&mut self, done: usize, total: usize, _: Time) -> bool {
        if self.last.elapsed() < REPORT_EVERY && done < total {
            return true;
        }
        self.last = Instant::now();
        let reported = Python::attach(|py| {
            py.check_signals()?;
            self.progress.as_ref().map_or(Ok(()), |progress| progress.call1(py, (done, total)).map(drop))
        });
        self.failure = reported.err();
        self.failure.is_none()
    }
}
