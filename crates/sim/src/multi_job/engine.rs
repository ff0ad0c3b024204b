//! Scenarios 3 and 4: a multi-job among the jobs of others, who go on submitting while it runs.
//!
//! Of one instant, ends come first, then submissions, then the multi-job, then the allocation anew of what waits, then
//! idle processors take what they may.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use pliant_model::{Span, Time};
use pliant_policy::allocation::{Allocation, ClusterState, Free, allocate, reallocate_instances};
use pliant_policy::runtimes::Categories;
use rand::Rng;

use super::Background;
use super::broker::{Broker, Learned};
use super::sites::{Sites, Task};

/// Instances of one program.
#[derive(Clone, PartialEq, Debug)]
pub struct MultiJob {
    /// How long each runs.
    pub runtimes: Vec<Span>,
    /// How long a copy of each runs: another time, as if it were the machine that makes the difference.
    pub copies: Vec<Span>,
    /// Who submits what.
    pub categories: Categories<i32>,
}

/// What a broker sees at some moment.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// How long it expects an instance to take.
    pub time: Span,
    /// The clusters.
    pub states: Vec<ClusterState>,
}

/// What became of a multi-job.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Outcome {
    /// The makespan that the broker expected.
    pub expected: Span,
    /// From the submission to the last end.
    pub makespan: Span,
    /// Mean time from the submission to the end of an instance, s.
    pub mean_response_s: f64,
    /// How often a waiting instance went to another cluster.
    pub moves: u64,
    /// How many copies were started.
    pub copies: u64,
}

/// Clusters at some moment of a log. A copy of it tries one broker.
#[derive(Clone, Debug)]
pub struct Session<'a> {
    background: &'a Background,
    next: usize,
    now: Time,
    sites: Sites,
    learned: Learned,
}

