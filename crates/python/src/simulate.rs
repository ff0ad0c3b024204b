//! One simulation.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pliant_model::Time;
use pliant_policy::UnknownName;
use pliant_policy::batch::order::PrioritySettings;
use pliant_policy::custom::CustomPolicies;
use pliant_report::summarize;
use pliant_sim::campaign::Moldable;
use pliant_sim::{Observer, OptionError, Policies, PriorityError, PriorityOfLog, RunOptions, SimError};
use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::errors::{of_config, of_sim, wrong_input, wrong_input_with_hint};
use crate::options::{run_options, wrong_option};
use crate::platform::Platform;
use crate::policies::{Context, custom_policies};
use crate::run::Run;
use crate::workload::Workload;

/// The time between two checks for Ctrl-C, at which the user's function is called.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// How many simulations may run inside one another on one thread. Each takes a part of its stack.
const DEEPEST: usize = 16;

thread_local! {
    /// How many simulations run on this thread: a policy may start one.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// One simulation more on this thread, until it is dropped.
struct Level;

impl Level {
    fn enter() -> PyResult<Level> {
        if DEPTH.get() >= DEEPEST {
            return Err(PyRecursionError::new_err(format!(
                "expected at most {DEEPEST} simulations inside one another, found another one: a policy calls pliant.simulate, which \
                 calls the policy again"
            )));
        }
        DEPTH.set(DEPTH.get() + 1);
        Ok(Level)
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Simulates a workload on a platform. `custom` holds the policies that the user has written, each with its name, by the option that it
/// replaces. `progress` is called with the numbers of jobs that have ended and of all jobs.
#[pyfunction]
#[pyo3(signature = (workload, platform, options, custom, progress = None, priority = None))]
pub(crate) fn simulate(
    py: Python<'_>,
    workload: &Bound<'_, Workload>,
    platform: &Bound<'_, Platform>,
    options: &Bound<'_, PyDict>,
    custom: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
    priority: Option<PathBuf>,
) -> PyResult<Run> {
    let _level = Level::enter()?;
    let mut options = run_options(options)?;
    let (workload, platform) = (workload.get(), platform.get());
    let numbers = workload.inner.jobs.iter().map(|job| job.log_id as i64).collect();
    let context = Context::new(numbers, &platform.inner);
    check_custom(&options, custom)?;
    let aging = if custom.contains("order")? { options.local.aging.take() } else { None };
    let (custom, names) = custom_policies(custom, &context, aging.unwrap_or_default())?;
    let here = options.local.made_to(&platform.inner).map_err(wrong_input)?;
    if let Some(path) = &priority {
        options.priority = priority_settings(path, &here)?;
    }
    let policies = options.policies(platform.is_one_cluster).map_err(|error| wrong_option(&error))?;
    let mut observer = Reporter { progress, last: Instant::now(), failure: None };
    let run = py.detach(|| {
        let run = on(workload, &here, (&options, &policies, &custom), &mut observer)?;
        let summary = summarize(&run);
        Ok::<_, PyErr>((run, summary))
    });
    if let Some(failure) = observer.failure.or_else(|| context.raised()) {
        return Err(failure);
    }
    let (run, mut summary) = run?;
    let priority =
        priority.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    summary.run =
        options.describe(&policies, &workload.inner.report, workload.file.as_deref(), priority.as_deref());
    if !names.is_empty() {
        summary.run.insert("custom".to_owned(), json!(names));
    }
    let name = workload.file.clone().unwrap_or_else(|| workload.inner.name.clone());
    Ok(Run::new(name, run, summary))
}

/// The settings of a file with the table `[priority]`.
fn priority_settings(path: &Path, platform: &pliant_model::Platform) -> PyResult<PrioritySettings> {
    let read = pliant_config::read::<PriorityOfLog>(path, "expected a table [priority] alone");
    let (file, _) = read.map_err(|error| of_config(&error))?;
    file.settings(platform).map_err(|error| match error {
        PriorityError::NoOrder => wrong_input_with_hint(
            "expected a cluster with the order multifactor or fair-share with priority, found none",
            Some("give the order: batch=\"easy\", order=\"multifactor\""),
        ),
        PriorityError::Value { key, problem } => wrong_input(format!("{}: {key}: {problem}", path.display())),
    })
}

/// Options that would be ignored with a policy of the user are mistakes, as with a built-in one.
fn check_custom(options: &RunOptions, custom: &Bound<'_, PyDict>) -> PyResult<()> {
    if custom.contains("batch")? && (options.local.order.is_some() || custom.contains("order")?) {
        return Err(wrong_input(
            "expected no order with a batch policy of your own, found one: it gets the whole queue",
        ));
    }
    if custom.contains("batch")? && options.local.aging.is_some() {
        return Err(wrong_input("expected no aging with a batch policy of your own, found one"));
    }
    if custom.contains("tuner")? && options.moldable == Moldable::None {
        return Err(wrong_option(&OptionError::NotMoldable { option: "tuner" }));
    }
    let parameter =
        [("slack", options.slack), ("share", options.share)].into_iter().find(|(_, given)| given.is_some());
    if let (true, Some((name, _))) = (custom.contains("tuner")?, parameter) {
        return Err(wrong_input(format!("expected no {name} with a tuner of your own, found one")));
    }
    if custom.contains("heuristic")? && options.realloc.is_none() {
        return Err(wrong_option(&OptionError::NoReallocation { option: "heuristic" }));
    }
    Ok(())
}

fn on(
    workload: &Workload,
    platform: &pliant_model::Platform,
    (options, policies, custom): (&RunOptions, &Policies, &CustomPolicies),
    observer: &mut Reporter,
) -> PyResult<pliant_model::Run> {
    check_horizon(&workload.inner, platform)?;
    // Origins are positions in a platform, so they are resolved in this one.
    let mut resolved = workload.inner.clone();
    resolved.resolve_origins(platform);
    let mut drawn = options.jobs();
    let jobs = resolved.jobs.into_iter().map(|job| drawn.take(job));
    let run = pliant_sim::simulate_custom(platform, jobs, policies, custom, observer);
    let mut run = run.map_err(|error: SimError| of_sim(&error))?;
    if custom.batch.is_some() {
        let named = platform.with_batches(|_| Ok::<_, UnknownName>("custom".to_owned()));
        run.platform = named.map_err(wrong_input)?;
    }
    Ok(run)
}

/// Refuses jobs that could end after the last time there is if they ran one after the other.
fn check_horizon(workload: &pliant_trace::Workload, platform: &pliant_model::Platform) -> PyResult<()> {
    let slowest = platform.clusters().iter().map(|cluster| cluster.speed.get()).fold(1.0, f64::min);
    let sum: f64 = workload.jobs.iter().map(|job| job.walltime.0 as f64 / slowest + 1.0).sum();
    let last = workload.jobs.last().map_or(0, |job| job.submit.0) as f64;
    let most = (Time::MAX.0 / 2) as f64;
    match last + sum <= most {
        true => Ok(()),
        false => Err(wrong_input(format!(
            "expected jobs whose walltimes end by {most:.0} s one after the other, found {:.0} s",
            last + sum
        ))),
    }
}

/// Checks for Ctrl-C, and calls a function of the user's.
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
