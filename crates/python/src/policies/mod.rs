//! Policies that users write in Python, as custom policies of a simulation (`pliant_policy::custom`).
//!
//! An exception of a policy is kept and raised by the call that started the simulation. What a policy decides is converted here and
//! checked where it is applied.

mod views;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use pliant_model::{ClusterId, Estimate, JobId, Platform, Request, Time};
use pliant_policy::batch::order::Aging;
use pliant_policy::batch::{BatchView, Submission};
use pliant_policy::custom::{
    BatchPolicy, CustomPolicies, HeuristicRule, JobOptions, MappingRule, PolicyError, QueueOrder, QueueView,
    SizingRule,
};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyIterator, PyList};

pub(crate) use views::{Candidates, Offers, Queue, Sizes, WaitingJob};

use crate::arguments::shown;
use crate::errors::{wrong_decision, wrong_input};

// What policies return.
const WAITING: &str = "the position of a waiting job";
const OFFER: &str = "the position of an offer";
const SIZE: &str = "the position of a size";

/// What the policies of one simulation share.
pub(crate) struct Context {
    /// The numbers of jobs in the workload, by ID.
    pub(crate) numbers: Vec<i64>,
    /// The names of the clusters.
    pub(crate) clusters: Vec<String>,
    /// The exception that ended the simulation.
    raised: Mutex<Option<PyErr>>,
}

impl Context {
    pub(crate) fn new(numbers: Vec<i64>, platform: &Platform) -> Arc<Context> {
        let clusters = platform.clusters().iter().map(|cluster| cluster.name.clone()).collect();
        Arc::new(Context { numbers, clusters, raised: Mutex::new(None) })
    }

    /// Takes the exception of a policy, if one was raised.
    pub(crate) fn raised(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn number(&self, job: JobId) -> i64 {
        self.numbers[job.index()]
    }

    fn cluster(&self, cluster: ClusterId) -> &str {
        &self.clusters[cluster.index()]
    }
}

/// The policies that a dictionary holds with their names, by the option that each replaces; and the names, by the option.
pub(crate) fn custom_policies(
    given: &Bound<'_, PyDict>,
    context: &Arc<Context>,
    aging: Aging,
) -> PyResult<(CustomPolicies, BTreeMap<String, String>)> {
    let (mut custom, mut names) = (CustomPolicies::default(), BTreeMap::new());
    for (option, given) in given {
        let (option, (policy, name)): (String, (Bound<'_, PyAny>, String)) =
            (option.extract()?, given.extract()?);
        let caller = Arc::new(Caller { policy: policy.unbind(), context: Arc::clone(context) });
        match option.as_str() {
            "batch" => custom.batch = Some(caller),
            "order" => custom.order = Some((caller, aging)),
            "mapping" => custom.mapping = Some(caller),
            "tuner" => custom.sizing = Some(caller),
            "heuristic" => custom.heuristic = Some(caller),
            other => return Err(wrong_input(format!("{other}: expected a text, found an object"))),
        }
        names.insert(option, name);
    }
    Ok((custom, names))
}

/// One policy.
struct Caller {
    policy: Py<PyAny>,
    context: Arc<Context>,
}

impl Caller {
    /// Calls Python; an exception is kept.
    fn call<T>(
        &self,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, PolicyError> {
        Python::attach(|py| {
            call(py, self.policy.bind(py)).map_err(|raised| {
                let error = PolicyError::Failed(raised.to_string());
                self.context.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(raised);
                error
            })
        })
    }
}

/// A sequence of numbers; an array gives them faster as a list.
fn listed<'py>(found: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if found.is_instance_of::<PyList>() {
        return Ok(found);
    }
    match found.getattr_opt("tolist")? {
        Some(method) => method.call0(),
        None => Ok(found),
    }
}

/// The items of what a policy has returned. What an iterable raises is an exception of the policy.
fn items<'py>(expected: &str, now: Time, found: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    let found = listed(found)?;
    if found.hasattr("__iter__")? || found.hasattr("__getitem__")? {
        return found.try_iter();
    }
    let problem = format!("expected {expected} at {now} s, found {}", shown(&found));
    Err(wrong_decision(problem, Some("return a list, an array or another iterable")))
}

/// One number for each of so many jobs. No more are taken: an iterable may have no end.
fn values(what: &'static str, now: Time, jobs: usize, found: Bound<'_, PyAny>) -> PyResult<Vec<f64>> {
    let expected = format!("numbers as {what}");
    let found = listed(found)?;
    if let Some(found) = found.len().ok().filter(|found| *found != jobs) {
        return Err(wrong_decision(PolicyError::Count { what, now, expected: jobs, found }, None));
    }
    let value = |value: Bound<'_, PyAny>| {
        value.extract().map_err(|error| no_number(error, &expected, "the range of floats", now, &value))
    };
    items(&expected, now, found)?.take(jobs + 1).map(|found| value(found?)).collect()
}

