//! Clusters that start jobs of one processor first come, first served.

use std::collections::{BTreeMap, VecDeque};

use pliant_model::{Span, Time};
use pliant_policy::runtimes::Categories;

use crate::kernel::EventQueue;

/// An event on the clusters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The job with that start number ends, unless it was ended before.
    End(u64),
    /// The next background job is submitted.
    Submission,
    /// The clusters are polled.
    Poll,
}

/// The order of the events of one instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Class {
    End,
    Submission,
    Poll,
}

/// The event queue of the clusters.
pub(super) type Queue = EventQueue<Time, Class, Event>;

/// A background job or an instance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Task {
    /// Its runtime.
    pub(super) runtime: Span,
    pub(super) categories: Categories<i32>,
    /// The number of the instance, if it is one.
    pub(super) instance: Option<usize>,
}

/// A running task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Running {
    pub(super) task: Task,
    pub(super) cluster: usize,
    pub(super) start: Time,
}

#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) processors: u32,
    busy: u32,
    pub(super) waiting: VecDeque<Task>,
    /// The number of waiting instances.
    pub(super) instances: u64,
}

/// All clusters.
#[derive(Clone, Debug)]
pub(super) struct Sites {
    clusters: Vec<Cluster>,
    /// The running tasks, by their start numbers.
    running: BTreeMap<u64, Running>,
    started: u64,
}

impl Sites {
    /// Idle clusters with these processors.
    pub(super) fn new(processors: &[u32]) -> Sites {
        let cluster =
            |count: &u32| Cluster { processors: *count, busy: 0, waiting: VecDeque::new(), instances: 0 };
        let clusters = processors.iter().map(cluster).collect();
        Sites { clusters, running: BTreeMap::new(), started: 0 }
    }

    pub(super) fn clusters(&self) -> &[Cluster] {
        &self.clusters
    }

    pub(super) fn running(&self) -> impl Iterator<Item = &Running> {
        self.running.values()
    }

    /// Queues a task and starts what can start.
    pub(super) fn submit(&mut self, queue: &mut Queue, now: Time, at: usize, task: Task) {
        let cluster = &mut self.clusters[at];
        cluster.instances += u64::from(task.instance.is_some());
        cluster.waiting.push_back(task);
        self.start_due(queue, now, at);
    }

    fn start_due(&mut self, queue: &mut Queue, now: Time, at: usize) {
        let cluster = &mut self.clusters[at];
        while cluster.busy < cluster.processors
            && let Some(task) = cluster.waiting.pop_front()
        {
            cluster.busy += 1;
            cluster.instances -= u64::from(task.instance.is_some());
            queue.schedule(now + task.runtime, Class::End, Event::End(self.started));
            self.running.insert(self.started, Running { task, cluster: at, start: now });
            self.started += 1;
        }
    }

    /// Ends the task with that start number, unless it has ended, and starts waiting ones.
    pub(super) fn end(&mut self, queue: &mut Queue, now: Time, start: u64) -> Option<Running> {
        let run = self.running.remove(&start)?;
        self.clusters[run.cluster].busy -= 1;
        self.start_due(queue, now, run.cluster);
        Some(run)
    }

    /// Ends the running replicas of an instance.
    pub(super) fn end_replicas(&mut self, queue: &mut Queue, now: Time, instance: usize) {
        let is_replica = |(_, run): &(&u64, &Running)| run.task.instance == Some(instance);
        let replicas: Vec<u64> = self.running.iter().filter(is_replica).map(|(start, _)| *start).collect();
        replicas.into_iter().for_each(|start| {
            self.end(queue, now, start);
        });
    }

    /// A cluster with an idle processor.
    pub(super) fn idle(&self) -> Option<usize> {
        self.clusters.iter().position(|cluster| cluster.busy < cluster.processors)
    }

    /// Withdraws the last instance of a queue.
    pub(super) fn withdraw_last(&mut self, cluster: usize) -> Option<Task> {
        let at = self.clusters[cluster].waiting.iter().rposition(|task| task.instance.is_some())?;
        self.withdraw_at(cluster, at)
    }

    /// Withdraws an instance that waits there.
    pub(super) fn withdraw(&mut self, cluster: usize, instance: usize) -> Option<Task> {
        let at = self.clusters[cluster].waiting.iter().position(|task| task.instance == Some(instance))?;
        self.withdraw_at(cluster, at)
    }

    fn withdraw_at(&mut self, cluster: usize, at: usize) -> Option<Task> {
        let cluster = &mut self.clusters[cluster];
        cluster.instances -= 1;
        cluster.waiting.remove(at)
    }
}
