//! The environment of learning agents (`python/pliant/gym.py`): a simulation that stops at each pick, and what the agent sees then.

use std::sync::{Mutex, PoisonError};

use pliant_model::{Job, JobId, Procs, Speedup, Time};
use pliant_report::summarize;
use pliant_sim::{SimError, SimJob, Step};
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::arguments::Argument;
use crate::errors::{of_sim, wrong_input};
use crate::run::Run;
use crate::workload::Workload;

/// The features of a job, in this order: wait, walltime, processors, memory (always the largest value), user, group, executable, and
/// whether the job fits now.
const FEATURES: usize = 8;
/// The wait from which on the feature is largest, s.
const LONGEST_WAIT_S: f32 = 43_200.0;
/// The most jobs of a workload.
const MOST_JOBS: usize = u32::MAX as usize;
/// The most places of a window.
const WIDEST_WINDOW: usize = 65_536;
/// The largest feature, and the least distance of "no" from 0.
const SMALL: f32 = 1e-5;
/// The features of an empty place of the window.
const EMPTY: [f32; FEATURES] = [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0];

/// Divisors of features: the largest values of the jobs of an episode.
struct Scale {
    procs: f32,
    walltime: f32,
    user: f32,
    group: f32,
    executable: f32,
}

/// A part of an observation: at most 1.
fn share(value: f32, most: f32) -> f32 {
    (value / most).clamp(0.0, 1.0 - SMALL)
}

/// One sequence of jobs on one cluster.
struct State {
    episode: pliant_sim::Episode,
    jobs: Vec<Job>,
    /// The position of the first job in the workload, and its submission.
    first: usize,
    begin: Time,
    scale: Scale,
    /// The jobs of the window, as the agent last saw them.
    window: Vec<JobId>,
    /// The features of the window.
    features: Vec<f32>,
}

/// One sequence of jobs on one cluster, which stops at each pick.
#[pyclass(frozen, module = "pliant._pliant", name = "Episode")]
pub(crate) struct Episode(Mutex<Option<State>>);

/// What an agent sees: the features of the window as 32-bit floats, and the number of jobs in it.
type Seen<'py> = (Bound<'py, PyByteArray>, usize);

/// Why a call of an episode is impossible. Exceptions are made of it when the lock is free: Python may run other threads meanwhile.
enum Problem {
    /// The episode is over.
    Over,
    /// No waiting job is at the position that was picked.
    NotWaiting { waiting: usize, position: usize },
    /// The simulation failed.
    Failed(SimError),
}

impl From<Problem> for PyErr {
    fn from(problem: Problem) -> PyErr {
        match problem {
            Problem::Over => wrong_input("expected an episode that is not over, found one that is"),
            Problem::NotWaiting { waiting, position } => wrong_input(format!(
                "expected the position of one of {waiting} waiting jobs, found {position}"
            )),
            Problem::Failed(error) => of_sim(&error),
        }
    }
}

#[pymethods]
impl Episode {
    /// The `count` jobs from position `first` on, on a cluster of that many processors. A window has so many places.
    #[new]
    #[pyo3(signature = (workload, procs, *, first, count, window, backfill))]
    fn new(
        workload: &Bound<'_, Workload>,
        procs: &Bound<'_, PyAny>,
        first: &Bound<'_, PyAny>,
        count: &Bound<'_, PyAny>,
        window: &Bound<'_, PyAny>,
        backfill: bool,
    ) -> PyResult<Episode> {
        let procs = Argument { name: "procs", value: procs }.whole(1..=u32::MAX)?;
        let first = Argument { name: "first", value: first }.whole(0..=MOST_JOBS)?;
        let count = Argument { name: "jobs", value: count }.whole(1..=MOST_JOBS)?;
        let window = Argument { name: "window", value: window }.whole(1..=WIDEST_WINDOW)?;
        let all = &workload.get().inner.jobs;
        let part =
            first.checked_add(count).and_then(|end| all.get(first..end)).filter(|part| !part.is_empty());
        let part = part.ok_or_else(|| {
            wrong_input(format!(
                "expected a sequence of the {} jobs, found {count} from {first} on",
                all.len()
            ))
        })?;
        if let Some(job) = part.iter().find(|job| job.procs.0 > procs) {
            return Err(wrong_input(format!(
                "expected jobs of at most {procs} processors, found job {} of {}",
                job.log_id, job.procs.0
            )));
        }
        let begin = part[0].submit;
        let shifted = |job: &Job| Job { submit: Time((job.submit - begin).0), ..job.clone() };
        let jobs: Vec<Job> = part.iter().map(shifted).collect();
        let most = |of: fn(&Job) -> i64| jobs.iter().map(of).max().unwrap_or(1).max(1) as f32;
        let scale = Scale {
            procs: procs as f32,
            walltime: most(|job| job.walltime.0),
            user: most(|job| job.user.into()),
            group: most(|job| job.group.into()),
            executable: most(|job| job.executable.into()),
        };
        let sim = |job: &Job| SimJob {
            job: job.clone(),
            speedup: Speedup::Rigid,
            true_speedup: None,
            managed: true,
        };
        let episode = pliant_sim::Episode::new(Procs(procs), jobs.iter().map(sim).collect(), backfill);
        let episode = episode.map_err(wrong_input)?;
        let features = vec![0.0; window * FEATURES];
        let window = Vec::with_capacity(window);
        let state = State { episode, jobs, first, begin, scale, window, features };
        Ok(Episode(Mutex::new(Some(state))))
    }