/// Positions of so many waiting jobs. One more is taken at most, since an iterable may have no end: then one is wrong or there twice.
fn positions(what: &str, now: Time, jobs: usize, found: Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    let found = items("positions of waiting jobs", now, found)?;
    found.take(jobs + 1).map(|found| whole(what, now, &found?)).collect()
}

/// A whole number. A truth value is refused, although Python takes it for one: a mask is no list of positions.
fn whole(what: &str, now: Time, found: &Bound<'_, PyAny>) -> PyResult<i64> {
    if found.is_instance_of::<PyBool>() {
        let problem = format!("expected {what} at {now} s, found {found}");
        return Err(wrong_decision(problem, Some("numpy.flatnonzero(mask) gives the positions of a mask")));
    }
    found.extract().map_err(|error| no_number(error, what, "64 bits", now, found))
}

/// The error of what is no number, or a too large one: it is the decision that is wrong, not the code of the policy.
fn no_number(error: PyErr, expected: &str, range: &str, now: Time, found: &Bound<'_, PyAny>) -> PyErr {
    let py = found.py();
    let found = match (error.is_instance_of::<PyOverflowError>(py), error.is_instance_of::<PyTypeError>(py)) {
        // Not in decimal digits: Python refuses to write very long numbers.
        (true, _) => format!("a number beyond {range}"),
        (false, true) => shown(found),
        (false, false) => return error,
    };
    wrong_decision(format!("expected {expected} at {now} s, found {found}"), None)
}

/// A position that Python has returned, which may be negative.
fn position(what: &'static str, now: Time, choices: usize, found: i64) -> Result<usize, PolicyError> {
    let most = choices.saturating_sub(1);
    let wrong = PolicyError::Position { what, now, most, found };
    usize::try_from(found).ok().filter(|found| *found < choices).ok_or(wrong)
}

impl BatchPolicy for Caller {
    fn submitted(&self, now: Time, cluster: ClusterId, job: &Submission) -> Result<(), PolicyError> {
        self.call(|py, policy| {
            let job = Py::new(py, WaitingJob::queued(job, cluster, &self.context))?;
            policy.call_method1("on_submit", (now.0, job)).map(drop)
        })
    }

    fn ended(&self, now: Time, _cluster: ClusterId, job: JobId) -> Result<(), PolicyError> {
        let job = self.context.number(job);
        self.call(|_, policy| policy.call_method1("on_end", (now.0, job)).map(drop))
    }

    fn schedule(&self, view: &BatchView<'_>) -> Result<Vec<JobId>, PolicyError> {
        let jobs: Vec<Submission> = view.queue().collect();
        let ids: Vec<JobId> = jobs.iter().map(|job| job.job).collect();
        let releases = view.releases().map(|(at, procs)| (at.0, procs.0)).collect();
        let (now, free) = (view.now(), view.free().0);
        let queue = Queue::new(now, (view.cluster(), view.procs()), jobs, releases, &self.context);
        let starts = self.call(|py, policy| {
            let found = policy.call_method1("schedule", (now.0, Py::new(py, queue)?, free))?;
            positions(WAITING, now, ids.len(), found)
        })?;
        let job = |found: i64| Ok(ids[position(WAITING, now, ids.len(), found)?]);
        starts.into_iter().map(job).collect()
    }
}

impl QueueOrder for Caller {
    fn ranks(&self, view: &QueueView<'_>) -> Result<Vec<f64>, PolicyError> {
        let cluster = (view.cluster, view.procs);
        let queue = Queue::new(view.now, cluster, view.jobs.to_vec(), Vec::new(), &self.context);
        self.call(|py, policy| {
            let found = policy.call_method1("ranks", (view.now.0, Py::new(py, queue)?))?;
            values("ranks", view.now, view.jobs.len(), found)
        })
    }
}

impl MappingRule for Caller {
    fn choose(
        &self,
        now: Time,
        request: &Request,
        offers: &[(ClusterId, Estimate)],
    ) -> Result<usize, PolicyError> {
        let found = self.call(|py, policy| {
            let job = Py::new(py, WaitingJob::arriving(request, &self.context))?;
            let offers = Py::new(py, Offers::new(offers, &self.context))?;
            whole(OFFER, now, &policy.call_method1("choose", (now.0, job, offers))?)
        })?;
        position(OFFER, now, offers.len(), found)
    }
}

impl SizingRule for Caller {
    fn choose(&self, now: Time, sizes: &[Estimate], waiting: usize) -> Result<usize, PolicyError> {
        let found = self.call(|py, policy| {
            let sizes = Py::new(py, Sizes::new(sizes))?;
            whole(SIZE, now, &policy.call_method1("choose", (now.0, sizes, waiting))?)
        })?;
        position(SIZE, now, sizes.len(), found)
    }
}

impl HeuristicRule for Caller {
    fn urgencies(&self, now: Time, jobs: &[JobOptions]) -> Result<Vec<f64>, PolicyError> {
        self.call(|py, policy| {
            let candidates = Py::new(py, Candidates::new(jobs, &self.context))?;
            values("urgencies", now, jobs.len(), policy.call_method1("urgencies", (now.0, candidates))?)
        })
    }
}
