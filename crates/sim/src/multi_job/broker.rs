//! The broker that allocates the instances of a multi-job to clusters (paper 002, section 5.2.1).
//!
//! It knows the running and waiting jobs of each cluster, their starts and categories, and estimates their runtimes from
//! statistics. `policy::allocation` decides. The expected runtimes of running jobs are those of the paper or of live servers
//! ([`RunningJobs`]).

use std::sync::Arc;

use pliant_model::{Procs, Span, Time};
use pliant_policy::allocation::pending::{PendingJob, state};
use pliant_policy::allocation::{ClusterState, Strategy};
use pliant_policy::runtimes::{Categories, Estimator, Level, Predicted, Runtimes};

use super::sites::{Sites, Task};

/// The source of a broker's runtimes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RuntimeKnowledge {
    /// The whole log, as in the paper, including jobs that have not run yet.
    WholeLog,
    /// Finished jobs.
    Finished,
    /// The real runtimes.
    Exact,
}

/// The expected total runtime of a running job.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RunningJobs {
    /// The runtime expected at submission, as in the paper: a job that has run longer is expected to end at once.
    #[default]
    AsSubmitted,
    /// The runtime expected from the elapsed time, as on live servers ([`Runtimes::predict_running`]): the mean, or that of the
    /// jobs of its category that ran longer; a job that has outlasted them all is expected to run as long again.
    ByElapsed,
}

/// The settings of a broker.
#[derive(Clone, PartialEq, Debug)]
pub struct Broker {
    /// How instances are allocated.
    pub strategy: Strategy,
    /// The source of runtimes.
    pub knowledge: RuntimeKnowledge,
    /// The narrowest category level of predictions.
    pub level: Level,
    /// The estimator of a category.
    pub estimator: Estimator,
    /// The expected runtimes of running jobs.
    pub running: RunningJobs,
    /// The number of standard deviations added to pending work.
    pub deviations: f64,
    /// The poll period of the state machine of live sweeps, which submits instances as processors become free and reallocates
    /// waiting ones; none: all instances are queued at once.
    pub poll: Option<Span>,
    /// The number of replicas of an instance, the first included. With more than one, idle processors also take waiting
    /// instances. Sweeps do not replicate.
    pub copies: u32,
}

/// The runtime statistics of a broker.
#[derive(Clone, Debug)]
pub struct RuntimeStatistics {
    /// Of the whole log.
    pub whole: Arc<Runtimes<i32>>,
    /// Of the finished jobs.
    pub finished: Arc<Runtimes<i32>>,
}

impl Broker {
    /// True if instances never move.
    pub fn never_moves(&self) -> bool {
        self.poll.is_none() && self.copies < 2
    }

    /// A broker with the real runtimes.
    pub(super) fn with_real_runtimes() -> Broker {
        Broker {
            strategy: Strategy::Statistics,
            knowledge: RuntimeKnowledge::Exact,
            level: Level::All,
            estimator: Estimator::Mean,
            running: RunningJobs::AsSubmitted,
            deviations: 0.0,
            poll: None,
            copies: 1,
        }
    }

    /// The expected total runtime of a waiting or running task, and its deviation.
    fn expected(
        &self,
        statistics: &RuntimeStatistics,
        task: &Task,
        elapsed: Option<Span>,
        unknown: Span,
    ) -> (Span, Span) {
        if self.knowledge == RuntimeKnowledge::Exact {
            return (task.runtime, Span::ZERO);
        }
        let found = match (self.running, elapsed) {
            (RunningJobs::ByElapsed, Some(elapsed)) => {
                self.runtimes(statistics).predict_running(&task.categories, self.level, elapsed)
            }
            _ => self.predict(statistics, &task.categories),
        };
        found.map_or((unknown, Span::ZERO), |found| (found.runtime, found.deviation))
    }

    /// The prediction for a job of these categories.
    pub(super) fn predict(&self, statistics: &RuntimeStatistics, of: &Categories<i32>) -> Option<Predicted> {
        self.runtimes(statistics).predict(of, self.level, self.estimator)
    }

    fn runtimes<'a>(&self, statistics: &'a RuntimeStatistics) -> &'a Runtimes<i32> {
        match self.knowledge {
            RuntimeKnowledge::WholeLog | RuntimeKnowledge::Exact => &statistics.whole,
            RuntimeKnowledge::Finished => &statistics.finished,
        }
    }

    /// The states of the clusters for instances with expected runtime `job`; of waiting tasks only those that `counts` accepts.
    pub(super) fn states(
        &self,
        now: Time,
        sites: &Sites,
        statistics: &RuntimeStatistics,
        job: Span,
        counts: impl Fn(&Task) -> bool,
    ) -> Vec<ClusterState> {
        let mut jobs: Vec<Vec<PendingJob>> = vec![Vec::new(); sites.clusters().len()];
        let one = |task: &Task, elapsed| {
            let (runtime, deviation) = self.expected(statistics, task, elapsed, job);
            PendingJob { procs: Procs::ONE, runtime, deviation, elapsed }
        };
        for run in sites.running() {
            jobs[run.cluster].push(one(&run.task, Some(now - run.start)));
        }
        let all = sites.clusters().iter().zip(jobs);
        all.map(|(cluster, running)| {
            let waiting = cluster.waiting.iter().filter(|task| counts(task)).map(|task| one(task, None));
            // Logs do not record which jobs failed because of their cluster.
            state(Procs(cluster.processors), running.into_iter().chain(waiting), job, self.deviations, 0)
        })
        .collect()
    }
}