    /// Goes on to the next pick and returns what the agent sees; none if all jobs have ended.
    fn advance<'py>(&self, py: Python<'py>) -> PyResult<Option<Seen<'py>>> {
        let seen = self.with(State::advance)?;
        Ok(seen.map(|(bytes, waiting)| (PyByteArray::new(py, &bytes), waiting)))
    }

    /// Picks the job at a position of the window, then goes on as `advance`.
    fn step<'py>(&self, py: Python<'py>, position: usize) -> PyResult<Option<Seen<'py>>> {
        let seen = self.with(|state| {
            let job = state.window.get(position).copied().filter(|job| state.episode.pick(*job));
            match job {
                None => Err(Problem::NotWaiting { waiting: state.window.len(), position }),
                Some(_) => state.advance(),
            }
        })?;
        Ok(seen.map(|(bytes, waiting)| (PyByteArray::new(py, &bytes), waiting)))
    }

    /// The present time, on the clock of the workload.
    #[getter]
    fn now(&self) -> PyResult<i64> {
        Ok(self.with(|state| Ok(state.begin.0 + state.episode.now().0))?)
    }

    /// The positions in the workload of the jobs of the window, as 64-bit integers.
    #[getter]
    fn window<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyByteArray>> {
        let bytes: Vec<u8> = self.with(|state| {
            let position = |job: &JobId| (state.first + job.index()) as i64;
            Ok(state.window.iter().map(position).flat_map(i64::to_ne_bytes).collect())
        })?;
        Ok(PyByteArray::new(py, &bytes))
    }

    /// The run of the jobs that have started; the episode is over.
    fn run(&self) -> PyResult<Run> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let run = state.ok_or(Problem::Over)?.episode.into_run();
        let summary = summarize(&run);
        Ok(Run::new("episode".to_owned(), run, summary))
    }
}

impl Episode {
    /// Calls a function that does not call Python.
    fn with<T>(&self, call: impl FnOnce(&mut State) -> Result<T, Problem>) -> Result<T, Problem> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        call(state.as_mut().ok_or(Problem::Over)?)
    }
}

impl State {
    /// Goes on to the next pick: the bytes of the features, and the number of jobs in the window.
    fn advance(&mut self) -> Result<Option<(Vec<u8>, usize)>, Problem> {
        match self.episode.advance().map_err(Problem::Failed)? {
            Step::Done => Ok(None),
            Step::Pick => {
                self.observe();
                let bytes = self.features.iter().flat_map(|value| value.to_ne_bytes()).collect();
                Ok(Some((bytes, self.window.len())))
            }
        }
    }

    /// Notes the window and its features.
    fn observe(&mut self) {
        let Self { episode, jobs, scale, window, features, .. } = self;
        let (now, free) = (episode.now(), episode.picks().free());
        window.clear();
        let places = features.len() / FEATURES;
        let (places_of_jobs, _) = features.as_chunks_mut::<FEATURES>();
        episode.picks().oldest(places, |one| {
            let job = &jobs[one.job.index()];
            places_of_jobs[window.len()] = [
                share((now - one.submit).0 as f32, LONGEST_WAIT_S),
                share(job.walltime.0 as f32, scale.walltime),
                share(job.procs.0 as f32, scale.procs),
                1.0 - SMALL,
                share(job.user as f32, scale.user),
                share(job.group as f32, scale.group),
                share(job.executable as f32, scale.executable),
                if one.procs <= free { 1.0 - SMALL } else { SMALL },
            ];
            window.push(one.job);
        });
        places_of_jobs[window.len()..].fill(EMPTY);
    }
}
