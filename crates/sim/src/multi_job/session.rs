//! Scenarios 3 and 4: a multi-job among background jobs that are submitted while it runs.
//!
//! Within one instant ends come first, then submissions, then actions of the multi-job's broker.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use pliant_model::{Span, Time};
use pliant_policy::allocation::instances::RuntimeSource;
use pliant_policy::allocation::{ClusterState, Free, allocate};
use pliant_policy::runtimes::{Categories, Predicted};
use rand::Rng;

use super::Background;
use super::broker::{Broker, RuntimeStatistics};
use super::sites::{Class, Event, Queue, Running, Sites, Task};
use super::{queued, sweep};
use crate::kernel::EventQueue;

/// The instances of one program.
#[derive(Clone, PartialEq, Debug)]
pub struct MultiJob {
    /// The runtime of each instance.
    pub runtimes: Vec<Span>,
    /// The runtime of a replica of each instance, drawn separately as if machines made the difference.
    pub replicas: Vec<Span>,
    /// Its executable, user and group.
    pub categories: Categories<i32>,
}

impl MultiJob {
    pub(super) fn task(&self, instance: usize) -> Task {
        Task { runtime: self.runtimes[instance], categories: self.categories, instance: Some(instance) }
    }
}

/// The state that a broker sees at one moment.
#[derive(Clone, PartialEq, Debug)]
pub struct BrokerView {
    /// The expected runtime of an instance.
    pub time: Span,
    /// The source of this expectation.
    pub source: RuntimeSource,
    /// The clusters.
    pub states: Vec<ClusterState>,
}

/// The outcome of a multi-job.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Outcome {
    /// The makespan that the broker expected.
    pub expected: Span,
    /// From the submission to the last end.
    pub makespan: Span,
    /// Mean time from the submission to the end of an instance, s.
    pub mean_response_s: f64,
    /// The number of moves of waiting instances.
    pub moves: u64,
    /// The number of started replicas.
    pub replicas: u64,
}

/// Clusters at some moment of a log. Each broker is tried on a clone.
#[derive(Clone, Debug)]
pub struct Session<'a> {
    background: &'a Background,
    next: usize,
    pub(super) queue: Queue,
    pub(super) sites: Sites,
    pub(super) statistics: RuntimeStatistics,
}

impl<'a> Session<'a> {
    /// Idle clusters with these processors at a moment of the log.
    pub fn new(
        background: &'a Background,
        processors: &[u32],
        start: Time,
        statistics: RuntimeStatistics,
    ) -> Session<'a> {
        let next = background.from(start);
        let (queue, sites) = (EventQueue::new(start), Sites::new(processors));
        let mut session = Session { background, next, queue, sites, statistics };
        session.schedule_submission();
        session
    }

    /// Runs the background jobs for a while.
    pub fn run_for(&mut self, delay: Span) {
        let until = self.queue.now() + delay;
        while let Some((_, event)) = self.queue.pop_due(until) {
            match event {
                Event::End(start) => {
                    if let Some(run) = self.end(start) {
                        self.learn(&run.task);
                    }
                }
                Event::Submission => self.submit_next(),
                Event::Poll => {}
            }
        }
        self.queue.advance(until);
    }

    pub(super) fn now(&self) -> Time {
        self.queue.now()
    }

    fn schedule_submission(&mut self) {
        if let Some(job) = self.background.jobs.get(self.next) {
            self.queue.schedule(job.submit, Class::Submission, Event::Submission);
        }
    }

    /// Submits the next background job.
    pub(super) fn submit_next(&mut self) {
        let Some(job) = self.background.jobs.get(self.next) else { return };
        let task = Task { runtime: job.runtime, categories: job.categories, instance: None };
        self.submit(job.cluster, task);
        self.next += 1;
        self.schedule_submission();
    }

    pub(super) fn submit(&mut self, cluster: usize, task: Task) {
        let now = self.now();
        self.sites.submit(&mut self.queue, now, cluster, task);
    }

    /// Ends the task with that start number, unless it has ended.
    pub(super) fn end(&mut self, start: u64) -> Option<Running> {
        let now = self.now();
        self.sites.end(&mut self.queue, now, start)
    }

    pub(super) fn learn(&mut self, task: &Task) {
        Arc::make_mut(&mut self.statistics.finished).record(&task.categories, task.runtime);
    }

    /// The broker's view at this moment, for any number of instances of a program.
    pub fn view(&self, of: &Categories<i32>, expected: Option<Span>, broker: &Broker) -> BrokerView {
        let predicted = broker.predict(&self.statistics, of);
        let (time, source) = match (expected, predicted) {
            (Some(time), _) => (time, RuntimeSource::Statistics { jobs: 1 }),
            (None, Some(Predicted { runtime, level, jobs, .. })) => {
                (runtime, RuntimeSource::Federation { level, jobs })
            }
            (None, None) => (Span(1), RuntimeSource::Walltime),
        };
        let time = time.max(Span(1));
        BrokerView {
            time,
            source,
            states: broker.states(self.now(), &self.sites, &self.statistics, time, |_| true),
        }
    }

    /// When processors really become free, from now.
    pub fn truth(&self) -> Vec<Vec<Free>> {
        let broker = Broker::with_real_runtimes();
        let states = broker.states(self.now(), &self.sites, &self.statistics, Span(1), |_| true);
        states.into_iter().map(|state| state.offer.free).collect()
    }

    /// Runs a multi-job to its end under a broker with `view`; none if no cluster has a processor.
    pub fn run(
        self,
        job: &MultiJob,
        broker: &Broker,
        view: &BrokerView,
        rng: &mut impl Rng,
    ) -> Option<Outcome> {
        match broker.poll {
            Some(period) => sweep::run(self, job, broker, view, period, rng),
            None => queued::run(self, job, broker, view, rng),
        }
    }
}

/// The outcome of a multi-job whose instances never move. With first come, first served, later jobs start later, so only the
/// times when processors become free (`truth`) matter. Equals [`Session::run`] (a test compares), in O(instances log
/// processors).
pub fn settle(
    job: &MultiJob,
    broker: &Broker,
    view: &BrokerView,
    truth: &[Vec<Free>],
    rng: &mut impl Rng,
) -> Option<Outcome> {
    debug_assert!(broker.never_moves(), "instances move");
    let placed = allocate(broker.strategy, &view.states, job.runtimes.len() as u64, rng)?;
    let mut outcome = Outcome { expected: placed.makespan, ..Outcome::default() };
    let mut runtimes = job.runtimes.iter();
    let mut responses = 0.0;
    for (free, count) in truth.iter().zip(&placed.instances) {
        let each = free.iter().flat_map(|free| std::iter::repeat_n(free.at, free.processors as usize));
        let mut free: BinaryHeap<Reverse<Span>> = each.take(*count as usize).map(Reverse).collect();
        for runtime in runtimes.by_ref().take(*count as usize) {
            let Some(Reverse(start)) = free.pop() else { break };
            let end = start + *runtime;
            outcome.makespan = outcome.makespan.max(end);
            responses += end.0 as f64;
            free.push(Reverse(end));
        }
    }
    outcome.mean_response_s = responses / (job.runtimes.len() as f64).max(1.0);
    Some(outcome)
}
