//! What a broker knows, and how it spreads the instances of a multi-job (spec A.2.2).
//!
//! It sees which jobs run and wait on each cluster, since when and of which categories, and judges by statistics how
//! long they will run. The decision is that of `policy::allocation`; what running jobs are expected to take is the paper's
//! or that of live servers ([`RunningJobs`]).

use std::sync::Arc;

use pliant_model::{Procs, Span, Time};
use pliant_policy::allocation::pending::{PendingJob, state};
use pliant_policy::allocation::{ClusterState, Strategy};
use pliant_policy::runtimes::{Categories, Estimator, Level, Predicted, Runtimes};

use super::sites::{Sites, Task};

/// From where a broker knows how long jobs run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Knowledge {
    /// From the whole log, as in the paper: also from jobs that have not run yet.
    WholeLog,
    /// From jobs that have finished.
    Finished,
    /// It is told the truth.
    Exact,
}

/// How long a job that runs is expected to take in all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RunningJobs {
    /// As long as before it began, as in the paper: one that has run longer than that is expected to end at once.
    #[default]
    AsSubmitted,
    /// By how long it has run so far, as live servers expect it ([`Runtimes::predict_running`]): by the mean, or like those
    /// of its category that ran longer than it has; one that has outlived them all is expected to run as long again.
    ByElapsed,
}

/// A way to place a multi-job.
#[derive(Clone, PartialEq, Debug)]
pub struct Broker {
    /// How instances are spread.
    pub strategy: Strategy,
    /// From where runtimes are known.
    pub knowledge: Knowledge,
    /// The narrowest categories that are asked.
    pub level: Level,
    /// What is taken of a category.
    pub estimator: Estimator,
    /// What is expected of the jobs that run.
    pub running: RunningJobs,
    /// How many standard deviations of the pending work are added to it.
    pub deviations: f64,
    /// How often the state machine of live sweeps polls the clusters, which hands instances out as processors come free and
    /// allocates anew what waits; none to queue all instances at once.
    pub poll: Option<Span>,
    /// Copies of an instance, the first included; with more than one, idle processors also take waiting instances. Sweeps
    /// make no copies.
    pub copies: u32,
}

/// What is known of runtimes.
#[derive(Clone, Debug)]
pub struct Learned {
    /// From the whole log.
    pub whole: Arc<Runtimes<i32>>,
    /// From the jobs that have finished.
    pub finished: Arc<Runtimes<i32>>,
}

impl Broker {
    /// True if instances stay where they are put.
    pub fn leaves_instances(&self) -> bool {
        self.poll.is_none() && self.copies < 2
    }

    /// One for whom runtimes are what they will be.
    pub(super) fn told_the_truth() -> Broker {
        Broker {
            strategy: Strategy::Statistics,
            knowledge: Knowledge::Exact,
            level: Level::All,
            estimator: Estimator::Mean,
            running: RunningJobs::AsSubmitted,
            deviations: 0.0,
            poll: None,
            copies: 1,
        }
    }

    /// How long a task is expected to run in all that has been running for so long, or waits, and the deviation of that.
    fn expected(&self, learned: &Learned, task: &Task, elapsed: Option<Span>, unknown: Span) -> (Span, Span) {
        if self.knowledge == Knowledge::Exact {
            return (task.runtime, Span::ZERO);
        }
        let found = match (self.running, elapsed) {
            (RunningJobs::ByElapsed, Some(elapsed)) => {
                self.runtimes(learned).predict_running(&task.categories, self.level, elapsed)
            }
            _ => self.predict(learned, &task.categories),
        };
        found.map_or((unknown, Span::ZERO), |found| (found.runtime, found.deviation))
    }

    /// What statistics say of a job of these categories.
    pub(super) fn predict(&self, learned: &Learned, of: &Categories<i32>) -> Option<Predicted> {
        self.runtimes(learned).predict(of, self.level, self.estimator)
    }

    fn runtimes<'a>(&self, learned: &'a Learned) -> &'a Runtimes<i32> {
        match self.knowledge {
            Knowledge::WholeLog | Knowledge::Exact => &learned.whole,
            Knowledge::Finished => &learned.finished,
        }
    }

    /// The clusters as the broker sees them, for instances that are expected to take `job`, as if nothing waited but what
    /// `counts`.
    pub(super) fn states(
        &self,
        now: Time,
        sites: &Sites,
        learned: &Learned,
        job: Span,
        counts: impl Fn(&Task) -> bool,
    ) -> Vec<ClusterState> {
        let mut jobs: Vec<Vec<PendingJob>> = vec![Vec::new(); sites.clusters().len()];
        let one = |task: &Task, elapsed| {
            let (runtime, deviation) = self.expected(learned, task, elapsed, job);
            PendingJob { procs: Procs::ONE, runtime, deviation, elapsed }
        };
        for run in sites.running() {
            jobs[run.cluster].push(one(&run.task, Some(now - run.start)));
        }
        let all = sites.clusters().iter().zip(jobs);
        all.map(|(cluster, running)| {
            let waiting = cluster.waiting.iter().filter(|task| counts(task)).map(|task| one(task, None));
            // Logs do not tell which jobs failed by their cluster's fault.
            state(Procs(cluster.processors), running.into_iter().chain(waiting), job, self.deviations, 0)
        })
        .collect()
    }
}
