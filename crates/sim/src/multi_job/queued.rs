//! A multi-job whose instances are all queued at once, as in the paper. With replication, idle processors take instances that
//! wait on other clusters and replicas of running ones.

use std::cmp::Reverse;
use std::convert::Infallible;

use pliant_model::Time;
use pliant_policy::allocation::{Allocation, allocate};
use rand::Rng;

use super::broker::Broker;
use super::session::{BrokerView, MultiJob, Outcome, Session};
use super::sites::{Class, Event, Queue, Task};
use crate::kernel::{self, Simulation};

/// A multi-job in execution.
struct QueuedRun<'a, 'b> {
    session: Session<'b>,
    job: &'a MultiJob,
    /// The number of replicas of an instance, the first included.
    replicas: u32,
    submitted: Time,
    /// The number of started replicas of each instance.
    running: Vec<u32>,
    ended: Vec<bool>,
    left: usize,
    outcome: Outcome,
}

/// Runs a multi-job to its end under a broker with `view`; none if no cluster has a processor.
pub(super) fn run(
    session: Session<'_>,
    job: &MultiJob,
    broker: &Broker,
    view: &BrokerView,
    rng: &mut impl Rng,
) -> Option<Outcome> {
    let count = job.runtimes.len();
    let placed = allocate(broker.strategy, &view.states, count as u64, rng)?;
    let mut run = QueuedRun {
        submitted: session.now(),
        session,
        job,
        replicas: broker.copies,
        running: vec![0; count],
        ended: vec![false; count],
        left: count,
        outcome: Outcome { expected: placed.makespan, ..Outcome::default() },
    };
    run.start(&placed);
    run.use_idle();
    let Ok(()) = kernel::run(&mut run);
    run.outcome.mean_response_s /= (count as f64).max(1.0);
    Some(run.outcome)
}

impl QueuedRun<'_, '_> {
    fn start(&mut self, placed: &Allocation) {
        let mut instance = 0;
        for (cluster, count) in placed.instances.iter().enumerate() {
            for _ in 0..*count {
                let task = self.job.task(instance);
                self.session.submit(cluster, task);
                instance += 1;
            }
        }
    }

    fn ended(&mut self, task: &Task) {
        let Some(instance) = task.instance.filter(|instance| !self.ended[*instance]) else { return };
        self.ended[instance] = true;
        self.left -= 1;
        let now = self.session.now();
        let response = now - self.submitted;
        self.outcome.makespan = response;
        self.outcome.mean_response_s += response.0 as f64;
        if self.running[instance] > 0 {
            let Session { sites, queue, .. } = &mut self.session;
            sites.end_replicas(queue, now, instance);
        }
    }

    /// Work queue with replication (WQR): an idle processor takes the last instance of the longest queue, or else starts a
    /// replica of the instance that has run longest.
    fn use_idle(&mut self) {
        if self.replicas < 2 {
            return;
        }
        while let Some(cluster) = self.session.sites.idle() {
            let queues = self.session.sites.clusters().iter().enumerate();
            let longest = queues.max_by_key(|(at, queue)| (queue.instances, Reverse(*at)));
            if let Some((from, _)) = longest.filter(|(_, queue)| queue.instances > 0) {
                let Some(task) = self.session.sites.withdraw_last(from) else { return };
                self.outcome.moves += 1;
                self.session.submit(cluster, task);
                continue;
            }
            let may_be_replicated = |instance: &usize| self.running[*instance] + 1 < self.replicas;
            let instances = self.session.sites.running().filter_map(|run| run.task.instance);
            let Some(instance) = { instances }.find(may_be_replicated) else { return };
            self.running[instance] += 1;
            self.outcome.replicas += 1;
            let task = Task { runtime: self.job.replicas[instance], ..self.job.task(instance) };
            self.session.submit(cluster, task);
        }
    }
}

impl Simulation for QueuedRun<'_, '_> {
    type Time = Time;
    type Class = Class;
    type Event = Event;
    type Error = Infallible;

    fn queue(&mut self) -> &mut Queue {
        &mut self.session.queue
    }

    fn handle(&mut self, _: Class, event: Event) -> Result<(), Infallible> {
        match event {
            Event::End(start) => {
                if let Some(run) = self.session.end(start) {
                    self.ended(&run.task);
                }
            }
            Event::Submission => self.session.submit_next(),
            Event::Poll => {}
        }
        Ok(())
    }

    fn end_instant(&mut self) -> Result<(), Infallible> {
        self.use_idle();
        Ok(())
    }

    fn is_over(&mut self) -> bool {
        self.left == 0
    }
}
