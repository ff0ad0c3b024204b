//! A multi-job under the state machine of live sweeps ([`pliant_control::multi_job`]): a campaign measures the decisions of a
//! live client.
//!
//! The driver acts as `pliant-client`: it polls the clusters, submits and withdraws batches of instances, and reports their
//! ends. A batch is one instance, as instances are the paper's jobs. The prospects of a server are the broker's state of the
//! cluster ([`Broker::states`]).

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;

use pliant_control::multi_job::{self, Command, FreeSlots, InstanceProspects, Plan, RuntimeSource};
use pliant_control::names::Name;
use pliant_model::{Span, SpanMs, Time};
use pliant_policy::allocation::ClusterState;
use rand::Rng;

use super::broker::Broker;
use super::session::{BrokerView, MultiJob, Outcome, Session};
use super::sites::{Class, Event, Queue, Running, Task};
use crate::kernel::{self, Simulation};

/// A poll that the machine requests follows the previous one after at least this fraction of the period, as in `pliant-client`.
const POLL_FRACTION: i64 = 10;

/// A multi-job in execution.
struct SweepRun<'a, 'b, R> {
    session: Session<'b>,
    job: &'a MultiJob,
    broker: &'a Broker,
    /// The broker's expected runtime of an instance.
    expected: Span,
    /// The source of this expectation.
    source: RuntimeSource,
    machine: multi_job::MultiJob,
    rng: &'a mut R,
    names: Vec<Name>,
    /// The instance and the cluster of each batch, by its number.
    batches: Vec<(usize, usize)>,
    /// The last batch of each instance.
    batch_of: Vec<u32>,
    period: Span,
    submitted: Time,
    last_poll: Time,
    next_poll: Time,
    is_over: bool,
    outcome: Outcome,
}

/// Runs a multi-job to its end, polling the clusters every `period`; none if no cluster has a processor.
pub(super) fn run(
    session: Session<'_>,
    job: &MultiJob,
    broker: &Broker,
    view: &BrokerView,
    period: Span,
    rng: &mut impl Rng,
) -> Option<Outcome> {
    if view.states.iter().all(|state| state.offer.processors() == 0) {
        return None;
    }
    let count = job.runtimes.len();
    let plan = Plan {
        instances: count as u32,
        retries: 0,
        strategy: broker.strategy,
        batch_most: 1,
        once: false,
        at_once: None,
        lost_only: false,
    };
    let now = session.now();
    let clusters = session.sites.clusters().len();
    let mut run = SweepRun {
        session,
        job,
        broker,
        expected: view.time,
        source: view.source,
        machine: multi_job::MultiJob::new(plan),
        rng,
        names: (0..clusters).map(cluster_name).collect(),
        batches: Vec::new(),
        batch_of: vec![0; count],
        period,
        submitted: now,
        last_poll: now,
        next_poll: now,
        is_over: false,
        outcome: Outcome::default(),
    };
    run.poll();
    run.outcome.expected = Span(run.machine.shares().1.0 / 1_000);
    let Ok(()) = kernel::run(&mut run);
    run.outcome.mean_response_s /= (count as f64).max(1.0);
    Some(run.outcome)
}

/// `c0`, `c1`, ...
fn cluster_name(number: usize) -> Name {
    format!("c{number}").parse().expect("a letter and digits are a name")
}

impl<R: Rng> SweepRun<'_, '_, R> {
    fn poll(&mut self) {
        let Session { sites, statistics, .. } = &self.session;
        let now = self.session.now();
        let is_other = |task: &Task| task.instance.is_none();
        let states = self.broker.states(now, sites, statistics, self.expected, is_other);
        let prospects = states.iter().map(|state| prospects(state, self.expected, self.source));
        let servers = self.names.iter().cloned().zip(prospects).collect();
        let waiting = sites.clusters().iter().flat_map(|cluster| &cluster.waiting);
        let waiting = waiting.filter_map(|task| Some(self.batch_of[task.instance?])).collect();
        self.last_poll = now;
        self.schedule_poll(now + self.period);
        self.deliver(multi_job::Event::Found { servers, waiting, late: BTreeSet::new() });
    }