impl<'a> Session<'a> {
    /// Idle clusters of so many processors at a moment of the log.
    pub fn new(background: &'a Background, processors: &[u32], start: Time, learned: Learned) -> Session<'a> {
        let next = background.from(start);
        Session { background, next, now: start, sites: Sites::new(processors), learned }
    }

    /// Lets the others work for a while.
    pub fn run_for(&mut self, delay: Span) {
        let until = self.now + delay;
        while let Some(now) = self.next_instant().filter(|next| *next <= until) {
            self.now = now;
            while let Some(run) = self.sites.end_next(now) {
                learn(&mut self.learned, &run.task);
            }
            self.submit_due();
        }
        self.now = until;
    }

    fn next_submission(&self) -> Time {
        self.background.jobs.get(self.next).map_or(Time::MAX, |job| job.submit)
    }

    fn next_instant(&mut self) -> Option<Time> {
        let next = self.sites.next_end().min(self.next_submission());
        (next < Time::MAX).then_some(next)
    }

    fn submit_due(&mut self) {
        while let Some(job) = self.background.jobs.get(self.next).filter(|job| job.submit <= self.now) {
            let task = Task { runtime: job.runtime, categories: job.categories, instance: None };
            self.sites.submit(self.now, job.cluster, task);
            self.next += 1;
        }
    }

    /// What a broker sees at this moment, for any number of instances of a program.
    pub fn view(&self, of: &Categories<i32>, expected: Option<Span>, broker: &Broker) -> View {
        let predicted = broker.predict(&self.learned, of).map(|found| found.runtime);
        let time = expected.or(predicted).unwrap_or(Span(1)).max(Span(1));
        View { time, states: broker.states(self.now, &self.sites, &self.learned, time, |_| true) }
    }

    /// When processors really come free, from now.
    pub fn truth(&self) -> Vec<Vec<Free>> {
        let told = Broker::told_the_truth();
        let states = told.states(self.now, &self.sites, &self.learned, Span(1), |_| true);
        states.into_iter().map(|state| state.offer.free).collect()
    }

    /// Runs a multi-job to its end under a broker that sees `view`; none if no cluster has a processor.
    pub fn run(self, job: &MultiJob, broker: &Broker, view: &View, rng: &mut impl Rng) -> Option<Outcome> {
        let count = job.runtimes.len();
        let placed = allocate(broker.strategy, &view.states, count as u64, rng)?;
        let mut trial = Trial {
            submitted: self.now,
            time: view.time,
            next_allocation: broker.period.map_or(Time::MAX, |period| self.now + period),
            session: self,
            job,
            broker,
            running: vec![0; count],
            ended: vec![false; count],
            left: count,
            outcome: Outcome { expected: placed.makespan, ..Outcome::default() },
        };
        trial.place(&placed);
        trial.finish(rng);
        Some(trial.outcome)
    }
}

/// What becomes of a multi-job whose instances stay where they are put: on clusters that serve first come, first served,
/// whoever comes later starts later, so nothing but when processors come free (`truth`) counts. The same as
/// [`Session::run`] (a test compares), in O(instances log processors).
pub fn settle(
    job: &MultiJob,
    broker: &Broker,
    view: &View,
    truth: &[Vec<Free>],
    rng: &mut impl Rng,
) -> Option<Outcome> {
    debug_assert!(broker.leaves_instances(), "instances move");
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

fn learn(learned: &mut Learned, task: &Task) {
    Arc::make_mut(&mut learned.finished).record(&task.categories, task.runtime);
}

/// A multi-job under way.
struct Trial<'a, 'b> {
    session: Session<'b>,
    job: &'a MultiJob,
    broker: &'a Broker,
    submitted: Time,
    /// How long an instance is expected to take.
    time: Span,
    next_allocation: Time,
    /// Copies of each instance that have started.
    running: Vec<u32>,
    ended: Vec<bool>,
    left: usize,
    outcome: Outcome,
}

impl Trial<'_, '_> {
    /// The clusters as if no instance waited there.
    fn states(&self) -> Vec<ClusterState> {
        let Session { now, sites, learned, .. } = &self.session;
        self.broker.states(*now, sites, learned, self.time, |task| task.instance.is_none())
    }

    fn place(&mut self, placed: &Allocation) {
        let mut instance = 0;
        for (cluster, count) in placed.instances.iter().enumerate() {
            for _ in 0..*count {
                self.submit(cluster, instance);
                instance += 1;
            }
        }
    }

    fn submit(&mut self, cluster: usize, instance: usize) {
        let task = Task {
            runtime: self.job.runtimes[instance],
            categories: self.job.categories,
            instance: Some(instance),
        };
        self.session.sites.submit(self.session.now, cluster, task);
    }

    fn finish(&mut self, rng: &mut impl Rng) {
        self.use_idle();
        while self.left > 0
            && let Some(next) = self.session.next_instant()
        {
            self.session.now = next.min(self.next_allocation);
            while let Some(run) = self.session.sites.end_next(self.session.now) {
                self.ended(&run.task);
            }
            self.session.submit_due();
            if self.session.now >= self.next_allocation {
                self.reallocate_instances(rng);
            }
            self.use_idle();
        }
        self.outcome.mean_response_s /= (self.job.runtimes.len() as f64).max(1.0);
    }

    fn ended(&mut self, task: &Task) {
        // Only an allocation anew asks again what was learned.
        if self.broker.period.is_some() {
            learn(&mut self.session.learned, task);
        }
        let Some(instance) = task.instance.filter(|instance| !self.ended[*instance]) else { return };
        self.ended[instance] = true;
        self.left -= 1;
        let response = self.session.now - self.submitted;
        self.outcome.makespan = response;
        self.outcome.mean_response_s += response.0 as f64;
        if self.running[instance] > 0 {
            self.session.sites.end_copies(self.session.now, instance);
        }
    }

    /// Spreads the instances that wait anew, if that makes their last end expected earlier. A cluster keeps as many as
    /// it is to have, the first ones; the others go behind what waits elsewhere.
    fn reallocate_instances(&mut self, rng: &mut impl Rng) {
        let sites = &self.session.sites;
        let waiting: Vec<u64> = sites.clusters().iter().map(|cluster| cluster.instances).collect();
        let count: u64 = waiting.iter().sum();
        self.next_allocation = match self.broker.period {
            Some(period) if count > 0 => self.session.now + period,
            _ => Time::MAX,
        };
        let states = self.states();
        let better = reallocate_instances(self.broker.strategy, &states, &waiting, 0, Span::ZERO, rng);
        let Some(better) = better else { return };
        let mut moving = Vec::new();
        for (cluster, (before, after)) in waiting.iter().zip(&better.instances).enumerate() {
            for _ in *after..*before {
                moving.extend(self.session.sites.withdraw(cluster));
            }
        }
        self.outcome.moves += moving.len() as u64;
        let mut moving = moving.into_iter().rev();
        for (cluster, (before, after)) in waiting.iter().zip(&better.instances).enumerate() {
            for task in moving.by_ref().take(after.saturating_sub(*before) as usize) {
                self.session.sites.submit(self.session.now, cluster, task);
            }
        }
    }

    /// Work queue with replication (WQR): a processor for which nobody waits takes the last instance of the longest
    /// queue, or else starts a copy of the instance that has run longest.
    fn use_idle(&mut self) {
        if self.broker.copies < 2 {
            return;
        }
        while let Some(cluster) = self.session.sites.idle() {
            let queues = self.session.sites.clusters().iter().enumerate();
            let longest = queues.max_by_key(|(at, queue)| (queue.instances, Reverse(*at)));
            let now = self.session.now;
            if let Some((from, _)) = longest.filter(|(_, queue)| queue.instances > 0) {
                let Some(task) = self.session.sites.withdraw(from) else { return };
                self.outcome.moves += 1;
                self.session.sites.submit(now, cluster, task);
                continue;
            }
            let may_be_copied = |instance: &usize| self.running[*instance] + 1 < self.broker.copies;
            let instances = self.session.sites.running().filter_map(|run| run.task.instance);
            let Some(instance) = { instances }.find(may_be_copied) else { return };
            self.running[instance] += 1;
            self.outcome.copies += 1;
            let runtime = self.job.copies[instance];
            let task = Task { runtime, categories: self.job.categories, instance: Some(instance) };
            self.session.sites.submit(now, cluster, task);
        }
    }
}
