//! What a broker knows, and how it spreads the instances of a multi-job (spec A.2.2).
//!
//! It sees which jobs run and wait on each cluster, since when and of which categories, and judges by statistics how
//! long they will run. The decision is that of `policy::allocation`.

use std::sync::Arc;

use pliant_model::{Procs, Span, Time};
use pliant_policy::allocation::pending::{Expected, free_times, remaining};
use pliant_policy::allocation::{ClusterState, Free, Offer, Strategy};
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
    /// How many standard deviations of the pending work are added to it.
    pub deviations: f64,
    /// How often waiting instances are allocated anew.
    pub period: Option<Span>,
    /// Copies of an instance, the first included; with more than one, idle processors also take waiting instances.
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
        self.period.is_none() && self.copies < 2
    }

    /// One for whom runtimes are what they will be.
    pub(super) fn told_the_truth() -> Broker {
        Broker {
            strategy: Strategy::Statistics,
            knowledge: Knowledge::Exact,
            level: Level::All,
            estimator: Estimator::Mean,
            deviations: 0.0,
            period: None,
            copies: 1,
        }
    }

    /// How long a task is expected to run, and the deviation of that.
    fn expected(&self, learned: &Learned, task: &Task, unknown: Span) -> (Span, Span) {
        if self.knowledge == Knowledge::Exact {
            return (task.runtime, Span::ZERO);
        }
        let found = self.predict(learned, &task.categories);
        found.map_or((unknown, Span::ZERO), |found| (found.runtime, found.deviation))
    }

    /// What statistics say of a job of these categories.
    pub(super) fn predict(&self, learned: &Learned, of: &Categories<i32>) -> Option<Predicted> {
        let runtimes = match self.knowledge {
            Knowledge::WholeLog | Knowledge::Exact => &learned.whole,
            Knowledge::Finished => &learned.finished,
        };
        runtimes.predict(of, self.level, self.estimator)
    }

    /// The clusters as the broker sees them, for instances that are expected to take `job`.
    pub(super) fn states(&self, now: Time, sites: &Sites, learned: &Learned, job: Span) -> Vec<ClusterState> {
        let mut running: Vec<Vec<Expected>> = vec![Vec::new(); sites.clusters().len()];
        let mut variance = vec![0.0; sites.clusters().len()];
        let one = |time| Expected { procs: Procs::ONE, time };
        for run in sites.running() {
            let (expected, deviation) = self.expected(learned, &run.task, job);
            running[run.cluster].push(one(remaining(expected, now - run.start)));
            variance[run.cluster] += (deviation.0 as f64).powi(2);
        }
        let all = sites.clusters().iter().zip(running).zip(variance);
        all.map(|((cluster, running), mut variance)| {
            let jobs = (running.len() + cluster.waiting.len()) as u64;
            let waiting = cluster.waiting.iter().map(|task| {
                let (expected, deviation) = self.expected(learned, task, job);
                variance += (deviation.0 as f64).powi(2);
                one(expected)
            });
            let waiting: Vec<Expected> = waiting.collect();
            let mut free = free_times(Procs(cluster.processors), running, waiting);
            self.add_deviations(&mut free, variance, cluster.processors);
            // Logs do not tell which jobs failed by their cluster's fault.
            ClusterState { offer: Offer { free, job: job.max(Span(1)) }, jobs, failures: 0 }
        })
        .collect()
    }

    /// The deviation of a sum of independent times, shared by the processors that work it off.
    fn add_deviations(&self, free: &mut [Free], variance: f64, processors: u32) {
        let more = self.deviations * variance.sqrt() / f64::from(processors.max(1));
        free.iter_mut().filter(|free| free.at > Span::ZERO).for_each(|free| {
            free.at = free.at + Span(more.round() as i64);
        });
    }
}