    fn schedule_poll(&mut self, at: Time) {
        self.next_poll = at;
        self.session.queue.schedule(at, Class::Poll, Event::Poll);
    }

    /// Delivers an event to the machine and executes the commands that follow.
    fn deliver(&mut self, event: multi_job::Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let mut commands = Vec::new();
            self.machine.on(event, self.rng, &mut commands);
            events.extend(commands.into_iter().filter_map(|command| self.execute(command)));
        }
    }

    /// Executes a command; returns the event that follows at once.
    fn execute(&mut self, command: Command) -> Option<multi_job::Event> {
        match command {
            Command::QueryServers => {
                let at =
                    self.session.now().max(self.last_poll + Span((self.period.0 / POLL_FRACTION).max(1)));
                if at < self.next_poll {
                    self.schedule_poll(at);
                }
            }
            Command::Submit { batch, server, instances } => {
                let cluster = self.names.iter().position(|name| *name == server)?;
                debug_assert_eq!((batch as usize, instances.len()), (self.batches.len(), 1));
                let instance = *instances.first()? as usize;
                self.batches.push((instance, cluster));
                self.batch_of[instance] = batch;
                let task = self.job.task(instance);
                self.session.submit(cluster, task);
            }
            Command::Withdraw { batch } => {
                let (instance, cluster) = self.batches[batch as usize];
                self.session.sites.withdraw(cluster, instance)?;
                self.outcome.moves += 1;
                return Some(multi_job::Event::BatchEnded { batch, unbegun: true, lost: false });
            }
            Command::Done => self.is_over = true,
            Command::RecordShares { .. } => {}
            Command::Cancel { .. } | Command::Unplaced { .. } | Command::TooLate => {
                debug_assert!(false, "nothing is cancelled, and every cluster accepts every instance");
            }
        }
        None
    }

    fn ended(&mut self, start: u64) {
        let Some(Running { task, .. }) = self.session.end(start) else { return };
        self.session.learn(&task);
        let Some(instance) = task.instance else { return };
        let response = self.session.now() - self.submitted;
        self.outcome.makespan = response;
        self.outcome.mean_response_s += response.0 as f64;
        let (batch, instance) = (self.batch_of[instance], instance as u32);
        let took = SpanMs(task.runtime.0 * 1_000);
        self.deliver(multi_job::Event::InstanceEnded { batch, instance, completed: true, took, scale: 1.0 });
        self.deliver(multi_job::Event::BatchEnded { batch, unbegun: false, lost: true });
    }
}

/// The prospects of a server whose cluster is in `state`.
fn prospects(state: &ClusterState, expected: Span, source: RuntimeSource) -> InstanceProspects {
    let ms = |span: Span| SpanMs(span.0.saturating_mul(1_000));
    let free = state.offer.free.iter().map(|free| FreeSlots { at: ms(free.at), slots: free.processors });
    InstanceProspects {
        free: free.collect(),
        instance: ms(expected),
        scale: 1.0,
        source,
        jobs: state.jobs.try_into().unwrap_or(u32::MAX),
        failures: state.failures,
        batch_most: None,
        waiting: Vec::new(),
        refused: Vec::new(),
    }
}

impl<R: Rng> Simulation for SweepRun<'_, '_, R> {
    type Time = Time;
    type Class = Class;
    type Event = Event;
    type Error = Infallible;

    fn queue(&mut self) -> &mut Queue {
        &mut self.session.queue
    }

    fn handle(&mut self, _: Class, event: Event) -> Result<(), Infallible> {
        match event {
            Event::End(start) => self.ended(start),
            Event::Submission => self.session.submit_next(),
            Event::Poll if self.session.now() == self.next_poll => self.poll(),
            Event::Poll => {}
        }
        Ok(())
    }

    fn is_over(&mut self) -> bool {
        self.is_over
    }
}
